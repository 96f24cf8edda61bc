"""Shared by comparisons of times: the ratio, its confidence interval, and the verdict.

    executions of a recording  ->  their trimmed mean  ->  the mean over the recordings of a side  ->  the ratio

Recordings differ from each other by more than their executions do, so the interval comes from how the recordings of
a side differ, and those of a history of the same model. Recordings that were made in turns are compared pair by pair.
Where nothing shows how recordings differ, it is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from circletools.errors import UsageError
from circletools.profile.student import quantile, tail

Samples = npt.NDArray[np.float64]
"""The time of every execution of a recording, in nanoseconds."""

Verdict = Literal["slower", "faster", "same", "cannot tell"]

ASSUMED_SPREAD = 0.25
"""How much recordings of one model are taken to differ (a standard deviation) where each side is a single one."""

_COARSEST_NS = 1000
_TRIMMED = 0.2
LEVEL = 0.05
"""The significance level, two-sided."""

_POWER = 0.9


@dataclass(frozen=True, slots=True)
class ComparedTime:
    """A time before and after; `low` and `high` bound the ratio, with a confidence of 95 %.

    All three are None where there was no time before, the bounds also where there is none after. `verdict` is sure
    of `slower` and `faster`, which are by more than the threshold; `same` is within it. With as many recordings that
    differ as much, a change by the ratio `visible` or more is found in nine of ten comparisons.
    """

    before_ns: int
    after_ns: int
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    visible: float | None = None

    @property
    def delta_ns(self) -> int:
        """How much longer it takes."""
        return self.after_ns - self.before_ns

    @property
    def regressed(self) -> bool:
        """Whether it is significantly slower, by more than the threshold."""
        return self.verdict == "slower"

    def to_row(self) -> dict[str, Any]:
        """Return the times, the ratio with its bounds, and the verdict."""
        names = ("before_ns", "after_ns", "delta_ns", "ratio", "low", "high", "visible", "verdict")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Row:
    """Times to compare: the recordings of both sides. `total_ns` is all time before, of its unit.

    `history` are other recordings of the model before, which show how recordings differ. The recordings of both sides
    are in pairs where they were made in turns (`paired`).
    """

    before: Sequence[Samples]
    after: Sequence[Samples]
    total_ns: float = 0.0
    history: Sequence[Samples] = ()
    paired: bool = False


@dataclass(frozen=True, slots=True)
class _Estimate:
    before: float
    after: float
    error: float
    freedom: float

    @property
    def statistic(self) -> float:
        """The logarithm of the ratio in standard errors; of what is new or gone, the time in its own."""
        if not (self.before and self.after):
            return (bool(self.after) - bool(self.before)) / self.error
        return math.log(self.after / self.before) / self.error


def location(times: Samples) -> float:
    """Return the trimmed mean: without the smallest and the greatest fifth."""
    cut = int(_TRIMMED * len(times))
    return float(np.sort(times)[cut : len(times) - cut].mean())


def tick_of(times: Iterable[npt.NDArray[np.int64]]) -> int:
    """Return the step of the clock in nanoseconds: all times are multiples of it. A trace has whole microseconds."""
    tick = _COARSEST_NS
    for some in times:
        tick = math.gcd(tick, int(np.gcd.reduce(some)) if len(some) else 0)
    return tick


def refuse_unpaired(before: int, after: int, *, paired: bool, history: bool) -> None:
    """Raise UsageError where recordings that were made in turns are not pairs, or have a history too."""
    if paired and before != after:
        raise UsageError(f"alternating recordings come in pairs: {before} before, {after} after")
    if paired and history:
        raise UsageError("a history has no pairs", hint="leave out the history, or the pairs")


def compare_times(rows: Sequence[Row], *, limit: float, tick_ns: float) -> list[ComparedTime]:
    """Compare the times of each row.

    A row is slower when its ratio is above 1 + `limit`, the difference is more than a tick of the clock, and it is
    sure: by Student's t over the recordings, corrected for the number of rows (Holm), at most 5 % of comparisons of
    what is equal have a row that is slower or faster. What is new is slower when it takes more than `limit` of all
    time before.
    """
    found = [_estimate(row, tick_ns) for row in rows]
    slower = _holm([tail(one.statistic, one.freedom) for one in found])
    faster = _holm([tail(-one.statistic, one.freedom) for one in found])
    return [
        _judged(one, row.total_ns, limit, tick_ns, len(rows), sure=(up <= LEVEL / 2, down <= LEVEL / 2))
        for one, row, up, down in zip(found, rows, slower, faster, strict=True)
    ]


def visible(error: float, freedom: float, rows: int, limit: float, tick: float = 0.0) -> float:
    """Return the ratio that is found with a probability of 90 %, as one of so many rows.

    The statistic must exceed its quantile, and the ratio the limit and a tick; both by what it may fall short of the
    true ratio. `error` is the standard error of its logarithm.
    """
    short = quantile(_POWER, freedom) * error
    reach = max(quantile(1 - LEVEL / 2 / rows, freedom) * error, math.log1p(limit), math.log1p(tick))
    return math.exp(min(reach + short, 700.0))


def _judged(
    one: _Estimate, total_ns: float, limit: float, tick_ns: float, rows: int, *, sure: tuple[bool, bool]
) -> ComparedTime:
    before, after = one.before, one.after
    ratio = after / before if before else None
    low = high = seen = None
    if before and after:
        reach = min(quantile(1 - LEVEL / 2, one.freedom) * one.error, 700.0)
        low, high = after / before * math.exp(-reach), after / before * math.exp(reach)
        seen = visible(one.error, one.freedom, rows, limit, tick_ns / before)
    verdict: Verdict = "cannot tell"
    if abs(after - before) > tick_ns and sure[0] and _exceeds(before, after, limit, total_ns):
        verdict = "slower"
    elif abs(after - before) > tick_ns and sure[1] and _exceeds(after, before, limit, total_ns):
        verdict = "faster"
    elif before == after == 0 or (
        low is not None and high is not None and low * (1 + limit) >= 1 >= high / (1 + limit)
    ):
        verdict = "same"
    return ComparedTime(round(before), round(after), ratio, low, high, verdict, seen)


def _exceeds(less: float, more: float, limit: float, total_ns: float) -> bool:
    return more > limit * total_ns if not less else more > less * (1 + limit)


def _estimate(row: Row, tick_ns: float) -> _Estimate:
    sides = [np.array([location(times) for times in side]) for side in (row.before, row.after)]
    means = [float(side.mean()) for side in sides]
    if row.paired and len(sides[0]) > 1 and all(side.all() for side in sides):
        logs = np.log(sides[1] / sides[0])
        error = math.sqrt(max(float(logs.var(ddof=1)), sum((tick_ns / mean) ** 2 for mean in means) / 12) / len(logs))
        return _Estimate(means[0], means[0] * math.exp(float(logs.mean())), max(error, 1e-6), len(logs) - 1)
    history = np.array([location(times) for times in row.history])
    freedom = sum(len(side) - 1 for side in (*sides, history) if len(side))
    relative = [(side / mean - 1, mean) for side, mean in zip(sides, means, strict=True) if mean]
    rounding = sum((tick_ns / mean) ** 2 / 12 for _, mean in relative)
    if freedom:
        known = [spread for spread, _ in relative] + ([history / history.mean() - 1] if history.any() else [])
        variance = sum(float((spread**2).sum()) for spread in known) / freedom
        inverse = sum(1 / len(spread) for spread, _ in relative)
    else:
        variance, inverse = ASSUMED_SPREAD**2, len(relative)
    error = math.sqrt(max(variance, rounding / 2, 1e-12) * max(inverse, 1e-12))
    return _Estimate(means[0], means[1], error, freedom or math.inf)


def _holm(probabilities: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm-Bonferroni)."""
    count, reached = len(probabilities), 0.0
    found = [0.0] * count
    for rank, at in enumerate(sorted(range(count), key=lambda at: probabilities[at])):
        reached = max(reached, min(1.0, (count - rank) * probabilities[at]))
        found[at] = reached
    return found
