"""Find faults in sets of operators joined by edges: cycles, detours through other devices, cyclic dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from circletools.affinity.costs.table import Indices
from circletools.affinity.solvers.groups import group_successors, members_of
from circletools.graph.algorithms import Dag, UnionFind, strong_components

_AROUND = 200
"""The maximum number of operators visited in the search for a detour."""


class Forest:
    """Sets of operators joined by edges: `home` holds each operator's set, `cycles` the edges that close a cycle."""

    def __init__(self, edges: Indices, joined: Indices, count: int) -> None:
        self._beside: dict[int, list[tuple[int, int]]] = {}
        self.cycles: list[list[int]] = []
        sets = UnionFind(count)
        for edge in joined.tolist():
            a, b = edges[edge].tolist()
            if not sets.join(a, b):
                self.cycles.append([*self.path(a, b), edge])
                continue
            self._beside.setdefault(a, []).append((b, edge))
            self._beside.setdefault(b, []).append((a, edge))
        self.home = sets.labels()

    def joins(self, units: Sequence[int]) -> bool:
        """Return whether edges among these units connect all of them."""
        inside, seen, pending = set(units), {units[0]}, [units[0]]
        for unit in pending:
            news = [other for other, _ in self._beside.get(unit, ()) if other in inside and other not in seen]
            seen.update(news)
            pending += news
        return len(seen) == len(inside)

    def path(self, start: int, end: int) -> list[int]:
        """Return the edges of the path between two operators of the same set."""
        came: dict[int, tuple[int, int]] = {start: (-1, -1)}
        pending = [start]
        for operator in pending:
            for other, edge in self._beside.get(operator, ()):
                if other not in came:
                    came[other] = operator, edge
                    pending.append(other)
        path = []
        while end != start:
            end, edge = came[end]
            path.append(edge)
        return path


def ways_around(graph: Dag, devices: Indices, forest: Forest) -> Iterator[tuple[list[int], int, int]]:
    """Yield the edges that join two operators although another device lies between, and the two operators."""
    home = forest.home
    for operator in graph.order:
        # `via` is the first operator of another device on the path.
        own, device = home[operator], devices[operator]
        via = {other: other if devices[other] != device else -1 for other in graph.successors[operator]}
        pending = [other for other in via if home[other] != own]
        for at in pending:
            afters = graph.successors[at]
            back = next((after for after in afters if home[after] == own and via[at] >= 0), None)
            if back is not None:
                yield forest.path(operator, back), operator, back
                break
            if len(pending) < _AROUND:
                news = [after for after in afters if home[after] != own and after not in via]
                via |= {new: via[at] if via[at] >= 0 or devices[new] == device else new for new in news}
                pending += news


def all_between(graph: Dag, first: int, last: int) -> set[int]:
    """Return the operators on paths from one operator to another, up to a limited number."""
    found = []
    for rows, start in ((graph.successors, first), (graph.predecessors, last)):
        seen, pending = {start}, [start]
        for operator in pending:
            if len(pending) < 20 * _AROUND:
                news = [other for other in rows[operator] if other not in seen]
                seen.update(news)
                pending += news
        found.append(seen)
    return found[0] & found[1] - {first, last}


def waiting_sets(graph: Dag, devices: Indices, forest: Forest) -> list[tuple[int, int]]:
    """Return edges, each with its device, that join sets which wait for each other; empty if there are none."""
    _, numbers = np.unique(forest.home, return_inverse=True)
    group = numbers.tolist()
    successors = group_successors(graph, group, max(group) + 1)
    cycle = next((row for row in strong_components(successors) if len(row) > 1), None)
    if cycle is None:
        return []
    # The shortest path from one of the sets back to it, along edges between operators.
    inside, start = set(cycle), min(cycle)
    came: dict[int, tuple[int, int]] = {}
    pending = [start]
    members = members_of(group)
    for at in pending:
        for operator in members[at]:
            for other in graph.successors[operator]:
                if group[other] in inside and group[other] != at and group[other] not in came:
                    came[group[other]] = operator, other
                    pending.append(group[other])
        if start in came:
            break
    found: list[tuple[int, int]] = []
    source, entered = came[start]
    while True:  # backwards, from the place where the path leaves a set to the place where it enters
        before = came[group[source]] if group[source] != start else (-1, entered)
        found += ((edge, int(devices[source])) for edge in forest.path(before[1], source))
        if group[source] == start:
            break
        source = before[0]
    return found
