"""The partitions of the OpenVINO hetero plugin's design: devices in turn, the largest candidate first.

    for each device, in the given order:
        while it has operators in no partition:
            grow a candidate from each of them, in ascending order, unless a candidate of this round contains it
            make the largest candidate a partition (of equal ones, the one with the lowest root)

A candidate grows from its root:

    candidate = [root], rejected = []
    while a member has an unvisited neighbor:
        take the first unvisited neighbor (successors ascending, then predecessors) of the member accepted last
        accept it if it has the device and is in no partition, else reject it
        while a rejected operator lies on a path between two members:
            reject the member accepted last

The partitions of this procedure may wait for each other. This module forms exactly the same ones, but skips work that
cannot affect them: a connected set of operators on a device is the candidate of each of its members unless a path
leaves the set and returns. Such a path needs a cycle in the graph of these sets, so only sets on cycles grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, chain
from operator import add
from typing import NamedTuple

from circletools.affinity.solvers.groups import connected, group_successors, inside, members_of
from circletools.errors import EditError
from circletools.graph.algorithms import Dag, strong_components


@dataclass(frozen=True, slots=True)
class Step:
    """One step of growth; `rollback` removes and rejects a member, `select` makes a candidate a partition."""

    action: str  # root, merge, reject, rollback, select
    operator: int


OnStep = Callable[[Step], None] | None


def seed_partitions(graph: Dag, devices: Sequence[int], on_step: OnStep = None) -> list[tuple[int, ...]]:
    """Return the partitions.

    `devices` holds each operator's device number; devices are processed in ascending order. With `on_step`, every
    step of every candidate is reported, no work is skipped, and partitions and members are in the order of selection.
    Raises EditError for a graph that is too large or takes too many steps.
    """
    effort = Effort(len(graph), graph.share)
    if on_step is not None:
        region = Region(graph, graph.order, devices, effort, on_step)
        sets = ([at for at, its in enumerate(devices) if its == device] for device in sorted(set(devices)))
        return [partition for operators in sets for partition in region.partitions(operators)]
    group = connected(graph, devices)
    members = members_of(group)
    rank = {operator: number for number, operator in enumerate(graph.order)}
    found: list[tuple[int, ...]] = []
    for component in strong_components(group_successors(graph, group, len(members))):
        if len(component) == 1:
            found.append(tuple(members[component[0]]))
            continue
        operators = sorted((one for number in component for one in members[number]), key=rank.__getitem__)
        region = Region(graph, operators, devices, effort)
        for number in sorted(component, key=lambda number: devices[members[number][0]]):
            found += region.partitions(members[number])
    return found


_MEMORY_BYTES = 1 << 27
_STEP, _WIDTH = 20, 3_000
"""The cost of a step, and the number of operators in a region that adds 1 to this cost; a unit is about 0.15 us."""
_REPORT = 30
"""The cost of reporting a step."""
_UNITS, _UNITS_PER_OPERATOR = 15_000_000, 2000
"""Ten times the units that networks need."""


class Effort:
    """The remaining budget of steps for a graph, since some graphs need disproportionately many.

    If candidates overlap in ever new ways, growth from every root accepts most of the graph, and then rolls back
    nearly all of it. Networks do not have such graphs; the budget refuses them in seconds instead of hours.
    """

    def __init__(self, operators: int, share: float = 1.0) -> None:
        """Allow the steps that a graph of this size should need; `share` is its fraction of the model's operators."""
        self._operators = operators
        self.left: int = int(_UNITS * share) + _UNITS_PER_OPERATOR * operators

    def spend(self, units: int) -> None:
        """Spend some units. Raises EditError if none are left."""
        self.left -= units
        if self.left < 0:
            message = f"the graph of {self._operators} operators needs too many steps to grow partitions"
            raise EditError(message, hint="`mode=min` accepts any graph")


class Region:
    """A part of a graph; no path between two of its operators leaves it.

    Within the class, operators are identified by their positions in execution order, and sets of operators are bit
    masks: `_reached` and `_reaching` hold the operators that each reaches and that reach it.
    """

    def __init__(
        self, graph: Dag, operators: Sequence[int], devices: Sequence[int], effort: Effort, on_step: OnStep = None
    ) -> None:
        """Start from `operators`, in execution order. Raises EditError if there are too many."""
        count = len(operators)
        if count * count * 3 // 16 > _MEMORY_BYTES:
            message = f"{count} operators are too many to grow partitions from"
            raise EditError(message, hint="`mode=min` accepts any graph")
        self._effort, self._on_step, self._operators = effort, on_step, operators
        self._position = {operator: position for position, operator in enumerate(operators)}
        self._devices = [devices[operator] for operator in operators]  # -1 for operators in a partition
        self._successors, self._predecessors = inside(graph, operators)
        self._neighbors: list[list[int]] = list(map(add, self._successors, self._predecessors))
        self._reached, self._reaching = [0] * count, [0] * count
        for masks, rows, order in (
            (self._reaching, self._predecessors, range(count)),
            (self._reached, self._successors, reversed(range(count))),
        ):
            for position in order:
                for other in rows[position]:
                    masks[position] |= masks[other] | 1 << other
        # No edge passes over a neck. A candidate that grows through a neck and must roll it back also rolls back
        # everything beyond the neck, which touches nothing else. That part need not be visited.
        jumps = [0] * (count + 1)
        for position, row in enumerate(self._successors):
            if row:
                jumps[position + 1] += 1
                jumps[max(row)] -= 1
        self._is_neck = [over == 0 for over in accumulate(jumps[:-1])]

    def partitions(self, operators: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the partitions of some operators of a device that are connected to no others of the device."""
        candidates = _Candidates(operators, self._grow, self._effort)
        while candidates.left:
            best = candidates.take_largest()
            yield tuple(best.members)
            for operator in best.members:
                self._devices[self._position[operator]] = -1
            self._report("select", self._position[best.members[0]])

    def _grow(self, root: int) -> _Candidate:
        """Return the candidate that grows from a root."""
        start = self._position[root]
        device, members, taken_back, seen, rejected = self._devices[start], [start], list[int](), {start}, 0
        # What members reach, what reaches members, and the first and last member, for each number of members.
        bounds = [(self._reached[start], self._reaching[start], start, start)]
        blocked: list[int] = []  # for each number of members, those neighbors that can be in no partition
        agenda = [(0, iter(self._neighbors[start]))]
        self._report("root", start)
        while agenda:
            rank, rest = agenda[-1]
            position = next((other for other in rest if other not in seen), -1)
            if position < 0:
                agenda.pop()
                continue
            seen.add(position)
            self._effort.spend(_STEP + (len(self._operators) + 400 * len(self._neighbors[position])) // _WIDTH)
            if self._devices[position] != device:
                rejected |= 1 << position
                self._report("reject", position)
            else:
                below, above, low, high = bounds[-1]
                # Whatever a successor of a member reaches, the member already reached, and likewise for predecessors.
                if position > members[rank]:
                    above |= self._reaching[position]
                else:
                    below |= self._reached[position]
                members.append(position)
                bounds.append((below, above, min(low, position), max(high, position)))
                neighbors = self._neighbors[position]
                if self._is_neck[position] and not low < position < high and self._on_step is None:
                    self._block(members, blocked, device)
                    if blocked[-1] & below & above:  # it will be visited, and this member rolled back
                        neighbors = (self._predecessors if position > high else self._successors)[position]
                agenda.append((len(members) - 1, iter(neighbors)))
                self._report("merge", position)
            while rejected & bounds[-1][0] & bounds[-1][1]:
                self._effort.spend(_STEP)
                bounds.pop()
                taken_back.append(members.pop())
                rejected |= 1 << taken_back[-1]
                self._report("rollback", taken_back[-1])
            del blocked[len(members) :]
            while agenda and agenda[-1][0] >= len(members):
                agenda.pop()
        return _Candidate([self._operators[at] for at in members], [self._operators[at] for at in taken_back])

    def _block(self, members: Sequence[int], blocked: list[int], device: int) -> None:
        """Extend `blocked` to all members."""
        for position in members[len(blocked) :]:
            mask = blocked[-1] if blocked else 0
            for other in self._neighbors[position]:
                mask |= (self._devices[other] != device) << other
            blocked.append(mask)

    def _report(self, action: str, position: int) -> None:
        if self._on_step is not None:
            self._effort.spend(_REPORT)
            self._on_step(Step(action, self._operators[position]))


class _Candidate(NamedTuple):
    """The operators grown from the first of them, and those that were rolled back."""

    members: list[int]
    taken_back: list[int]


class _Candidates:
    """The candidates of each round. Only operators that the last partition affected are visited again.

    An operator is a root if no candidate with a lower root contains it. `_covers` counts these candidates.
    """

    def __init__(self, operators: Sequence[int], grow: Callable[[int], _Candidate], effort: Effort) -> None:
        self.left = set(operators)
        self._grow, self._effort = grow, effort
        self._grown: dict[int, _Candidate] = {}
        self._visitors: dict[int, list[_Candidate]] = {operator: [] for operator in operators}  # some are out of date
        self._covers, self._roots = dict.fromkeys(operators, 0), set[int]()
        self._waiting, self._sizes = sorted(operators), list[tuple[int, int]]()  # heaps

    def take_largest(self) -> _Candidate:
        """Choose the roots of a round, and remove the largest candidate and those that it affects."""
        self._choose_roots()
        size, root = heappop(self._sizes)
        while root not in self._roots or len(self._grown[root].members) != -size:
            size, root = heappop(self._sizes)
        best = self._grown[root]
        self.left.difference_update(best.members)
        for operator in best.members:
            for candidate in self._visitors.pop(operator):
                root = candidate.members[0]
                if self._grown.get(root) is candidate:
                    if root in self._roots:
                        self._roots.remove(root)
                        self._cover(root, -1)
                    del self._grown[root]
                    heappush(self._waiting, root)
        return best

    def _choose_roots(self) -> None:
        while self._waiting:
            operator = heappop(self._waiting)
            is_root = not self._covers[operator]
            if operator not in self.left or is_root == (operator in self._roots):
                continue
            if is_root and operator not in self._grown:
                self._grown[operator] = candidate = self._grow(operator)
                for other in chain(*candidate):
                    self._visitors[other].append(candidate)
            self._roots ^= {operator}
            self._cover(operator, 1 if is_root else -1)
            if is_root:
                heappush(self._sizes, (-len(self._grown[operator].members), operator))

    def _cover(self, root: int, by: int) -> None:
        """Add a root's candidate to those that cover its members above the root, or remove it."""
        members = self._grown[root].members
        self._effort.spend(len(members))
        for operator in members:
            if operator > root:
                self._covers[operator] += by
                if self._covers[operator] == (by > 0):
                    heappush(self._waiting, operator)
