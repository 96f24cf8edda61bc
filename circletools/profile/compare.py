"""Compare times: the ratio, its confidence interval, and the verdict.

    executions of a recording -> mean of the fastest tenth -> mean of a side -> ratio

Other work on a machine can only add time, so the fastest executions are nearest to the model's own time. The unit of
the statistic is a recording: its executions share a process, its placement in memory, and the speed of the machine at
that time. The variation among recordings (those of each side and of a history of the same model) gives Student's t,
with as many degrees of freedom as these recordings have. If recordings alternate, t is that of the pairs.

Operators have a second t, of times relative to the other operators of the recording, as the speed of the machine
varies more than anything else. Each test has half of the significance level. A change that all operators share must
exceed an assumed variation in speed, because recordings made one after the other show too little of it.

With fewer than three degrees of freedom, t is useless. The error is then the variation between the fastest executions
in five parts of each recording, because successive executions tend to be slow together (the method of batch means),
plus the variation between processes: an assumed value, or a larger one that the recordings or other operators show.
Which changes such recordings detect is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from circletools.errors import UsageError
from circletools.trace.operators.profile import NORMAL_QUARTILE

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

SPEED_SPREAD = 0.14
"""The assumed variation of the change in machine speed between the sides, 0.1 each, which recordings may not show."""

_COARSEST_NS = 1000
_FASTEST, _PARTS = 10, 5
_FEWEST, _FEWEST_FREE, _MANY = 4, 3, 100  # executions; degrees of freedom: the fewest, and as good as infinitely many
_EFFICIENCY = 0.37  # of a median of deviations, relative to a standard deviation
LEVEL = 0.05
"""The significance level, two-sided."""

_POWER = 0.95


@dataclass(frozen=True, slots=True)
class ComparedTime:
    """A time before and after; `low` and `high` bound the ratio with 95% confidence.

    Without a time before, the ratio and the bounds are None; without a time after, the bounds are None. The verdicts
    `slower` and `faster` mean a significant change above the threshold, `same` a change within it, and `only before`
    and `only after` that one side lacks the operator. With as many new recordings, made in the same way, nine of ten
    comparisons find a change by a ratio of `visible` or more; it is None if too few recordings show how they vary.
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
    both sides were made alternately (`paired`), they form pairs. `speeds` is the time of the other operators in each
    recording of the three sides, relative to their usual time, if known. `whole` is the row of all operators.
    """

    before: Sequence[Samples]
    after: Sequence[Samples]
    total_ns: float = 0.0
    history: Sequence[Samples] = ()
    paired: bool = False
    speeds: Sequence[Samples] = ()
    whole: bool = False


class _Test(NamedTuple):
    """The ratio's logarithm, its standard error, the error's degrees of freedom, and what other samples may have.

    `later` is the error that 5% of other samples exceed, infinite if too few recordings show how much they vary.
    """

    logarithm: float
    error: float
    freedom: float
    later: float = math.inf

    def widened(self, variance: float, freedom: float = math.inf) -> _Test:
        """Return the test with a further cause of error (Welch-Satterthwaite); `freedom` is infinite if assumed."""
        total = self.error**2 + variance
        free = total**2 / max(1e-300, self.error**4 / self.freedom + variance**2 / freedom)
        later = math.sqrt(self.later**2 + variance)
        return _Test(self.logarithm, math.sqrt(total), max(1, int(free)) if free < _MANY else math.inf, later)


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Times; the ratio (`own`); and the tests of it: by itself, then relative to other operators or in pairs."""

    before: float
    after: float
    own: _Test
    tests: tuple[_Test, ...]

    def chance(self, sign: int, limit: float) -> float:
        """Return the chance, if nothing changed, of a later time this long or longer (`sign` -1: or shorter).

        Relative to other operators, a change within the limit counts as none.
        """
        first, least = self.tests[0], math.log1p(limit)
        known = [one for one in self.tests if one is first or sign * one.logarithm > least]
        return len(self.tests) * min(tail(sign * one.logarithm / one.error, one.freedom) for one in known)

    def reach(self) -> float:
        """Return the error of the ratio's logarithm that is not exceeded with 95% confidence."""
        return min(700.0, quantile(1 - LEVEL / 2, self.own.freedom) * self.own.error)

    def visible(self, rows: int, limit: float, tick: float) -> float | None:
        """Return the ratio that another sample detects with a probability of 90% if `rows` rows are compared.

        The ratio must exceed the limit and a tick, and a statistic its quantile, even if that sample's error is
        larger; each fails with a probability of 5%. The ratio is None if this is unknown.
        """
        if math.isinf(self.own.later):
            return None
        level, margin = LEVEL / 2 / (rows * len(self.tests)), quantile(_POWER, math.inf)
        least = math.log1p(max(limit, tick)) + margin * self.own.error
        each = (quantile(1 - level, one.freedom) * one.later + margin * one.error for one in self.tests)
        return math.exp(min(700.0, max(least, min(each))))


def location(times: Samples) -> float:
    """Return the mean of the fastest tenth of executions (at least one), or of all if there are fewer than four.

    Executions that take no time, such as those that skip an operator, count in proportion to their number.
    """
    some = np.sort(times[times > 0])
    count = max(1, len(some) // _FASTEST) if len(some) >= _FEWEST else None
    return float(some[:count].mean()) * len(some) / len(times) if len(some) else 0.0


def _scatter(times: Samples) -> float:
    """Return the variance of the logarithm of the fastest times of parts."""
    # If some executions take no time at all, the variation of their share is added.
    parts = [some[some > 0] for some in np.array_split(times, _PARTS)]
    fastest = np.log([some.min() for some in parts if len(some)])
    return max(1e-12, float(fastest.var(ddof=1)) if len(fastest) > 1 else 0.0) + float((times == 0).mean())


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


def compare_times(rows: Sequence[Row], *, limit: float, tick_ns: float, spread: float = 0.0) -> list[ComparedTime]:
    """Compare the times of each row.

    A row is slower if its ratio is above 1 + `limit`, the difference is more than a tick of the clock, and the change
    is significant. The level is corrected for the number of rows (Holm) and of tests of a row, so that at most 5% of
    comparisons of equal models have any row that is slower or faster, if recordings vary independently and in about
    a normal distribution. An added row is slower if it takes more than the fraction `limit` of the total time before.
    `spread` is the standard deviation of the rows' changes, estimated from the median of logarithms.
    """
    among = spread**2, _EFFICIENCY * len(rows)
    found = [_estimate(row, tick_ns, among) for row in rows]
    slower, faster = (_holm([one.chance(sign, limit) for one in found]) for sign in (1, -1))
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
    elif before == after == 0 or (low and high and low * (1 + limit) >= 1 >= high / (1 + limit)):
        verdict = "same"
    return ComparedTime(round(before), round(after), ratio, low, high, verdict, seen)


def _exceeds(less: float, more: float, limit: float, total_ns: float) -> bool:
    return more > limit * total_ns if not less else more > less * (1 + limit)


def _estimate(row: Row, tick_ns: float, among: tuple[float, float]) -> _Estimate:
    sides = [np.array([location(times) for times in side]) for side in (row.before, row.after, row.history)]
    before, after = (float(side.mean()) for side in sides[:2])
    rounding = sum((tick_ns / mean) ** 2 / 12 for mean in (before, after) if mean)
    own, relative = _tested(row, sides, rounding, among), list[_Test]()
    if row.speeds and before and after:
        scaled = [side / speed for side, speed in zip(sides, row.speeds, strict=True)]
        relative.append(_tested(row, scaled, rounding, among))
    if row.paired and len(row.before) > 1 and all(side.all() for side in sides[:2]):
        logs = np.log(sides[1] / sides[0])
        error = max(1e-6, math.sqrt(max(float(logs.var(ddof=1)), rounding) / len(logs)))
        in_pairs = _Test(own.logarithm, error, len(logs) - 1, error * _larger(len(logs) - 1))
        return _Estimate(before, after, in_pairs, (in_pairs, relative[0] if relative and not row.whole else own))
    if relative and math.isinf(own.later):
        own = own.widened(((own.logarithm - relative[0].logarithm) / NORMAL_QUARTILE) ** 2)
    shared = own.widened(SPEED_SPREAD**2) if relative else own
    return _Estimate(before, after, own, (shared, *([] if row.whole else relative)))


def _tested(row: Row, sides: Sequence[Samples], rounding: float, among: tuple[float, float]) -> _Test:
    """Test the times of recordings, or those relative to other operators.

    `rounding` is the variance of the change by clock ticks, `among` that among rows, with its degrees of freedom.
    """
    before, after = (float(side.mean()) for side in sides[:2])
    logarithm = math.log(after / before) if before and after else float(bool(after) - bool(before))
    known = [np.log(side) if side.all() else side / side.mean() for side in sides if side.any()]
    freedom = sum(len(side) - 1 for side in known)
    variance = sum(float(side.var()) * len(side) for side in known) / max(1, freedom)
    inverse = max(1e-12, sum(1 / len(side) for side in sides[:2] if side.any()))
    few = freedom < _FEWEST_FREE
    within, worst = _within(row, every=few) if before and after else (0.0, 0.0)
    if few and within:
        between = max((max(PROCESS_SPREAD**2, variance) * inverse, math.inf), among)
        return _Test(logarithm, math.sqrt(within + rounding / 2 * inverse), _PARTS - 1).widened(*between)
    least = max(rounding / 2, 1e-12, 0 if freedom else ASSUMED_SPREAD**2)
    square, free = max((max(variance, least) * inverse, freedom or math.inf), (within, _PARTS - 1))
    later = math.inf if few else max(math.sqrt(square) * _larger(free), math.sqrt(worst))
    return _Test(logarithm, math.sqrt(square), free, later)


def _larger(freedom: float) -> float:
    """Return the factor by which the standard deviation of 5% of other samples exceeds that of this one.

    Its square is a quantile of the F distribution, that is, of the ratio of two variables with a chi-square
    distribution (approximation by E. B. Wilson and M. M. Hilferty, Proc. Natl. Acad. Sci. 17, 1931).
    """
    part = 2 / (9 * freedom)
    margin = quantile(_POWER, math.inf) * math.sqrt(part / 2)
    return float(((1 - part + margin) / (1 - part - margin)) ** 1.5)


def _within(row: Row, *, every: bool) -> tuple[float, float]:
    """Return the variance of the change by the scatter of executions, and that if all scattered as the worst one.

    Unless `every` is set, a side of several recordings is omitted. With too few executions, both are 0.
    """
    sides = [side for side in (row.before, row.after) if every or len(side) == 1]
    recordings = [times for side in (row.before, row.after, row.history) for times in side if times.any()]
    if not sides or min(map(np.count_nonzero, recordings)) < _FEWEST:
        return 0.0, 0.0
    worst = max(map(_scatter, recordings)) * sum(1 / len(side) for side in sides)
    return sum(_scatter(times) / len(side) ** 2 for side in sides for times in side), worst


def _holm(probabilities: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm-Bonferroni)."""
    order = np.argsort(probabilities)
    found = np.maximum.accumulate(np.array(probabilities)[order] * np.arange(len(order), 0, -1))
    return [min(1.0, one) for one in found[np.argsort(order)].tolist()]


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
