"""Device memory: rows of the integer program, and an order in which the partitions of a candidate fit.

The rows are a lower bound on what is live while a unit runs, in any order:

    constants that the device holds
    + what the unit reads and makes, on its device; its inputs also on the device that made them
    + tensors made before the unit and read after it in every order, on the device that made them

The order in which partitions run may need more memory; `within_memory` checks that for each candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Floats, Indices
from circletools.affinity.problem import Candidate, Problem
from circletools.affinity.solvers.groups import devices_of
from circletools.affinity.solvers.rows import IntegerProgram
from circletools.graph.algorithms import Dag

_MANY = 1_000
"""In larger problems, the row of a unit has only the tensors that it reads and makes."""


def add_memory(problem: Problem, program: IntegerProgram, x: Indices) -> None:
    """Add rows for all devices with limited memory; `x` are the columns of units on devices."""
    what, count = problem.contents, len(problem)
    units, buffers = what.constants
    names, number = np.unique(buffers, return_inverse=True)
    reaches = _reaches(problem.graph) if problem.caps and count <= _MANY else None
    makers, readers, sizes = what.producers, what.readers, what.sizes_bytes
    made = np.flatnonzero(makers >= 0)
    bytes_made = problem.made_bytes
    for device, cap in problem.caps.items():
        holds = program.columns(np.zeros(len(names)))
        program.rows((x[units, device], 1.0), (holds[number], -1.0), high=0.0)
        both = program.columns(np.zeros(len(readers)))  # the tensor is on the device while one of its readers runs
        has_maker = makers[what.read] >= 0
        program.rows((x[readers, device], 1.0), (both, -1.0), high=0.0)
        program.rows((x[makers[what.read[has_maker]], device], 1.0), (both[has_maker], -1.0), high=0.0)
        constant_bytes = what.buffer_bytes[names]
        for unit in range(count):
            reads = np.flatnonzero(readers == unit)
            lasting = _lasting(problem, reaches, unit, made, set(what.read[reads].tolist()))
            program.row(
                (holds, constant_bytes),
                (both[reads], sizes[what.read[reads]]),
                ([int(x[unit, device])], float(bytes_made[unit])),
                (x[makers[lasting], device], sizes[lasting]),
                high=float(cap),
            )


def _lasting(problem: Problem, reaches: NDArray[np.bool_] | None, unit: int, made: Indices, own: set[int]) -> Indices:
    """Return the tensors that are made before a unit and read after it in every order."""
    what = problem.contents
    if reaches is None:
        return np.zeros(0, np.int64)
    behind = np.zeros(len(what.sizes_bytes), np.bool_)
    behind[what.read[reaches[unit, what.readers]]] = True
    behind[what.kept] = True
    lasting = made[reaches[what.producers[made], unit] & behind[made]]
    return np.array([tensor for tensor in lasting.tolist() if tensor not in own], np.int64)


def _reaches(graph: Dag) -> NDArray[np.bool_]:
    """Return which unit reaches which other units."""
    reaches = np.zeros((len(graph), len(graph)), np.bool_)
    for unit in reversed(graph.order):
        for after in graph.successors[unit]:
            reaches[unit] |= reaches[after]
            reaches[unit, after] = True
    return reaches


def unit_bytes(problem: Problem) -> Floats:
    """Return the most bytes that each unit needs: the constants it reads and the tensors it produces."""
    units, buffers = problem.contents.constants
    read = np.bincount(units, problem.contents.buffer_bytes[buffers], minlength=len(problem))
    return problem.made_bytes + read


# --- finds an order in which partitions fit into the memory of devices, as the order determines what is live --
# The bytes that are live while a unit runs depend on which partitions have run before, but not on their order. So the
# search visits each set of partitions that have run once (depth first, in the given order as far as that fits).


_STATES = 20_000
"""The number of sets of partitions to visit."""


def within_memory(problem: Problem, candidate: Candidate) -> tuple[Candidate | None, bool]:
    """Return the candidate in an order that fits, preferably its own; if None, also whether none exists."""
    rows = [partition.operators for partition in candidate]
    places, is_certain = order_of(problem, rows, devices_of(len(problem), candidate), problem.caps)
    return None if places is None else tuple(candidate[at] for at in places), is_certain


def order_of(
    problem: Problem, rows: Sequence[Sequence[int]], devices: Sequence[int], caps: Mapping[int, int]
) -> tuple[list[int] | None, bool]:
    """Return the positions of rows of units, which each run in one go, in an order that fits.

    Units on no device have the device -1. If no order was found, also whether it is certain that there is none.
    """
    moments = _Moments(problem, devices, caps)
    if not moments.has_room:
        return None, True
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
            return order, True
        if len(seen) > _STATES:
            return None, False
        for at in range(len(rows) - 1, -1, -1):
            after = done | masks[at]
            ready = not done & masks[at] and not needs[at] & ~done
            if ready and after not in seen and moments.fit(done, units[at], masks[at]):
                seen.add(after)
                stack.append((after, [*order, at]))
    return None, True


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
