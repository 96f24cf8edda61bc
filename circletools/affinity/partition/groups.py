"""Groups of operators, and the graph of the groups: what contracting each to one leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from circletools.model.graph import OperatorGraph

T = TypeVar("T")
Groups = list[int]
"""The number of the group of each operator; groups are numbered from 0."""


def connected(graph: OperatorGraph, labels: Sequence[int]) -> Groups:
    """Return the groups of operators that are connected through operators of the same label.

    Direction does not count. Groups ascend with their lowest operator.
    """
    group = [-1] * len(graph)
    found = 0
    for first in range(len(graph)):
        if group[first] >= 0:
            continue
        group[first], label, pending = found, labels[first], [first]
        while pending:
            operator = pending.pop()
            for neighbour in (*graph.successors[operator], *graph.predecessors[operator]):
                if group[neighbour] < 0 and labels[neighbour] == label:
                    group[neighbour] = found
                    pending.append(neighbour)
        found += 1
    return group


def members_of(group: Sequence[int]) -> list[list[int]]:
    """Return the operators of each group, ascending."""
    return gathered(max(group, default=-1) + 1, group, range(len(group)))


def gathered(count: int, keys: Iterable[int], values: Iterable[T]) -> list[list[T]]:
    """Return the values of each key, 0 to `count` - 1, in their order."""
    rows: list[list[T]] = [[] for _ in range(count)]
    for key, value in zip(keys, values, strict=True):
        rows[key].append(value)
    return rows


def group_successors(graph: OperatorGraph, group: Sequence[int], count: int) -> list[list[int]]:
    """Return the groups that each group feeds, ascending, itself left out."""
    lengths = np.fromiter(map(len, graph.successors), np.int64, len(graph))
    numbers: NDArray[np.int64] = np.asarray(group, np.int64)
    targets = np.fromiter(chain.from_iterable(graph.successors), np.int64, int(lengths.sum()))
    left, right = np.repeat(numbers, lengths), numbers[targets]
    across = left != right
    edges = np.unique(left[across] * count + right[across])
    bounds = np.searchsorted(edges, np.arange(count + 1) * count).tolist()
    flat = (edges % max(count, 1)).tolist()
    return [flat[start:end] for start, end in pairwise(bounds)]


def strong_components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sets of groups that reach each other, each after all that it feeds (Tarjan's algorithm)."""
    count = len(successors)
    order, low = [-1] * count, [0] * count
    waiting = bytearray(count)
    stack: list[int] = []
    components: list[list[int]] = []
    visited = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        calls = [(root, iter(successors[root]))]
        order[root] = low[root] = visited
        visited += 1
        stack.append(root)
        waiting[root] = 1
        while calls:
            current, rest = calls[-1]
            for successor in rest:
                if order[successor] < 0:
                    order[successor] = low[successor] = visited
                    visited += 1
                    stack.append(successor)
                    waiting[successor] = 1
                    calls.append((successor, iter(successors[successor])))
                    break
                if waiting[successor] and order[successor] < low[current]:
                    low[current] = order[successor]
            else:
                calls.pop()
                if calls and low[current] < low[calls[-1][0]]:
                    low[calls[-1][0]] = low[current]
                if low[current] == order[current]:
                    start = len(stack) - 1
                    while stack[start] != current:
                        start -= 1
                    components.append(sorted(stack[start:]))
                    del stack[start:]
                    for member in components[-1]:
                        waiting[member] = 0
    return components
