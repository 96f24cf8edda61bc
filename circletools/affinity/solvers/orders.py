"""Finds an order in which partitions fit into the memory of devices, as the order determines what is live.

The bytes that are live while a unit runs depend on which partitions have run before, but not on their order. So the
search visits each set of partitions that have run once (depth first, in the given order as far as that fits).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from circletools.affinity.candidate import Candidate
from circletools.affinity.partition import devices_of
from circletools.affinity.problem import Problem

_STATES = 20_000
"""The number of sets of partitions to visit."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order of rows that fits, as positions, or None if none was found; `is_certain` is whether none exists."""

    places: list[int] | None
    is_certain: bool = True


def within_memory(problem: Problem, candidate: Candidate) -> tuple[Candidate | None, bool]:
    """Return the candidate in an order that fits, preferably its own; if None, also whether none exists."""
    rows = [partition.operators for partition in candidate]
    found = order_of(problem, rows, devices_of(len(problem), candidate), problem.caps)
    ordered = None if found.places is None else tuple(candidate[at] for at in found.places)
    return ordered, found.is_certain


def order_of(
    problem: Problem, rows: Sequence[Sequence[int]], devices: Sequence[int], caps: Mapping[int, int]
) -> Ordered:
    """Return an order that fits, of rows of units that each run in one go; units on no device have the device -1."""
    moments = _Moments(problem, devices, caps)
    if not moments.has_room:
        return Ordered(None)
    place = {unit: at for at, unit in enumerate(problem.graph.order)}
    units = [sorted(row, key=place.__getitem__) for row in rows]
    masks = [_bits(row) for row in rows]
    needs = [
        _bits(before for unit in row for before in problem.graph.predecessors[unit]) & ~mask
        for row, mask in zip(rows, masks, strict=True)
    ]
    whole, seen, stack = _bits(range(len(problem))), {0}, [(0, list[int]())]
    while stack:
        done, order = stack.pop()
        if done == whole:
            return Ordered(order)
        if len(seen) > _STATES:
            return Ordered(None, is_certain=False)
        for at in range(len(rows) - 1, -1, -1):
            after = done | masks[at]
            ready = not done & masks[at] and not needs[at] & ~done
            if ready and after not in seen and moments.fit(done, units[at], masks[at]):
                seen.add(after)
                stack.append((after, [*order, at]))
    return Ordered(None)


class _Moments:
    """The bytes that are live on each device with limited memory while a unit runs; sets of units are bit masks."""

    def __init__(self, problem: Problem, devices: Sequence[int], caps: Mapping[int, int]) -> None:
        what = problem.contents
        readers = [0] * len(what.sizes_bytes)
        for tensor, reader in zip(what.read.tolist(), what.readers.tolist(), strict=True):
            readers[tensor] |= 1 << reader
        kept = set(what.kept.tolist())
        tensors = list(zip(what.producers.tolist(), what.sizes_bytes.tolist(), readers, strict=True))
        self._room: list[float] = []
        self._made: list[list[tuple[int, int, float]]] = []  # producer bit, readers (all bits for an output), bytes
        self._copied: list[list[tuple[int, float]]] = []  # mask of readers on the device, bytes
        everything = 1 << len(problem)  # the bit of the end of the run, which reads outputs
        for device, cap in caps.items():
            own = [unit for unit, its in enumerate(devices) if its == device]
            here = _bits(own)
            self._room.append(cap - problem.constant_bytes(own))
            self._made.append(
                [
                    (1 << maker, row | (everything if tensor in kept else 0), size)
                    for tensor, (maker, size, row) in enumerate(tensors)
                    if maker >= 0 and here >> maker & 1
                ]
            )
            self._copied.append(
                [
                    (row & here, size)
                    for maker, size, row in tensors
                    if row & here and not (maker >= 0 and here >> maker & 1)
                ]
            )
        self.has_room: bool = min(self._room, default=0.0) >= 0

    def fit(self, done: int, units: Sequence[int], mask: int) -> bool:
        """Return whether everything fits while units run in one go, after the units in `done`."""
        for unit in units:
            bit = 1 << unit
            for room, made, copied in zip(self._room, self._made, self._copied, strict=True):
                live = 0.0
                for maker, readers, size in made:
                    live += size if maker == bit or (maker & done and readers & ~done) else 0.0
                live += sum(size for readers, size in copied if readers & (done | mask) and readers & ~done)
                if live > room:
                    return False
            done |= bit
            mask |= bit
        return True


def _bits(units: Iterable[int]) -> int:
    return sum(1 << unit for unit in set(units))
