"""Grow a partition from a root, as specified by the design of OpenVINO's hetero plugin.

    candidate = [root], rejected = []
    while a member has an unvisited neighbour:
        take the first unvisited neighbour (successors ascending, then predecessors) of the member accepted last
        accept it if it has the device and is in no partition, else reject it
        while a rejected operator lies on a path between two members:
            reject the member accepted last

The result equals that of this procedure, operator for operator. Work that cannot affect it is skipped (see
`Region._necks`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.solvers.groups import inside
from circletools.errors import EditError
from circletools.graph.algorithms import Dag

# --- reachability between all pairs of operators, stored as a few numbers for each operator -------------------
# The operators are laid out on chains: each operator reaches all later ones on its chain. All operators it reaches
# are thus described by one number per chain, the first place reached; those that reach it, by the last place.
# Model graphs are long and narrow: a hundred thousand operators need a few chains, whereas one bit for each
# pair would need a gigabyte. (H. V. Jagadish, A compression technique to materialize transitive closure, 1990.)


Matrix = NDArray[np.int32]
NOWHERE = np.int32(2**31 - 1)
"""The place given for a chain that is not reached at all."""
_MEMORY_BYTES = 1 << 27


class Chains:
    """A layout of operators 0..n-1 on chains; the operators must be numbered in execution order.

    `chain` and `place` give each operator's position. `reached[v][c]` is the first place on chain c that v reaches,
    or NOWHERE; `reaching[v][c]` is the last place that reaches v, or -1. An operator does not reach itself.
    """

    def __init__(self, successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]]) -> None:
        """Lay the operators out. Raises EditError if the graph is too wide."""
        self.chain: list[int] = [0] * len(successors)
        self.place: list[int] = [0] * len(successors)
        self.reaching: Matrix = self._lay_out(predecessors)
        self.reached: Matrix = self._look_ahead(successors, self.reaching.shape[1])

    def _look_ahead(self, successors: Sequence[Sequence[int]], width: int) -> Matrix:
        reached = np.full((len(successors), width), NOWHERE, np.int32)
        for operator in range(len(successors) - 1, -1, -1):
            row = reached[operator]
            for successor in successors[operator]:
                np.minimum(row, reached[successor], out=row)
                chain, place = self.chain[successor], self.place[successor]
                row[chain] = min(row[chain], place)
        return reached

    def _lay_out(self, predecessors: Sequence[Sequence[int]]) -> Matrix:
        """Put each operator at the end of a chain whose last operator reaches it."""
        count = len(predecessors)
        reaching = np.full((count, 8), -1, np.int32)
        ends = np.full(8, -2, np.int32)  # -2: the chain does not exist yet
        used = 0
        for operator, row_predecessors in enumerate(predecessors):
            row, chosen = reaching[operator], -1
            for predecessor in row_predecessors:
                np.maximum(row, reaching[predecessor], out=row)
                chain, place = self.chain[predecessor], self.place[predecessor]
                row[chain] = max(row[chain], place)
                if place == ends[chain]:
                    chosen = chain
            if chosen < 0:
                free = np.flatnonzero(row == ends)
                chosen = int(free[0]) if free.size else used
            if chosen == used:
                used += 1
                if used > len(ends):
                    _check_memory(count, 2 * len(ends))
                    reaching = np.concatenate([reaching, np.full_like(reaching, -1)], axis=1)
                    ends = np.concatenate([ends, np.full_like(ends, -2)])
                ends[chosen] = -1
            ends[chosen] += 1
            self.chain[operator], self.place[operator] = chosen, int(ends[chosen])
        return reaching[:, :used].copy()


def _check_memory(count: int, width: int) -> None:
    if count * width * 2 * NOWHERE.itemsize > _MEMORY_BYTES:
        message = f"the graph of {count} operators is more than {width // 2} operators wide"
        raise EditError(message, hint="`mode=min` accepts any graph")


_STEP = 10
"""The cost of a step, in units of a look-up on one chain (about 0.15 us)."""
_UNITS, _UNITS_PER_OPERATOR = 15_000_000, 2000
"""Ten times the units that networks need. Edges are not charged, as they take little room in a file."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of growth, and the members and rejected operators after it, in ascending order."""

    action: str  # root, merge, reject, rollback, select
    operator: int
    members: tuple[int, ...]
    rejected: tuple[int, ...]


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


@dataclass(frozen=True, slots=True)
class Candidate:
    """The operators grown from a root; `taken_back` holds former members."""

    root: int
    members: tuple[int, ...]
    taken_back: tuple[int, ...] = ()

    @property
    def touched(self) -> tuple[int, ...]:
        """The operators that are or have been members."""
        return self.members + self.taken_back


class Region:
    """A part of a graph; no path between two of its operators leaves it.

    Within the class, operators are identified by their positions in execution order.
    """

    def __init__(self, graph: Dag, operators: Sequence[int], devices: Sequence[int], effort: Effort) -> None:
        """Start from `operators`, in execution order. Raises EditError if the graph is too wide."""
        self.effort: Effort = effort
        self.operators: Sequence[int] = operators
        self.position: dict[int, int] = {operator: position for position, operator in enumerate(operators)}
        self.devices: list[int] = [devices[operator] for operator in operators]
        self.successors, self.predecessors = inside(graph, operators)
        self.neighbours: list[list[int]] = list(map(add, self.successors, self.predecessors))
        self.chains: Chains = Chains(self.successors, self.predecessors)
        self.is_neck: list[bool] = self._necks()

    def _necks(self) -> list[bool]:
        """Return a mask of the positions that no edge passes over.

        A candidate that grows through such an operator, and must take it back, also takes back everything beyond it,
        which touches nothing else. That part need not be visited.
        """
        jumps = [0] * (len(self.operators) + 1)
        for position, row in enumerate(self.successors):
            if row:
                jumps[position + 1] += 1
                jumps[max(row)] -= 1
        return [over == 0 for over in accumulate(jumps[:-1])]

    def take(self, operators: Iterable[int]) -> None:
        """Exclude these operators from all further candidates."""
        for operator in operators:
            self.devices[self.position[operator]] = -1

    def grow(self, root: int, on_step: Callable[[Step], None] | None = None) -> Candidate:
        """Return the candidate of a root, which must be in no partition; operators are given by index in the graph.

        Raises EditError once the budget is spent.
        """
        growth = _Growth(self, self.position[root], on_step)
        growth.run()
        members, taken_back = ([self.operators[at] for at in some] for some in (growth.members, growth.taken_back))
        return Candidate(root, tuple(members), tuple(taken_back))


_Bounds = tuple[Matrix, Matrix, int, int]
"""Bounds of the operators between members on each chain, and the lowest and highest position of a member."""


class _Growth:
    """One candidate during its growth; operators are given as positions.

    Each member keeps the bounds from when it was accepted: on each chain, the first place that a member reaches and
    the last place that reaches a member. Operators on paths between members lie between the two.
    """

    def __init__(self, region: Region, root: int, on_step: Callable[[Step], None] | None) -> None:
        self.region, self.on_step = region, on_step
        self.device = region.devices[root]
        self.members = [root]
        self.taken_back: list[int] = []
        self._seen = {root}
        self._bounds: list[_Bounds] = [(region.chains.reached[root], region.chains.reaching[root], root, root)]
        self._rejected = _Places(region)
        self._log: list[int] = []  # rejected operators, as reported in steps
        self._blocked = _Places(region)  # neighbours of members that can be in no partition
        self._noted = 0  # the number of members covered; further ones are added on demand
        self._agenda = [(0, iter(region.neighbours[root]))]

    def run(self) -> None:
        self._report_step("root", self.members[0])
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
        # Whatever a successor of a member reaches, the member already reached, and likewise for predecessors.
        if after:
            last = np.maximum(last, region.chains.reaching[position])
        else:
            first = np.minimum(first, region.chains.reached[position])
        self.members.append(position)
        # Without `min` and `max`, since most of the time is spent here.
        self._bounds.append((first, last, position if position < low else low, position if position > high else high))
        neighbours = region.neighbours[position]
        if region.is_neck[position] and not low < position < high and self._must_roll_back():
            neighbours = (region.predecessors if position > high else region.successors)[position]
        self._agenda.append((len(self.members) - 1, iter(neighbours)))
        if self.on_step is not None:
            self._report_step("merge", position)

    def _must_roll_back(self) -> bool:
        """Return whether the member accepted last is certain to be taken back.

        This is so if a neighbour that can be in no partition lies between members, because it will be visited.
        """
        if self.on_step is not None:
            return False
        for position in self.members[self._noted :]:
            for neighbour in self._blocked_neighbours(position):
                self._blocked.add(neighbour)
        self._noted = len(self.members)
        return self._blocked.any_within(self._bounds[-1])

    def _blocked_neighbours(self, position: int) -> list[int]:
        devices = self.region.devices
        return [other for other in self.region.neighbours[position] if devices[other] != self.device]

    def _reject(self, action: str, position: int) -> None:
        self._rejected.add(position)
        if self.on_step is not None:
            self._log.append(position)
            self._report_step(action, position)

    def _roll_back(self) -> None:
        """Take members back until no rejected operator lies between two members."""
        while self._rejected.any_within(self._bounds[-1]):
            position = self.members.pop()
            self.taken_back.append(position)
            self._bounds.pop()
            if self._noted > len(self.members):
                self._noted = len(self.members)
                for neighbour in self._blocked_neighbours(position):
                    self._blocked.remove(neighbour)
            self._reject("rollback", position)
        while self._agenda and self._agenda[-1][0] >= len(self.members):
            self._agenda.pop()

    def _report_step(self, action: str, position: int) -> None:
        if self.on_step is not None:  # callers usually check this
            back = self.region.operators
            members, rejected = (tuple(sorted(back[at] for at in some)) for some in (self.members, self._log))
            self.on_step(Step(action, back[position], members, rejected))


class _Places:
    """A multiset of operators as places on their chains, used to test whether any lies within bounds."""

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
