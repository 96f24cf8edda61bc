"""Measuring a split, by a worker whose law is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.model.model import open_model
from circletools.parts.split import split
from circletools.render.measuring import measurement_file
from circletools.split.measuring import measure as module
from circletools.split.measuring import request as requests
from circletools.split.measuring.bench import Failure
from circletools.split.measuring.document import read_measured
from circletools.split.measuring.measure import measure
from circletools.split.measuring.request import Device, MeasureRequest
from circletools.split.measuring.results import Measurement, PartTime, PlanTime, steps_us, wall_us
from tests.kit.exports_support import named, with_affinity
from tests.kit.measuring_support import LawfulWorker

WORK = {"litert": {"p": 10.0, "q": 50.0, "r": 30.0, "s": 20.0}, "onert": {"p": 40.0, "q": 5.0, "r": 8.0, "s": 90.0}}
LAUNCH = {"litert": 4.0, "onert": 2.0}
ON = ("a=litert:builtin", "b=onert")
MOVED = 2.0  # one tensor of 16 bytes by the law


@pytest.fixture(autouse=True)
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "command", lambda program: ["python"])


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


def test_the_document_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, monkeypatch, LawfulWorker(WORK, LAUNCH))
    words = measurement_file(found)
    assert json.loads(words)["devices"] == [
        {"name": "a", "program": "litert:builtin"},
        {"name": "b", "program": "onert:cpu"},
    ]
    assert read_measured(words, "times.json") == found.plans


def test_a_device_that_does_not_run_all_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": WORK["litert"], "onert": {"q": 5.0, "r": 8.0}}
    found = measured(tmp_path, monkeypatch, LawfulWorker(work, LAUNCH))
    words = "chain.tflite in onert: no kernel for p"
    assert [(plan.measured_us is None, plan.failure) for plan in found.plans] == [
        (False, ""), (True, words), (False, "")
    ]  # fmt: skip
    (note,) = found.notes
    assert (note.code, note.severity, note.location) == ("DEVICE_NOT_MEASURED", "info", "b")
    assert note.message == f"does not run the whole model: {words}"


def test_a_part_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": WORK["litert"], "onert": {"q": 5.0}}
    found = measured(tmp_path, monkeypatch, LawfulWorker(work, LAUNCH))
    assert found.plans[-1].failure == "chain.part.00002_b.tflite in onert: no kernel for r"
    assert found.plans[-1].measured_us is None
    assert read_measured(measurement_file(found), "times.json") == found.plans


def test_what_ends_the_process_is_looked_for_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(InvalidInputError, match="not the directory of a split"):
        measure(tmp_path)


ROUNDS = np.array([[[1.0, 10, 2], [0, 20, 0]], [[1, 14, 2], [0, 24, 0]], [[1, 12, 2], [0, 22, 0]]])


def test_a_plan_takes_the_5th_percentile_of_its_turns_shared_out_to_its_parts() -> None:
    assert wall_us(ROUNDS) == pytest.approx(33.4)
    assert steps_us(ROUNDS) == pytest.approx([13.2, 20.2])
    plan = PlanTime("plan", (PartTime("a", (0,)), PartTime("b", (1,))))
    timed = plan.with_times(ROUNDS)
    assert timed.measured_us == pytest.approx(33.4)
    assert [part.measured_us for part in timed.parts] == pytest.approx([13.2, 20.2])
    assert plan.with_times(Failure("no")).failure == "no"
    assert steps_us(np.zeros((3, 2, 3))) == [0, 0]
