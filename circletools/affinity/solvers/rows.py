"""Build an integer program by columns and rows, and solve it with SciPy's HiGHS.

(Q. Huangfu, J. A. J. Hall, Parallelizing the dual revised simplex method, 2018.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Floats, Indices
from circletools.affinity.problem import Candidate, Problem
from circletools.affinity.solvers.groups import devices_of
from circletools.errors import UsageError
from circletools.graph.algorithms import Dag

_INFEASIBLE = 2


@dataclass(frozen=True, slots=True)
class Solved:
    """The best solution found (by column) or None, a lower bound, and whether the program is proven infeasible."""

    values: Floats | None
    bound: float
    is_infeasible: bool = False


class IntegerProgram:
    """An integer program: minimize the cost of columns from 0 to `upper`, subject to rows from `low` to `high`."""

    def __init__(self) -> None:
        """Start without columns."""
        self._costs, self._upper, self._whole = list[Floats](), list[Floats](), list[Floats]()
        self._items: list[tuple[Indices, Indices, Floats]] = []
        self._low, self._high = list[Floats](), list[Floats]()
        self.width: int = 0
        self.height: int = 0

    def columns(
        self, costs: Floats, upper: Floats | NDArray[np.bool_] | float = 1.0, *, whole: bool = False
    ) -> Indices:
        """Add a column for each cost, and return the column numbers in the shape of `costs`."""
        self._costs.append(costs.reshape(-1).astype(np.float64))
        self._upper.append(np.broadcast_to(np.asarray(upper, np.float64), costs.shape).reshape(-1))
        self._whole.append(np.full(costs.size, float(whole)))
        self.width += costs.size
        return np.arange(self.width - costs.size, self.width).reshape(costs.shape)

    def rows(self, *terms: tuple[Indices, float | Floats], high: float, low: float = -np.inf) -> None:
        """Add one row for each element of the first term's columns: the sum of all terms at this element."""
        every = np.arange(len(terms[0][0]))
        self.sums(len(every), *((every, column, value) for column, value in terms), high=high, low=low)

    def row(self, *terms: tuple[Sequence[int] | Indices, float | Floats], high: float, low: float = -np.inf) -> None:
        """Add one row; each term consists of columns and one coefficient, or one for each column."""
        flat = ((np.asarray(columns, np.int64).reshape(-1), value) for columns, value in terms)
        self.sums(1, *((np.zeros_like(column), column, value) for column, value in flat), high=high, low=low)

    def sums(
        self, size: int, *terms: tuple[Indices, Indices, float | Floats], high: float, low: float = -np.inf
    ) -> None:
        """Add `size` rows; each term gives the rows, columns and coefficients of its entries."""
        for row, column, value in terms:
            values = np.broadcast_to(np.asarray(value, np.float64), row.shape)
            self._items.append((self.height + row, column, values))
        self._low.append(np.full(size, low))
        self._high.append(np.full(size, high))
        self.height += size

    def solve(self, seconds: float) -> Solved:
        """Return the best solution found within the time limit. Raises UsageError if SciPy is not installed."""
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to import, and an extra
            from scipy.sparse import csr_array  # noqa: PLC0415 - as above
        except ImportError as error:
            raise UsageError("a limit or a cost needs SciPy", hint="pip install 'circletools[costs]'") from error
        row, column, value = (np.concatenate(each) for each in zip(*self._items, strict=True))
        row, column = (each.astype(np.int32) for each in (row, column))  # older versions require int32
        matrix = csr_array((value, (row, column)), shape=(self.height, self.width))
        result: Any = milp(
            np.concatenate(self._costs),
            integrality=np.concatenate(self._whole),
            bounds=Bounds(0, np.concatenate(self._upper)),
            constraints=LinearConstraint(matrix, np.concatenate(self._low), np.concatenate(self._high)),
            options={"time_limit": seconds, "mip_rel_gap": 1e-9},
        )
        bound = getattr(result, "mip_dual_bound", None)
        known = -np.inf if bound is None or not np.isfinite(bound) else float(bound)
        return Solved(result.x, known, result.status == _INFEASIBLE)


# --- rows for device memory ---------------------------------------------------------------------------------
# The rows give a lower bound on the bytes that are live while a unit runs, in any order:
#
#     constants that the device holds
#     + the unit's inputs and outputs, on its device; its inputs also on the devices that produced them
#     + tensors produced before the unit and read after it in every order, on the devices that produced them
#
# The order in which partitions run may need more memory; `within_memory` checks that for each candidate.


_MANY = 1_000
"""In larger problems, the row of a unit counts only the tensors it reads and produces."""


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
    """Return the tensors that are produced before a unit and read after it in every order."""
    what = problem.contents
    if reaches is None:
        return np.zeros(0, np.int64)
    behind = np.zeros(len(what.sizes_bytes), np.bool_)
    behind[what.read[reaches[unit, what.readers]]] = True
    behind[what.kept] = True
    lasting = made[reaches[what.producers[made], unit] & behind[made]]
    return np.array([tensor for tensor in lasting.tolist() if tensor not in own], np.int64)


def _reaches(graph: Dag) -> NDArray[np.bool_]:
    """Return the reachability matrix of the units."""
    reaches = np.zeros((len(graph), len(graph)), np.bool_)
    for unit in reversed(graph.order):
        for after in graph.successors[unit]:
            reaches[unit] |= reaches[after]
            reaches[unit, after] = True
    return reaches


# --- an order in which partitions fit into the memory of devices --------------------------------------------
# The bytes that are live while a unit runs depend on which partitions have run before, but not on their order. So the
# search visits each set of partitions that have run only once (depth first, in the given order as far as it fits).


_STATES = 20_000
"""The maximum number of sets of partitions visited."""


def within_memory(problem: Problem, candidate: Candidate) -> tuple[Candidate | None, bool]:
    """Return the candidate in an order that fits, preferably its own, or None; and whether the answer is certain."""
    rows = [partition.operators for partition in candidate]
    moments = _Moments(problem, devices_of(len(problem), candidate), problem.caps)
    if not moments.has_room:
        return None, True
    place = {unit: at for at, unit in enumerate(problem.graph.order)}
    units = [sorted(row, key=place.__getitem__) for row in rows]
    masks = [_bits(row) for row in rows]
    needs = [_bits(before for unit in row for before in problem.graph.predecessors[unit]) for row in rows]
    whole, seen, stack = _bits(range(len(problem))), {0}, [(0, list[int]())]
    while stack:
        done, order = stack.pop()
        if done == whole:
            return tuple(candidate[at] for at in order), True
        if len(seen) > _STATES:
            return None, False
        for at in range(len(rows) - 1, -1, -1):
            after = done | masks[at]
            ready = not done & masks[at] and not needs[at] & ~after
            if ready and after not in seen and moments.fit(done, units[at], masks[at]):
                seen.add(after)
                stack.append((after, [*order, at]))
    return None, True


class _Moments:
    """The bytes that are live on each device with limited memory while units run; sets of units are bit masks."""

    def __init__(self, problem: Problem, devices: Sequence[int], caps: Mapping[int, int]) -> None:
        what = problem.contents
        readers = [0] * len(what.sizes_bytes)
        for tensor, reader in zip(what.read.tolist(), what.readers.tolist(), strict=True):
            readers[tensor] |= 1 << reader
        for tensor in what.kept.tolist():
            readers[tensor] |= 1 << len(problem)  # the end of the run reads outputs
        makers = [1 << maker if maker >= 0 else 0 for maker in what.producers.tolist()]
        tensors = list(zip(makers, readers, what.sizes_bytes.tolist(), strict=True))
        self._room: list[float] = []
        self._made: list[list[tuple[int, int, float]]] = []  # producer bit, mask of readers, bytes
        self._copied: list[list[tuple[int, float]]] = []  # mask of readers on the device, bytes
        for device, cap in caps.items():
            own = [unit for unit, its in enumerate(devices) if its == device]
            here = _bits(own)
            self._room.append(cap - problem.constant_bytes(own))
            self._made.append([one for one in tensors if one[0] & here])
            self._copied.append(
                [(row & here, size) for maker, row, size in tensors if row & here and not maker & here]
            )
        self.has_room: bool = min(self._room, default=0.0) >= 0

    def fit(self, done: int, units: Sequence[int], mask: int) -> bool:
        """Return whether everything fits while units run without interruption, after the units in `done`."""
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
