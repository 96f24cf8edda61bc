"""The bound on growing subgraphs: entangled graphs are refused, graphs of networks stay far below it."""

from __future__ import annotations

import pytest

from benchmarks.graphs import ASSIGNMENTS, SHAPES
from circletools.affinity.partition import effort
from circletools.affinity.partition.partitions import make_partitions, partition_or_fall_back
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from tests.kit.partition_reference import Reference
from tests.kit.partition_support import Edges, check_partition, dag_of, seeded


def entangled(count: int, inputs: int) -> tuple[Edges, list[int]]:
    """Return the edges and devices of a graph whose operators read from anywhere before them."""
    generator = seeded(count)
    edges = [(a, b) for b in range(count) for a in generator.sample(range(b), min(inputs, b))]
    return edges, [operator % 3 % 2 for operator in range(count)]


def allow(monkeypatch: pytest.MonkeyPatch, units: int, per_operator: int) -> None:
    """Let growing take no more than this."""
    monkeypatch.setattr(effort, "_UNITS", units)
    monkeypatch.setattr(effort, "_UNITS_PER_OPERATOR", per_operator)


@pytest.mark.parametrize("inputs", [3, 20])
def test_what_is_entangled_and_within_the_bound_is_the_literal_procedure(inputs: int) -> None:
    edges, devices = entangled(50, inputs)
    wanted = Reference(50, edges).partition(devices)
    assert [sorted(partition) for partition in seed_partitions(dag_of(50, edges), devices)] == [
        sorted(partition) for partition in wanted
    ]


@pytest.mark.parametrize("inputs", [3, 100])
def test_what_takes_too_many_steps_is_refused_by_the_procedure_only(
    monkeypatch: pytest.MonkeyPatch, inputs: int
) -> None:
    edges, devices = entangled(200, inputs)
    allow(monkeypatch, 0, 200)
    graph = dag_of(200, edges)
    with pytest.raises(EditError, match="graph of 200 operators takes too many steps") as caught:
        make_partitions(graph, devices, "seed")
    assert "`mode=min`" in (caught.value.hint or "")
    found = make_partitions(graph, devices, "min")
    check_partition(graph, devices, found, connected=True)
    assert partition_or_fall_back(graph, devices, "safe") == (found, caught.value.message)
    assert partition_or_fall_back(graph, devices, "min") == (found, None)


def test_taking_turns_is_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, devices = entangled(200, 100)
    allow(monkeypatch, 0, 0)
    graph = dag_of(200, edges)
    check_partition(graph, devices, make_partitions(graph, devices, "epochs"), connected=False)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_of_networks_need_a_tenth(monkeypatch: pytest.MonkeyPatch, shape: str, assignment: str) -> None:
    allow(monkeypatch, 0, effort._UNITS_PER_OPERATOR // 10)
    made = SHAPES[shape](2000)
    assert seed_partitions(made.graph(), ASSIGNMENTS[assignment](made))
