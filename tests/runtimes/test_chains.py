"""Taking the time of chains, with adapters that do what the name of a model says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from circletools.runtimes import chains
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Array, ChainsRequest, Make, RefusedError, Step, Timed

LOG: list[tuple[str, str]] = []
FED: dict[str, list[Array]] = {}
SECONDS = (0.001, 0.02, 0.3)


class Pace:
    """Is full as it is told, then always."""

    def __init__(self, told: Iterable[bool] = ()) -> None:
        self.told = iter(told)

    def is_full(self) -> bool:
        return next(self.told, True)


def measure(request: ChainsRequest, pace: Any = None) -> Timed:
    stands_for: Any = pace or Pace()
    return chains.measure(request, stands_for)


class Running:
    """Adds one to its first input; a model called `late` fails in its second run."""

    def __init__(self, variant: str, model: str, given: Sequence[Array | None], make: Make) -> None:
        self.model, self.runs = model, 0
        if model == "refused":
            raise RefusedError("not this one")
        if model == "broken":
            raise ValueError("no")
        self.inputs = [
            make(place, np.dtype(np.float32), (2,)) if one is None else one for place, one in enumerate(given)
        ]
        LOG.append(("load", f"{model} {variant} {[one is None for one in given]}"))

    def feed(self, inputs: Sequence[Array]) -> None:
        self.value = inputs[0]
        FED.setdefault(self.model, []).append(self.value)
        LOG.append(("feed", self.model))

    def run(self) -> None:
        self.runs += 1
        LOG.append(("run", self.model))
        if self.model == "late" and self.runs == 2:
            raise ValueError("now")

    def fetch(self) -> list[Array]:
        LOG.append(("fetch", self.model))
        return [self.value + 1, np.zeros(1, np.dtype("V4"))]


class Clock:
    """Knows what calls take, and how often it was told to look for threads; time passes by 10 s a look."""

    looked = closed = 0

    def __init__(self, folder: str = "x") -> None:
        self.folder = folder

    def laps(self, *calls: Any) -> list[float]:
        for call in calls:
            call()
        return [seconds * (1 if self.folder else 1000) for seconds in SECONDS]

    def watch(self) -> None:
        Clock.looked += 1

    def close(self) -> None:
        Clock.closed += 1


@pytest.fixture(autouse=True)
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    LOG.clear()
    FED.clear()
    module: Any = ModuleType("circletools.runtimes.fake")
    module.Running, module.FAILURES = Running, (ValueError, RefusedError)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(chains, "Clock", Clock)
    Clock.looked = Clock.closed = 0
    return iter([None])


def step(model: str, inputs: str = "x", outputs: str = "y z", variant: str = "v") -> Step:
    return Step("fake", variant, model, tuple(inputs.split()), tuple(outputs.split()))


def asked(*rows: Sequence[Step], seconds: float = 0.0, **more: Any) -> ChainsRequest:
    return ChainsRequest(tuple(map(tuple, rows)), seconds, **more)


def test_times_go_by_chain_turn_step_and_what_is_done() -> None:
    found = measure(asked([step("a"), step("b", "y", "u v")], [step("c")]))
    assert (found.failure, found.failed) == ("", None)
    assert [one.shape for one in found.times_us] == [(7, 2, 3), (7, 1, 3)]
    assert found.times_us[0][3].tolist() == pytest.approx(np.array([[1e3, 2e4, 3e5]] * 2))
    assert (Clock.looked, Clock.closed) == (1, 1)


def test_chains_take_turns_forward_and_backward_after_a_first_run() -> None:
    measure(asked([step("a"), step("b", "y", "u v")], [step("c")]))
    ran = [model for what, model in LOG if what == "run"]
    assert ran == [*"abc", *(["c", "a", "b", "a", "b", "c"] * 5)]


def test_models_are_loaded_once_with_what_is_known() -> None:
    measure(asked([step("a"), step("b", "y w", "u v", "other")]))
    assert [said for what, said in LOG if what == "load"] == ["a v [True]", "b other [False, True]"]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_chain_reads_what_it_makes_and_what_the_seed_makes(seed: int) -> None:
    measure(asked([step("a"), step("b", "y", "u v"), step("d", "u", "w q")], [step("c")], seed=seed))
    x = make_input(seed, "x", np.dtype(np.float32), (2,))
    for model, value in (("a", x), ("b", x + 1), ("d", x + 2), ("c", x)):
        np.testing.assert_array_equal(np.unique(FED[model], axis=0), [value])


@pytest.mark.parametrize(
    ("model", "said"), [("refused", "not this one"), ("broken", "ValueError: no"), ("late", "ValueError: now")]
)
def test_a_step_that_does_not_run_is_told_with_its_place(model: str, said: str) -> None:
    found = measure(asked([step("a")], [step("b"), step(model, "y", "u v")]))
    assert (found.times_us, found.failure, found.failed) == ([], said, (1, 1))
    assert Clock.closed == 1


def test_a_program_that_is_not_there_is_told() -> None:
    found = measure(asked([Step("absent", "", "m", (), ())]))
    assert found.failure.startswith("absent is not installed: No module named 'circletools.runtimes.absent'")
    assert found.failed == (0, 0)


def test_what_no_adapter_knows_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Running) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Running, "run", broken)
    with pytest.raises(ZeroDivisionError):
        measure(asked([step("a")]))
    assert Clock.closed == 1


@pytest.mark.parametrize(("seconds", "turns"), [(0.0, 7), (80.0, 7), (81.0, 8), (1e9, 1000)])
def test_so_many_turns_as_there_is_time_for(seconds: float, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pass_time(monkeypatch)
    assert len(measure(asked([step("a")], seconds=seconds)).times_us[0]) == turns


def pass_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 10 seconds pass at each turn."""
    now = iter(range(10**4, 10**6, 10))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(now)))


def slow(turns: int) -> Iterator[bool]:
    """Return a pace that falls within every one of some turns."""
    return iter([True, False] * turns)


@pytest.mark.parametrize(("slow_turns", "kept"), [(0, 9), (2, 7), (3, 7), (92, 7), (93, 6), (98, 1), (99, 99)])
def test_turns_of_a_slow_processor_do_not_count(slow_turns: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pass_time(monkeypatch)
    found = measure(asked([step("a")], seconds=100.0), Pace(slow(slow_turns)))
    assert len(found.times_us[0]) == kept


def test_without_time_to_wait_slow_turns_count() -> None:
    found = measure(asked([step("a")]), Pace(slow(1000)))
    assert len(found.times_us[0]) == 7


@pytest.mark.parametrize(("seconds", "runs"), [(0.3, 1), (0.0004, 2), (0.0001, 10), (1e-9, 1000)])
def test_what_takes_little_runs_several_times_in_a_turn(
    seconds: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def laps(self: Clock, *calls: Any) -> list[float]:
        for call in calls:
            call()
        return [0.0, seconds, 0.0]

    monkeypatch.setattr(Clock, "laps", laps)
    found = measure(asked([step("a")]))
    assert found.times_us[0].shape == (7, 1, 3)
    assert [model for what, model in LOG if what == "run"] == ["a"] * (1 + 1 + 2 * runs + 7 * runs)


def test_of_the_runs_in_a_turn_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = cycle([0.00029, 0.0003, 0.00038])  # three of them make a turn

    def laps(self: Clock, *calls: Any) -> list[float]:
        for call in calls:
            call()
        return [0.0, next(taken), 0.0]

    monkeypatch.setattr(Clock, "laps", laps)
    found = measure(asked([step("a")]))
    assert found.times_us[0][:, 0, 1].tolist() == pytest.approx([300.0] * 7)
