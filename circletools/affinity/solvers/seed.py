"""The partitions of the OpenVINO hetero plugin's design: devices in turn, the largest candidate first.

    for each device, in the given order:
        while it has operators in no partition:
            grow a candidate from each of them, in ascending order, unless a candidate of this round contains it
            make the largest candidate a partition (of equal ones, the one with the lowest root)

A candidate grows from its root:

    candidate = [root], rejected = []
    while a member has an unvisited neighbour:
        take the first unvisited neighbour (successors ascending, then predecessors) of the member accepted last
        accept it if it has the device and is in no partition, else reject it
        while a rejected operator lies on a path between two members:
            reject the member accepted last

The resulting partitions may wait for each other. They equal those of this procedure, operator for operator. Work that
cannot affect them is skipped: a connected set of operators on a device is the candidate of each of its members unless
a path leaves the set and returns. Such a path needs a cycle in the graph of these sets, so only sets on cycles grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

from circletools.affinity.solvers.groups import connected, group_successors, inside, members_of
from circletools.errors import EditError
from circletools.graph.algorithms import Dag, strong_components


@dataclass(frozen=True, slots=True)
class Step:
    """One step of growth, and the members and rejected operators after it, in ascending order."""

    action: str  # root, merge, reject, rollback, select
    operator: int
    members: tuple[int, ...]
    rejected: tuple[int, ...]


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
_UNITS, _UNITS_PER_OPERATOR = 15_000_000, 2000
"""Ten times the units that networks need."""


class Effort:
    """The remaining budget of steps for a graph, since some graphs need disproportionately many.

    If candidates overlap in ever new ways, growth from every root takes in most of the graph, and then gives back
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
        self._neighbours: list[list[int]] = list(map(add, self._successors, self._predecessors))
        self._reached, self._reaching = [0] * count, [0] * count
        for masks, rows, order in (
            (self._reaching, self._predecessors, range(count)),
            (self._reached, self._successors, reversed(range(count))),
        ):
            for position in order:
                for other in rows[position]:
                    masks[position] |= masks[other] | 1 << other
        # No edge passes over a neck. A candidate that grows through a neck, and must take it back, also takes back
        # everything beyond it, which touches nothing else. That part need not be visited.
        jumps = [0] * (count + 1)
        for position, row in enumerate(self._successors):
            if row:
                jumps[position + 1] += 1
                jumps[max(row)] -= 1
        self._is_neck = [over == 0 for over in accumulate(jumps[:-1])]

    def partitions(self, operators: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the partitions of some operators of a device that are connected to no others of the device."""
        left, grown = list(operators), dict[int, tuple[list[int], list[int]]]()  # members and former members by root
        while left:
            covered, best, largest = set[int](), -1, list[int]()
            for root in left:
                if root not in covered:
                    if root not in grown:
                        grown[root] = self._grow(root)
                    covered.update(grown[root][0])
                    if len(grown[root][0]) > len(largest):
                        best, largest = root, grown[root][0]
            yield tuple(largest)
            taken = set(largest)
            left = [operator for operator in left if operator not in taken]
            grown = {root: rows for root, rows in grown.items() if all(map(taken.isdisjoint, rows))}
            for operator in largest:
                self._devices[self._position[operator]] = -1
            if self._on_step is not None:
                self._on_step(Step("select", best, tuple(sorted(largest)), ()))

    def _grow(self, root: int) -> tuple[list[int], list[int]]:
        """Return the operators grown from a root, and those that were taken back."""
        start = self._position[root]
        device, members, taken_back, seen, rejected = self._devices[start], [start], list[int](), {start}, 0
        # What members reach, what reaches members, and the first and last member, for each number of members.
        bounds = [(self._reached[start], self._reaching[start], start, start)]
        blocked: list[int] = []  # for each number of members, those neighbours that can be in no partition
        agenda = [(0, iter(self._neighbours[start]))]
        self._report("root", start, members, rejected)
        while agenda:
            rank, rest = agenda[-1]
            position = next((other for other in rest if other not in seen), -1)
            if position < 0:
                agenda.pop()
                continue
            seen.add(position)
            self._effort.spend(_STEP + (len(self._operators) + 400 * len(self._neighbours[position])) // _WIDTH)
            if self._devices[position] != device:
                rejected |= 1 << position
                self._report("reject", position, members, rejected)
            else:
                below, above, low, high = bounds[-1]
                # Whatever a successor of a member reaches, the member already reached, and likewise for predecessors.
                if position > members[rank]:
                    above |= self._reaching[position]
                else:
                    below |= self._reached[position]
                members.append(position)
                bounds.append((below, above, min(low, position), max(high, position)))
                neighbours = self._neighbours[position]
                if self._is_neck[position] and not low < position < high and self._on_step is None:
                    self._block(members, blocked, device)
                    if blocked[-1] & below & above:  # it will be visited, and this member taken back
                        neighbours = (self._predecessors if position > high else self._successors)[position]
                agenda.append((len(members) - 1, iter(neighbours)))
                self._report("merge", position, members, rejected)
            while rejected & bounds[-1][0] & bounds[-1][1]:
                self._effort.spend(_STEP)
                bounds.pop()
                taken_back.append(members.pop())
                rejected |= 1 << taken_back[-1]
                self._report("rollback", taken_back[-1], members, rejected)
            del blocked[len(members) :]
            while agenda and agenda[-1][0] >= len(members):
                agenda.pop()
        return [self._operators[at] for at in members], [self._operators[at] for at in taken_back]

    def _block(self, members: Sequence[int], blocked: list[int], device: int) -> None:
        """Extend `blocked` to all members."""
        for position in members[len(blocked) :]:
            mask = blocked[-1] if blocked else 0
            for other in self._neighbours[position]:
                mask |= (self._devices[other] != device) << other
            blocked.append(mask)

    def _report(self, action: str, position: int, members: Sequence[int], rejected: int) -> None:
        if self._on_step is not None:
            back = self._operators
            out = tuple(sorted(back[at] for at in range(rejected.bit_length()) if rejected >> at & 1))
            self._on_step(Step(action, back[position], tuple(sorted(back[at] for at in members)), out))
