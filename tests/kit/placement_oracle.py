"""The best placement of a small problem by trying everything, and random problems: literal, apart from the solvers.

What limits, memory and costs are is written here once more, as docs/affinity.md and docs/costs.md say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from math import inf

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Contents, CostTable, Links
from circletools.affinity.problem import KINDS, Limit, Problem
from tests.kit.partition_support import dag_of, seeded


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

    def least(self) -> float:
        """Return the least total time of all partitions that keep to everything, infinite where none do.

        All choices of devices are looked at, those that cost least first; of each, all partitions in all orders.
        """
        able = [[device for device, time in enumerate(row) if time < inf] for row in self.times]
        choices = np.array(list(product(*able)), np.int64).reshape(-1, len(able))
        costs, best = self.costs(choices), inf
        pieces = _Pieces(self)
        for at in np.argsort(costs, kind="stable").tolist():
            if costs[at] + min(self.launch) >= best:
                break
            best = min(best, float(costs[at]) + pieces.least(choices[at].tolist(), best - float(costs[at])))
        return best

    def costs(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return times and copies of choices of devices, one a row."""
        total: NDArray[np.float64] = np.array(self.times)[np.arange(len(self.times)), choices].sum(axis=1)
        overhead, per_byte = np.array(self.overhead), np.array(self.per_byte)
        for maker, size, readers in self.tensors:
            for there in range(len(self.launch)) if maker >= 0 else ():
                reads = (choices[:, readers] == there).any(axis=1) & (choices[:, maker] != there)
                here = choices[reads, maker]
                total[reads] += overhead[here, there] + size * per_byte[here, there]
        return total


class _Pieces:
    """Partitions of a problem, whose units are bits: what is live while one runs depends on those before it only."""

    def __init__(self, made: Placement) -> None:
        self.made, count = made, len(made.times)
        edges = [(maker, reader) for maker, _, readers in made.tensors if maker >= 0 for reader in readers]
        self.before = [sum({1 << a for a, b in edges if b == unit}) for unit in range(count)]
        self.units = {mask: [unit for unit in range(count) if mask >> unit & 1] for mask in range(1, 1 << count)}
        self.connected = [mask for mask, units in self.units.items() if connected(units, edges)]
        self.may_be = cache(lambda mask, device: made.may_be(self.units[mask], device))
        self.most = [
            min(
                [inf, *(limit.number for at, limit in made.limits if at == device and limit.kind == "max-partitions")]
            )
            for device in range(len(made.launch))
        ]

    def least(self, devices: Sequence[int], below: float) -> float:
        """Return the least that launches and constants take, infinite where it is not below a number."""
        made, count = self.made, len(devices)
        own = [sum(1 << unit for unit, its in enumerate(devices) if its == one) for one in range(len(made.launch))]
        rooms = {
            one: cap - made.read_bytes([unit for unit in range(count) if devices[unit] == one])
            for one, cap in made.caps.items()
        }
        if min(rooms.values(), default=0.0) < 0:
            return inf
        rows = []
        for mask in self.connected:
            units = self.units[mask]
            device = devices[units[0]]
            if not mask & ~own[device] and self.may_be(mask, device):
                rate = made.rate[device] if made.rate else 0.0
                needs = 0
                for unit in units:
                    needs |= self.before[unit]
                rows.append((mask, needs & ~mask, device, made.launch[device] + rate * made.read_bytes(units)))
        everything, none = (1 << count) - 1, (0,) * len(own)
        states: dict[tuple[int, tuple[int, ...]], float] = {(0, none): 0.0}
        best = inf
        while states:
            after: dict[tuple[int, tuple[int, ...]], float] = {}
            for (done, counts), spent in states.items():
                if done == everything:
                    best = min(best, spent)
                    continue
                for mask, needs, device, more in rows:
                    if done & mask or needs & ~done or spent + more >= min(below, best):
                        continue
                    there = (*counts[:device], counts[device] + (self.most[device] < inf), *counts[device + 1 :])
                    state = done | mask, there
                    is_less = there[device] <= self.most[device] and spent + more < after.get(state, inf)
                    if is_less and (not rooms or self._fits(done, mask, own, rooms)):
                        after[state] = spent + more
            states = after
        return best

    def _fits(self, done: int, mask: int, own: Sequence[int], rooms: Mapping[int, float]) -> bool:
        """Say whether all fits while a partition runs after those that are done."""
        begun = done | mask
        for unit in self.units[mask]:
            bit = 1 << unit
            for device, room in rooms.items():
                live = 0.0
                for at, (maker, size, readers) in enumerate(self.made.tensors):
                    reads = sum(1 << reader for reader in readers)
                    if maker >= 0 and own[device] >> maker & 1:
                        lasts = at in self.made.kept or reads & ~done
                        live += size if maker == unit or (done >> maker & 1 and lasts) else 0.0
                    else:
                        here = reads & own[device]
                        live += size if here & begun and here & ~done else 0.0
                if live > room:
                    return False
            done |= bit
        return True


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
