"""What the tests of partitions share: random graphs with arbitrary numbering, and what every partition must be."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np

from circletools.affinity.solvers.groups import Partition
from circletools.graph.algorithms import Dag, dag_from_edges

Edges = list[tuple[int, int]]

CYCLIC: Edges = [(0, 2), (0, 3), (1, 2), (1, 3)]
"""The smallest graph whose partitions wait for each other: 0 and 3 on one device, 1 and 2 on the other."""
CYCLIC_DEVICES = [0, 1, 1, 0]


def dag_of(count: int, edges: Iterable[tuple[int, int]]) -> Dag:
    """Return the graph with these edges."""
    table = np.array(sorted(edges), np.int64).reshape(-1, 2)
    return dag_from_edges(count, table[:, 0], table[:, 1])


def seeded(seed: int) -> random.Random:
    """Return a source of made input."""
    return random.Random(seed)  # noqa: S311 - no secret


def random_case(seed: int, most: int = 14) -> tuple[int, Edges, list[int]]:
    """Return the number of operators, the edges and the devices of a random acyclic graph, numbered arbitrarily."""
    generator = seeded(seed)
    count = generator.randint(1, most)
    number = list(range(count))
    if generator.random() < 0.7:
        generator.shuffle(number)
    reach, share = generator.choice((2, 4, most)), generator.uniform(0.1, 0.6)
    edges = [
        (number[a], number[b])
        for b in range(count)
        for a in range(max(0, b - reach), b)
        if generator.random() < share
    ]
    devices = generator.choice((1, 2, 2, 2, 3))
    return count, edges, [generator.randrange(devices) for _ in range(count)]


def check_partition(graph: Dag, devices: Sequence[int], partitions: Sequence[Partition], *, connected: bool) -> None:
    """Check that partitions cover the graph, keep to their device, and can run one after the other as they stand."""
    home = {operator: index for index, partition in enumerate(partitions) for operator in partition.operators}
    assert sorted(operator for partition in partitions for operator in partition.operators) == list(range(len(graph)))
    for index, partition in enumerate(partitions):
        assert partition.operators == tuple(sorted(partition.operators))
        assert {devices[operator] for operator in partition.operators} == {partition.device}
        assert all(
            home[before] <= index for operator in partition.operators for before in graph.predecessors[operator]
        )
        assert not connected or is_connected(graph, partition.operators)


def is_connected(graph: Dag, operators: Sequence[int]) -> bool:
    """Say whether the operators hang together, whatever the direction."""
    left, pending = set(operators[1:]), [operators[0]]
    while pending:
        operator = pending.pop()
        beside = left.intersection(graph.successors[operator] + graph.predecessors[operator])
        left -= beside
        pending += beside
    return not left
