"""The pace of recordings: what operators of one take longer than in the others, since the machine was slower.

A processor that clocks lower, or another program that uses the memory, slows operators together, each to a degree of
its own, for seconds or for milliseconds. What of that differs between the recordings of a side hides what became of a
single operator, so operators are compared at one pace:

    ten executions of an operator  ->  the logarithm of their time, less the mean of the side  ->  what the other
    operators have in common (up to six factors)  ->  the degree to which the operator follows each  ->  its times
    without that

How much a factor differs between the sides is estimated from all other operators, of which single ones may have
become slower: so by the least sum of absolute deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circletools.profile.compare import Row, Samples, locations
from circletools.profile.student import quantile

_EXECUTIONS, _MOST_BLOCKS = 10, 100  # of a block, and the blocks of a recording
_LEAST_TICKS = 5  # shorter operators are too coarse to show a pace
_MOST_SAMPLED = 64  # of more operators, only those that take longest are used
_MOST_FACTORS, _BLOCKS_OF_ONE, _OPERATORS_BESIDE = 6, 3, 2
_LEAST_FREEDOM, _MOST_SPENT = 3, 1 / 3
_SURE = 0.001  # the probability that a factor which is alike on both sides is taken for one that is not
_STEPS, _LEAST_DEVIATION, _TINY = 30, 1e-4, 1e-9
_NORMAL_BY_MEDIAN, _VARIANCE_BY_LEAST_SUM = 1.4826, math.pi / 2

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Logarithms of times: deviations from the mean of each side by operator and block, means by recording.

    `counts` are the blocks of each recording, of which the side before has the `first`.
    """

    within: Floats
    recorded: Floats
    counts: npt.NDArray[np.int64]
    first: int

    @property
    def shift(self) -> Floats:
        """How much longer each operator takes on the second side."""
        return np.asarray(self.recorded[:, self.first :].mean(axis=1) - self.recorded[:, : self.first].mean(axis=1))

    @property
    def freedom(self) -> int:
        return len(self.counts) - 2

    @property
    def inverse(self) -> float:
        """The factor from the variance of a recording to that of a shift."""
        return 1 / self.first + 1 / (len(self.counts) - self.first)


@dataclass(frozen=True, slots=True)
class _Factors:
    """The common factors of operators, by block and factor, and their shift to the second side.

    `variance` is that of `shift`; `spent` are the degrees of freedom that taking it out costs.
    """

    scores: Floats
    shift: Floats
    variance: Floats
    spent: float


def at_one_pace(rows: Sequence[Row], tick_ns: float) -> tuple[list[Row], Floats | None]:
    """Return operators as they would be if all recordings were of one pace, and the paces of the recordings.

    Those before come first; a pace is the median over operators, 1.5 where they take half as long again. None where
    it is not known: with less than five recordings in all, or less than four operators that take five ticks of the
    clock. What surely differs between the sides (Student's t, 0.1 %) stays in the times: it may be looked for.
    """
    if not rows:
        return [], None
    times = np.array([np.concatenate([_blocks(one) for one in (*row.before, *row.after)]) for row in rows])
    counts = np.array([_count(len(one)) for one in (*rows[0].before, *rows[0].after)])
    sides = _sides(np.log(np.maximum(times, 1)), counts, len(rows[0].before))
    sampled = np.flatnonzero((times >= max(_LEAST_TICKS * tick_ns, 1)).all(axis=1))
    sampled = sampled[np.argsort(-times[sampled].mean(axis=1), kind="stable")][:_MOST_SAMPLED]
    by_all, found, slower = None, list(rows), []
    for at in np.flatnonzero((times > 0).all(axis=1)).tolist():
        if at in sampled:  # what it does by itself is no pace
            factors = _factors(sides, sampled[sampled != at])
        else:
            factors = by_all = by_all or _factors(sides, sampled)
        if factors is None:
            return list(rows), None
        found[at], logs = _without(rows[at], sides, at, factors)
        if at in sampled:
            slower.append(logs)
    return found, np.exp(np.median(slower, axis=0)) if np.any(slower) else None


def _count(executions: int) -> int:
    return min(max(1, executions // _EXECUTIONS), _MOST_BLOCKS)


def _blocks(times: Samples) -> Samples:
    """Return the time of each block of a recording; the few executions after the last are left out."""
    count = _count(len(times))
    width = len(times) // count
    return locations(times[: count * width].reshape(count, width))


def _recorded(blocks: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """Return the mean of each recording, of values whose last axis are blocks."""
    return np.asarray(np.add.reduceat(blocks, np.cumsum(counts) - counts, axis=-1) / counts)


def _sides(logs: Floats, counts: npt.NDArray[np.int64], first: int) -> _Sides:
    recorded = _recorded(logs, counts)
    means = np.column_stack([recorded[:, :first].mean(axis=1), recorded[:, first:].mean(axis=1)])
    side = np.repeat(np.arange(len(counts)) >= first, counts).astype(int)
    return _Sides(logs - means[:, side], recorded, counts, first)


def _factors(sides: _Sides, operators: npt.NDArray[np.int64]) -> _Factors | None:
    """Return the common factors of these operators; None where they or the recordings are too few."""
    within, shift = sides.within[operators], sides.shift[operators]
    count = min(_MOST_FACTORS, (within.shape[1] - 2) // _BLOCKS_OF_ONE, len(operators) - _OPERATORS_BESIDE)
    if count < 1 or sides.freedom < _LEAST_FREEDOM:
        return None
    scores = within.T @ np.linalg.eigh(within @ within.T)[1][:, : -count - 1 : -1]
    scores /= np.maximum(np.linalg.norm(scores, axis=0), _LEAST_DEVIATION)
    squares = _recorded(scores.T, sides.counts) ** 2
    spent = squares @ sides.counts  # of 1, which all squares of a factor add up to
    moved = _least_sum(within @ scores, shift)
    reach = quantile(1 - _SURE / 2, sides.freedom) * np.sqrt(squares.sum(axis=1) / sides.freedom * sides.inverse)
    used = (np.cumsum(spent) <= max(1, _MOST_SPENT * sides.freedom) + _TINY) & (abs(moved) <= reach + _TINY)
    scores = scores[:, used]
    loads = within @ scores
    moved = _least_sum(loads, shift)
    spread = _NORMAL_BY_MEDIAN * float(np.median(abs(shift - loads @ moved)))
    variance = _VARIANCE_BY_LEAST_SUM * spread**2 * np.linalg.pinv(loads.T @ loads)
    return _Factors(scores, moved, variance, float(spent[used].sum()))


def _least_sum(loads: Floats, shift: Floats) -> Floats:
    """Return by what the factors are to be multiplied for the least sum of absolute deviations from the shifts."""
    if not loads.size:
        return np.zeros(loads.shape[1])
    found = np.linalg.lstsq(loads, shift, rcond=None)[0]
    for _ in range(_STEPS):  # least squares, each weighed by the inverse of its deviation
        weights = 1 / np.sqrt(np.maximum(abs(shift - loads @ found), _LEAST_DEVIATION))
        found = np.linalg.lstsq(loads * weights[:, None], shift * weights, rcond=None)[0]
    return np.asarray(found)


def _without(row: Row, sides: _Sides, at: int, factors: _Factors) -> tuple[Row, Floats]:
    """Return an operator without what it has of the factors, and the logarithm of that by recording."""
    within, first = sides.within[at], sides.first
    loads = within @ factors.scores
    if not len(loads):
        return row, np.zeros(len(sides.counts))
    left = within - factors.scores @ loads
    variance = float(_recorded(left, sides.counts) ** 2 @ sides.counts) / (sides.freedom - factors.spent)
    variance = max(variance, float((left**2).mean()))
    doubt = variance * float(factors.shift @ factors.shift) + float(loads @ factors.variance @ loads)
    side = np.where(np.arange(len(sides.counts)) < first, -0.5, 0.5)
    logs = _recorded(factors.scores.T, sides.counts).T @ loads + side * float(factors.shift @ loads)
    alike = np.exp(sides.recorded[at] - logs)[:, None]
    return replace(row, before=alike[:first], after=alike[first:], spent=factors.spent, doubt=doubt), logs
