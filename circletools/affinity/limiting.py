"""Partitions that keep to limits: what is too small or too many goes to another device, what is too large is parted.

An operator that a rule puts on a device stays there. Of more partitions than a device may have those stay that save
most: in time where costs are known, else those of most operators, then of most bytes. An operator that left a device
does not come back, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np

from circletools.affinity.assign.rules import Rule
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.problem import Problem
from circletools.affinity.limits import Limit, Weights
from circletools.affinity.partition.contraction import Contraction
from circletools.affinity.partition.groups import connected, graph_inside, members_of
from circletools.affinity.partition.partitions import Partition
from circletools.affinity.units import Units
from circletools.errors import EditError
from circletools.wording import counted, ranges

_CHOICES, _WORK = 300, 300_000
"""Choices of what to keep that are all tried, and how many operators may be partitioned for that."""

Partitioner = Callable[[Sequence[int]], tuple[Partition, ...]]


@dataclass(frozen=True, slots=True)
class Room:
    """What limits look at in a subgraph, all by unit.

    `limits` go with the number of their device. `takes` says whether a device takes a unit, `rule` which rule puts it
    where it is. `refuges` are devices in the order in which they take what is moved. `fits` says whether partitions
    of units fit into the memory of devices.
    """

    units: Units
    limits: Sequence[tuple[int, Limit]]
    min_size: int
    weights: Weights
    problem: Problem | None
    takes: Callable[[int, int], bool]
    rule: Callable[[int], Rule | None]
    refuges: Sequence[int]
    fits: Callable[[Sequence[Partition]], bool]

    def is_small(self, units: Sequence[int], device: int) -> bool:
        """Say whether a partition has fewer operators than it should have."""
        return device != self.refuges[0] and self.weights.of("operators", units, device) < self.min_size


class LimitError(EditError):
    """A limit that could not be met by moving units away; `limit` is the first of them."""

    def __init__(self, limit: Limit, words: str) -> None:
        """Take the limit, and why it is not met."""
        super().__init__(f"{limit} cannot be met: {words}")
        self.limit, self.words = limit, words

    def not_found(self) -> EditError:
        """Return the error for where it is not known whether it could be met."""
        hint = "there may be something: name devices by rules, or ask for less"
        return EditError(f"nothing was found that keeps to {self.limit}: {self.words}", hint=hint)


class Limiter:
    """Moves units until limits hold. `moved` has why a unit is no longer where it was, `left` what is too small."""

    def __init__(self, room: Room, partitioner: Partitioner) -> None:
        self._room, self._partitioner = room, partitioner
        self._numbers: list[int] = []
        self._left_from: set[tuple[int, int]] = set()
        self.moved: dict[int, str] = {}
        self.left: list[Partition] = []

    def settle(self, numbers: Sequence[int]) -> list[int]:
        """Return the device of each unit. Raises LimitError where that does not lead to what keeps to a limit."""
        self._numbers = list(numbers)
        self._empty_the_large()
        while True:
            partitions = self.partitions(self._numbers)
            if not self._move_small(partitions) and not self._move_many(partitions):
                return self._numbers

    def partitions(self, numbers: Sequence[int]) -> tuple[Partition, ...]:
        """Return partitions of units, none larger than the limits say."""
        made = self._partitioner(numbers)
        parted: list[Partition] = []
        for partition in made:
            limits = [limit for device, limit in self._room.limits if limit.parts and device == partition.device]
            parted += self._parted(partition, limits) if limits else [partition]
        return tuple(parted)

    # --- too large ------------------------------------------------------------------------------------------

    def _fits(self, units: Iterable[int], device: int, limits: Sequence[Limit]) -> bool:
        chosen = list(units)
        return all(self._room.weights.of(limit.measure, chosen, device) <= limit.number for limit in limits)

    def _parted(self, partition: Partition, limits: Sequence[Limit]) -> list[Partition]:
        """Return what fits, in the order it runs: by merging as far as there is room, or cut at even distances."""
        device = partition.device
        if self._fits(partition.operators, device, limits):
            return [partition]
        graph = self._room.units.graph
        constants = set(graph.constants)
        place = {unit: at for at, unit in enumerate(graph.order)}
        units = sorted(set(partition.operators) - constants, key=place.__getitem__)
        found = [self._merged(units, device, limits)]
        for count in range(2, len(found[0]) + 1):
            even = self._evenly(units, count)
            if all(self._fits(row, device, limits) for row in even):
                found.append(even)
                break
        best = min(found, key=lambda rows: (len(rows), -min(map(len, rows))))
        home = {unit: row for row in reversed(best) for unit in row}
        for unit in sorted(constants.intersection(partition.operators), key=place.__getitem__, reverse=True):
            home[unit] = min((home[reader] for reader in graph.successors[unit] if reader in home), key=best.index)
            home[unit].append(unit)
        return [Partition(device, tuple(sorted(row))) for row in best]

    def _merged(self, units: Sequence[int], device: int, limits: Sequence[Limit]) -> list[list[int]]:
        inside = graph_inside(self._room.units.graph, units, [device] * len(self._numbers))
        contraction = Contraction(inside)
        rows = {at: [unit] for at, unit in enumerate(units)}
        for target, sources in enumerate(inside.predecessors):
            for source in sources:
                one, other = contraction.find(source), contraction.find(target)
                if one != other and self._fits((*rows[one], *rows[other]), device, limits):
                    both = rows[one] + rows[other]
                    if contraction.merge((one, other)):
                        rows[contraction.find(one)] = both
        return [[units[at] for at in row] for row in members_of(contraction.homes())]

    def _evenly(self, units: Sequence[int], count: int) -> list[list[int]]:
        graph, size = self._room.units.graph, len(units)
        rows: list[list[int]] = []
        for at in range(count):
            row = list(units[at * size // count : (at + 1) * size // count])
            label = dict.fromkeys(row, 0)
            group = connected(graph, [label.get(unit, unit + 1) for unit in range(len(graph))])
            kept: dict[int, list[int]] = {}
            for unit in row:
                kept.setdefault(group[unit], []).append(unit)
            rows += kept.values()
        return rows

    def _empty_the_large(self) -> None:
        """Move units that are too large for a partition by themselves."""
        for device, limit in self._room.limits:
            if limit.parts:
                for unit, number in enumerate(self._numbers):
                    if number == device and not self._fits([unit], device, [limit]):
                        self._move_or_refuse([Partition(device, (unit,))], limit, f"{limit}: it is larger")

    # --- too small, and too many ----------------------------------------------------------------------------

    def _move_small(self, partitions: Sequence[Partition]) -> bool:
        room, moved = self._room, False
        self.left = []
        for partition in partitions:
            device = partition.device
            if room.is_small(partition.operators, device):
                target = self._elsewhere(partition)
                if target is None or not self._has_room(partitions, target):
                    self.left.append(partition)
                else:
                    fewer = f"fewer than {counted(room.min_size, 'operator')}"
                    self._move(partition, target, f"its partition was too small on {{}}: {fewer}")
                    moved = True
                    continue
            for number, limit in room.limits:
                its = limit.kind.startswith("min") and number == device
                if its and room.weights.of(limit.measure, partition.operators, device) < limit.number:
                    self._move_or_refuse([partition], limit, f"its partition was too small on {{}}: {limit}")
                    moved = True
                    break
        return moved

    def _move_many(self, partitions: Sequence[Partition]) -> bool:
        for device, limit in self._room.limits:
            own = [partition for partition in partitions if partition.device == device]
            if limit.kind == "max-partitions" and len(own) > limit.number:
                surplus = len(own) - int(limit.number)
                able = [one for one in own if self._elsewhere(one) is not None]
                if len(able) < surplus:
                    stay = [one for one in own if one not in able]
                    raise self._refusal(limit, stay, f"{counted(len(own), 'partition')}, {len(stay)} of which stay")
                for partition in self._least(able, surplus):
                    target = self._elsewhere(partition)
                    assert target is not None
                    self._move(partition, target, f"other partitions save more on {{}}: {limit}")
                return True
        return False

    def _least(self, able: Sequence[Partition], surplus: int) -> Sequence[Partition]:
        """Return partitions that save least, as many as have to go or, of many, some of these."""
        room, device = self._room, able[0].device
        if room.problem is None:
            weigh = room.weights.of

            def size(one: Partition) -> tuple[float, float]:
                return weigh("operators", one.operators, device), weigh("bytes", one.operators, device)

            return sorted(able, key=size)[:surplus]
        choices = comb(len(able), surplus)
        if choices <= _CHOICES and choices * len(self._numbers) <= _WORK:
            return min(combinations(able, surplus), key=self._total_without)
        some = max(1, surplus // 2)
        return sorted(able, key=lambda one: self._total_without([one]))[:some]

    def _total_without(self, gone: Sequence[Partition]) -> float:
        """Return the total time with partitions moved away."""
        problem, numbers = self._room.problem, list(self._numbers)
        assert problem is not None
        for partition in gone:
            target = self._elsewhere(partition)
            for unit in partition.operators:
                numbers[unit] = target[unit] if target else numbers[unit]
        few = len(numbers) * _CHOICES <= _WORK
        launched = [partition.device for partition in self._partitioner(numbers)] if few else []
        total = evaluate(problem, numbers, launched).total_us
        return total if few else total - float(sum(problem.links.launch_us[one.device] for one in gone))

    # --- where to -------------------------------------------------------------------------------------------

    def _elsewhere(self, partition: Partition) -> dict[int, int] | None:
        """Return the device that each unit of a partition can go to, one for all if possible; None where one stays.

        With costs it is the cheapest.
        """
        room, units = self._room, partition.operators
        if any(room.rule(unit) for unit in units):
            return None
        others = [device for device in room.refuges if device != partition.device]
        able = {
            unit: [
                device for device in others if (unit, device) not in self._left_from and self._can_go(unit, device)
            ]
            for unit in units
        }
        common = [device for device in others if all(device in able[unit] for unit in units)]
        if common and room.problem is not None and len(common) > 1:
            common = [min(common, key=lambda device: self._total_with(units, device))]
        if common:
            return dict.fromkeys(units, common[0])
        if not all(able.values()):
            return None
        return {unit: able[unit][0] for unit in units}

    def _has_room(self, partitions: Sequence[Partition], target: Mapping[int, int]) -> bool:
        """Say whether units that move to a device fit into its memory, or did not fit where they were."""
        numbers = [target.get(unit, number) for unit, number in enumerate(self._numbers)]
        return not self._room.fits(partitions) or self._room.fits(self.partitions(numbers))

    def _can_go(self, unit: int, device: int) -> bool:
        """Say whether a device takes a unit, and it is not too large for a partition there."""
        room = self._room
        limits = [limit for number, limit in room.limits if limit.parts and number == device]
        return room.takes(unit, device) and self._fits([unit], device, limits)

    def _total_with(self, units: Sequence[int], device: int) -> float:
        assert self._room.problem is not None
        numbers = np.array(self._numbers, np.int64)
        numbers[list(units)] = device
        return evaluate(self._room.problem, numbers).total_us

    def _move(self, partition: Partition, target: dict[int, int], words: str) -> None:
        for unit in partition.operators:
            self._numbers[unit] = target[unit]
            self._left_from.add((unit, partition.device))
            self.moved[unit] = words

    def _move_or_refuse(self, partitions: Sequence[Partition], limit: Limit, words: str) -> None:
        for partition in partitions:
            target = self._elsewhere(partition)
            if target is None:
                weighs = self._room.weights.of(limit.measure, partition.operators, partition.device)
                what = limit.measure[:-1] if weighs == 1 and limit.measure != "us" else limit.measure
                raise self._refusal(limit, [partition], f"a partition of {weighs:g} {what} stays")
            self._move(partition, target, words)

    def _refusal(self, limit: Limit, stay: Sequence[Partition], words: str) -> LimitError:
        room, reasons = self._room, []
        for partition in islice(stay, 3):
            units = partition.operators
            rules = sorted({str(rule.place) for unit in units if (rule := room.rule(unit))})
            others = [device for device in room.refuges if device != partition.device]
            is_taken = all(any(room.takes(unit, device) for device in others) for unit in units)
            why = "other limits keep it there" if is_taken else "no other device takes all of it"
            operators = room.units.partitions([partition])[0].operators
            reasons.append(f"operators {ranges(operators)}: {'rule ' + ', '.join(rules) if rules else why}")
        more = f"; and {len(stay) - 3} more" if len(stay) > 3 else ""
        return LimitError(limit, f"{words} on {limit.device} ({'; '.join(reasons)}{more})")
