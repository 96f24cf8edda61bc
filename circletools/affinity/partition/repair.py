"""Breaking up partitions that wait for each other, and no more than those.

Smallest case: w and x both feed y and z. Each of {w, z} and {x, y} is connected, and no path leaves and re-enters it.
But y waits for w, and z for x: each waits for the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from circletools.affinity.partition.contraction import Contraction
from circletools.affinity.partition.groups import graph_inside, group_successors, members_of, strong_components
from circletools.graph.dag import Dag

OperatorSets = list[tuple[int, ...]]


def waiting_for_each_other(graph: Dag, partitions: OperatorSets) -> list[list[int]]:
    """Return the sets of partitions that form cycles, as indices into `partitions`."""
    group = group_of(len(graph), partitions)
    components = strong_components(group_successors(graph, group, len(partitions)))
    return [component for component in components if len(component) > 1]


def group_of(count: int, partitions: OperatorSets) -> list[int]:
    """Return the index of the part of each of `count` operators."""
    home = {operator: index for index, partition in enumerate(partitions) for operator in partition}
    return [home[operator] for operator in range(count)]


def repaired(graph: Dag, devices: Sequence[int], partitions: OperatorSets) -> OperatorSets:
    """Return the partitions with those on cycles broken up: none waits for another that waits for it.

    Of each cycle partitions stay whole, the largest first, as long as that closes no cycle; the rest falls apart, and
    what fits together again is merged.
    """
    cycles = waiting_for_each_other(graph, partitions)
    if not cycles:
        return partitions
    broken = {index for cycle in cycles for index in cycle}
    rank = {operator: number for number, operator in enumerate(graph.order)}
    result = [partition for index, partition in enumerate(partitions) if index not in broken]
    for cycle in cycles:
        operators = sorted((operator for index in cycle for operator in partitions[index]), key=rank.__getitem__)
        position = {operator: at for at, operator in enumerate(operators)}
        contraction = Contraction(graph_inside(graph, operators, devices))
        for index in sorted(cycle, key=lambda index: (-len(partitions[index]), index)):
            contraction.merge(position[operator] for operator in partitions[index])
        contraction.merge_neighbours()
        result += [tuple(operators[at] for at in some) for some in members_of(contraction.homes())]
    return result
