"""Limits and bounds: nothing exceeds a limit, and every reported bound is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.affinity.costs.table import Estimate
from circletools.graph.build import graph_of
from circletools.planning.evaluate import Evaluation, Transfers, transfers
from tests.kit.build import row
from tests.kit.support import path_of


def planned(**request: Any) -> ct.types.Plan:
    with ct.open(path_of("tflite/cnn")) as model:
        return ct.plan(model, ct.PlanRequest(**request))


def devices_of(plan: ct.types.Plan) -> set[str]:
    return {plan.device_of(0, operator) for operator in range(len(plan.subgraphs[0].numbers))}


def test_an_operator_larger_than_the_memory_is_never_placed() -> None:
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


def test_what_crosses_partitions_and_devices() -> None:
    with ct.open(path_of("circle/diamond")) as model:
        # 0 | 1 2 on the other device | 3 4 5: 0 is copied once to it, 1 and 2 once back; 4 reads 0 at home.
        found = transfers(graph_of(model, 0), [0, 1, 1, 2, 2, 2], [0, 1, 1, 0, 0, 0])
    assert [(cut.producer_partition, cut.consumer_partitions, cut.copies, cut.size_bytes) for cut in found.cuts] == [
        (0, (1, 2), 1, 32),
        (1, (2,), 1, 32),
        (1, (2,), 1, 32),
    ]
    assert (found.copies, found.copied_bytes, found.copies_of_unknown_size, found.launches) == (3, 96, 0, 3)
    with ct.open(row("NEG", "NEG", "NEG", shape=(-1, 2)).to_bytes()) as model:
        found = transfers(graph_of(model, 0), [0, 1, 1], [0, 1, 1])
    assert (found.copies, found.copied_bytes, found.copies_of_unknown_size, found.launches) == (1, 0, 1, 2)


@pytest.mark.parametrize(
    ("least", "excess"), [(None, None), (80, 0.25), (100, 0), (99.99995, 0), (99.99, 0.01 / 99.99), (0, None)]
)
def test_the_excess_is_relative_to_the_bound(least: float | None, excess: float | None) -> None:
    found = Evaluation(Transfers(0, 0, 0, 0, ()), Estimate(90, 7, 3, 0), least_us=least)
    assert found.excess == (None if excess is None else pytest.approx(excess, rel=1e-9))
