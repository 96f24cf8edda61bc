"""The cheapest partitions there are, by trying all that may be cheaper: of few operators, or of chains.

Operators are placed one after the other, in an order in which they can run: each joins the partition that is open, or
opens the next. What can follow depends on the operators placed so far, what matters of the open partition, and where
tensors are that are still to be read; of several ways to one such state the cheapest counts. The cheapest goes on
first, with what the other operators take at least: the first that has placed all is the best (P. Hart, N. Nilsson,
B. Raphael, A formal basis for the heuristic determination of minimum cost paths, 1968).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from circletools.affinity.costs.problem import Problem
from circletools.affinity.partition.groups import working
from circletools.affinity.partition.partitions import Partition, with_constants
from circletools.graph.dag import Dag

STEPS = 200_000
"""States that are looked at, of some 10 us each."""
_MANY = 300
"""Of more operators nothing is tried."""
_PER_STEP = 8
"""Operators of an open partition that are worth a step."""
_BETTER = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Keeping:
    """What partitions keep to, asked of operators, ascending, and their device.

    `may_grow` says whether a partition may have these and more, `cost` what they take as one, infinite where they may
    not be. `most` is how many partitions a device may have.
    """

    may_grow: Callable[[tuple[int, ...], int], bool] = lambda _operators, _device: True
    cost: Callable[[tuple[int, ...], int], float] = lambda _operators, _device: 0.0
    most: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest partitions, in an order in which they can run; None where none are below what was asked for.

    `least_us` is what none take less than. Where the steps did not do, `is_known` is false: there may be some.
    """

    partitions: tuple[Partition, ...] | None
    least_us: float
    is_known: bool = True


def cheapest(
    problem: Problem,
    graph: Dag,
    *,
    connected: bool,
    keeping: Keeping | None = None,
    below: float = np.inf,
    steps: int = STEPS,
) -> Cheapest:
    """Return the partitions that take the least time, if that is less than `below`, on devices that have a time.

    `connected` partitions are those of mode `min`; else any operators of a device may be one. After so many steps it
    ends; of many operators nothing is tried.
    """
    if len(graph) > _MANY:
        return Cheapest(None, 0.0, is_known=False)
    found = _Search(problem, graph, keeping, connected=connected).run(below, steps)
    if found.partitions is None:
        return found
    return replace(found, partitions=with_constants(graph, found.partitions))


class _State(NamedTuple):
    """What is placed; operators are bits by their place in the order. `device` is that of the open partition, or -1.

    `opened` has what matters of it: all operators where that is to be asked; of each connected set those beside
    operators that are not placed; or nothing. `counts` are partitions by device that may have so many. `tensors` have
    the devices where each is, 0 where nothing is left to read it.
    """

    placed: int
    opened: tuple[int, ...]
    device: int
    counts: tuple[int, ...]
    tensors: tuple[int, ...]


_Step = tuple[int, bool]
"""The place of an operator, -1 for the end of all, and whether it opens a partition."""


class _Search:
    def __init__(self, problem: Problem, graph: Dag, keeping: Keeping | None, *, connected: bool) -> None:
        operators, work = working(graph)
        self._names = [operators[operator] for operator in work.order]
        place = {operator: at for at, operator in enumerate(work.order)}
        self._before = [_bits(place[other] for other in work.predecessors[operator]) for operator in work.order]
        self._keeping, self._is_whole = keeping or Keeping(), keeping is not None
        self._launch = problem.links.launch_us.tolist()
        self._is_connected = connected and (self._is_whole or any(self._launch))
        self._beside = _beside(work, place)
        times = problem.times_us[self._names]
        least = times.min(axis=1, initial=np.inf)
        self._least_us = float(least.sum())  # infinite where no device takes one
        self._more = (times - np.where(np.isinf(least), 0, least)[:, None]).tolist()
        self._limited = sorted(self._keeping.most)
        self._read: list[list[int]] = [[] for _ in self._names]
        self._made: list[list[int]] = [[] for _ in self._names]
        self._readers: list[int] = []
        self._copies: list[list[list[float]]] = []
        self._add_tensors(problem)

    def _add_tensors(self, problem: Problem) -> None:
        """Keep the tensors whose copies take time."""
        place = {name: at for at, name in enumerate(self._names)}
        for maker, row, copies in problem.copies():
            if copies.any():
                tensor = len(self._copies)
                self._made[place[maker]].append(tensor)
                for reader in row:
                    self._read[place[reader]].append(tensor)
                self._readers.append(_bits(place[reader] for reader in row))
                self._copies.append(copies.tolist())

    def run(self, below: float, steps: int) -> Cheapest:
        if self._least_us == np.inf:
            return Cheapest(None, below)
        start = _State(0, (), -1, (0,) * len(self._limited), (0,) * len(self._copies))
        spent, came = {start: 0.0}, dict[_State, tuple[_State, _Step]]()
        heap, number, most = [(0.0, 0, 0, start)], 0, below * _BETTER - self._least_us
        while heap:
            so_far, left, _, state = heappop(heap)
            if so_far > spent[state]:
                continue
            if state.device < 0 and (state.placed or not self._names):
                return Cheapest(self._partitions(came, state), self._least_us + so_far)
            if number > steps:
                return Cheapest(None, min(below, self._least_us + so_far), is_known=False)
            for step, following, more in self._onward(state):
                total = so_far + more
                if total < most and total < spent.get(following, np.inf):
                    number += 1 + sum(following.opened).bit_count() // _PER_STEP
                    spent[following], came[following] = total, (state, step)
                    heappush(heap, (total, left - 1, number, following))
        return Cheapest(None, below)

    def _partitions(self, came: Mapping[_State, tuple[_State, _Step]], state: _State) -> tuple[Partition, ...]:
        made: list[Partition] = []
        row: list[int] = []
        while state in came:
            device, (state, (at, opens)) = state.device, came[state]
            if at >= 0:
                row.append(self._names[at])
            if opens:
                made.append(Partition(device, tuple(sorted(row))))
                row = []
        return tuple(reversed(made))

    # --- what can follow ------------------------------------------------------------------------------------

    def _onward(self, state: _State) -> Iterator[tuple[_Step, _State, float]]:
        """Yield the steps that can follow, the states they lead to, and what they take."""
        placed, opened, device, counts, _ = state
        closing = self._closing(opened, device)
        if closing < np.inf and placed + 1 == 1 << len(self._names):
            yield (-1, False), _State(placed, (), -1, (), ()), closing
        for at, before in enumerate(self._before):
            if placed >> at & 1 or before & ~placed:
                continue
            after = placed | 1 << at
            for target, more in enumerate(self._more[at]):
                if more == np.inf:
                    continue
                tensors, copies = self._handed_on(state, at, target)
                if target == device:
                    joined = self._joined(opened, at, after, device)
                    if joined is not None:
                        yield (at, False), _State(after, joined, device, counts, tensors), more + copies
                if closing < np.inf and (numbers := self._counted(counts, target)) is not None:
                    alone = self._joined((), at, after, target)
                    if alone is not None:
                        total = closing + self._launch[target] + more + copies
                        yield (at, True), _State(after, alone, target, numbers, tensors), total

    def _closing(self, opened: tuple[int, ...], device: int) -> float:
        """Return what the open partition takes as a whole, infinite where it cannot be one."""
        if device < 0:
            return 0.0
        if not self._is_whole:
            return 0.0 if len(opened) < 2 else np.inf
        if self._is_connected and len(self._sets(_apart(opened[0]))) > 1:
            return np.inf
        return self._keeping.cost(self._operators(opened[0]), device)

    def _joined(self, opened: tuple[int, ...], at: int, after: int, device: int) -> tuple[int, ...] | None:
        """Return what matters of the open partition with one operator more, None where it can never be one."""
        whole = sum(opened) | 1 << at if self._is_whole else 0
        if whole and (whole >> at > 1 or not self._keeping.may_grow(self._operators(whole), device)):
            return None  # operators are placed in order
        if self._is_connected:
            sets = self._sets(_apart(whole) if whole else (*opened, 1 << at))
            ends = [_bits(one for one in _places(some) if self._beside[one] & ~after) for some in sets]
            if len(ends) > 1 and not all(ends):
                return None
            if not whole:
                return tuple(sorted(ends))
        return (whole,) if whole else ()

    def _sets(self, parts: Iterable[int]) -> list[int]:
        """Return parts joined where operators of one are beside those of another."""
        found: list[int] = []
        for part in parts:
            joined, beside = part, 0
            for at in _places(part):
                beside |= self._beside[at]
            for other in [row for row in found if row & beside]:
                found.remove(other)
                joined |= other
            found.append(joined)
        return found

    def _operators(self, whole: int) -> tuple[int, ...]:
        return tuple(sorted(self._names[at] for at in _places(whole)))

    def _counted(self, counts: tuple[int, ...], device: int) -> tuple[int, ...] | None:
        """Return the counts with a partition more, None where that is too many."""
        if device not in self._limited:
            return counts
        at = self._limited.index(device)
        number = counts[at] + 1
        return (*counts[:at], number, *counts[at + 1 :]) if number <= self._keeping.most[device] else None

    def _handed_on(self, state: _State, at: int, device: int) -> tuple[tuple[int, ...], float]:
        """Return the tensors once an operator is placed on a device, and what it takes to bring those that it reads.

        A tensor is the device where it was made, plus 1 shifted left by the number of each device that has a copy.
        """
        read, made = self._read[at], self._made[at]
        if not read and not made:
            return state.tensors, 0.0
        tensors, total, after = list(state.tensors), 0.0, state.placed | 1 << at
        shift = len(self._launch)
        for tensor in read:
            has = tensors[tensor]
            source = (has >> shift) - 1
            if not has >> device & 1:
                total += self._copies[tensor][source][device]
                has |= 1 << device
            tensors[tensor] = has if self._readers[tensor] & ~after else 0
        for tensor in made:
            tensors[tensor] = device + 1 << shift | 1 << device
        return tuple(tensors), total


def _beside(work: Dag, place: Mapping[int, int]) -> list[int]:
    """Return the operators that may share a partition with each because of the two alone, or itself, by place."""
    beside = [_bits(place[other] for other in (*work.successors[at], *work.predecessors[at])) for at in work.order]
    for row in work.beside:
        bits = _bits(place[operator] for operator in row)
        for operator in row:
            beside[place[operator]] |= bits
    return beside


def _bits(places: Iterable[int]) -> int:
    return sum(1 << at for at in set(places))


def _apart(bits: int) -> Iterator[int]:
    return (1 << at for at in _places(bits))


def _places(bits: int) -> Iterator[int]:
    """Yield the places of bits, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
