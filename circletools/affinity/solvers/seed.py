"""The partitions of the OpenVINO hetero plugin's design: devices in turn, the largest candidate first.

    for each device, in the given order:
        while it has operators in no partition:
            grow a candidate from each of them, in ascending order, unless a candidate of this round contains it
            make the largest candidate a partition (of equal ones, the one with the lowest root)

The resulting partitions may wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from circletools.affinity.solvers.groups import connected, group_successors, members_of
from circletools.affinity.solvers.growth import Candidate, Effort, Region, Step
from circletools.graph.algorithms import Dag, strong_components


def seed_partitions(
    graph: Dag, devices: Sequence[int], on_step: Callable[[Step], None] | None = None
) -> list[tuple[int, ...]]:
    """Return the partitions in the order in which they are selected.

    `devices` holds each operator's device number; devices are processed in ascending order. With `on_step`, every
    step of every candidate is reported, no work is skipped, and members are in the order of acceptance. Raises
    EditError for a graph that is too wide or takes too many steps.
    """
    grower = _Grower(graph, devices, on_step)
    partitions: list[tuple[int, ...]] = []
    for device in sorted(set(devices)):
        operators = [operator for operator, its in enumerate(devices) if its == device]
        partitions += iter(_Rounds(operators, grower).select, None)
    return partitions


class _Grower:
    """Grows candidates in the smallest part of the graph that determines them.

    A connected set of operators on a device is the candidate of each of its members unless a path leaves the set
    and returns. Such a path needs a cycle in the graph of these sets, so only sets on cycles must be grown.
    """

    def __init__(self, graph: Dag, devices: Sequence[int], on_step: Callable[[Step], None] | None) -> None:
        self._on_step = on_step
        effort = Effort(len(graph), graph.share)
        if on_step is not None:
            self._region = dict.fromkeys(range(len(graph)), Region(graph, graph.order, devices, effort))
            return
        self._group = connected(graph, devices)
        self._members = members_of(self._group)
        rank = {operator: number for number, operator in enumerate(graph.order)}
        self._region = {}
        for component in strong_components(group_successors(graph, self._group, len(self._members))):
            if len(component) > 1:
                inside = [operator for group in component for operator in self._members[group]]
                region = Region(graph, sorted(inside, key=rank.__getitem__), devices, effort)
                self._region.update(dict.fromkeys(inside, region))

    def grow(self, root: int) -> Candidate:
        region = self._region.get(root)
        if region is not None:
            return region.grow(root, self._on_step)
        return Candidate(root, tuple(self._members[self._group[root]]))

    def take(self, candidate: Candidate) -> None:
        region = self._region.get(candidate.root)
        if region is not None:
            region.take(candidate.members)
        if self._on_step is not None:
            self._on_step(Step("select", candidate.root, tuple(sorted(candidate.members)), ()))


class _Rounds:
    """The candidates of one device over all rounds; a candidate is grown again only if it may have changed.

    An operator is a root of the round if no candidate of a lower root contains it (`_covers` counts these). Roots are
    settled in ascending order, so a change affects only higher operators.
    """

    def __init__(self, operators: Sequence[int], grower: _Grower) -> None:
        self._grower = grower
        self._cache: dict[int, Candidate] = {}
        self._touching: dict[int, set[int]] = {operator: set() for operator in operators}  # operator -> roots
        self._roots: dict[int, Candidate] = {}
        self._covers = dict.fromkeys(operators, 0)
        self._best: list[tuple[int, int, int]] = []  # the candidate's size (negated), root, and number
        self._candidates: list[Candidate] = []
        self._settle(list(operators))

    def select(self) -> tuple[int, ...] | None:
        """Return the members of the next partition, or None once all operators are in a partition."""
        while self._best:
            _, root, number = heappop(self._best)
            candidate = self._candidates[number]
            if self._roots.get(root) is candidate:
                break
        else:
            return None
        self._grower.take(candidate)
        changed: list[int] = []
        for operator in candidate.members:
            for root in self._touching.pop(operator):
                stale = self._cache.pop(root, None)
                if stale is not None:
                    self._forget(stale)
                    changed += self._remove_root(root)
                    changed.append(root)
            del self._covers[operator]
        heapify(changed)
        self._settle(changed)
        return candidate.members

    def _settle(self, changed: list[int]) -> None:
        """Decide, in ascending order, which operators in the heap are roots."""
        while changed:
            operator = heappop(changed)
            if operator not in self._covers:
                continue
            if self._covers[operator]:
                uncovered = self._remove_root(operator)
            elif operator not in self._roots:
                uncovered = self._add_root(operator)
            else:
                continue
            for higher in uncovered:
                heappush(changed, higher)

    def _add_root(self, root: int) -> list[int]:
        """Make an operator a root, and return the higher operators that its candidate now covers."""
        candidate = self._cache.get(root)
        if candidate is None:
            candidate = self._cache[root] = self._grower.grow(root)
            for operator in candidate.touched:
                self._touching[operator].add(root)
        self._roots[root] = candidate
        heappush(self._best, (-len(candidate.members), root, len(self._candidates)))
        self._candidates.append(candidate)
        covered = []
        for operator in candidate.members:
            if operator > root:
                self._covers[operator] += 1
                if operator in self._roots:
                    covered.append(operator)
        return covered

    def _remove_root(self, root: int) -> list[int]:
        """If an operator is a root, make it an ordinary one; return the operators that are no longer covered."""
        candidate = self._roots.pop(root, None)
        freed = []
        for operator in () if candidate is None else candidate.members:
            if operator > root and operator in self._covers:
                self._covers[operator] -= 1
                if self._covers[operator] == 0:
                    freed.append(operator)
        return freed

    def _forget(self, candidate: Candidate) -> None:
        for operator in candidate.touched:
            if operator in self._touching:
                self._touching[operator].discard(candidate.root)
