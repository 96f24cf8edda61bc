"""Measured plans as text and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import circletools as ct
from circletools.planning.measured import MeasuredPlan
from circletools.split.measuring.fitting import Moving
from circletools.split.measuring.known import Factors, Known
from circletools.split.measuring.request import Device
from circletools.split.measuring.results import Measurement, PartTime, PlanTime
from tests.kit.exports_support import named

MOVING = Moving(1.0, 0.5)
KNOWN = Known(
    (Device("npu", "litert", "xnnpack"), Device("cpu", "onert", "cpu")),
    (Factors(12.34, 0.876, MOVING, MOVING), Factors(0, 1, MOVING, MOVING)),
    np.array([[1.0, np.inf]]),
)
PLANS = (
    PlanTime("all on npu", (PartTime("npu", (0,), 9.0),), 1234.56, 1000.0),
    PlanTime("plan 1", (PartTime("npu", (0,), 9.0), PartTime("cpu", (1,), 9.0)), 10, 20.0, is_chosen=True),
    PlanTime("plan 2", (), 10, None, "no kernel"),
)
DEVICES = [
    "npu (litert:xnnpack): launch 12.3 us, fusion leaves 88% of the operators' time",
    "cpu (onert:cpu): launch 0.0 us, fusion leaves 100% of the operators' time",
]
TABLE = [
    "  plan        parts  predicted us  measured us  predicted/measured",
    "  all on npu      1        1234.6       1000.0  1.23",
    "  plan 1          2          10.0         20.0  0.50, chosen",
    "  plan 2          0          10.0            -  no kernel",
]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_keeps_to_a_terminal(width: int) -> None:
    plans = (*PLANS, PlanTime("plan 3", (), 10, None, "no kernel for " + "x" * 300))
    lines = list(ct.render.measurement_text(Measurement(KNOWN, plans)))
    table = [ct.render.fitted(line, width) for line in lines[len(DEVICES) :]]
    assert max(map(len, table)) <= width < max(map(len, lines))
    assert table[0].split()[:2] == ["plan", "parts"]


def test_text() -> None:
    assert list(ct.render.measurement_text(Measurement(KNOWN, PLANS))) == [*DEVICES, *TABLE]
    tried = list(ct.render.measurement_text(Measurement(KNOWN, PLANS, tried=PLANS[:1])))
    assert tried == [
        *DEVICES,
        "one after the other:",
        "  plan        parts  predicted us  measured us  predicted/measured",
        "  all on npu      1        1234.6       1000.0  1.23",
        "side by side, predicted by the corrected costs:",
        *TABLE,
    ]


def test_json_is_the_document_of_costs() -> None:
    found = Measurement(KNOWN, PLANS, tried=PLANS[:1])
    assert ct.render.measurement_json(found) == found.costs
    assert json.loads(ct.render.costs_text(found)) == json.loads(json.dumps(found.costs))
    assert ct.render.costs_text(found).endswith("}\n")
    assert ct.render.costs_text(found).splitlines()[1] == ' "schema_version": 1,'
    assert [plan["ratio"] for plan in found.costs["measured"]["tried"]] == [PLANS[0].ratio]


def test_a_measured_plan_is_a_plan_with_its_costs() -> None:
    with ct.open(named("p")) as model:
        plan = ct.plan(model, ct.PlanRequest(devices=("npu",), default="npu"))
    found = MeasuredPlan(plan, Measurement(KNOWN, PLANS))
    assert ct.render.measured_plan_json(found) == ct.render.plan_json(plan) | {"costs": found.measurement.costs}
    assert list(ct.render.measured_plan_text(found)) == [*ct.render.plan_text(plan), *DEVICES, *TABLE]
