"""What edges join, and what is wrong with it: cycles, ways around, sets that wait for each other."""

from __future__ import annotations

import numpy as np

from circletools.affinity.costs.joins import (
    _AROUND,
    Forest,
    all_between,
    longest_path,
    waiting_sets,
    ways_around,
)
from circletools.affinity.costs.problem import Indices
from tests.kit.partition_support import dag_of

Edges = list[tuple[int, int]]


def forest_of(edges: Edges, joined: Edges, count: int) -> Forest:
    return Forest(pairs(edges), numbers([edges.index(edge) for edge in joined]), count)


def pairs(edges: Edges) -> Indices:
    return np.array(edges, np.int64).reshape(-1, 2)


def numbers(values: list[int]) -> Indices:
    return np.array(values, np.int64)


def test_edges_join_sets_and_one_too_many_is_a_cycle() -> None:
    edges = [(0, 1), (1, 2), (0, 2), (3, 4)]
    forest = forest_of(edges, edges, 6)
    assert [sorted(cycle) for cycle in forest.cycles] == [[0, 1, 2]]
    home = forest.home
    assert (home[0] == home[1] == home[2], home[3] == home[4], len(set(home))) == (True, True, 3)
    assert forest.path(2, 0) == [0, 1]
    assert forest.path(3, 3) == []


def around(edges: Edges, joined: Edges, devices: list[int]) -> list[tuple[Edges, int, int]]:
    graph, forest = dag_of(len(devices), edges), forest_of(edges, joined, len(devices))
    found = ways_around(graph, numbers(devices), forest)
    return [([edges[edge] for edge in path], first, last) for path, first, last in found]


def test_a_way_around_over_another_device() -> None:
    """Also where the operator on the way is number 0, and where it is several operators away."""
    assert around([(1, 0), (0, 2), (1, 2)], [(1, 2)], [1, 0, 0]) == [([(1, 2)], 1, 2)]
    assert around([(1, 0), (0, 3), (3, 2), (1, 2)], [(1, 2)], [1, 0, 0, 0]) == [([(1, 2)], 1, 2)]
    assert around([(0, 1), (1, 2), (0, 2)], [(0, 2)], [0, 1, 0]) == [([(0, 2)], 0, 2)]
    long = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    assert around(long, [(0, 4)], [0, 0, 1, 0, 0]) == [([(0, 4)], 0, 4)]
    assert around(long, [(0, 4)], [0, 0, 0, 0, 0]) == []  # nothing of another device
    assert around(long, [(0, 1), (0, 4)], [0, 0, 1, 1, 0]) == [([(0, 4), (0, 1)], 1, 4)]
    assert around([(0, 1), (1, 2), (0, 2)], [], [0, 1, 0]) == []  # not joined


def test_what_is_between_two_operators() -> None:
    graph = dag_of(6, [(0, 1), (1, 2), (2, 5), (0, 3), (3, 5), (4, 5), (0, 4)])
    assert all_between(graph, 0, 5) == {1, 2, 3, 4}
    assert all_between(graph, 1, 5) == {2}
    assert all_between(graph, 5, 0) == set()


def test_many_operators_between_are_not_all_looked_for() -> None:
    most = 20 * _AROUND
    chain = dag_of(most + 10, [(at, at + 1) for at in range(most + 9)])
    assert len(all_between(chain, 0, most - 1)) == most - 2
    assert all_between(chain, 0, most + 9) < set(range(1, most + 9))


def test_sets_that_wait_for_each_other() -> None:
    """Two sets of a device each: either feeds the other."""
    edges = [(0, 1), (2, 3), (0, 3), (2, 1)]
    graph, devices = dag_of(4, edges), [0, 0, 1, 1]
    forest = forest_of(edges, [(0, 1), (2, 3)], 4)
    assert sorted(waiting_sets(graph, numbers(devices), forest)) == [(0, 0), (1, 1)]
    apart = forest_of(edges, [(0, 1)], 4)
    assert waiting_sets(graph, numbers(devices), apart) == []


def test_the_longest_path_is_of_work() -> None:
    assert longest_path(dag_of(5, [(0, 1), (1, 2), (3, 4)])).tolist() == [0, 1, 2]
    assert longest_path(dag_of(0, [])).tolist() == []
