"""Measuring a split, by a worker whose law is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.model.model import open_model
from circletools.parts.split import split
from circletools.planning import measuring as module
from circletools.planning.measuring import (
    Device,
    Measurement,
    MeasureRequest,
    PartTime,
    PlanTime,
    measure,
    measured_devices,
    with_times,
)
from circletools.render.parts import measurement_file
from tests.kit.exports_support import named, with_affinity
from tests.kit.measuring_support import LawfulWorker

WORK = {"litert": {"p": 10.0, "q": 50.0, "r": 30.0, "s": 20.0}, "onert": {"p": 40.0, "q": 5.0, "r": 8.0, "s": 90.0}}
LAUNCH = {"litert": 4.0, "onert": 2.0}
ON = ("a=litert:builtin", "b=onert")
MOVED = 2.0  # one tensor of 16 bytes by the law


@pytest.fixture(autouse=True)
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "command", lambda program: ["python"])


def parted(folder: Path) -> Path:
    """Split a chain of four operators."""
    source = folder / "chain.tflite"
    source.write_bytes(with_affinity(named("p", "q", "r", "s", kind="tflite"), list("abba")))
    with open_model(source) as model:
        split(model, folder / "parts")
    return folder / "parts"


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, worker: LawfulWorker) -> Measurement:
    monkeypatch.setattr(module, "Worker", worker)
    return measure(parted(folder), MeasureRequest(on=ON, seconds=3.0, seed=5, timeout_s=7.0))


def test_whole_models_and_parts_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = LawfulWorker(WORK, LAUNCH)
    found = measured(tmp_path, monkeypatch, worker)
    assert found.devices == (Device("a", "litert", "builtin"), Device("b", "onert", "cpu"))
    assert [plan.name for plan in found.plans] == ["all on a", "all on b", "split"]
    taken = [plan.measured_us for plan in found.plans]
    assert taken == pytest.approx([4 + 110 + 2 * MOVED, 2 + 143 + 2 * MOVED, 14 + 15 + 24 + 6 * MOVED])
    parts = found.plans[2].parts
    assert [(part.device, part.operators) for part in parts] == [("a", (0,)), ("b", (1, 2)), ("a", (3,))]
    assert [part.measured_us for part in parts] == pytest.approx([18, 19, 28])
    assert worker.started == [("litert", 7.0)]
    assert [(request.seed, request.seconds) for request in worker.requests] == [(5, 9)]
    assert [(row["plan"], row["part"], row["operators"]) for row in found.to_rows()] == [
        ("all on a", 0, 4), ("all on b", 0, 4), ("split", 0, 1), ("split", 1, 2), ("split", 2, 1),
    ]  # fmt: skip


def test_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, monkeypatch, LawfulWorker(WORK, LAUNCH))
    words = measurement_file(found)
    assert json.loads(words)["devices"] == [
        {"name": "a", "program": "litert:builtin"},
        {"name": "b", "program": "onert:cpu"},
    ]
    assert [plan["name"] for plan in json.loads(words)["plans"]] == [plan.name for plan in found.plans]


def test_a_device_that_does_not_run_all_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": WORK["litert"], "onert": {"q": 5.0, "r": 8.0}}
    found = measured(tmp_path, monkeypatch, LawfulWorker(work, LAUNCH))
    words = "chain.tflite in onert: no kernel for p"
    assert [(plan.measured_us is None, plan.failure) for plan in found.plans] == [
        (False, ""), (True, words), (False, "")
    ]  # fmt: skip
    (note,) = found.notes
    assert (note.code, note.severity, note.location) == ("DEVICE_NOT_MEASURED", "info", "b")
    assert note.message == f"the device does not run the whole model: {words}"


def test_a_part_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": WORK["litert"], "onert": {"q": 5.0}}
    found = measured(tmp_path, monkeypatch, LawfulWorker(work, LAUNCH))
    assert found.plans[-1].failure == "chain.part.00002_b.tflite in onert: no kernel for r"
    assert found.plans[-1].measured_us is None


def test_a_crashing_operator_is_searched_separately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, monkeypatch, LawfulWorker(WORK, LAUNCH, crashing=("onert", "r")))
    assert found.plans[0].measured_us == pytest.approx(118)
    assert found.plans[1].failure == "chain.tflite in onert: ended with signal 11"
    assert found.plans[2].failure == "chain.part.00002_b.tflite in onert: ended with signal 11"


def test_another_model_or_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Worker", LawfulWorker(WORK, LAUNCH))
    parts = parted(tmp_path)
    other = tmp_path / "other.tflite"
    other.write_bytes(with_affinity(named("p", "q", "r", "s", kind="tflite"), list("aabb")))
    with pytest.raises(InvalidInputError, match="the parts are not those of this model") as error:
        measure(parts, MeasureRequest(on=ON), source=other)
    assert (error.value.location, error.value.hint) == (str(parts), "split the model again")
    with pytest.raises(UsageError, match="no program is named for device 'b'"):
        measure(parts, MeasureRequest(on=ON[:1]))
    with pytest.raises(InvalidInputError, match="not a split directory"):
        measure(tmp_path)


ROUNDS = np.array([[13.0, 20], [17, 24], [15, 22]])


def test_a_plan_takes_the_5th_percentile_of_its_turns_shared_out_to_its_parts() -> None:
    plan = PlanTime("plan", (PartTime("a", (0,)), PartTime("b", (1,))))
    timed = with_times(plan, ROUNDS)
    assert timed.measured_us == pytest.approx(33.4)
    assert [part.measured_us for part in timed.parts] == pytest.approx([13.2, 20.2])
    assert with_times(plan, "no").failure == "no"
    assert [part.measured_us for part in with_times(plan, np.zeros((3, 2))).parts] == [0, 0]


def chosen(names: tuple[str, ...], *on: str) -> list[Device]:
    return list(measured_devices(names, MeasureRequest(on=on)).values())


def test_devices_are_those_that_are_named_in_their_order() -> None:
    given = ("cpu=openvino", "npu=litert:builtin", "onert=litert")
    assert chosen(("npu", "cpu", "npu", "onert", "onert:ruy"), *given) == [
        Device("npu", "litert", "builtin"),
        Device("cpu", "openvino", "CPU"),
        Device("onert", "litert", "xnnpack"),
        Device("onert:ruy", "onert", "ruy"),  # one that is called as a program needs none
    ]


@pytest.mark.parametrize(
    ("on", "text", "hint"),
    [
        ((), "no program is named for device 'npu'", "add, for example, npu=litert:xnnpack"),
        (("npu",), "'npu': must name a device and a program", "write npu=litert:xnnpack"),
        (("=litert",), "'=litert': must name a device and a program", "write npu=litert:xnnpack"),
        (("npu=",), "'npu=': must name a device and a program", "write npu=litert:xnnpack"),
        (("npu=litert", "npu=onert"), "'npu=onert': duplicate program for 'npu'", "write npu=litert:xnnpack"),
        (("nqu=litert",), "'nqu=litert': the split has no device 'nqu'", "did you mean 'npu'?"),
        (("npu=vela",), "vela cannot be measured", "available: litert, onert, openvino"),
        (("npu=litert:x",), "litert has no variant 'x'", None),
    ],
)
def test_programs_that_are_refused(on: tuple[str, ...], text: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as error:
        chosen(("npu",), *on)
    assert (error.value.message, hint or error.value.hint) == (text, error.value.hint)


def test_parts_run_in_one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "command", lambda program: [program])
    assert chosen(("a", "b"), "a=onert", "b=onert:ruy")[1] == Device("b", "onert", "ruy")
    with pytest.raises(UsageError, match="use different Python installations; parts are measured in one process"):
        chosen(("a", "b"), "a=onert", "b=litert")


def test_defaults() -> None:
    found = MeasureRequest()
    assert (found.on, found.seconds, found.seed, found.timeout_s) == ((), 2.0, 0, 600.0)
