"""Groups of operators, and the graph of the groups: what contracting each to one leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, count, pairwise
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
    group: dict[int, int] = {}
    numbers = count()
    for first in range(len(graph)):
        if first in group:
            continue
        group[first], label, pending = next(numbers), labels[first], [first]
        while pending:
            operator = pending.pop()
            for neighbour in (*graph.successors[operator], *graph.predecessors[operator]):
                if neighbour not in group and labels[neighbour] == label:
                    group[neighbour] = group[first]
                    pending.append(neighbour)
    return [group[operator] for operator in range(len(graph))]


def members_of(group: Sequence[int]) -> list[list[int]]:
    """Return the operators of each group, ascending."""
    return gathered(max(group, default=-1) + 1, group, range(len(group)))


def gathered(keys_count: int, keys: Iterable[int], values: Iterable[T]) -> list[list[T]]:
    """Return the values of each key, 0 to `keys_count` - 1, in their order."""
    rows: list[list[T]] = [[] for _ in range(keys_count)]
    for key, value in zip(keys, values, strict=True):
        rows[key].append(value)
    return rows


def group_successors(graph: OperatorGraph, group: Sequence[int], groups: int) -> list[list[int]]:
    """Return the groups that each group feeds, ascending, itself left out."""
    lengths = np.fromiter(map(len, graph.successors), np.int64, len(graph))
    numbers: NDArray[np.int64] = np.asarray(group, np.int64)
    targets = np.fromiter(chain.from_iterable(graph.successors), np.int64, int(lengths.sum()))
    left, right = np.repeat(numbers, lengths), numbers[targets]
    across = left != right
    edges = np.unique(left[across] * groups + right[across])
    bounds = np.searchsorted(edges, np.arange(groups + 1) * groups).tolist()
    flat = (edges % max(groups, 1)).tolist()
    return [flat[start:end] for start, end in pairwise(bounds)]


def strong_components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sets of groups that reach each other, each after all that it feeds (Tarjan's algorithm)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    waiting: set[int] = set()
    stack: list[int] = []
    components: list[list[int]] = []
    visits = count()
    for root in range(len(successors)):
        if root in order:
            continue
        calls = [(root, iter(successors[root]))]
        order[root] = low[root] = next(visits)
        stack.append(root)
        waiting.add(root)
        while calls:
            current, rest = calls[-1]
            for successor in rest:
                if successor not in order:
                    order[successor] = low[successor] = next(visits)
                    stack.append(successor)
                    waiting.add(successor)
                    calls.append((successor, iter(successors[successor])))
                    break
                if successor in waiting and order[successor] < low[current]:
                    low[current] = order[successor]
            else:
                calls.pop()
                if calls and low[current] < low[calls[-1][0]]:
                    low[calls[-1][0]] = low[current]
                if low[current] == order[current]:
                    component = set()
                    while current not in component:
                        component.add(stack.pop())
                    components.append(sorted(component))
                    waiting -= component
    return components
