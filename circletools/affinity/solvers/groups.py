"""Groups of operators, and the quotient graph, in which each group is contracted to one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import chain, pairwise
from operator import eq
from typing import Literal, TypeVar

import numpy as np

from circletools.errors import UsageError
from circletools.flatbuf.columns import grouped
from circletools.graph.algorithms import (
    Dag,
    Indices,
    components,
    dag_from_edges,
    distinct_edges,
    renumbered,
    strong_components,
)
from circletools.graph.graph import Graph
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


# --- units of partitioning: operators, or sets of them that must stay together; which units may be joined ---------
# For example, a QUANTIZE and the DEQUANTIZE next to it, or operators that share a large tensor, may form a unit.
# Operators on a path between two members also belong to the unit; otherwise it could not run without interruption.


Join = Literal["connected", "shared", "any"]
"""Which units may share a partition: connected units; also readers of the same constant or input; or any units."""

_CODES = {"QUANTIZE", "DEQUANTIZE"}


@dataclass(frozen=True, slots=True)
class Colocation:
    """The operators to keep together: with `pairs`, a QUANTIZE and the DEQUANTIZE next to it.

    With `least_bytes`, users of a tensor of at least this size; with `state`, users of a variable or hash table.
    """

    pairs: bool = False
    least_bytes: int | None = None
    state: bool = False

    def __bool__(self) -> bool:
        """Return whether any operators must stay together."""
        return self.pairs or self.state or self.least_bytes is not None


@dataclass(frozen=True, slots=True)
class Units:
    """Operators that must stay together: each operator's unit, each unit's operators, and the units' graph."""

    home: Sequence[int]
    members: Sequence[Sequence[int]]
    graph: Dag


def of_operators(members: Sequence[Sequence[int]], partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the partitions of operators that correspond to partitions of units, given the operators of each unit."""
    return tuple(
        Partition(DeviceIndex(its.device), tuple(sorted(chain(*(members[unit] for unit in its.operators)))))
        for its in partitions
    )


def parse_colocation(words: Sequence[str]) -> Colocation:
    """Parse the values of the option: `quantize`, `variables`, or numbers of bytes. Raises UsageError."""
    least = None
    for word in words:
        if word in ("quantize", "variables"):
            continue
        if word.isascii() and word.isdigit() and len(word) <= 18:
            least = min(int(word), int(word) if least is None else least)
        else:
            hint = "write quantize, variables or a number of bytes"
            raise UsageError(f"unknown value `keep_together={word}`", hint=hint)
    return Colocation("quantize" in words, least, "variables" in words)


def make_units(
    facts: Graph, join: Join = "connected", colocation: Colocation = Colocation(), users: Iterable[Sequence[int]] = ()
) -> Units:
    """Return the units of a subgraph; each item of `users` is a further set of operators that must stay together.

    Raises ModelFormatError for a missing tensor, and for a cycle.
    """
    graph = facts.dag
    if join != "connected":
        graph = replace(graph, beside=_beside(facts, join))
    count = len(graph)
    home = list(range(count))
    if colocation:
        pairs = [*zip(*_colocated(facts, colocation), strict=True), *chain(*map(pairwise, users))]
        home = _convex(graph, components(count, *zip(*pairs, strict=True))) if pairs else home
    if home == list(range(count)):
        return Units(home, [(operator,) for operator in home], graph)
    members = gathered(max(home) + 1, home, range(count))
    return Units(home, members, _graph_of(graph, home, len(members)))


def _beside(facts: Graph, join: Join) -> tuple[tuple[int, ...], ...]:
    """Return sets of operators that may be in one partition without being connected."""
    work = sorted(set(range(len(facts))) - set(facts.folded))
    if join == "any":
        return (tuple(work),)
    constant = np.isin(facts.producer, facts.folded)
    readers, read = facts.reads
    outside = (facts.producer[read] < 0) | constant[read]
    buffers = facts.values.buffers
    # Tensors that share a buffer are one constant.
    what = np.where(facts.values.is_constant, -1 - buffers, np.arange(len(facts.values)))
    rows: dict[int, set[int]] = {}
    for source, reader in zip(what[read[outside]].tolist(), readers[outside].tolist(), strict=True):
        rows.setdefault(source, set()).add(reader)
    return tuple(sorted({tuple(sorted(row)) for row in rows.values() if len(row) > 1}))


def _colocated(facts: Graph, colocation: Colocation) -> tuple[list[int], list[int]]:
    """Return pairs of operators that must stay together: each pair is the producer and a reader of a tensor."""
    readers, read = facts.reads
    makers = facts.producer[read]
    stays = np.zeros(len(read), np.bool_)
    if colocation.least_bytes is not None:
        stays |= facts.values.bytes[read] >= colocation.least_bytes
    if colocation.pairs:
        codes = np.array(facts.operators.code_names)
        several = np.array([name in _CODES for name in facts.operators.code_names], np.bool_)
        stays |= several[makers] & several[readers] & (codes[makers] != codes[readers])
    stays &= (makers >= 0) & ~np.isin(makers, facts.folded)
    return makers[stays].tolist(), readers[stays].tolist()


def _convex(graph: Dag, groups: Sequence[int]) -> list[int]:
    """Return the unit of each operator; groups that wait for each other are merged."""
    waiting = strong_components(group_successors(graph, groups, max(groups) + 1))
    component = {number: at for at, row in enumerate(waiting) for number in row}
    return renumbered(component[number] for number in groups)


def _graph_of(graph: Dag, home: Sequence[int], count: int) -> Dag:
    edges = np.array(home, np.int64)[edges_of(graph)]
    table = edges[edges[:, 0] != edges[:, 1]]
    constants = tuple(sorted({home[operator] for operator in graph.constants}))
    beside = (tuple(sorted({home[operator] for operator in row})) for row in graph.beside)
    made = dag_from_edges(count, table[:, 0], table[:, 1])
    rows = tuple(row for row in beside if len(row) > 1)
    return replace(made, constants=constants, beside=rows, share=graph.share)
