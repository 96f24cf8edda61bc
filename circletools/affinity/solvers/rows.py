"""Builds an integer program by columns and rows, and solves it with SciPy's HiGHS.

(Q. Huangfu, J. A. J. Hall, Parallelizing the dual revised simplex method, 2018.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Floats, Indices
from circletools.errors import UsageError

_INFEASIBLE = 2


@dataclass(frozen=True, slots=True)
class Solved:
    """The best value of each column, or None if no solution was found; a bound; and whether no solution exists."""

    values: Floats | None
    bound: float
    is_infeasible: bool = False


class IntegerProgram:
    """Minimize the cost of columns between 0 and `upper`, subject to rows between `low` and `high`."""

    def __init__(self) -> None:
        """Start without columns."""
        self._costs: list[Floats] = []
        self._upper: list[Floats] = []
        self._whole: list[Floats] = []
        self._items: list[tuple[Indices, Indices, Floats]] = []
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self.width: int = 0
        self.height: int = 0

    def columns(
        self, costs: Floats, upper: Floats | NDArray[np.bool_] | float = 1.0, *, whole: bool = False
    ) -> Indices:
        """Add a column for each cost, and return the column numbers in the shape of `costs`."""
        size = costs.size
        self._costs.append(costs.reshape(-1).astype(np.float64))
        self._upper.append(np.broadcast_to(np.asarray(upper, np.float64), costs.shape).reshape(-1))
        self._whole.append(np.full(size, float(whole)))
        numbers: Indices = np.arange(self.width, self.width + size).reshape(costs.shape)
        self.width += size
        return numbers

    def rows(self, *terms: tuple[Indices, float | Floats], high: float, low: float = -np.inf) -> None:
        """Add one row for each element of the first term's columns: the sum of all terms at that element."""
        size = len(terms[0][0])
        if not size:
            return
        for column, value in terms:
            values = np.broadcast_to(np.asarray(value, np.float64), (size,))
            self._items.append((self.height + np.arange(size), np.asarray(column, np.int64), values))
        self._bound(size, low, high)

    def sums(
        self, size: int, *terms: tuple[Indices, Indices, float | Floats], high: float, low: float = -np.inf
    ) -> None:
        """Add `size` rows; each term gives the row, the column and the coefficient of its entries."""
        for row, column, value in terms:
            values = np.broadcast_to(np.asarray(value, np.float64), row.shape)
            self._items.append((self.height + row, column, values))
        self._bound(size, low, high)

    def row(self, *terms: tuple[Sequence[int] | Indices, float | Floats], high: float, low: float = -np.inf) -> None:
        """Add one row; each term gives columns, and one coefficient for all or one for each."""
        for columns, value in terms:
            column = np.asarray(columns, np.int64).reshape(-1)
            values = np.broadcast_to(np.asarray(value, np.float64), column.shape)
            self._items.append((np.full(len(column), self.height), column, values))
        self._bound(1, low, high)

    def _bound(self, size: int, low: float, high: float) -> None:
        self._low.append(np.full(size, low))
        self._high.append(np.full(size, high))
        self.height += size

    def solve(self, seconds: float) -> Solved:
        """Return the best solution found within the time. Raises UsageError if SciPy is not installed."""
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to import, and an extra
            from scipy.sparse import csr_array  # noqa: PLC0415 - as above
        except ImportError as error:
            raise UsageError("choosing by cost needs SciPy", hint="pip install 'circletools[costs]'") from error
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
