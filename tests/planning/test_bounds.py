"""What limits and bounds hold: nothing goes past a limit, and no bound is told that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from tests.kit.support import path_of


def planned(**request: Any) -> ct.types.Plan:
    with ct.open(path_of("tflite/cnn")) as model:
        return ct.plan(model, ct.PlanRequest(**request))


def devices_of(plan: ct.types.Plan) -> set[str]:
    return {plan.device_of(0, operator) for operator in range(len(plan.subgraphs[0].numbers))}


def test_nothing_goes_where_it_is_too_large_by_itself() -> None:
    request: dict[str, Any] = {"devices": ("a", "b"), "capabilities": ("a=xnnpack",), "default": "b", "min_size": 99}
    assert devices_of(planned(**request)) == {"b"}
    plan = planned(**request, limits=("b:max-bytes=1",))
    assert devices_of(plan) == {"a"}
    assert [note.code for note in plan.notes] == ["PARTITION_TOO_SMALL"]
    with pytest.raises(ct.EditError, match="cannot be met"):
        planned(**request, limits=("a:min-operators=99", "b:max-bytes=1"))


@pytest.mark.parametrize("brought", [None, 10.0, 0.001])
def test_the_bound_is_one_also_where_partitions_may_share_constants(brought: float | None, tmp_path: Path) -> None:
    more = {"constants_bytes_per_us": brought} if brought else {}
    times = (("npu", 1), ("cpu", 10))
    devices = [{"name": name, "operators": [{"select": "op:*", "time_us": time}], **more} for name, time in times]
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"devices": devices}), encoding="utf-8")
    (found,) = planned(costs=costs).evaluation
    assert found.excess == 0
    assert found.estimate is not None
    assert found.least_us == pytest.approx(found.estimate.total_us)
