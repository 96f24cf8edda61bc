"""Measuring a split, by a worker whose law is known: what is fitted, predicted and told."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.affinity.costs.costfile import parse_costs
from circletools.errors import InvalidInputError, UsageError
from circletools.model.model import open_model
from circletools.parts.split import split
from circletools.render.measuring import costs_text
from circletools.split.measuring import measure as module
from circletools.split.measuring import request as requests
from circletools.split.measuring.bench import Bench, Failure
from circletools.split.measuring.document import read_measured
from circletools.split.measuring.known import known_of
from circletools.split.measuring.learning import learn
from circletools.split.measuring.measure import measure
from circletools.split.measuring.request import Device, MeasureRequest
from circletools.split.measuring.results import Measurement, PartTime, PlanTime, fastest, is_faster, steps_us, wall_us
from tests.kit.exports_support import named, with_affinity
from tests.kit.measuring_support import LawfulWorker
from tests.kit.support import bytes_of

WORK = {"litert": {"p": 10.0, "q": 50.0, "r": 30.0, "s": 20.0}, "onert": {"p": 40.0, "q": 5.0, "r": 8.0, "s": 90.0}}
LAUNCH = {"litert": 4.0, "onert": 2.0}
ON = ("a=litert:builtin", "b=onert")
MOVED = 2.0  # one tensor of 16 bytes by the law
DEVICES = (Device("a", "litert", "builtin"), Device("b", "onert", "cpu"))


@pytest.fixture(autouse=True)
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "command", lambda program: ["python"])


def parted(folder: Path, devices: str = "abba") -> Path:
    """Split a chain of four operators by the devices of its letters."""
    source = folder / "chain.tflite"
    source.write_bytes(with_affinity(named("p", "q", "r", "s", kind="tflite"), list(devices)))
    with open_model(source) as model:
        split(model, folder / "parts")
    return folder / "parts"


def measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch, worker: LawfulWorker, *, on: tuple[str, ...] = ON
) -> Measurement:
    monkeypatch.setattr(module, "Worker", worker)
    return measure(parted(folder), MeasureRequest(on=on, seconds=3.0, seed=5, timeout_s=7.0))


def test_what_adds_up_is_found_again_and_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = LawfulWorker(WORK, LAUNCH)
    found = measured(tmp_path, monkeypatch, worker)
    assert found.known.devices == DEVICES
    assert [one.launch_us for one in found.known.factors] == pytest.approx([4, 2], abs=2.1)
    assert [one.fusion for one in found.known.factors] == pytest.approx([1, 1], abs=0.05)
    assert [plan.name for plan in found.plans] == ["all on a", "all on b", "split"]
    alone = [plan.measured_us for plan in found.plans]
    assert alone == pytest.approx([4 + 110 + 2 * MOVED, 2 + 143 + 2 * MOVED, 14 + 15 + 24 + 6 * MOVED])
    assert all(plan.ratio == pytest.approx(1, abs=0.05) for plan in found.plans)
    assert [(part.device, part.operators) for part in found.plans[2].parts] == [
        ("a", (0,)),
        ("b", (1, 2)),
        ("a", (3,)),
    ]
    assert [part.measured_us for part in found.plans[2].parts] == pytest.approx([18, 19, 28])
    assert worker.started == [("litert", 7.0)]
    assert {request.seed for request in worker.requests} == {5}
    assert [request.seconds for request in worker.requests] == pytest.approx([0.15] * 8 + [6, 9])


def test_values_go_from_operator_to_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = LawfulWorker(WORK, LAUNCH)
    measured(tmp_path, monkeypatch, worker)
    given = [(tuple(request.known), request.values) for request in worker.requests]
    assert given[:4] == [((), True), (("x",), False), (("p",), True), (("p",), False)]
    assert given[8:] == [((), False), ((), False)]


def test_fusion_is_what_launches_do_not_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, monkeypatch, LawfulWorker(WORK, LAUNCH, {"onert": 0.5}))
    assert found.known.factors[1].fusion < 0.6
    assert found.plans[1].ratio == pytest.approx(1)
    # The costs that are returned have what the parts took.
    known = found.known
    parts = [part.measured_us for part in found.plans[2].parts]
    copies = known.copy_us(0, 1, 16), known.copy_us(1, 0, 16)
    assert known.segment_us(1, (1, 2)) == pytest.approx((parts[1] or 0) - copies[0], rel=0.02)
    assert known.segment_us(0, (3,)) == pytest.approx((parts[2] or 0) - copies[1], rel=0.02)


def test_costs_are_a_document_that_plan_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, monkeypatch, LawfulWorker(WORK, LAUNCH))
    costs = json.loads(json.dumps(found.costs))
    read = parse_costs(json.dumps(costs), "costs")
    assert read.devices == ("a", "b")
    assert [str(rule.selector) for rule in read.times["a"]] == [f"index:{at}" for at in range(4)]
    assert read.listed("a", "b") is not None
    assert read.listed("a", "a") is None
    assert read.launches["b"] == pytest.approx(found.known.factors[1].launch_us, rel=1e-5)
    assert read.times["b"][2].time_us == pytest.approx(found.known.times_us[2, 1], rel=1e-5)
    link = read.listed("b", "a")
    assert link is not None
    assert link.overhead_us + 16 * link.us_per_byte == pytest.approx(found.known.copy_us(1, 0, 16), rel=1e-5)
    told = costs["measured"]
    assert [device["program"] for device in told["devices"]] == ["litert:builtin", "onert:cpu"]
    assert [set(device) for device in told["devices"]] == [
        {"device", "program", "launch_us", "fusion", "bring", "take"}
    ] * 2
    assert [(plan["name"], plan["ratio"]) for plan in told["plans"]] == [(one.name, one.ratio) for one in found.plans]
    assert told["plans"][2]["parts"][1]["operators"] == [1, 2]
    assert told["tried"] == []


def test_what_a_device_does_not_run_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": WORK["litert"], "onert": {"q": 5.0, "r": 8.0}}
    found = measured(tmp_path, monkeypatch, LawfulWorker(work, LAUNCH))
    times = [row["time_us"] for row in found.costs["devices"][1]["operators"]]
    assert [time is None for time in times] == [True, False, False, True]
    assert [plan.name for plan in found.plans] == ["all on a", "split"]
    (note,) = found.notes
    assert (note.code, note.severity, note.location) == ("DEVICE_NOT_MEASURED", "info", "b")
    assert note.message == "does not run the whole model: chain.tflite in onert: no kernel for p"


def test_a_part_that_does_not_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {"litert": WORK["litert"], "onert": {"q": 5.0}}
    found = measured(tmp_path, monkeypatch, LawfulWorker(work, LAUNCH))
    plan = found.plans[-1]
    assert plan.failure == "chain.part.00002_b.tflite in onert: no kernel for r"
    assert (plan.measured_us, plan.ratio, found.costs["measured"]["plans"][-1]["ratio"]) == (None, None, None)
    unknown = replace(plan, predicted_us=math.inf, parts=(replace(plan.parts[0], predicted_us=math.inf),))
    document = costs_text(replace(found, plans=(*found.plans[:-1], unknown)))
    assert "Infinity" not in document
    read = read_measured(document, "costs.json")
    assert (read[0].predicted_us, read[-1]) == (found.plans[0].predicted_us, unknown)


def test_what_ends_the_process_is_looked_for_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = LawfulWorker(WORK, LAUNCH, crashing=("onert", "r"))
    found = measured(tmp_path, monkeypatch, worker)
    assert [plan.name for plan in found.plans] == ["all on a", "split"]
    assert found.plans[0].measured_us == pytest.approx(118)
    assert found.plans[1].failure == "chain.part.00002_b.tflite in onert: ended with signal 11"


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


def bench(path: Path, worker: Any, folder: Path) -> Any:
    model = open_model(path)
    return Bench(model, DEVICES, worker, MeasureRequest(on=ON), folder)


def test_operators_on_constants_take_nothing_and_those_of_a_variable_are_together(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(bytes_of("tflite/variable"))
    with open_model(path) as model:
        names = [row[0].decode() if row else "" for row in model.output_names(0)]
    work: dict[str, Any] = {"litert": defaultdict(lambda: 12.0), "onert": defaultdict(lambda: 6.0)}
    one = bench(path, LawfulWorker(work, LAUNCH), tmp_path)
    with one.model:
        learned = learn(one)
    times = learned.known.times_us
    assert times.shape == (len(names), 2)
    assert (times == 0).any()
    assert (times[times[:, 0] > 0, 0] > times[times[:, 0] > 0, 1]).all()
    assert [segment.device for segment in learned.known.segments] == [0, 1]
    assert set(learned.known.segments[0].operators) == set(np.flatnonzero(times[:, 0]).tolist())


def test_what_runs_as_a_whole_runs_in_it(tmp_path: Path) -> None:
    path = tmp_path / "chain.tflite"
    path.write_bytes(named("p", "q", kind="tflite"))
    with open_model(path) as model:
        found = known_of(model, DEVICES, [], [30.0, None])
    assert found.times_us[:, 0].tolist() == pytest.approx([15, 15])
    assert np.isinf(found.times_us[:, 1]).all()
    assert found.without(0, [1]).times_us[:, 0].tolist() == pytest.approx([15, np.inf])
    assert found.times_us[1, 0] == pytest.approx(15)


def test_of_several_subgraphs_the_others_take_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(bytes_of("tflite/two_signatures"))
    with open_model(path) as model:
        found = known_of(model, DEVICES, [], [30.0, None])
    assert found.costs()["devices"][0]["operators"][0] == {"select": "op:*", "time_us": 0}


ROUNDS = np.array([[[1.0, 10, 2], [0, 20, 0]], [[1, 14, 2], [0, 24, 0]], [[1, 12, 2], [0, 22, 0]]])


def test_a_plan_takes_the_5th_percentile_of_its_turns_shared_out_to_its_parts() -> None:
    assert wall_us(ROUNDS) == pytest.approx(33.4)
    assert steps_us(ROUNDS) == pytest.approx([13.2, 20.2])
    parts = (PartTime("a", (0,), 9.0), PartTime("b", (1,), 8.0))
    plan = PlanTime("plan", parts, 66.8).with_times(ROUNDS)
    assert (plan.measured_us, plan.ratio) == pytest.approx((33.4, 2))
    assert [part.measured_us for part in plan.parts] == pytest.approx([13.2, 20.2])
    assert PlanTime("plan", parts, 70.0).with_times(Failure("no", 1)).failure == "no"
    assert steps_us(np.zeros((3, 2, 3))) == [0, 0]


def steady(us: float, jitter: float = 0.0) -> Any:
    wave = np.where(np.arange(16) % 2, jitter, -jitter)
    return (us + wave)[:, None, None] * np.ones((1, 1, 1))


@pytest.mark.parametrize(
    ("one", "other", "faster"),
    [
        (steady(90), steady(100), True),
        (steady(100), steady(90), False),
        (steady(95.5), steady(100), False),  # too little
        (steady(94.5), steady(100), True),
        (steady(96, 20), steady(100), False),  # noise
        (steady(70, 20), steady(100), True),
        (steady(94, 20), steady(100, 20), True),  # both are slowed down alike
        (Failure("no", 0), steady(100), False),
        (steady(100), Failure("no", 0), True),
        (Failure("no", 0), Failure("no", 0), False),
    ],
)
def test_faster_is_what_is_so_beyond_noise(one: Any, other: Any, faster: bool) -> None:
    assert is_faster(one, other) is faster


def test_the_fastest_of_some() -> None:
    rows = [steady(9), Failure("no", 0), steady(5), steady(7)]
    assert (fastest(rows, range(4)), fastest(rows, (0, 1, 3)), fastest(rows, [1]), fastest(rows, [])) == (
        2,
        3,
        None,
        None,
    )
