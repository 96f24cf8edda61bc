"""Algorithms on directed graphs of the numbers 0..n-1, given as rows of successors or as two arrays of edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import grouped

Indices = NDArray[np.int64]


def rows_by_key(size: int, keys: Indices, numbers: Indices) -> list[list[int]]:
    """Group numbers by key, keeping their order; return a list for each key from 0 to `size` - 1."""
    if keys.size and (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, numbers = keys[order], numbers[order]
    return grouped(size, keys, numbers.tolist())


def distinct_edges(size: int, sources: Indices, targets: Indices) -> tuple[Indices, Indices]:
    """Return each edge between numbers below `size` once, ordered by source and then by target."""
    edges = np.sort(sources * size + targets)
    edges = edges[np.diff(edges, prepend=-1) != 0]  # np.unique takes ten times as long
    first, second = np.divmod(edges, max(size, 1))
    return first, second


def topological_order(successors: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers in topological order (Kahn's algorithm), omitting those on or after a cycle.

    If several numbers are ready, the one that became ready first comes first.
    """
    waiting = [0] * len(successors)
    for row in successors:
        for successor in row:
            waiting[successor] += 1
    order = [number for number, before in enumerate(waiting) if before == 0]
    for number in order:
        for successor in successors[number]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                order.append(successor)
    return order


def reachable(start: Iterable[int], further: Mapping[int, Iterable[int]] | Sequence[Iterable[int]]) -> set[int]:
    """Return `start` and all numbers reachable from it; a number missing from `further` has no successors."""
    pending, found = list(start), set[int]()
    rows = further if isinstance(further, Mapping) else dict(enumerate(further))
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            pending += rows.get(number, ())
    return found


class UnionFind:
    """Union-find with path halving over the numbers 0..n-1; the lowest number of a set represents it."""

    def __init__(self, size: int) -> None:
        """Start with a separate set for each number."""
        self._root = list(range(size))

    def find(self, number: int) -> int:
        """Return the representative of the set that contains `number`: the lowest number of the set."""
        root = self._root
        while root[number] != number:
            root[number] = number = root[root[number]]
        return number

    def join(self, one: int, other: int) -> bool:
        """Merge two sets; return whether they were distinct."""
        low, high = self.find(one), self.find(other)
        if low > high:
            low, high = high, low
        self._root[high] = low
        return low != high

    def labels(self) -> list[int]:
        """Return, for each number, the lowest number of its set."""
        return [self.find(number) for number in range(len(self._root))]


def components(size: int, sources: Iterable[int], targets: Iterable[int]) -> list[int]:
    """Return the weakly connected component of each number; components are ordered by their lowest number."""
    sets = UnionFind(size)
    for one, other in zip(sources, targets, strict=True):
        sets.join(one, other)
    return renumbered(sets.labels())


def renumbered(labels: Iterable[Any]) -> list[int]:
    """Return the labels renumbered from 0, in order of first appearance."""
    first: dict[Any, int] = {}
    return [first.setdefault(label, len(first)) for label in labels]


def strong_components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components, each after its successors (Kosaraju's algorithm)."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for number, row in enumerate(successors):
        for successor in row:
            predecessors[successor].append(number)
    left, order = set(range(len(successors))), list[int]()  # postorder of a search against the edges
    for root in range(len(successors)):
        pending = [(root, False)]
        while pending:
            number, is_done = pending.pop()
            if is_done:
                order.append(number)
            elif number in left:
                left.remove(number)
                pending += [(number, True), *((before, False) for before in predecessors[number])]
    left, found = set(order), list[list[int]]()
    for root in reversed(order):
        if root in left:
            component, further = list[int](), [root]
            while further:
                if (number := further.pop()) in left:
                    left.remove(number)
                    component.append(number)
                    further += successors[number]
            found.append(sorted(component))
    return found


@dataclass(frozen=True, slots=True)
class Dag:
    """Operators 0..n-1; the `successors` and `predecessors` of each are in ascending order, without duplicates.

    `order` is a valid execution order: file order, if that is valid. `constants` lists, in ascending order, operators
    that depend only on constants: they do not count as work, and are placed with their readers. `beside` holds sets
    of operators: those in one set that run on one device may form a partition even if they are not connected. `share`
    is the fraction of the model's operators that are in this graph, and so its fraction of the search effort.
    """

    successors: list[list[int]]
    predecessors: list[list[int]]
    order: list[int]
    constants: tuple[int, ...] = ()
    beside: tuple[tuple[int, ...], ...] = ()
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.successors)

    @property
    def joins_any(self) -> bool:
        """Return whether all operators of a device may form a partition, connected or not."""
        return any(len(row) == len(self) - len(self.constants) for row in self.beside)


def dag_from_edges(count: int, sources: Indices, targets: Indices) -> Dag:
    """Return the graph of `count` operators with these edges. Raises ModelFormatError for a cycle."""
    sources, targets = distinct_edges(count, sources, targets)
    successors = rows_by_key(count, sources, targets)
    predecessors = rows_by_key(count, targets, sources)
    forward = bool((sources < targets).all())
    order = list(range(count)) if forward else topological_order(successors)
    if len(order) < count:
        stuck = min(set(range(count)).difference(order))
        raise ModelFormatError("the operators form a cycle", location=f"operators[{stuck}]")
    return Dag(successors, predecessors, order)
