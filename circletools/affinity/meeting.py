"""Partitions that keep to all limits, by trying everything: for where moving operators away leads to none.

Without costs the best leave most operators where they are, and are the fewest. Nothing is said to be impossible that
was not tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.exact import STEPS, Cheapest, Keeping, cheapest
from circletools.affinity.costs.problem import Indices, Links, Problem
from circletools.affinity.limiting import LimitError, Room
from circletools.affinity.partition.groups import connected, gathered, members_of
from circletools.affinity.partition.partitions import Partition
from circletools.errors import EditError

_STEPS_AGAIN = STEPS // 8
"""For each limit and rule of which is asked whether it could be met without."""


def meet(room: Room, numbers: Sequence[int], unmet: LimitError, *, connected: bool) -> tuple[Partition, ...]:
    """Return the best partitions of units that keep to the limits; `numbers` are the devices that units have.

    Raises EditError where there are none, naming limits and rules that exclude each other, and where none were found.
    """
    everything = _Everything(room, numbers, connected)
    found = everything.look()
    if found.partitions is not None:
        return found.partitions
    if not found.is_known:
        raise unmet.not_found()
    everything, names = _excluding(everything)
    if [limit for _, limit in everything.room.limits] == [unmet.limit]:
        raise unmet
    raise EditError(f"{' and '.join(names)} cannot be met" + " together" * (len(names) > 1))


@dataclass(frozen=True, slots=True)
class _Everything:
    """What may be tried: with rules, but for those at the places `without`."""

    room: Room
    numbers: Sequence[int]
    connected: bool
    without: frozenset[str] = frozenset()

    def look(self, steps: int = STEPS) -> Cheapest:
        """Return the best partitions that keep to the limits."""
        problem, dearest = self._problem()
        most = {device: int(limit.number) for device, limit in self.room.limits if limit.kind == "max-partitions"}
        keeping = Keeping(self._may_grow, lambda units, device: self._cost(units, device, dearest), most)
        return cheapest(problem, self.room.units.graph, connected=self.connected, keeping=keeping, steps=steps)

    def is_impossible(self) -> bool:
        """Say whether it is certain that nothing keeps to the limits."""
        found = self.look(_STEPS_AGAIN)
        return found.partitions is None and found.is_known

    def _may_grow(self, units: tuple[int, ...], device: int) -> bool:
        weigh = self.room.weights.of
        own = (limit for number, limit in self.room.limits if limit.parts and number == device)
        return all(weigh(limit.measure, units, device) <= limit.number for limit in own)

    def _cost(self, units: tuple[int, ...], device: int, dearest: float) -> float:
        room, weigh = self.room, self.room.weights.of
        for number, limit in room.limits:
            its = number == device and limit.kind.startswith("min")
            if its and weigh(limit.measure, units, device) < limit.number:
                return float(np.inf)
        return dearest if room.is_small(units, device) else 0.0

    def _problem(self) -> tuple[Problem, float]:
        """Return the problem of what may go where, and more than anything takes in it."""
        room, able = self.room, self._able()
        rows = np.arange(len(able))
        if room.problem is not None:
            times = np.where(np.isfinite(room.problem.times_us), room.problem.times_us, 0)
            problem = replace(room.problem, times_us=np.where(able, times, np.inf))
        else:
            weights = np.array([room.weights.of("operators", [unit], 0) for unit in rows.tolist()])
            count = able.shape[1]
            # More than all partitions, each of which has one operator or more; and the devices less than a partition.
            times = np.tile(weights[:, None] * weights.sum(), (1, count))
            times[:, list(room.refuges)] += np.arange(1, count + 1) / (count * len(rows) + 1)
            times[rows, self.numbers] = 0
            none: Indices = np.zeros(0, np.int64)
            free = Links(np.zeros((count, count)), np.zeros((count, count)), np.ones(count))
            problem = Problem(np.where(able, times, np.inf), none, np.zeros(0), none, none, free)
        links, sizes = problem.links, problem.sizes_bytes
        copies = links.overhead_us.max(initial=0) * len(sizes) + links.us_per_byte.max(initial=0) * sizes.sum()
        launches = links.launch_us.max(initial=0) * len(rows)
        return problem, float(times.max(axis=1, initial=0).sum() + able.shape[1] * copies + launches + 1)

    def _able(self) -> NDArray[np.bool_]:
        """Say which device a unit may go to, where it is not too large by itself nor all it can be with too small."""
        room, devices = self.room, range(len(self.room.refuges))

        def may_go(unit: int, number: int, device: int) -> bool:
            rule = room.rule(unit)
            free = (rule is None or rule.place in self.without) and room.takes(unit, device)
            return (free or device == number) and self._may_grow((unit,), device)

        able = [[may_go(unit, number, device) for device in devices] for unit, number in enumerate(self.numbers)]
        table = np.array(able, np.bool_).reshape(len(self.numbers), len(devices))
        for device, limit in room.limits:
            if limit.kind.startswith("min"):
                for units in self._largest(table[:, device]):
                    if room.weights.of(limit.measure, units, device) < limit.number:
                        table[units, device] = False
        return table

    def _largest(self, able: NDArray[np.bool_]) -> list[list[int]]:
        """Return the sets that partitions are part of on a device that is able to take some units, and other sets."""
        graph = self.room.units.graph
        takes = [int(one) for one in able]
        for unit in graph.constants:  # they connect nothing
            takes[unit] = 0
        labels = [-1 if one else unit for unit, one in enumerate(takes)]
        return members_of(connected(graph, labels)) if self.connected else gathered(2, takes, range(len(takes)))


def _excluding(everything: _Everything) -> tuple[_Everything, list[str]]:
    """Return limits and rules that exclude each other: without those that were left out it is impossible, too."""
    for limit in everything.room.limits:
        rest = [other for other in everything.room.limits if other != limit]
        fewer = replace(everything, room=replace(everything.room, limits=rest))
        if rest and fewer.is_impossible():
            everything = fewer
    rules = {rule.place: rule for unit in range(len(everything.numbers)) if (rule := everything.room.rule(unit))}
    for place in sorted(rules):
        fewer = replace(everything, without=everything.without | {place})
        if fewer.is_impossible():
            everything = fewer
    names = [str(limit) for _, limit in everything.room.limits]
    return everything, [*names, *(f"rule {place}" for place in sorted(set(rules) - everything.without))]
