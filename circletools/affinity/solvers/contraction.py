r"""Edge contraction: merge groups of operators while the graph of the groups stays acyclic.

Two adjacent groups can be merged unless another path leads from one to the other:

    a ---> c        a and c cannot be one group, because b and the group would wait for each other
     \-> b -/

Groups are kept in topological order, so such a path lies in the interval between the two, and only this interval is
searched (D. J. Pearce, P. H. J. Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2007). The
search starts from the side with fewer neighbors; the groups that it finds move out of the interval, into gaps between
the numbers of neighbors in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise

from circletools.affinity.solvers.groups import GroupGraph
from circletools.graph.algorithms import UnionFind

# --- find most pairs of groups that can never be merged, without a search -------------------------------------
# One path through the graph is kept, with as many changes of device as possible:
#
#     path     a - a - B - a - B - a       source reaches the path on the left, and the path reaches target on the
#              |               |           right; a group of another device lies between, so they cannot be merged
#              source          target
#
# Merging never removes a path, and groups of different devices are never merged. In networks, which are long and
# narrow, nearly every detour shares part of that path; a search finds the others. Without this shortcut, a UNet of
# 100,000 operators takes minutes.


class Detours:
    """For each group, the first place on a path that the group reaches, and the last place that reaches the group."""

    def __init__(self, graph: GroupGraph) -> None:
        """Choose the path to keep."""
        count = len(graph)
        self.level: list[int] = alternation_levels(graph)
        self.path: list[int] = _most_alternating(graph, self.level)
        path = self.path
        self._own = graph.devices
        self._devices = [graph.devices[group] for group in path]
        self._first = [len(path)] * count
        self._last = [-1] * count
        for place, group in enumerate(path):
            self._first[group] = self._last[group] = place
        for rows, place_of, better, order in (
            (graph.predecessors, self._last, max, range(count)),
            (graph.successors, self._first, min, reversed(range(count))),
        ):
            for group in order:
                for other in rows[group]:
                    place_of[group] = better(place_of[group], place_of[other])
        self._stretch_end = list(range(len(path)))  # the end of each run of groups of the same device
        for place in range(len(path) - 2, -1, -1):
            if self._devices[place] == self._devices[place + 1]:
                self._stretch_end[place] = self._stretch_end[place + 1]

    def copy(self) -> Detours:
        """Return a copy of the current state, to try another merge order."""
        copied = copy(self)
        copied._first, copied._last = self._first.copy(), self._last.copy()
        return copied

    def between(self, source: int, target: int) -> bool:
        """Return whether the path leads from one group to another of the same device through other devices."""
        first, last = self._first[source], self._last[target]
        if first > last:
            return False
        return self._devices[first] != self._own[source] or self._stretch_end[first] < last

    def join(self, group: int, other: int) -> None:
        """Combine the data of `group` and `other`, which have been merged, under `group`."""
        self._first[group] = min(self._first[group], self._first[other])
        self._last[group] = max(self._last[group], self._last[other])


def alternation_levels(graph: GroupGraph) -> list[int]:
    """Return the largest number of device changes on a path to each group."""
    level = [0] * len(graph)
    for group, row in enumerate(graph.predecessors):
        device, most = graph.devices[group], 0
        for other in row:
            changes = level[other] + (graph.devices[other] != device)
            if changes > most:  # noqa: PLR1730 - `max` takes twice as long
                most = changes
        level[group] = most
    return level


def _most_alternating(graph: GroupGraph, level: list[int]) -> list[int]:
    """Return a path with as many device changes as possible."""
    devices = graph.devices
    group = max(range(len(level)), key=level.__getitem__, default=-1)
    path = []
    while group >= 0:
        path.append(group)
        before = (
            other
            for other in graph.predecessors[group]
            if level[other] + (devices[other] != devices[group]) == level[group]
        )
        group = next(before, -1)
    return path[::-1]


_SPACE = 1 << 40
"""The initial gap between the numbers of neighbors in the order."""
_STEP = 1 << 20
_VISITS, _VISITS_PER_GROUP = 200_000, 10
_LEAST_VISITS = 50
"""A search is abandoned once both its own visits and those allowed for the whole graph are used up.

Networks need less than one visit per group. If a search is abandoned, the two groups are not merged.
"""


class Contraction:
    """The groups of a graph during merging; a merged group is numbered by its lowest member."""

    def __init__(self, graph: GroupGraph, detours: Detours | None = None) -> None:
        """Start from a graph whose groups are numbered in topological order, with the graph's `detours`."""
        count = len(graph.devices)
        self._graph = graph
        self._count = count
        self._successors: list[list[int]] = list(graph.successors)
        self._predecessors: list[list[int]] = list(graph.predecessors)
        self._is_own = bytearray(count)  # whether the rows of a group differ from the graph's
        self._sets = UnionFind(count)
        self.find = self._sets.find
        """Return the current number of a group."""
        self._number = list(range(0, count * _SPACE, _SPACE))
        # A doubly linked list; the sentinel -1 precedes the first group and follows the last.
        self._before = list(range(-1, count))
        self._behind = [*range(1, count), -1, 0]
        self._detours = Detours(graph) if detours is None else detours.copy()
        self._visits = _VISITS + _VISITS_PER_GROUP * count

    def homes(self) -> list[int]:
        """Return the merged group of each group, numbered from 0 in topological order."""
        found = self._sets.labels()
        rank = {group: rank for rank, group in enumerate(sorted(set(found), key=self._number.__getitem__))}
        return [rank[group] for group in found]

    def merge_edges(self, edges: Iterable[tuple[int, int]]) -> None:
        """Merge the groups of each edge, in this order, if they have the same device and no cycle results."""
        devices, find = self._graph.devices, self.find
        for source, target in edges:
            if devices[source] == devices[target]:
                first, second = find(source), find(target)
                if first != second and not self._detours.between(first, second):
                    self._merge(first, second)

    def merge(self, one: int, other: int) -> bool:
        """Merge two groups, whatever their devices, and return whether this was possible."""
        one, other = self.find(one), self.find(other)
        return one == other or self._merge(one, other)

    def _merge(self, one: int, other: int) -> bool:
        first, last = (one, other) if self._number[one] < self._number[other] else (other, one)
        forward = len(self._successors[first]) < len(self._predecessors[last])
        between = self._search(first, last, forward=forward)
        if between is None:
            return False
        between.sort(key=self._number.__getitem__)
        for group in (*between, first if forward else last):
            before, behind = self._before[group], self._behind[group]
            self._behind[before], self._before[behind] = behind, before
        merged = self._join(first, last, stays=last if forward else first)
        if between:
            self._put(between, merged, forward=forward)
        return True

    def _search(self, first: int, last: int, *, forward: bool) -> list[int] | None:
        """Return the groups before `last` that `first` reaches or, if not `forward`, those that reach `last`.

        Returns None if a path leads to the other group, or if the search was abandoned.
        """
        number, find, rows = self._number, self.find, self._successors if forward else self._predecessors
        start, end = (first, last) if forward else (last, first)
        if len(rows[start]) == 1 and find(rows[start][0]) == end:  # the usual case
            return []
        low, high = number[first], number[last]
        seen, found, pending = {start, end}, list[int](), [start]
        left = max(self._visits, _LEAST_VISITS)
        while pending:
            group = pending.pop()
            neighbors = set(map(find, rows[group]))
            neighbors.discard(group)
            rows[group] = list(neighbors)  # by current numbers, for later searches
            if group != start:
                found.append(group)
                if end in neighbors:
                    return None
            for neighbor in neighbors:
                if neighbor not in seen and low < number[neighbor] < high:
                    seen.add(neighbor)
                    pending.append(neighbor)
            if len(found) > left:
                return None
        self._visits -= len(found)
        return found

    def _join(self, first: int, last: int, *, stays: int) -> int:
        """Merge two groups into one in the place of `stays`, which is still in the order; return the merged group."""
        label, other = min(first, last), max(first, last)
        for rows in (self._successors, self._predecessors):
            # The longer row absorbs the other, so that no item moves more than log(n) times.
            longer, shorter = (first, last) if len(rows[first]) >= len(rows[last]) else (last, first)
            joined = rows[longer] if self._is_own[longer] else list(rows[longer])
            joined += rows[shorter]
            rows[label], rows[other] = joined, []
        self._is_own[label] = True
        self._sets.join(label, other)
        self._detours.join(label, other)
        if label != stays:
            before, behind = self._before[stays], self._behind[stays]
            self._number[label] = self._number[stays]
            self._chain((before, label, behind))
        return label

    # --- the order ------------------------------------------------------------------------------------------

    def _chain(self, row: Sequence[int]) -> None:
        for group, following in pairwise(row):
            self._behind[group], self._before[following] = following, group

    def _put(self, groups: Sequence[int], beside: int, *, forward: bool) -> None:
        """Insert groups directly after or before another group, with the largest gaps possible."""
        if forward:
            beyond = self._behind[beside]
            low = self._number[beside]
            high = low + _SPACE if beyond < 0 else self._number[beyond]
            self._chain((beside, *groups, beyond))
        else:
            beyond = self._before[beside]
            high = self._number[beside]
            low = high - _SPACE if beyond < 0 else self._number[beyond]
            self._chain((beyond, *groups, beside))
        step = min(_STEP, (high - low) // (len(groups) + 1))
        start = high - step * (len(groups) + 1) if forward else low
        for rank, group in enumerate(groups, 1):
            self._number[group] = start + rank * step
        if step < 1:  # no numbers are left in the gap
            self._renumber()

    def _renumber(self) -> None:
        group, number = self._behind[-1], 0
        while group >= 0:
            self._number[group] = number
            group, number = self._behind[group], number + _SPACE
