"""Planning by measuring, by a worker whose law is known: the plan that is fastest, and when the loop ends."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from circletools.affinity.assign.rules import Decision
from circletools.errors import EditError, UsageError
from circletools.model.model import open_model
from circletools.planning import measured
from circletools.planning.measured import MeasuredPlan, plan_by_measuring
from circletools.planning.planner import plan_as
from circletools.planning.request import PlanRequest
from circletools.runtimes.protocol import Timed
from circletools.split.measuring import request as requests
from circletools.split.measuring.request import MeasureRequest
from tests.kit.exports_support import named
from tests.kit.measuring_support import LawfulWorker
from tests.kit.presence import need
from tests.kit.support import bytes_of

NAMES = ("p", "q", "r", "s")
WORK = {
    "litert": {"p": 100.0, "q": 900.0, "r": 800.0, "s": 100.0},
    "onert": {"p": 700.0, "q": 90.0, "r": 80.0, "s": 700.0},
}
LAUNCH = {"litert": 4.0, "onert": 2.0}
ON = ("a=litert:builtin", "b=onert")


@pytest.fixture(autouse=True)
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    need("scipy")
    monkeypatch.setattr(requests, "command", lambda program: ["python"])


def planned(monkeypatch: pytest.MonkeyPatch, worker: LawfulWorker, data: bytes = b"", **request: Any) -> MeasuredPlan:
    monkeypatch.setattr(measured, "Worker", worker)
    with open_model(data or named(*NAMES, kind="tflite")) as model:
        return plan_by_measuring(model, PlanRequest(**request), MeasureRequest(on=ON, timeout_s=9.0))


def devices(found: MeasuredPlan) -> str:
    return "".join(found.plan.device_of(0, operator) for operator in range(len(found.plan.subgraphs[0].numbers)))


def test_the_fastest_plan_is_found_and_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = LawfulWorker(WORK, LAUNCH)
    found = planned(monkeypatch, worker)
    assert devices(found) == "abba"
    assert worker.started == [("litert", 9.0)]
    assert [plan.name for plan in found.measurement.plans] == ["all on a", "all on b", "plan 1"]
    assert [plan.is_chosen for plan in found.measurement.plans] == [False, False, True]
    assert all(plan.ratio == pytest.approx(1, abs=0.02) for plan in found.measurement.plans)
    assert [plan.name for plan in found.measurement.tried] == ["plan 1"]
    estimate = found.plan.evaluation[0].estimate
    assert estimate is not None
    assert estimate.total_us == pytest.approx(found.measurement.plans[2].predicted_us)
    assert found.plan.reason(0, 1) == "as in the fastest plan of those that were measured"
    assert found.measurement.notes == ()


def test_costs_follow_what_parts_took_and_a_device_that_is_alone_faster_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operators of onert are fast together only: no costs of operators alone tell."""
    work = {"litert": dict.fromkeys(NAMES, 100.0), "onert": {"p": 400.0, "q": 60.0, "r": 60.0, "s": 400.0}}
    found = planned(monkeypatch, LawfulWorker(work, LAUNCH, {"onert": 0.2}))
    assert devices(found) == "bbbb"
    chosen = next(plan for plan in found.measurement.plans if plan.is_chosen)
    assert chosen.name == "all on b"
    assert chosen.ratio == pytest.approx(1, abs=0.02)
    names = [plan.name for plan in found.measurement.tried]
    assert names == [f"plan {number}" for number in range(1, len(names) + 1)]


def test_it_ends_where_plans_go_in_circles(monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": dict.fromkeys(NAMES, 100.0), "onert": {"p": 400.0, "q": 60.0, "r": 60.0, "s": 400.0}}
    worker = LawfulWorker(work, LAUNCH, {"onert": 1.4, "litert": 1.2})
    found = planned(monkeypatch, worker)
    assert len(found.measurement.tried) <= 8
    walls = [plan.measured_us for plan in found.measurement.plans]
    assert next(plan for plan in found.measurement.plans if plan.is_chosen).measured_us == min(walls)  # type: ignore[type-var]


def test_rules_bind_the_plans_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": dict.fromkeys(NAMES, 10.0), "onert": dict.fromkeys(NAMES, 500.0)}
    found = planned(monkeypatch, LawfulWorker(work, LAUNCH), rules=("name:q=b",))
    assert devices(found) == "abaa"
    assert [plan.name for plan in found.measurement.plans] == ["all on b", "plan 1"]


def test_devices_are_those_of_the_request_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(monkeypatch, LawfulWorker(WORK, LAUNCH), devices=("b", "a"))
    assert found.plan.devices == ("b", "a")
    with pytest.raises(UsageError, match="device 'a' is not there"):
        planned(monkeypatch, LawfulWorker(WORK, LAUNCH), devices=("b",))


def test_a_device_that_is_never_faster_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": dict.fromkeys(NAMES, 10.0), "onert": dict.fromkeys(NAMES, 500.0)}
    found = planned(monkeypatch, LawfulWorker(work, LAUNCH))
    assert (devices(found), found.measurement.tried) == ("aaaa", ())


def test_a_plan_that_does_not_run_is_told_and_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    class Picky(LawfulWorker):
        """Does not run q and r of onert in one model."""

        def _step(self, step: Any, values: Any) -> Any:
            with open_model(Path(step.model)) as model:
                names = {row[0] for row in model.output_names(0)}
            return "too much" if step.program == "onert" and {b"q", b"r"} <= names else super()._step(step, values)

    found = planned(monkeypatch, Picky(WORK, LAUNCH))
    assert [plan.name for plan in found.measurement.plans] == ["all on a"]
    (failed,) = found.measurement.tried
    assert failed.failure == "plan 1.part.00002_b.tflite in onert: too much"
    assert [note.code for note in found.measurement.notes] == ["DEVICE_NOT_MEASURED"]
    assert devices(found) == "aaaa"


def test_what_nothing_runs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EditError, match="TANH is left without a device") as caught:
        planned(monkeypatch, LawfulWorker({"litert": {}, "onert": {}}, LAUNCH))
    first, second = str(caught.value.hint).split("; ")
    assert first.startswith("a does not run the whole model: ")
    assert second.startswith("b does not run the whole model: ")


def test_variables_on_two_devices_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes_of("tflite/variable_tensor")
    with open_model(data) as model:
        names = [row[0].decode() if row else "" for row in model.output_names(0)]
    work = {
        "litert": {name: 10.0 + 500 * (at % 2) for at, name in enumerate(names)},
        "onert": {name: 510.0 - 500 * (at % 2) for at, name in enumerate(names)},
    }
    found = planned(monkeypatch, LawfulWorker(work, LAUNCH), data)
    assert len(set(devices(found))) == 1 or not found.measurement.notes


@pytest.mark.parametrize("request_", [{"costs": "c.json"}, {"traces": ("a=t.json",)}])
def test_costs_are_measured_and_not_given(
    request_: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"devices": [{"name": "a", "operators": []}]}')
    with pytest.raises(UsageError, match="costs are measured here") as error:
        planned(monkeypatch, LawfulWorker(WORK, LAUNCH), costs=path)
    assert error.value.hint == "leave out `costs=`, `traces=` and `parallel=`"


def forced(monkeypatch: pytest.MonkeyPatch, *letters: str) -> None:
    """Let the costs choose these devices, one plan after the other."""
    rows = iter(letters)

    def plan(model: Any, inputs: Any) -> Any:
        row = next(rows)
        first = {at: Decision(letter, "forced") for at, letter in enumerate(row)}
        others = [dict.fromkeys(range(99), Decision("a", "forced"))] * (len(model.subgraphs) - 1)
        return plan_as(model, inputs, [first, *others])

    monkeypatch.setattr(measured, "plan", plan)


def test_it_ends_after_eight_plans_and_looks_at_the_three_fastest_again(monkeypatch: pytest.MonkeyPatch) -> None:
    order = ("baab", "abab", "baba", "aabb", "bbaa", "abbb", "abba", "bbba", "aaab")
    forced(monkeypatch, *order)
    found = planned(monkeypatch, LawfulWorker(WORK, LAUNCH))
    assert [plan.name for plan in found.measurement.tried] == [f"plan {number}" for number in range(1, 9)]
    walls = {plan.name: plan.measured_us or 0 for plan in found.measurement.tried}
    fastest = sorted(walls, key=lambda name: walls[name])[:3]
    assert [plan.name for plan in found.measurement.plans] == ["all on a", "all on b", *fastest]
    assert (fastest[0], devices(found)) == ("plan 7", "abba")


@pytest.mark.parametrize("row", ["aaaa", "bbbb"])
def test_a_plan_on_one_device_ends_it(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, "abab", row)
    assert len(planned(monkeypatch, LawfulWorker(WORK, LAUNCH)).measurement.tried) == 1


def test_a_plan_that_comes_back_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, "abab", "abba", "abab")
    assert len(planned(monkeypatch, LawfulWorker(WORK, LAUNCH)).measurement.tried) == 2


def test_a_variable_on_two_devices_ends_it_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes_of("tflite/variable")
    forced(monkeypatch, "aaabbb")
    work: dict[str, Any] = {"litert": defaultdict(lambda: 10.0), "onert": defaultdict(lambda: 99.0)}
    found = planned(monkeypatch, LawfulWorker(work, LAUNCH), data)
    assert devices(found) == "aaaaaa"
    (note,) = found.measurement.notes
    assert (note.code, note.severity, note.location) == ("NOT_SPLIT", "info", "subgraphs[0]")
    assert note.message.startswith("variable 'total' is used by operator 2 on a and by operator 4 on b")


def test_that_no_plan_runs_is_told_with_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Picky(LawfulWorker):
        """Runs operators alone, and nothing else."""

        def _step(self, step: Any, values: Any) -> Any:
            with open_model(Path(step.model)) as model:
                count = len(model.subgraphs[0].operators)
            return "too many" if count > 1 else super()._step(step, values)

    with pytest.raises(EditError) as error:
        planned(monkeypatch, Picky(WORK, LAUNCH))
    assert error.value.message == "no plan runs: plan 1.part.00002_b.tflite in onert: too many"
    forced(monkeypatch, "aaaa")
    with pytest.raises(EditError) as error:
        planned(monkeypatch, Picky(WORK, LAUNCH))
    reasons = "; ".join(
        f"does not run the whole model: model.tflite in {one}: too many" for one in ("litert", "onert")
    )
    assert error.value.message == f"no plan runs: {reasons}"


def test_what_ran_once_and_not_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tired(LawfulWorker):
        """Does not run several chains in turns the second time."""

        def measure(self, request: Any) -> Any:
            several = sum(len(one.chains) > 1 for one in self.requests)
            if (len(request.chains) > 1 and several) or getattr(self, "tired", False):
                self.tired = True
                return Timed([], {}, "no more", (0, 0))
            return super().measure(request)

    forced(monkeypatch, "aaaa")
    with pytest.raises(EditError, match=r"no plan runs: model.tflite in litert: no more; model.tflite in"):
        planned(monkeypatch, Tired(WORK, LAUNCH))
