"""The pace of recordings: what operators of one take longer than in the others, since the machine was slower.

A processor that clocks lower, or another program that uses the memory, slows operators together, each to a degree of
its own. What of that differs between the recordings of a side hides what became of a single operator, so operators
are compared at one pace:

    logarithms of times, less the mean of each side  ->  what the other operators have in common (up to three
    factors)  ->  the degree to which the operator follows each  ->  its times without that

By how much a factor differs between the sides is told by all other operators, of which single ones may have become
slower: so by the least sum of deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circletools.profile.compare import Row, location
from circletools.profile.student import quantile

_LEAST_TICKS = 10  # shorter operators are too coarse to tell a pace
_MOST_TELLING = 256  # of more operators, those that take longest tell it
_MOST_FACTORS, _RECORDINGS_OF_ONE, _OPERATORS_BESIDE = 3, 3, 2
_SURE = 0.001  # the probability that a factor which is alike on both sides is taken for one that is not
_STEPS, _LEAST_DEVIATION = 30, 1e-4
_NORMAL_BY_MEDIAN, _VARIANCE_BY_LEAST_SUM = 1.4826, math.pi / 2

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Logarithms of times by operator and recording, as deviations `within` each side and the `shift` between."""

    within: Floats
    shift: Floats
    first: int

    @property
    def freedom(self) -> int:
        return len(self.within[0]) - 2

    @property
    def inverse(self) -> float:
        """What the variance of a recording is multiplied with to get that of a shift."""
        return 1 / self.first + 1 / (len(self.within[0]) - self.first)


@dataclass(frozen=True, slots=True)
class _Factors:
    """What operators have in common: by recording and factor, `shift` of the second side and its `variance`."""

    scores: Floats
    shift: Floats
    variance: Floats


def at_one_pace(rows: Sequence[Row], tick_ns: float) -> tuple[list[Row], Floats | None]:
    """Return operators as they would be if all recordings were of one pace, and the paces of the recordings.

    Those before come first; a pace is the median over operators, 1.5 where they take half as long again. None where
    it is not known: with less than five recordings in all, or less than four operators that take ten ticks of the
    clock. What surely differs between the sides (Student's t, 0.1 %) stays in the times: it may be looked for.
    """
    if not rows:
        return [], None
    times = np.array([[location(times) for times in (*row.before, *row.after)] for row in rows])
    sides = _sides(np.log(np.maximum(times, 1)), len(rows[0].before))
    telling = np.flatnonzero((times >= max(_LEAST_TICKS * tick_ns, 1)).all(axis=1))
    telling = telling[np.argsort(-times[telling].mean(axis=1), kind="stable")][:_MOST_TELLING]
    by_all, found, slower = None, list(rows), []
    for at in np.flatnonzero((times > 0).all(axis=1)).tolist():
        if at in telling:  # what it does by itself is no pace
            factors = _factors(sides, telling[telling != at])
        else:
            factors = by_all = by_all or _factors(sides, telling)
        if factors is None:
            return list(rows), None
        found[at], logs = _without(rows[at], sides, at, factors)
        if at in telling:
            slower.append(logs)
    return found, np.exp(np.median(slower, axis=0)) if np.any(slower) else None


def _sides(logs: Floats, first: int) -> _Sides:
    means = [logs[:, :first].mean(axis=1), logs[:, first:].mean(axis=1)]
    side = np.repeat([0, 1], [first, logs.shape[1] - first])
    return _Sides(logs - np.column_stack(means)[:, side], means[1] - means[0], first)


def _factors(sides: _Sides, operators: npt.NDArray[np.int64]) -> _Factors | None:
    """Return what these operators have in common; None where they or the recordings are too few."""
    count = min(_MOST_FACTORS, sides.freedom // _RECORDINGS_OF_ONE, len(operators) - _OPERATORS_BESIDE)
    if count < 1:
        return None
    within, shift = sides.within[operators], sides.shift[operators]
    scores = np.linalg.svd(within, full_matrices=False)[2][:count].T
    moved = _least_sum(within @ scores, shift)
    # The scores of a factor have the sum of squares 1.
    alike = abs(moved) <= quantile(1 - _SURE / 2, sides.freedom) * math.sqrt(sides.inverse / sides.freedom)
    scores = scores[:, alike]
    loads = within @ scores
    moved = _least_sum(loads, shift)
    spread = _NORMAL_BY_MEDIAN * float(np.median(abs(shift - loads @ moved)))
    return _Factors(scores, moved, _VARIANCE_BY_LEAST_SUM * spread**2 * np.linalg.pinv(loads.T @ loads))


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
    loads = sides.within[at] @ factors.scores
    side = np.repeat([-0.5, 0.5], [sides.first, sides.within.shape[1] - sides.first])
    logs = factors.scores @ loads + side * float(factors.shift @ loads)
    spent = len(loads)
    variance = float(((sides.within[at] - factors.scores @ loads) ** 2).sum()) / (sides.freedom - spent)
    doubt = variance * float(factors.shift @ factors.shift) + float(loads @ factors.variance @ loads)
    recordings = [times / slower for times, slower in zip((*row.before, *row.after), np.exp(logs), strict=True)]
    before, after = recordings[: sides.first], recordings[sides.first :]
    return replace(row, before=before, after=after, spent=spent, doubt=doubt), logs
