"""What comparisons of times share: the ratio, its confidence interval, and whether it is a regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FEWEST = 5
"""With fewer executions there is no interval."""

Samples = npt.NDArray[np.float64]
"""The time of every execution, in nanoseconds."""

Bounds = tuple[float, float | None]
"""Of a ratio; the upper one is None where nothing bounds it."""

_RESAMPLES, _MOST_DRAWS = 1000, 20_000_000


@dataclass(frozen=True, slots=True)
class ComparedTime:
    """A time before and after; `low` and `high` bound the ratio.

    `ratio` is None where there was no time before. `low` and `high` are None where there are too few executions, or
    only averages; `high` alone where nothing bounds it.
    """

    before_ns: int
    after_ns: int
    ratio: float | None
    low: float | None
    high: float | None
    regressed: bool

    @property
    def delta_ns(self) -> int:
        """How much longer it takes."""
        return self.after_ns - self.before_ns


def compared(before: float, after: float, bounds: Bounds | None, *, limit: float, total_ns: int) -> ComparedTime:
    """Compare two mean times in nanoseconds; `total_ns` is all time before.

    It has regressed when it is slower by more than `limit`, as a fraction, and the interval, if there is one, lies
    above 1. What is new has regressed when it takes more than `limit` of all time before.
    """
    ratio = after / before if before else None
    low, high = bounds or (None, None)
    before_ns, after_ns = round(before), round(after)
    if not before_ns:
        regressed = after_ns > limit * total_ns
    else:
        regressed = ratio is not None and ratio > 1 + limit and (low is None or low > 1)
    return ComparedTime(before_ns, after_ns, ratio, low, high, regressed)


def ratio_bounds(before: Samples, after: Samples) -> Bounds | None:
    """Return the 95 % confidence interval of the ratio of means, by bootstrap; None when there is no time before.

    The upper bound is None when too many resamples have no time before. Two resamples without time have the ratio 1.
    """
    if not before.any():
        return None
    draw = np.random.default_rng(0)
    means: list[Any] = []
    for values in (before, after):
        count = max(100, min(_RESAMPLES, _MOST_DRAWS // len(values)))
        means.append([values[draw.integers(0, len(values), len(values))].mean() for _ in range(count)])
    length = min(map(len, means))
    first, second = np.array(means[0][:length]), np.array(means[1][:length])
    ratios = np.where(second > 0, np.inf, 1.0)
    np.divide(second, first, out=ratios, where=first > 0)
    ratios.sort()  # percentiles between finite and infinite ones have no value
    low, high = float(ratios[length // 40]), float(ratios[-1 - length // 40])
    return low, high if np.isfinite(high) else None
