r"""Merging groups of operators while the graph of the groups stays free of cycles.

Two groups, one of which feeds the other, can be merged unless another path leads from the one to the other:

    a ---> c        a and c cannot be one group: b would wait for it, and it for b
     \-> b -/

Groups stand in a topological order, so such a path stays in the stretch between the two and nothing else is searched
(D. J. Pearce, P. H. J. Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2007). The search
starts from the side with fewer neighbours; what it finds moves out of the stretch, by numbers that leave space
between neighbours in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from circletools.affinity.solvers.detours import Detours
from circletools.affinity.solvers.groups import GroupGraph
from circletools.graph.algorithms import UnionFind

_SPACE = 1 << 40
"""Between the numbers of neighbours in the order."""
_STEP = 1 << 20
_VISITS, _VISITS_PER_GROUP = 200_000, 10
_LEAST_VISITS = 50
"""A search ends without a result once a graph has used up its visits and this search its own.

Graphs of networks need less than one visit for each group. Without a result two groups are not merged.
"""


class Contraction:
    """Groups of a graph as they are merged; a merged group goes by the lowest number of its members."""

    def __init__(self, graph: GroupGraph, detours: Detours | None = None) -> None:
        """Start from a graph whose groups are numbered in topological order; `detours` are those of the graph."""
        count = len(graph.devices)
        self._graph = graph
        self._count = count
        self._successors: list[list[int]] = list(graph.successors)
        self._predecessors: list[list[int]] = list(graph.predecessors)
        self._is_own = bytearray(count)  # whether the rows of a group are no longer those of the graph
        self._sets = UnionFind(count)
        self.find = self._sets.find
        """Return the number by which a group goes now."""
        self._number = list(range(0, count * _SPACE, _SPACE))
        # A doubly linked list; -1, the last place of each, stands before the first group and behind the last.
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
        """Merge the groups of each edge, in this order, where they are of one device and no cycle follows."""
        devices, find = self._graph.devices, self.find
        for source, target in edges:
            if devices[source] == devices[target]:
                first, second = find(source), find(target)
                if first != second and not self._detours.between(first, second):
                    self.merge((first, second))

    def merge(self, groups: Iterable[int]) -> bool:
        """Merge groups, whatever their devices, and say whether that was possible."""
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
        """Return the successors of the groups before the last of them, or their predecessors after the first.

        None where it leads back to the groups, or where it was given up.
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
        """Return the groups in a row as they are now, each once, without the group itself."""
        found = set(map(self.find, row))
        found.discard(group)
        return list(found)

    def _join(self, merging: Sequence[int], *, stays: int) -> int:
        """Join groups to one in the place of `stays`, the only one that is in the order, and return its number."""
        label = min(merging)
        for rows in (self._successors, self._predecessors):
            # The longest row takes in the others, so that no item moves more than log(n) times.
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
        """Put groups right behind another one, or right before it, as far from it as there is space."""
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
