"""Fewer partitions: merge what can be merged, from several starts, and take the best.

An operator's level is the number of changes of device on the worst way to it (as soon as possible), or from it (as
late as possible). Operators of one level and device form pieces that never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from circletools.affinity.partition.contraction import Contraction, merge_neighbours
from circletools.affinity.partition.groups import connected, group_successors, members_of
from circletools.affinity.partition.repair import OperatorSets, group_of
from circletools.affinity.partition.schedule import schedule
from circletools.model.graph import OperatorGraph

_MANY = 20_000
"""Of so many operators not all starts are tried: each takes its time, and few of them win."""


def fewest(graph: OperatorGraph, devices: Sequence[int], safe: OperatorSets) -> OperatorSets:
    """Return the fewest that merging makes of `safe`, of pieces by level, and of single operators."""
    if len(safe) == max(connected(graph, devices), default=-1) + 1:
        return safe  # whatever is connected is whole: there are no fewer
    starts = [safe, *_pieces(graph, devices)]
    candidates = [merged(graph, devices, start) for start in starts]
    if len(graph) <= _MANY:
        starts.append([(operator,) for operator in range(len(graph))])
        candidates += [merged(graph, devices, start, backward=True) for start in starts]
    return min(candidates, key=len)


def _pieces(graph: OperatorGraph, devices: Sequence[int]) -> list[OperatorSets]:
    """Return what is connected and of one level, for levels from the start and from the end."""
    pieces = []
    for before, order in ((graph.predecessors, graph.order), (graph.successors, graph.order[::-1])):
        level = _levels(before, devices, order)
        group = connected(graph, [2 * len(graph) * device + its for device, its in zip(devices, level, strict=True)])
        pieces.append([tuple(members) for members in members_of(group)])
    return pieces


def _levels(before: Sequence[Sequence[int]], devices: Sequence[int], order: Sequence[int]) -> list[int]:
    level = [0] * len(order)
    for operator in order:
        device = devices[operator]
        level[operator] = max((level[o] + (devices[o] != device) for o in before[operator]), default=0)
    return level


def merged(
    graph: OperatorGraph, devices: Sequence[int], partitions: OperatorSets, *, backward: bool = False
) -> OperatorSets:
    """Return the partitions with neighbours of one device merged, wherever that closes no cycle."""
    successors = group_successors(graph, group_of(len(graph), partitions), len(partitions))
    contraction = Contraction(successors, schedule(successors, range(len(partitions))))
    merge_neighbours(contraction, [devices[partition[0]] for partition in partitions], backward=backward)
    return [tuple(o for index in members for o in partitions[index]) for members in contraction.members.values()]
