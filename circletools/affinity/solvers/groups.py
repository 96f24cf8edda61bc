"""Groups of operators, and the quotient graph, in which each group is contracted to one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain, pairwise
from operator import eq
from typing import TypeVar

import numpy as np

from circletools.flatbuf.columns import grouped
from circletools.graph.algorithms import Dag, Indices, components, distinct_edges
from circletools.wording import EnumName, Index, warn


class DeviceIndex(Index):
    """The index of a device in its plan. Comparing it with a string causes a warning."""

    of = "plan.devices"
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            warn(f"a device is a number; write plan.devices[partition.device] == {other[:80]!r}", direct=True)
        return int.__eq__(self, other)

    __ne__ = EnumName.__ne__


@dataclass(frozen=True, slots=True)
class Partition:
    """Operators, in ascending order, that one device (given by number) runs without interruption."""

    device: int
    operators: tuple[int, ...]


def group_of(count: int, partitions: Sequence[Sequence[int]]) -> list[int]:
    """Return the partition index of each of `count` operators."""
    home = {operator: index for index, partition in enumerate(partitions) for operator in partition}
    return [home[operator] for operator in range(count)]


def devices_of(count: int, partitions: Sequence[Partition]) -> list[int]:
    """Return the device of each of `count` operators."""
    home = {operator: partition.device for partition in partitions for operator in partition.operators}
    return [home[operator] for operator in range(count)]


T = TypeVar("T")
Groups = list[int]
"""The group number of each operator; groups are numbered from 0."""


@dataclass(frozen=True, slots=True)
class GroupGraph:
    """Groups 0..n-1, numbered in an order in which they can run, with their edges and the device of each."""

    successors: list[list[int]]
    predecessors: list[list[int]]
    devices: list[int]

    def __len__(self) -> int:
        return len(self.devices)


def inside(graph: Dag, operators: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the successors and predecessors of these operators among themselves, by position in `operators`."""
    place = {operator: at for at, operator in enumerate(operators)}
    successors, predecessors = (
        [[place[other] for other in rows[operator] if other in place] for operator in operators]
        for rows in (graph.successors, graph.predecessors)
    )
    return successors, predecessors


def graph_inside(graph: Dag, operators: Sequence[int], devices: Sequence[int]) -> GroupGraph:
    """Return the graph of these operators, each as a group, in an order in which they can run."""
    if len(operators) == len(graph) and all(map(eq, operators, range(len(graph)))):
        return GroupGraph(graph.successors, graph.predecessors, list(devices))
    return GroupGraph(*inside(graph, operators), [devices[operator] for operator in operators])


def working(graph: Dag) -> tuple[list[int], Dag]:
    """Return the operators that do not depend only on constants, in ascending order, and their graph."""
    constants = set(graph.constants)
    operators = [operator for operator in range(len(graph)) if operator not in constants]
    if not constants:
        return operators, graph
    number = {operator: at for at, operator in enumerate(operators)}
    order = [number[operator] for operator in graph.order if operator in number]
    beside = tuple(tuple(number[operator] for operator in row if operator in number) for row in graph.beside)
    return operators, Dag(*inside(graph, operators), order, beside=beside, share=graph.share)


def sets_beside(graph: Dag, labels: Sequence[int]) -> list[list[int]]:
    """Return the sets of two or more operators with the same label that may share a partition even if unconnected."""
    found: list[list[int]] = []
    for row in graph.beside:
        rows: dict[int, list[int]] = {}
        for operator in row:
            rows.setdefault(labels[operator], []).append(operator)
        found += (some for some in rows.values() if len(some) > 1)
    return found


def connected(graph: Dag, labels: Sequence[int]) -> Groups:
    """Return groups of operators with the same label that are connected, or may share a partition even if not.

    Edges are undirected here. Groups are in the order of their lowest operators.
    """
    edges, label = edges_of(graph), np.asarray(labels, np.int64)
    beside = [pair for row in sets_beside(graph, labels) for pair in pairwise(row)]
    alike = edges[np.equal(*label[edges.T])], np.array(beside, np.int64).reshape(-1, 2)
    return components(len(graph), *np.concatenate(alike).T.tolist())


def members_of(group: Sequence[int]) -> list[list[int]]:
    """Return the operators of each group, in ascending order."""
    return gathered(max(group, default=-1) + 1, group, range(len(group)))


def gathered(keys_count: int, keys: Iterable[int], values: Iterable[T]) -> list[list[T]]:
    """Return a list of values for each key from 0 to `keys_count` - 1, keeping their order."""
    rows: list[list[T]] = [[] for _ in range(keys_count)]
    for key, value in zip(keys, values, strict=True):
        rows[key].append(value)
    return rows


def edges_of(graph: Dag | GroupGraph) -> Indices:
    """Return the edges in ascending order, as an array of shape (edges, 2)."""
    lengths = np.fromiter(map(len, graph.successors), np.int64, len(graph))
    targets = np.fromiter(chain.from_iterable(graph.successors), np.int64, int(lengths.sum()))
    return np.stack([np.repeat(np.arange(len(graph)), lengths), targets], axis=1)


def group_successors(graph: Dag | GroupGraph, group: Sequence[int], groups: int) -> list[list[int]]:
    """Return the groups that each group feeds, in ascending order, without the group itself."""
    sources, targets = distinct_edges(groups, *np.asarray(group, np.int64)[edges_of(graph).T])
    across = sources != targets
    return grouped(groups, sources[across], targets[across].tolist())


def turns(graph: Dag, devices: Sequence[int], first: int | None = None) -> list[tuple[int, ...]]:
    """Return the groups in execution order. `first` is the device to start with, if an operator on it is ready."""
    waiting = [len(row) for row in graph.predecessors]
    ready: dict[int, list[int]] = {device: [] for device in set(devices)}
    for operator, count in enumerate(waiting):
        if count == 0:
            ready[devices[operator]].append(operator)  # ascending, hence a heap
    partitions: list[tuple[int, ...]] = []
    while any(ready.values()):
        turn = min((queue[0], device) for device, queue in ready.items() if queue)[1]
        if first is not None and ready[first] and not partitions:
            turn = first
        queue, partition = ready[turn], []
        while queue:
            operator = heappop(queue)
            partition.append(operator)
            for successor in graph.successors[operator]:
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heappush(ready[devices[successor]], successor)
        partitions.append(tuple(partition))
    return partitions
