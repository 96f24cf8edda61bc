"""Timing chains, with adapters controlled by the name of a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, cycle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from circletools.runtimes import child
from circletools.runtimes.child import measure
from circletools.runtimes.inputs import RANDOM_INPUTS, make_input
from circletools.runtimes.protocol import Array, ChainsRequest, Make, RefusedError, Step

LOG: list[tuple[str, str]] = []
FED: dict[str, list[Array]] = {}


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

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        FED.setdefault(self.model, []).append(inputs[0])
        self.runs += 1
        LOG.append(("run", self.model))
        if self.model == "late" and self.runs == 2:
            raise ValueError("now")
        return [inputs[0] + 1, np.zeros(1, np.dtype("V4"))]


@pytest.fixture(autouse=True)
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    LOG.clear()
    FED.clear()
    module: Any = ModuleType("circletools.runtimes.fake")
    module.Running, module.FAILURES = Running, (ValueError, RefusedError)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    pass_time(monkeypatch, cycle([0.001]))
    return iter([None])


def step(model: str, inputs: str = "x", outputs: str = "y z", variant: str = "v") -> Step:
    return Step("fake", variant, model, tuple(inputs.split()), tuple(outputs.split()))


def asked(*rows: Sequence[Step], seconds: float = 0.0, **more: Any) -> ChainsRequest:
    return ChainsRequest(tuple(map(tuple, rows)), seconds, **more)


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: Iterator[float]) -> None:
    """Let so many seconds pass each time that the clock is read."""
    monkeypatch.setattr(child, "perf_counter", partial(next, accumulate(seconds)))


def test_times_go_by_chain_turn_and_step() -> None:
    found = measure(asked([step("a"), step("b", "y", "u v")], [step("c")]))
    assert (found.failure, found.failed) == ("", None)
    assert [one.shape for one in found.times_us] == [(7, 2), (7, 1)]
    assert found.times_us[0][3].tolist() == pytest.approx([1000.0, 1000.0])


def test_chains_take_turns_forward_and_backward_after_a_first_run() -> None:
    measure(asked([step("a"), step("b", "y", "u v")], [step("c")]))
    ran = [model for what, model in LOG if what == "run"]
    assert ran == [*"abc", *(["c", "a", "b", "a", "b", "c"] * 5)]


def test_models_are_loaded_once_with_what_is_known() -> None:
    measure(asked([step("a"), step("b", "y w", "u v", "other")]))
    assert [text for what, text in LOG if what == "load"] == ["a v [True]", "b other [False, True]"]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_chain_reads_what_it_makes_and_what_the_seed_makes(seed: int) -> None:
    measure(asked([step("a"), step("b", "y", "u v"), step("d", "u", "w q")], [step("c")], seed=seed))
    x = make_input(seed, "x", np.dtype(np.float32), (2,))
    for model, value in (("a", x), ("b", x + 1), ("d", x + 2), ("c", x)):
        np.testing.assert_array_equal(np.unique(FED[model], axis=0), [value])


@pytest.mark.parametrize(
    ("model", "text"),
    [("refused", "not this one"), ("broken", "ValueError: no"), ("late", f"ValueError: now ({RANDOM_INPUTS})")],
)
def test_a_step_that_does_not_run_is_reported_with_its_place(model: str, text: str) -> None:
    found = measure(asked([step("a")], [step("b"), step(model, "y", "u v")]))
    assert (found.times_us, found.failure, found.failed) == ([], text, (1, 1))


def test_a_program_that_is_not_there_is_reported() -> None:
    found = measure(asked([Step("absent", "", "m", (), ())]))
    assert found.failure.startswith("absent is not installed: No module named 'circletools.runtimes.absent'")
    assert found.failed == (0, 0)


def test_errors_unknown_to_an_adapter_propagate(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Running, inputs: Sequence[Array]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Running, "run", broken)
    with pytest.raises(ZeroDivisionError):
        measure(asked([step("a")]))


def test_so_many_turns_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, turns in ((0.0, 7), (150.0, 7), (151.0, 8), (1e9, 1000)):
        pass_time(monkeypatch, cycle([10.0]))
        assert len(measure(asked([step("a")], seconds=seconds)).times_us[0]) == turns


@pytest.mark.parametrize(("seconds", "runs"), [(0.3, 1), (0.00045, 2), (0.0001, 10), (1e-9, 1000)])
def test_what_takes_little_runs_several_times_in_a_turn(
    seconds: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_time(monkeypatch, cycle([seconds]))
    assert measure(asked([step("a")])).times_us[0].shape == (7, 1)
    assert [model for what, model in LOG if what == "run"] == ["a"] * (1 + 1 + 2 * runs + 7 * runs)


def test_the_median_of_the_runs_in_a_turn_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    pass_time(monkeypatch, cycle([0.00029, 0.0003, 0.00038]))  # three runs make a turn
    assert measure(asked([step("a")])).times_us[0].ravel().tolist() == pytest.approx([300.0] * 7)
