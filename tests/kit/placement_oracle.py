"""The best placement of a small problem by trying everything, and random problems: literal, apart from the solvers.

What limits, memory and costs are is written here once more, as docs/affinity.md and docs/costs.md say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import inf

import numpy as np

from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.table import CostTable, Links
from circletools.affinity.limits import KINDS, Limit
from circletools.affinity.problem import Problem
from tests.kit.partition_support import dag_of, seeded

Order = list[tuple[int, ...]]


@dataclass(frozen=True)
class Placement:
    """A problem in plain words.

    `times` go by unit and device; `tensors` are producer (-1 for an input), bytes and readers; `constants` the bytes
    of each constant and `reads` which of these each unit reads; `kept` the tensors that are outputs.
    """

    times: list[list[float]]
    tensors: list[tuple[int, float, list[int]]]
    overhead: list[list[float]]
    per_byte: list[list[float]]
    launch: list[float]
    constants: list[float] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    limits: list[tuple[int, Limit]] = field(default_factory=list)
    caps: dict[int, int] = field(default_factory=dict)
    rate: list[float] | None = None

    def problem(self) -> Problem:
        """Return it as the solvers take it."""
        count = len(self.times)
        made = [tensor for tensor in self.tensors if tensor[0] >= 0]
        pairs, everything = (
            np.array([(at, reader) for at, row in enumerate(some) for reader in row[2]], np.int64).reshape(-1, 2)
            for some in (made, self.tensors)
        )
        links = Links(
            np.array(self.overhead),
            np.array(self.per_byte),
            np.array(self.launch),
            None if self.rate is None else np.array(self.rate),
        )
        table = CostTable(
            np.array(self.times, np.float64).reshape(count, len(self.launch)),
            np.array([row[0] for row in made], np.int64),
            np.array([row[1] for row in made], np.float64),
            pairs[:, 0],
            pairs[:, 1],
            links,
        )
        reads = np.array([(unit, constant) for unit, row in enumerate(self.reads) for constant in row], np.int64)
        contents = Contents(
            (reads.reshape(-1, 2)[:, 0], reads.reshape(-1, 2)[:, 1]),
            np.array(self.constants, np.float64),
            np.array([row[1] for row in self.tensors], np.float64),
            np.array([row[0] for row in self.tensors], np.int64),
            everything[:, 0],
            everything[:, 1],
            np.array(self.kept, np.int64),
        )
        edges = {(maker, reader) for maker, _, readers in made for reader in readers}
        names = tuple(f"d{device}" for device in range(len(self.launch)))
        return Problem(dag_of(count, edges), table, contents, np.ones(count), tuple(self.limits), self.caps, names)

    # --- what it costs, and whether it may be -------------------------------------------------------------------

    def cost(self, devices: Sequence[int]) -> float:
        """Return times and copies."""
        total = sum(self.times[unit][device] for unit, device in enumerate(devices))
        for maker, size, readers in self.tensors:
            here = devices[maker]
            for there in {devices[reader] for reader in readers} - {here} if maker >= 0 else ():
                total += self.overhead[here][there] + size * self.per_byte[here][there]
        return total

    def weight(self, measure: str, units: Sequence[int], device: int) -> float:
        """Return what a partition weighs."""
        if measure == "us":
            return sum(self.times[unit][device] for unit in units)
        made = sum(size for maker, size, _ in self.tensors if maker in units)
        return float(len(units)) if measure == "operators" else made + self.read_bytes(units)

    def read_bytes(self, units: Sequence[int]) -> float:
        """Return the bytes of the constants that units read, each once."""
        return sum(self.constants[one] for one in {one for unit in units for one in self.reads_of(unit)})

    def reads_of(self, unit: int) -> list[int]:
        """Return the constants that a unit reads."""
        return self.reads[unit] if self.reads else []

    def may_be(self, units: Sequence[int], device: int) -> bool:
        """Say whether a partition is within the limits of its device."""
        for number, limit in self.limits:
            if number == device and limit.kind != "max-partitions":
                weight = self.weight(limit.measure, units, device)
                if weight > limit.number if limit.kind.startswith("max") else weight < limit.number:
                    return False
        return True

    def fits(self, order: Sequence[tuple[int, ...]], devices: Sequence[int]) -> bool:
        """Say whether partitions that run in this order fit into memory."""
        place = {unit: at for at, unit in enumerate(unit for row in order for unit in row)}
        begins = {unit: place[row[0]] for row in order for unit in row}
        for device, cap in self.caps.items():
            own = [unit for unit in place if devices[unit] == device]
            live = [0.0] * len(place)
            for at, (maker, size, readers) in enumerate(self.tensors):
                here = [reader for reader in readers if devices[reader] == device]
                if maker >= 0 and devices[maker] == device:
                    last = max((place[reader] for reader in readers), default=place[maker])
                    span = range(place[maker], len(place) if at in self.kept else last + 1)
                elif here:
                    span = range(min(begins[unit] for unit in here), max(place[unit] for unit in here) + 1)
                else:
                    continue
                for moment in span:
                    live[moment] += size
            if self.read_bytes(own) + max(live, default=0.0) > cap:
                return False
        return True

    def least(self) -> float:
        """Return the least total time of all partitions that keep to everything, infinite where none do."""
        best = inf
        able = [[device for device, time in enumerate(row) if time < inf] for row in self.times]
        for cost, devices in sorted((self.cost(devices), devices) for devices in product(*able)):
            if cost + min(self.launch) >= best:
                break
            for more, order in self._orders(devices, best - cost):
                if cost + more < best and self.fits(order, devices):
                    best = cost + more
        return best

    def _orders(self, devices: Sequence[int], below: float) -> Iterator[tuple[float, Order]]:
        """Yield partitions in an order in which they can run, and what launching them and their constants takes."""
        count = len(devices)
        edges = [(maker, reader) for maker, _, readers in self.tensors if maker >= 0 for reader in readers]
        before = [{a for a, b in edges if b == unit} for unit in range(count)]

        def onward(done: frozenset[int], order: Order, spent: float) -> Iterator[tuple[float, Order]]:
            if len(done) == count:
                yield spent, order
                return
            rest = [unit for unit in range(count) if unit not in done]
            for size in range(1, len(rest) + 1):
                for row in combinations(rest, size):
                    device = devices[row[0]]
                    one = all(devices[unit] == device and before[unit] <= done | set(row) for unit in row)
                    if not one or not connected(row, edges) or not self.may_be(row, device):
                        continue
                    more = self.launch[device] + (self.rate[device] * self.read_bytes(row) if self.rate else 0)
                    most = next((limit.number for number, limit in self.limits
                                 if number == device and limit.kind == "max-partitions"), inf)  # fmt: skip
                    there = sum(devices[other[0]] == device for other in order)
                    if spent + more < below and there < most:
                        yield from onward(done.union(row), [*order, row], spent + more)

        return onward(frozenset(), [], 0.0)


def connected(units: Sequence[int], edges: Sequence[tuple[int, int]]) -> bool:
    """Say whether edges connect units, whatever their direction."""
    seen = {units[0]}
    while more := {b for a, b in [*edges, *((b, a) for a, b in edges)] if a in seen and b in units} - seen:
        seen |= more
    return len(seen) == len(units)


def random_placement(
    seed: int, most: int, *, limits: bool = False, memory: bool = False, rate: bool = False
) -> Placement:
    """Return a random problem of 2 to 4 devices with launches and copies that are dearer one way than the other."""
    generator = seeded(seed)
    count, devices = generator.randint(1, most), generator.choice((2, 2, 3, 4))
    times = [[generator.choice((inf, *map(float, range(0, 30, 3)))) for _ in range(devices)] for _ in range(count)]
    for row in times:
        row[generator.randrange(devices)] = float(generator.randint(0, 20))
    tensors, share = [], generator.choice((0.15, 0.3, 0.5))
    for maker in range(-1, count):
        for _ in range(generator.randint(1, 2)):
            readers = [reader for reader in range(maker + 1, count) if generator.random() < share]
            if readers:
                tensors.append((maker, float(generator.randint(0, 12)), readers))
    overhead, per_byte = (
        [[0.0 if a == b else float(generator.randint(0, most)) for b in range(devices)] for a in range(devices)]
        for most in (8, 2)
    )
    launch = [float(generator.choice((0, *range(10)))) for _ in range(devices)]
    constants = [float(generator.randint(1, 20)) for _ in range(generator.randint(1, 4))]
    reads = [[one for one in range(len(constants)) if generator.random() < 0.3] for _ in range(count)]
    kept = [at for at, (maker, _, _) in enumerate(tensors) if maker >= 0 and generator.random() < 0.2]
    made = Placement(times, tensors, overhead, per_byte, launch, constants, reads, kept)
    if limits:
        found = {(generator.randrange(devices), generator.choice(KINDS)) for _ in range(generator.randint(1, 3))}
        ranges = {"max-partitions": (0, 2), "min-operators": (2, 4), "min-bytes": (5, 60), "min-us": (5, 40),
                  "max-operators": (1, 4), "max-bytes": (10, 80)}  # fmt: skip
        rows = [(at, Limit(f"d{at}", kind, generator.randint(*ranges[kind]))) for at, kind in sorted(found)]
        made = replace(made, limits=rows)
    if memory:
        total = sum(constants) + sum(size for _, size, _ in tensors)
        chosen = generator.sample(range(devices), generator.randint(1, devices))
        made = replace(made, caps={device: int(total * generator.uniform(0.1, 0.7)) for device in chosen})
    if rate:
        made = replace(made, rate=[generator.choice((0.0, 0.2, 1.0)) for _ in range(devices)])
    return made
