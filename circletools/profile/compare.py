"""Compare times: the ratio, its confidence interval, and the verdict.

    executions of a recording -> mean of the fastest tenth -> mean of a side -> ratio

Other work on a machine can only add time, so the fastest executions are nearest to the model's own time. The unit of
the statistic is a recording: its executions share a process, its placement in memory, and the speed of the machine at
that time. The variation among recordings (those of each side and of a history of the same model) gives Student's t,
with as many degrees of freedom as these recordings have. If recordings alternate, the variation among pairs gives a
second t, and each test has half of the significance level.

With fewer than three degrees of freedom, t is useless. The error is then the variation between the fastest executions
in five parts of each recording, because successive executions tend to be slow together (the method of batch means),
plus two variations that such recordings cannot show: between processes (an assumed value, or a larger one if they do
show it) and in the speed of the machine (the usual change in the other operators).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from circletools.errors import UsageError

Samples = npt.NDArray[np.float64]
"""The time of every execution of a recording, in nanoseconds."""

NO_TIME: Samples = np.zeros(1)
"""The times of a row that is not in a recording."""

_One = TypeVar("_One")
_Row = TypeVar("_Row", bound=Any)

Verdict = Literal["slower", "faster", "same", "cannot tell", "only before", "only after"]

ASSUMED_SPREAD = 0.25
"""The assumed standard deviation between recordings of a model, used if none can be measured."""

PROCESS_SPREAD = 0.1
"""The assumed variation between processes, in addition to the spread of their executions."""

_COARSEST_NS = 1000
_FASTEST, _PARTS = 10, 5
_EFFICIENCY = 0.37  # of a median of deviations, relative to a standard deviation
_FEWEST, _FEWEST_FREE, _MANY = 4, 3, 100  # executions; degrees of freedom: the fewest, and as good as infinitely many
LEVEL = 0.05
"""The significance level, two-sided."""

_POWER = 0.9


@dataclass(frozen=True, slots=True)
class ComparedTime:
    """A time before and after; `low` and `high` bound the ratio with 95% confidence.

    Without a time before, the ratio and the bounds are None; without a time after, the bounds are None. The verdicts
    `slower` and `faster` mean a significant change above the threshold, `same` a change within it, and `only before`
    and `only after` that one side lacks the operator. With as many new recordings, made in the same way, nine of ten
    comparisons find a change by a ratio of `visible` or more.
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
        """The increase in time."""
        return self.after_ns - self.before_ns

    @property
    def regressed(self) -> bool:
        """Whether the time after is significantly longer, by more than the threshold."""
        return self.verdict == "slower"

    def to_row(self) -> dict[str, Any]:
        """Return the times, the ratio with its bounds, and the verdict."""
        names = ("before_ns", "after_ns", "delta_ns", "ratio", "low", "high", "visible", "verdict")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Generic[_One, _Row]):
    """The recordings of two sides, and the rows that were compared; the last field of a row is its time."""

    before: tuple[_One, ...]
    after: tuple[_One, ...]
    threshold_percent: float
    rows: tuple[_Row, ...]

    @property
    def regressed(self) -> bool:
        """Whether any row is significantly slower."""
        return any(row.time.regressed for row in self.rows)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the key of each row, the times before and after, and the verdict."""
        keys = [{name: getattr(row, name) for name in row.__slots__ if name != "time"} for row in self.rows]
        return [key | row.time.to_row() for key, row in zip(keys, self.rows, strict=True)]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of times to compare, from the recordings of both sides. `total_ns` is the total time before.

    `history` holds further recordings of the earlier model, which show how much recordings vary. If the recordings of
    both sides were made alternately (`paired`), they form pairs. `pace` is how much other operators changed: the
    standard deviation of logarithms, estimated from the median. In one or two recordings, this looks like a change in
    machine speed.
    """

    before: Sequence[Samples]
    after: Sequence[Samples]
    total_ns: float = 0.0
    history: Sequence[Samples] = ()
    paired: bool = False
    pace: float = 0.0


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Times, and for each estimator the standard error of the ratio's logarithm and its degrees of freedom.

    The third number is the error that other samples of this size seldom exceed (see `_larger`).
    """

    before: float
    after: float
    errors: tuple[tuple[float, float, float], ...]

    def chance(self, sign: int) -> float:
        """Return the chance, if nothing changed, of a later time this long or longer (`sign` -1: or shorter)."""
        change = bool(self.after) - bool(self.before)
        logarithm = math.log(self.after / self.before) if self.before and self.after else change
        return len(self.errors) * min(tail(sign * logarithm / error, freedom) for error, freedom, _ in self.errors)

    def reach(self) -> float:
        """Return the error of the ratio's logarithm that is not exceeded with 95% confidence."""
        level = LEVEL / 2 / len(self.errors)
        return min(700.0, *(quantile(1 - level, freedom) * error for error, freedom, _ in self.errors))

    def visible(self, rows: int, limit: float, tick: float) -> float:
        """Return the ratio that another sample detects with a probability of 90% if `rows` rows are compared.

        The statistic must exceed its quantile, and the ratio the limit and a tick, even if that sample's error is
        larger; a margin allows for a ratio below the true one.
        """
        level, least = LEVEL / 2 / (rows * len(self.errors)), math.log1p(max(limit, tick))
        margin = quantile(_POWER, math.inf)
        each = (max(quantile(1 - level, free) * later, least) + margin * error for error, free, later in self.errors)
        return math.exp(min(700.0, *each))


def location(times: Samples) -> float:
    """Return the mean of the fastest tenth of executions (at least one), or of all if there are fewer than four.

    Executions that take no time, such as those that skip an operator, count in proportion to their number.
    """
    some = np.sort(times[times > 0])
    count = max(1, len(some) // _FASTEST) if len(some) >= _FEWEST else None
    return float(some[:count].mean()) * len(some) / len(times) if len(some) else 0.0


def _scatter(times: Samples) -> tuple[float, int]:
    """Return the variance of the logarithm of the fastest times of parts, and the degrees of freedom."""
    # If some executions take no time at all, the variation of their share is added.
    parts = [some[some > 0] for some in np.array_split(times, _PARTS)]
    fastest = np.log([some.min() for some in parts if len(some)])
    variance = float(fastest.var(ddof=1)) if len(fastest) > 1 else 0.0
    return variance + float((times == 0).sum() / (times > 0).sum()), max(1, len(fastest) - 1)


def tick_of(times: Iterable[int]) -> int:
    """Return the clock's step in nanoseconds: all times are multiples of it. Trace times are whole microseconds."""
    return math.gcd(_COARSEST_NS, *times)


def sides_of(
    recording: type[_One], *sides: _One | Sequence[_One], paired: bool
) -> tuple[list[_One], list[_One], list[_One]]:
    """Return the recordings of the earlier side, the later side and the history; a side is one recording or several.

    Raises UsageError if recordings made alternately do not form pairs, or if there is a history as well.
    """
    before, after, history = (
        [side] if isinstance(side, recording) else list(cast("Sequence[_One]", side)) for side in sides
    )
    if paired and len(before) != len(after):
        raise UsageError(f"alternating recordings come in pairs: {len(before)} before, {len(after)} after")
    if paired and history:
        raise UsageError("recordings with a history cannot form pairs", hint="omit either the history or the pairs")
    return before, after, history


def compare_times(rows: Sequence[Row], *, limit: float, tick_ns: float) -> list[ComparedTime]:
    """Compare the times of each row.

    A row is slower if its ratio is above 1 + `limit`, the difference is more than a tick of the clock, and the change
    is significant. The level is corrected for the number of rows (Holm) and of tests of a row, so that at most 5% of
    comparisons of equal models have any row that is slower or faster, if recordings vary independently and in about
    a normal distribution. An added row is slower if it takes more than the fraction `limit` of the total time before.
    """
    found = [_estimate(row, tick_ns, len(rows) - 1) for row in rows]
    slower, faster = (_holm([one.chance(sign) for one in found]) for sign in (1, -1))
    return [
        _judged(one, row.total_ns, limit, tick_ns, len(rows), sure=(up <= LEVEL / 2, down <= LEVEL / 2))
        for one, row, up, down in zip(found, rows, slower, faster, strict=True)
    ]


def _judged(
    one: _Estimate, total_ns: float, limit: float, tick_ns: float, rows: int, *, sure: tuple[bool, bool]
) -> ComparedTime:
    before, after = one.before, one.after
    ratio = after / before if before else None
    low = high = seen = None
    if before and after:
        reach = math.exp(one.reach())
        low, high = after / before / reach, after / before * reach
        seen = one.visible(rows, limit, tick_ns / before)
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


def _estimate(row: Row, tick_ns: float, others: int) -> _Estimate:
    sides = [np.array([location(times) for times in side]) for side in (row.before, row.after, row.history)]
    before, after, _ = (float(side.mean()) if len(side) else 0.0 for side in sides)
    known = [side for side in sides if side.any()]
    freedom = sum(len(side) - 1 for side in known)
    variance = sum(_squares(side) for side in known) / max(1, freedom)
    rounding = sum((tick_ns / mean) ** 2 / 12 for mean in (before, after) if mean)
    inverse = sum(1 / len(side) for side in sides[:2] if side.any())
    errors = [] if freedom >= _FEWEST_FREE else _within(row, sides[:2], rounding, variance, freedom, others)
    if not errors:
        least = max(rounding / 2, 1e-12, 0 if freedom else ASSUMED_SPREAD**2)
        error = math.sqrt(max(variance, least) * max(inverse, 1e-12))
        errors = [(error, freedom or math.inf, error * _larger(freedom or math.inf))]
    if row.paired and len(row.before) > 1 and all(side.all() for side in sides):
        logs = np.log(sides[1] / sides[0])
        spread = max(float(logs.var(ddof=1)), rounding)
        error, freedom = max(math.sqrt(spread / len(logs)), 1e-6), len(logs) - 1
        errors.append((error, freedom, error * _larger(freedom)))
    return _Estimate(before, after, tuple(errors))


def _squares(side: Samples) -> float:
    """Return the sum of squared deviations: of logarithms or, if recordings took no time, relative to the mean."""
    return float((np.log(side) if side.all() else side / side.mean()).var()) * len(side)


def _larger(freedom: float) -> float:
    """Return the factor within which the standard deviation of nine of ten other samples exceeds that of this one.

    Its square is a quantile of the F distribution, that is, of the ratio of two variables with a chi-square
    distribution (approximation by E. B. Wilson and M. M. Hilferty, Proc. Natl. Acad. Sci. 17, 1931).
    """
    part = 2 / (9 * freedom)
    margin = quantile(_POWER, math.inf) * math.sqrt(part / 2)
    return float(((1 - part + margin) / (1 - part - margin)) ** 1.5)


def _within(
    row: Row, sides: Sequence[Samples], rounding: float, variance: float, freedom: float, others: int
) -> list[tuple[float, float, float]]:
    """Return the error from the scatter of executions; empty if a recording has too few of them or takes no time.

    `variance` is that between recordings, with its degrees of freedom, perhaps none; `others` is the number of rows.
    """
    recordings = [times for side in (row.before, row.after) for times in side]
    if not all(side.all() for side in sides) or min(map(len, recordings)) < _FEWEST:
        return []
    found = [(*_scatter(times), len(side)) for side in (row.before, row.after) for times in side]
    variances = np.array([scatter / count**2 for scatter, _, count in found])
    inverse, larger = sum(1 / len(side) for side in sides), _larger(freedom or math.inf)
    known, least = float(variances.sum()) + rounding / 2 * inverse, PROCESS_SPREAD**2
    total = known + max(least, variance) * inverse + row.pace**2
    later = known + max(least, variance * larger**2) * inverse
    later += (row.pace * _larger(max(1.0, _EFFICIENCY * others))) ** 2
    # The degrees of freedom of a sum of variances (Welch-Satterthwaite); an assumed variance has infinitely many.
    inexact = float((variances**2 / [free for _, free, _ in found]).sum())
    free = max(1, int(total**2 / inexact)) if inexact * _MANY > total**2 else math.inf
    return [(math.sqrt(total), free, math.sqrt(later) * _larger(free))]


def _holm(probabilities: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm-Bonferroni)."""
    count, reached = len(probabilities), 0.0
    found = [0.0] * count
    for rank, at in enumerate(sorted(range(count), key=lambda at: probabilities[at])):
        reached = max(reached, min(1.0, (count - rank) * probabilities[at]))
        found[at] = reached
    return found


def tail(t: float, freedom: float) -> float:
    """Return the probability of exceeding `t`, for whole or infinitely many degrees of freedom.

    The series is from Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    if math.isinf(freedom):
        return math.erfc(t / math.sqrt(2)) / 2
    angle, odd = math.atan2(t, math.sqrt(freedom)), int(freedom) % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for number in range(1 + odd, int(freedom), 2):
        total, term = total + term, term * number / (number + 1) * math.cos(angle) ** 2
    between = math.sin(angle) * total
    return (1 - (2 / math.pi * (angle + between) if odd else between)) / 2


@lru_cache(maxsize=1024)
def quantile(probability: float, freedom: float) -> float:
    """Return the `t` that is not exceeded with this probability, which must be above one half."""
    if math.isinf(freedom):
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while tail(high, freedom) > 1 - probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 1 - probability else (low, middle)
    return high
