"""Mode `min`: valid, as few as trying everything finds, never more than XLA's clusters, and the same at every run."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.graphs import SHAPES, by_kind
from circletools.affinity.solvers import contraction as contraction_module
from circletools.affinity.solvers.contraction import Contraction
from circletools.affinity.solvers.groups import connected, graph_inside, group_successors, members_of, turns
from circletools.affinity.solvers.partitions import Mode, fewest_turns, make_partitions, minimum_partitions
from circletools.graph.algorithms import Dag
from tests.kit.partition_peers import can_run, fewest_by_trying, xla_clusters
from tests.kit.partition_support import CYCLIC, CYCLIC_DEVICES, check_partition, dag_of, random_case, seeded


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_partitions_are_valid_and_no_more_than_clusters_of_xla(first: int) -> None:
    for seed in range(first, first + 200):
        count, edges, devices = random_case(seed, most=24)
        graph = dag_of(count, edges)
        partitions = make_partitions(graph, devices)
        check_partition(graph, devices, partitions, connected=True)
        assert len(partitions) <= xla_clusters(graph, devices), seed
        assert partitions == make_partitions(graph, devices)


def test_few_operators_cannot_be_divided_further() -> None:
    for seed in range(250):
        count, edges, devices = random_case(seed, most=9)
        graph = dag_of(count, edges)
        assert len(make_partitions(graph, devices)) == fewest_by_trying(graph, devices), seed


def test_the_smallest_cycle_falls_apart_on_one_device() -> None:
    partitions = make_partitions(dag_of(4, CYCLIC), CYCLIC_DEVICES)
    assert len(partitions) == 3
    check_partition(dag_of(4, CYCLIC), CYCLIC_DEVICES, partitions, connected=True)


@pytest.mark.parametrize("mode", ["seed", "min"])
def test_nothing_at_all_has_no_partitions(mode: Mode) -> None:
    assert make_partitions(dag_of(0, []), [], mode) == ()
    assert len(make_partitions(dag_of(3, []), [0, 0, 0], mode)) == 3


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_networks_are_cut_where_their_kinds_change(shape: str) -> None:
    made = SHAPES[shape](3_000)
    graph, devices = made.graph(), by_kind(made)
    partitions = make_partitions(graph, devices)
    check_partition(graph, devices, partitions, connected=True)
    assert len(partitions) <= xla_clusters(graph, devices) if len(graph) < 200 else True


@pytest.mark.parametrize("seed", range(40))
def test_contraction_keeps_the_graph_free_of_cycles(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is merged in whatever order, the groups can run in the order that they are numbered in."""
    if seed % 2:
        monkeypatch.setattr(contraction_module, "_SPACE", 4)  # numbers run out and are reused
    count, edges, _ = random_case(seed, most=30)
    graph = dag_of(count, edges)
    contraction = Contraction(graph_inside(graph, graph.order, [0] * count))
    generator = seeded(seed)
    for _ in range(3 * count):
        pair = generator.randrange(count), generator.randrange(count)
        before = contraction.homes()
        is_merged = contraction.merge(*pair)
        homes = contraction.homes()
        joined = [before[pair[0]] if home == before[pair[1]] else home for home in before]
        of_operator = dict(zip(graph.order, joined, strict=True))
        assert is_merged == can_run(graph, [of_operator[operator] for operator in range(count)])
        for target, row in enumerate(graph_inside(graph, graph.order, [0] * count).predecessors):
            assert all(homes[source] <= homes[target] for source in row)


def test_a_search_that_is_given_up_merges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction_module, "_VISITS", -(10**9))
    monkeypatch.setattr(contraction_module, "_LEAST_VISITS", 2)
    rows = [(0, at) for at in range(1, 9)] + list(pairwise(range(1, 9))) + [(8, 9), (0, 9)]
    graph = dag_of(10, rows)
    inside = graph_inside(graph, graph.order, [0] * 10)
    assert not Contraction(inside).merge(0, 9)


def joining(graph: Dag, *beside: tuple[int, ...]) -> Dag:
    return Dag(graph.successors, graph.predecessors, graph.order, beside=beside)


def test_siblings_are_merged_if_no_cycle_results() -> None:
    free = dag_of(4, [(0, 2), (1, 3)])
    assert len(make_partitions(joining(free, (0, 1)), [0, 0, 1, 1])) == 3
    assert len(make_partitions(joining(free, (0, 1), (2, 3)), [0, 0, 1, 1])) == 2
    waiting = joining(dag_of(4, [(0, 1), (2, 3)]), (0, 3), (1, 2))
    assert len(make_partitions(waiting, [0, 1, 1, 0])) == 3


def test_any_may_be_together_never_more_than_turns() -> None:
    for seed in range(200):
        count, edges, devices = random_case(seed, most=14)
        graph = dag_of(count, edges)
        found = make_partitions(joining(graph, tuple(range(count))), devices)
        check_partition(graph, devices, found, connected=False)
        assert len(found) <= len(fewest_turns(graph, devices)), seed
        assert len(found) <= len(make_partitions(graph, devices)), seed


def test_turns_are_those_of_litert_and_the_fewest_of_two_devices() -> None:
    graph = dag_of(4, [(0, 2), (1, 3)])
    assert turns(graph, [0, 1, 1, 0]) == [(0,), (1, 2), (3,)]
    assert turns(graph, [0, 1, 1, 0], 1) == [(1,), (0, 3), (2,)]
    for seed in range(200):
        count, edges, devices = random_case(seed, most=12)
        graph = dag_of(count, edges)
        level = [0] * count
        for operator in graph.order:
            changes = (level[a] + (devices[a] != devices[operator]) for a in graph.predecessors[operator])
            level[operator] = max(changes, default=0)
        if len(set(devices)) <= 2:
            assert max(level) < len(fewest_turns(graph, devices)) <= max(level) + 2, seed


def test_groups_are_connected_sets_of_one_label() -> None:
    graph = dag_of(4, [(0, 1), (1, 2), (2, 3)])
    assert connected(graph, [0, 0, 1, 0]) == [0, 0, 1, 2]
    assert group_successors(graph, [0, 0, 1, 2], 3) == [[1], [2], []]
    assert members_of([0, 0, 1, 2]) == [[0, 1], [2], [3]]
    assert minimum_partitions(graph, [0] * 4) == [(0, 1, 2, 3)]
