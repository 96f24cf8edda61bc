"""A clock that stands still while others have the processors, on counts that the tests write."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.runtimes import clock
from circletools.runtimes.clock import Clock, Pace


class System:
    """A folder of threads as Linux has it, and the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.worked = folder, 100.0, 50.0

    def waited(self, thread: str, seconds: float) -> None:
        path = self.folder / thread
        path.mkdir(exist_ok=True)
        (path / "schedstat").write_text(f"5 {int(seconds * 1e9)} 77\n")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(tmp_path)
    monkeypatch.setattr(clock, "perf_counter", lambda: made.now)
    monkeypatch.setattr(clock, "process_time", lambda: made.worked)
    return made


def call(system: System, seconds: float, **waits: float) -> None:
    system.now += seconds
    for thread, waited in waits.items():
        system.waited(thread, waited)


def lap(watch: Clock, system: System, seconds: float, **waits: float) -> float:
    (taken,) = watch.laps(lambda: call(system, seconds, **waits))
    return round(taken, 6)


def test_time_in_which_others_ran_does_not_count(system: System) -> None:
    system.waited("a", 1.5)
    system.waited("b", 0)
    watch = Clock(str(system.folder))
    assert lap(watch, system, 8, a=3.5, b=1) == 5
    assert lap(watch, system, 8) == 8
    watch.close()


def test_it_is_taken_from_the_longest_of_several_calls(system: System) -> None:
    system.waited("a", 1)
    watch = Clock(str(system.folder))
    calls = [lambda: call(system, 1, a=1.5), lambda: call(system, 5, a=3), lambda: call(system, 4)]
    assert watch.laps(*calls) == pytest.approx([1, 3, 4])
    watch.close()


def test_threads_that_are_started_later_count_when_they_are_looked_for(system: System) -> None:
    watch = Clock(str(system.folder))
    system.waited("new", 7)
    assert lap(watch, system, 4, new=8) == 4
    watch.watch()
    watch.watch()
    assert lap(watch, system, 4, new=9) == 3
    watch.close()


def test_a_thread_that_ended_or_cannot_be_read_waits_no_more(system: System) -> None:
    system.waited("a", 3)
    system.waited("b", 1)
    watch = Clock(str(system.folder))

    def end() -> None:
        system.now += 4
        (system.folder / "a" / "schedstat").write_text("")
        system.waited("b", 2)

    assert watch.laps(end) == pytest.approx([3])
    watch.close()


@pytest.mark.parametrize(("worked", "taken"), [(0, 3), (2, 3), (5, 5), (8, 8), (20, 8)])
def test_no_more_is_taken_than_leaves_what_processors_worked(worked: float, taken: float, system: System) -> None:
    system.waited("a", 0)
    watch = Clock(str(system.folder))

    def work() -> None:
        call(system, 8, a=5)
        system.worked += worked

    assert watch.laps(work) == pytest.approx([taken])
    watch.close()


def test_it_never_runs_backward(system: System) -> None:
    system.waited("a", 0)
    watch = Clock(str(system.folder))
    assert lap(watch, system, 1, a=2) == 0
    watch.close()


def test_without_such_counts_it_is_an_ordinary_clock(system: System) -> None:
    watch = Clock(str(system.folder / "absent"))
    assert lap(watch, system, 2) == 2


def test_it_watches_this_process_and_lets_go() -> None:
    watch = Clock()
    assert watch.laps(lambda: sum(range(10_000)))[0] > 0
    watch.close()
    watch.close()


def test_the_pace_is_full_near_the_fastest_that_was_seen(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([2.0, 2.2, 2.4, 1.0, 1.149, 1.151, 2.0, 1.0])
    ends = iter([moment for taken in looks for late in (1, 0, 5) for moment in (10.0, 10.0 + taken + late)])
    monkeypatch.setattr(clock, "perf_counter", lambda: next(ends))
    pace = Pace()
    assert [pace.is_full() for _ in range(8)] == [True, True, False, True, True, False, False, True]


def test_exactly_so_slow_is_still_full(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([moment for taken in (4.0, 4.6) for _ in range(3) for moment in (10.0, 10.0 + taken)])
    monkeypatch.setattr(clock, "perf_counter", lambda: next(ends))
    assert 14.6 - 10.0 == 1.15 * 4.0
    pace = Pace()
    assert [pace.is_full(), pace.is_full()] == [True, True]
