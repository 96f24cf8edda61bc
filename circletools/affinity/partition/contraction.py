"""Merging groups of operators while the graph of the groups stays free of cycles.

The groups are kept in an execution order, so a merge only concerns the groups between its first and its last
(D. J. Pearce, P. H. J. Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2007).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations


class Contraction:
    """Groups 0..n-1 in an order in which they can run, and what merging makes of them.

    A merged group goes by the number of one of its members; `members` has the first numbers of all groups left.
    """

    def __init__(self, successors: Sequence[Iterable[int]], order: Iterable[int]) -> None:
        """Start from an acyclic graph and a valid order of all its groups."""
        self.successors: list[set[int]] = [set(row) for row in successors]
        self.predecessors: list[set[int]] = [set() for _ in successors]
        for number, row in enumerate(self.successors):
            for successor in row:
                self.predecessors[successor].add(number)
        self.members: dict[int, list[int]] = {number: [number] for number in range(len(self.successors))}
        self._rank = [0] * len(self.successors)
        for rank, number in enumerate(order):
            self._rank[number] = rank

    def in_order(self) -> list[int]:
        """Return the groups in an order in which they can run."""
        return sorted(self.members, key=self._rank.__getitem__)

    def merge(self, groups: Iterable[int]) -> int | None:
        """Merge groups and return the number of the result, None where that would close a cycle."""
        merging = set(groups)
        if len(merging) < 2:
            return next(iter(merging), None)
        ranks = [self._rank[group] for group in merging]
        low, high = min(ranks), max(ranks)
        behind = self._search(merging, self.successors, low, high)
        if behind is None:
            return None
        # No way leads from the groups back to them, so none does in the other direction either.
        before = self._search(merging, self.predecessors, low, high) or set()
        ranks = sorted(self._rank[group] for group in (*before, *merging, *behind))
        merged = self._join(merging)
        for rank, group in zip(ranks, sorted(before, key=self._rank.__getitem__), strict=False):
            self._rank[group] = rank
        self._rank[merged] = ranks[len(before)]
        last = ranks[len(ranks) - len(behind) :]
        for rank, group in zip(last, sorted(behind, key=self._rank.__getitem__), strict=True):
            self._rank[group] = rank
        return merged

    def _search(self, start: set[int], step: Sequence[set[int]], low: int, high: int) -> set[int] | None:
        """Return what can be reached between two ranks, None when a way leads back to the start."""
        found: set[int] = set()
        pending = [neighbour for group in start for neighbour in step[group] if neighbour not in start]
        while pending:
            group = pending.pop()
            if group in found or not low < self._rank[group] < high:
                continue
            found.add(group)
            for neighbour in step[group]:
                if neighbour in start:
                    return None
                pending.append(neighbour)
        return found

    def _join(self, merging: set[int]) -> int:
        keep = max(merging, key=lambda group: (len(self.successors[group]) + len(self.predecessors[group]), -group))
        for group in sorted(merging - {keep}):
            for ours, theirs in permutations((self.successors, self.predecessors)):
                for neighbour in ours[group]:
                    theirs[neighbour].discard(group)
                    if neighbour not in merging:
                        theirs[neighbour].add(keep)
                        ours[keep].add(neighbour)
                ours[group] = set()
            self.members[keep] += self.members.pop(group)
        self.successors[keep] -= merging
        self.predecessors[keep] -= merging
        return keep


def merge_neighbours(contraction: Contraction, devices: Sequence[int], *, backward: bool = False) -> None:
    """Merge groups of one device that feed each other, as long as any can be merged. `devices` goes by group.

    Each group is merged with those that it feeds, from the first to the last; `backward` with those that feed it,
    from the last to the first. Neither is better: it depends on the graph.
    """
    neighbours = contraction.predecessors if backward else contraction.successors
    changed = True
    while changed:
        changed = False
        for group in contraction.in_order()[:: -1 if backward else 1]:
            current = group
            while (
                current in contraction.members
                and (merged := _merge_one(contraction, devices, current, neighbours[current])) is not None
            ):
                changed, current = True, merged


def _merge_one(contraction: Contraction, devices: Sequence[int], group: int, neighbours: Iterable[int]) -> int | None:
    for neighbour in sorted(neighbours):
        if devices[neighbour] == devices[group]:
            merged = contraction.merge((group, neighbour))
            if merged is not None:
                return merged
    return None
