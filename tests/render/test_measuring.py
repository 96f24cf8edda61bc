"""What was measured as text and JSON."""

from __future__ import annotations

import json

import pytest

import circletools as ct
from circletools.planning.measuring import Device, Measurement, PartTime, PlanTime

DEVICES = (Device("npu", "litert", "xnnpack"), Device("cpu", "onert", "cpu"))
PLANS = (
    PlanTime("all on npu", (PartTime("npu", (0, 1), 1000.04),), 1000.04),
    PlanTime("all on cpu", (PartTime("cpu", (0, 1)),), failure="no kernel"),
    PlanTime("split", (PartTime("npu", (0,), 9.0), PartTime("cpu", (1,), 11.0)), 20.0),
)
TEXT = [
    "npu: litert:xnnpack",
    "cpu: onert:cpu",
    "  plan        device   operators  measured us",
    "  all on npu  npu              2       1000.0",
    "  all on cpu  cpu              2    no kernel",
    "  split       2 parts          2         20.0",
    "    part 0    npu              1          9.0",
    "    part 1    cpu              1         11.0",
]


def test_text() -> None:
    assert list(ct.render.measurement_text(Measurement(DEVICES, PLANS))) == TEXT


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_keeps_to_a_terminal(width: int) -> None:
    plans = (*PLANS, PlanTime("other", (), failure="no kernel for " + "x" * 300))
    lines = list(ct.render.measurement_text(Measurement(DEVICES, plans)))
    assert max(len(ct.render.fitted(line, width)) for line in lines) <= width < max(map(len, lines))


def test_json() -> None:
    found = Measurement(DEVICES, PLANS)
    document = ct.render.measurement_json(found)
    assert document["plans"][2] == {
        "name": "split",
        "parts": (
            {"device": "npu", "operators": (0,), "measured_us": 9.0},
            {"device": "cpu", "operators": (1,), "measured_us": 11.0},
        ),
        "measured_us": 20.0,
        "failure": "",
    }
    assert json.loads(ct.render.measurement_file(found)) == json.loads(json.dumps(document))
