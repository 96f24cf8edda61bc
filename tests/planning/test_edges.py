"""Edges of plans: what is just allowed, exactly as long as the least, and operators that are in no partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.planning.reproject import devices_of_sources, reproject
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, floats, row
from tests.kit.origin_support import embedded, origins
from tests.planning.test_planner import planned, written


def test_partitions_of_the_design_are_not_joined_in_another_way() -> None:
    request: dict[str, Any] = {"devices": ("npu",), "default": "npu", "join": "any"}
    assert planned(**request, mode="min")
    with pytest.raises(ct.UsageError, match="`join=any` requires `mode=min`"):
        planned(**request, mode="seed")


def test_limits_of_time_need_costs(tmp_path: Path) -> None:
    request: dict[str, Any] = {"devices": ("npu",), "default": "npu", "limits": ("npu:min-us=1",)}
    with pytest.raises(ct.UsageError, match="needs costs"):
        planned(**request)
    devices = [{"name": "npu", "operators": [{"select": "op:*", "time_us": 1}]}]
    assert planned(**request, costs=written(tmp_path, "costs.json", {"devices": devices}))


def test_an_operator_in_no_partition_is_launched_and_brings_its_constants_by_itself(tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    at = first = graph.tensor("x")
    constant = graph.constant("c", floats(2, 2))
    for number in range(4):
        at = graph.compute("ADD", [at, constant], f"t{number}")
    graph.ends([first], [at])
    devices = [
        {
            "name": "npu",
            "operators": [{"select": "op:*", "time_us": 1}],
            "launch_us": 100,
            "constants_bytes_per_us": 0.016,
        }
    ]
    path = written(tmp_path, "costs.json", {"devices": devices})
    for partitions, launches, brought in (
        ([0, 0, 0, 0], 100, 1000),
        ([None] * 4, 400, 4000),
        ([0, None, None, 0], 300, 3000),
        ([1, 1, None, 0], 300, 3000),
    ):
        table = affinity(["npu"], ([0] * 4, partitions))
        with ct.open(annotated(build.to_bytes(), table)) as model:
            (found,) = ct.planning.inspect_affinity(model, ct.planning.CostRequest(costs=path)).estimates.values()
        assert (found.operators_us, found.launches_us, found.constants_us) == (4, launches, brought)


def test_sources_are_where_most_of_their_operators_were_and_operators_where_most_of_their_sources() -> None:
    """Source 0 was on npu, cpu, cpu; 1 on npu twice; 2 nowhere; 3 on npu and cpu, of which npu is the first."""
    build = row(*["TANH"] * 9)
    names = {number: f"s{number}" for number in range(4)}
    before = origins(names, {at: {which} for at, which in enumerate([0, 0, 0, 1, 1, 2, 2, 3, 3])})
    devices = [0, 1, 1, 0, 0, None, None, 0, 1]
    with ct.open(
        embedded(annotated(build.to_bytes(), affinity(["npu", "cpu"], (devices, [None] * 9))), before)
    ) as old:
        earlier = devices_of_sources(model_graph(old))
    assert earlier.of_source == {"s0": 1, "s1": 0, "s3": 0}
    after = origins(names, {0: {0}, 1: {0, 1, 3}, 2: {2}, 3: {0, 1}, 4: {1, 3}})
    with ct.open(embedded(build.to_bytes(), after)) as new:
        found = reproject(model_graph(new), earlier)
    assert {at: decision.device for at, decision in found.before[0].items()} == {
        0: "cpu",
        1: "npu",
        3: "npu",
        4: "npu",
    }
    assert [(note.code, note.location) for note in found.conflicts] == [
        ("CONFLICTING_SOURCES", "subgraphs[0].operators[1]"),
        ("CONFLICTING_SOURCES", "subgraphs[0].operators[3]"),
    ]
