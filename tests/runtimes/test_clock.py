"""A clock that stands still while others have the processors, on counts that the tests write."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.runtimes import clock
from circletools.runtimes.clock import Clock


class System:
    """A folder of threads as Linux has it, and the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 100.0

    def waited(self, thread: str, seconds: float) -> None:
        path = self.folder / thread
        path.mkdir(exist_ok=True)
        (path / "schedstat").write_text(f"5 {int(seconds * 1e9)} 77\n")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(tmp_path)
    monkeypatch.setattr(clock, "perf_counter", lambda: made.now)
    return made


def call(system: System, seconds: float, **waits: float) -> str:
    system.now += seconds
    for thread, waited in waits.items():
        system.waited(thread, waited)
    return "done"


def test_time_in_which_others_ran_does_not_count(system: System) -> None:
    system.waited("a", 1.5)
    system.waited("b", 0)
    watch = Clock(str(system.folder))
    done, seconds = watch.taken(lambda: call(system, 8, a=3.5, b=1))
    assert (done, round(seconds, 6)) == ("done", 5)
    assert round(watch.taken(lambda: call(system, 8))[1], 6) == 8
    watch.close()


def test_threads_that_are_started_later_count_when_they_are_looked_for(system: System) -> None:
    watch = Clock(str(system.folder))
    system.waited("new", 7)
    assert watch.taken(lambda: call(system, 4, new=8))[1] == pytest.approx(4)
    watch.watch()
    watch.watch()
    assert watch.taken(lambda: call(system, 4, new=9))[1] == pytest.approx(3)
    watch.close()


def test_a_thread_that_ended_or_cannot_be_read_waits_no_more(system: System) -> None:
    system.waited("a", 3)
    system.waited("b", 1)
    watch = Clock(str(system.folder))

    def end() -> None:
        system.now += 4
        (system.folder / "a" / "schedstat").write_text("")
        system.waited("b", 2)

    assert watch.taken(end)[1] == pytest.approx(3)
    watch.close()


def test_it_never_runs_backward(system: System) -> None:
    system.waited("a", 0)
    watch = Clock(str(system.folder))
    assert watch.taken(lambda: call(system, 1, a=2))[1] == 0
    watch.close()


def test_without_such_counts_it_is_an_ordinary_clock(system: System) -> None:
    watch = Clock(str(system.folder / "absent"))
    assert watch.taken(lambda: call(system, 2)) == ("done", 2)


def test_it_watches_this_process_and_lets_go() -> None:
    watch = Clock()
    assert watch.taken(lambda: sum(range(10_000)))[1] > 0
    watch.close()
    watch.close()
