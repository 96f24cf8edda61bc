r"""Edge contraction: merge groups of operators while the graph of the groups stays acyclic.

Two adjacent groups can be merged unless another path leads from one to the other:

    a ---> c        a and c cannot be one group: b would wait for it, and it for b
     \-> b -/

Groups are kept in topological order, so such a path lies in the interval between the two and only that is searched
(D. J. Pearce, P. H. J. Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2007). The search
starts from the side with fewer neighbours; the groups it finds move out of the interval, using numbers that leave
gaps between neighbours in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from circletools.affinity.solvers.detours import Detours
from circletools.affinity.solvers.groups import GroupGraph
from circletools.graph.algorithms import UnionFind

_SPACE = 1 << 40
"""The gap between the numbers of neighbours in the order."""
_STEP = 1 << 20
_VISITS, _VISITS_PER_GROUP = 200_000, 10
_LEAST_VISITS = 50
"""A search is abandoned once both the visits of the whole graph and its own visits are used up.

Networks need less than one visit for each group. Two groups are not merged if their search was abandoned.
"""


class Contraction:
    """The groups of a graph during merging; a merged group has the lowest number of its members."""

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
                    self.merge((first, second))

    def merge(self, groups: Iterable[int]) -> bool:
        """Merge groups of any device, and return whether that was possible."""
        merging = sorted({self.find(group) for group in groups}, key=self._number.__getitem__)
        if len(merging) < 2:
            return True
        behind, before = self._successors, self._predecessors
        if len(merging) == 2:  # nearly always
            forward = len(behind[merging[0]]) < len(before[merging[1]])
        else:
            forward = sum(len(behind[one]) for one in merging[:-1]) < sum(len(before[one]) for one in merging[1:])
        between = self._search(merging, forward=forward)
        if between is None:
            return False
        between.sort(key=self._number.__getitem__)
        for group in (*between, *merging[:-1]) if forward else (*between, *merging[1:]):
            self._take_out(group)
        merged = self._join(merging, stays=merging[-1 if forward else 0])
        if between:
            self._put(between, merged, forward=forward)
        return True

    def _search(self, merging: Sequence[int], *, forward: bool) -> list[int] | None:
        """Return the successors of the groups up to the last of them, or their predecessors down to the first.

        Returns None if a path leads back to the groups, or the search was abandoned.
        """
        number, rows = self._number, self._successors if forward else self._predecessors
        low, high = number[merging[0]], number[merging[-1]]
        own, found = set(merging), list[int]()
        seen = set(merging)
        pending = list(merging[:-1] if forward else merging[1:])
        starts = len(pending)
        left = max(self._visits, _LEAST_VISITS)
        while pending:
            group = pending.pop()
            neighbours = rows[group] = self._tidy(rows[group], group)
            if group not in own:
                found.append(group)
                if not own.isdisjoint(neighbours):
                    return None
            for neighbour in neighbours:
                if neighbour not in seen and low < number[neighbour] < high:
                    seen.add(neighbour)
                    pending.append(neighbour)
            if len(found) > left:
                return None
        self._visits -= len(found) + starts - 1
        return found

    def _tidy(self, row: list[int], group: int) -> list[int]:
        """Return the current groups in a row, without duplicates and without the group itself."""
        found = set(map(self.find, row))
        found.discard(group)
        return list(found)

    def _join(self, merging: Sequence[int], *, stays: int) -> int:
        """Merge groups into one at the place of `stays`, the only group still in the order; return its number."""
        label = min(merging)
        for rows in (self._successors, self._predecessors):
            # The longest row absorbs the others, so that no item moves more than log(n) times.
            longest = merging[0]
            for group in merging[1:]:
                longest = group if len(rows[group]) > len(rows[longest]) else longest
            joined = rows[longest] if self._is_own[longest] else list(rows[longest])
            for group in merging:
                if group != longest:
                    joined += rows[group]
                rows[group] = []
            rows[label] = joined
        for group in merging:
            self._is_own[group] = True
            if group != label:
                self._sets.join(label, group)
                self._detours.join(label, group)
        if label != stays:
            before, behind = self._before[stays], self._behind[stays]
            self._number[label] = self._number[stays]
            self._chain((before, label, behind))
        return label

    # --- the order ------------------------------------------------------------------------------------------

    def _chain(self, row: Sequence[int]) -> None:
        for group, following in pairwise(row):
            self._behind[group], self._before[following] = following, group

    def _take_out(self, group: int) -> None:
        self._chain((self._before[group], self._behind[group]))

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
        if step < 1:
            self._renumber()

    def _renumber(self) -> None:
        group, number = self._behind[-1], 0
        while group >= 0:
            self._number[group] = number
            group, number = self._behind[group], number + _SPACE
