"""Growing a partition from a root, as OpenVINO's hetero plugin design has it.

    candidate = [root], rejected = []
    while a member has a neighbour that was not looked at:
        take the member accepted last, and of its neighbours the first: successors ascending, then predecessors
        accept it when the device is right and no partition has it, else reject it
        while a rejected operator lies on a path between two members:
            reject the member accepted last

The result is that of the procedure above, operator for operator. What is left out is work that cannot matter: see
`_Region.is_neck`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

import numpy as np

from circletools.affinity.solvers.chains import Chains, Matrix
from circletools.affinity.solvers.groups import inside
from circletools.errors import EditError
from circletools.graph.dag import Dag

_STEP = 10
"""The cost of a step, in units: one is a look at one chain, about 0.15 us."""
_UNITS, _UNITS_PER_OPERATOR = 15_000_000, 2000
"""Ten times what graphs of networks need. Edges do not count: in a file they are cheap."""


@dataclass(frozen=True, slots=True)
class Step:
    """The effect of one step of growing, and the remaining operators, ascending."""

    action: str  # root, merge, reject, rollback, select
    operator: int
    members: tuple[int, ...]
    rejected: tuple[int, ...]


class Effort:
    """The remaining budget for growing in a graph; for some it is out of proportion to their size.

    Where candidates overlap in ever new ways, every root grows through most of the graph, only to take nearly all of
    it back. The graphs of networks do not; those that do are refused in a few seconds, and not after hours.
    """

    def __init__(self, operators: int, share: float = 1.0) -> None:
        """Allow what a graph of so many operators should need, which are a share of those of the model."""
        self._operators = operators
        self.left: int = int(_UNITS * share) + _UNITS_PER_OPERATOR * operators

    def spend(self, units: int) -> None:
        """Take units away. Raises EditError when there are none left."""
        self.left -= units
        if self.left < 0:
            message = f"the graph of {self._operators} operators takes too many steps to grow partitions in"
            raise EditError(message, hint="`mode=min` takes any graph")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What grew from a root; `taken_back` are those that were members for a time."""

    root: int
    members: tuple[int, ...]
    taken_back: tuple[int, ...] = ()

    @property
    def touched(self) -> tuple[int, ...]:
        """The operators that were members at some time."""
        return self.members + self.taken_back


class Region:
    """Part of a graph that every path between two of its operators stays in.

    Inside, an operator goes by its position in execution order.
    """

    def __init__(self, graph: Dag, operators: Sequence[int], devices: Sequence[int], effort: Effort) -> None:
        """Take `operators`, in execution order. Raises EditError for a graph that is too wide."""
        self.effort: Effort = effort
        self.operators: Sequence[int] = operators
        self.position: dict[int, int] = {operator: position for position, operator in enumerate(operators)}
        self.devices: list[int] = [devices[operator] for operator in operators]
        self.successors, self.predecessors = inside(graph, operators)
        self.neighbours: list[list[int]] = list(map(add, self.successors, self.predecessors))
        self.chains: Chains = Chains(self.successors, self.predecessors)
        self.is_neck: list[bool] = self._necks()

    def _necks(self) -> list[bool]:
        """Say of each position whether no edge jumps over it.

        Whoever grows through such an operator, and is bound to take it back, takes back all that lies beyond, which
        touches nothing else. So it need not be looked at.
        """
        jumps = [0] * (len(self.operators) + 1)
        for position, row in enumerate(self.successors):
            if row:
                jumps[position + 1] += 1
                jumps[max(row)] -= 1
        return [over == 0 for over in accumulate(jumps[:-1])]

    def take(self, operators: Iterable[int]) -> None:
        """Let no candidate have these any more."""
        for operator in operators:
            self.devices[self.position[operator]] = -1

    def grow(self, root: int, on_step: Callable[[Step], None] | None = None) -> Candidate:
        """Return the candidate of a root, which must not be taken; operators go by their index in the graph.

        Raises EditError when no effort is left.
        """
        growth = _Growth(self, self.position[root], on_step)
        growth.run()
        members, taken_back = ([self.operators[at] for at in some] for some in (growth.members, growth.taken_back))
        return Candidate(root, tuple(members), tuple(taken_back))


_Bounds = tuple[Matrix, Matrix, int, int]
"""What lies between members: the bounds on each chain, and the lowest and highest position of a member."""


class _Growth:
    """One candidate as it grows; operators go by position.

    With each member go the bounds at its time: of the places on each chain, the first that a member reaches and the
    last that reaches a member. Between the two lie the operators on paths between members.
    """

    def __init__(self, region: Region, root: int, on_step: Callable[[Step], None] | None) -> None:
        self.region, self.on_step = region, on_step
        self.device = region.devices[root]
        self.members = [root]
        self.taken_back: list[int] = []
        self._seen = {root}
        self._bounds: list[_Bounds] = [(region.chains.reached[root], region.chains.reaching[root], root, root)]
        self._rejected = _Places(region)
        self._log: list[int] = []  # the rejected, for the steps
        self._untakeable = _Places(region)  # the neighbours of members that no partition can take
        self._noted = 0  # how many members that goes for; the rest follows when it is asked for
        self._agenda = [(0, iter(region.neighbours[root]))]

    def run(self) -> None:
        self._tell("root", self.members[0])
        while self._agenda:
            rank, neighbours = self._agenda[-1]
            for neighbour in neighbours:
                if neighbour not in self._seen:
                    self._seen.add(neighbour)
                    self._look_at(neighbour, after=neighbour > self.members[rank])
                    break
            else:
                self._agenda.pop()

    def _look_at(self, position: int, *, after: bool) -> None:
        self.region.effort.spend(_STEP + len(self.region.neighbours[position]) // 8)
        if self.region.devices[position] == self.device:
            self._accept(position, after)
            broken = self._rejected.any_within(self._bounds[-1])
        else:
            self._reject("reject", position)
            broken = self._rejected.is_within(position, self._bounds[-1])
        if broken:
            self._roll_back()

    def _accept(self, position: int, after: bool) -> None:
        region = self.region
        first, last, low, high = self._bounds[-1]
        # What a successor of a member reaches, a member reached before; a predecessor the other way round.
        if after:
            last = np.maximum(last, region.chains.reaching[position])
        else:
            first = np.minimum(first, region.chains.reached[position])
        self.members.append(position)
        # No `min` and `max`: this is where the time goes.
        self._bounds.append((first, last, position if position < low else low, position if position > high else high))
        neighbours = region.neighbours[position]
        if region.is_neck[position] and not low < position < high and self._is_doomed():
            neighbours = (region.predecessors if position > high else region.successors)[position]
        self._agenda.append((len(self.members) - 1, iter(neighbours)))
        if self.on_step is not None:
            self._tell("merge", position)

    def _is_doomed(self) -> bool:
        """Say whether the member accepted last is sure to be taken back.

        It is if a neighbour that no partition can take lies between members: the neighbour will be examined.
        """
        if self.on_step is not None:
            return False
        for position in self.members[self._noted :]:
            for neighbour in self._untakeable_beside(position):
                self._untakeable.add(neighbour)
        self._noted = len(self.members)
        return self._untakeable.any_within(self._bounds[-1])

    def _untakeable_beside(self, position: int) -> list[int]:
        devices = self.region.devices
        return [other for other in self.region.neighbours[position] if devices[other] != self.device]

    def _reject(self, action: str, position: int) -> None:
        self._rejected.add(position)
        if self.on_step is not None:
            self._log.append(position)
            self._tell(action, position)

    def _roll_back(self) -> None:
        """Take members back until no rejected operator lies between two."""
        while self._rejected.any_within(self._bounds[-1]):
            position = self.members.pop()
            self.taken_back.append(position)
            self._bounds.pop()
            if self._noted > len(self.members):
                self._noted = len(self.members)
                for neighbour in self._untakeable_beside(position):
                    self._untakeable.remove(neighbour)
            self._reject("rollback", position)
        while self._agenda and self._agenda[-1][0] >= len(self.members):
            self._agenda.pop()

    def _tell(self, action: str, position: int) -> None:
        if self.on_step is not None:  # asked before too, where it happens often
            back = self.region.operators
            members, rejected = (tuple(sorted(back[at] for at in some)) for some in (self.members, self._log))
            self.on_step(Step(action, back[position], members, rejected))


class _Places:
    """Operators as places on their chains, to ask whether one lies within bounds; each as often as it was added."""

    def __init__(self, region: Region) -> None:
        self._chain, self._place = region.chains.chain, region.chains.place
        self._effort = region.effort
        self._places: dict[int, list[int]] = {}  # ascending

    def add(self, position: int) -> None:
        insort(self._places.setdefault(self._chain[position], []), self._place[position])

    def remove(self, position: int) -> None:
        places = self._places[self._chain[position]]
        del places[bisect_left(places, self._place[position])]

    def is_within(self, position: int, bounds: _Bounds) -> bool:
        chain = self._chain[position]
        return bool(bounds[0][chain] <= self._place[position] <= bounds[1][chain])

    def any_within(self, bounds: _Bounds) -> bool:
        self._effort.spend(_STEP + len(self._places))
        first, last, _, _ = bounds
        for chain, places in self._places.items():
            at = bisect_left(places, first[chain])
            if at < len(places) and places[at] <= last[chain]:
                return True
        return False
