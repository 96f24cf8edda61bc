"""The pace of recordings: what all operators of one take longer than in the others, since the machine was slower.

A processor that clocks lower, or that another system uses as well, slows all operators alike. What of that differs
between the recordings of a side hides what became of a single operator, so operators are compared at one pace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from circletools.profile.compare import LEVEL, Row, location
from circletools.profile.student import quantile

_LEAST_TICKS = 10  # shorter operators are too coarse to tell a pace
_LEAST_ROWS, _MOST_OTHERS = 3, 1 / 3
_ALIKE = math.log(1.1)

Floats = npt.NDArray[np.float64]


def paces(rows: Sequence[Row], tick_ns: float) -> list[Floats]:
    """Return for each side by what its recordings are slower than the usual one: 1.5 takes half as long again.

    `rows` are operators. The pace of a recording is the median over operators of what each takes there, by its mean
    over both sides. All are 1 where that says nothing: with one recording a side, or less than three operators that
    take ten ticks of the clock; where more than a third of them surely differ otherwise between the sides; and where
    the sides surely differ in pace (Student's t, 5 %), which may be what is looked for.
    """
    counts = [len(side) for side in (rows[0].before, rows[0].after)] if rows else [0, 0]
    ones = [np.ones(count) for count in counts]
    if min(counts) < 2:
        return ones
    times = np.array([[location(times) for times in (*row.before, *row.after)] for row in rows])
    times = times[(times >= _LEAST_TICKS * tick_ns).all(axis=1)]
    if len(times) < _LEAST_ROWS:
        return ones
    logs = np.log(times)
    first = counts[0]
    found = np.median(logs - _centre(logs, first)[:, None], axis=0)
    found -= _centre(found, first)
    shifts, errors = _shifts(logs - found, first)
    others = (abs(shifts) > _ALIKE) & (abs(shifts) > _sure(counts) * errors)
    shift, error = _shifts(found, first)
    if others.mean() > _MOST_OTHERS or abs(shift) > _sure(counts) * error:
        return ones
    return [np.exp(found[:first]), np.exp(found[first:])]


def at_one_pace(rows: Sequence[Row], names: Sequence[str], tick_ns: float) -> tuple[list[Row], list[Floats]]:
    """Return operators as they would be if all recordings were of the usual pace, and the paces that they were of.

    What operators of one name still have in common goes too: what waits for memory slows otherwise than the rest.
    """
    found = paces(rows, tick_ns)
    paced = [at_pace(row, found) for row in rows]
    for name in dict.fromkeys(names):
        alike = [at for at, other in enumerate(names) if other == name]
        own = paces([paced[at] for at in alike], tick_ns)
        for at in alike:
            paced[at] = at_pace(paced[at], own)
    return paced, found


def at_pace(row: Row, found: Sequence[Floats]) -> Row:
    """Return a row as it would be if its recordings were all of the usual pace."""
    before, after = (
        [times / pace for times, pace in zip(side, by, strict=True)]
        for side, by in zip((row.before, row.after), found, strict=True)
    )
    return replace(row, before=before, after=after)


def _centre(logs: Floats, first: int) -> Floats:
    """Return the mean over recordings, in which both sides count alike."""
    centre: Floats = (logs[..., :first].mean(axis=-1) + logs[..., first:].mean(axis=-1)) / 2
    return np.asarray(centre)


def _shifts(logs: Floats, first: int) -> tuple[Floats, Floats]:
    """Return what the mean of the second side is above that of the first, and the standard error of that."""
    sides = logs[..., :first], logs[..., first:]
    variance = sum(((side - side.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1) for side in sides)
    freedom, inverse = logs.shape[-1] - 2, sum(1 / side.shape[-1] for side in sides)
    return sides[1].mean(axis=-1) - sides[0].mean(axis=-1), np.sqrt(variance / freedom * inverse)


def _sure(counts: Sequence[int]) -> float:
    """Return the standard errors from which a difference is sure."""
    return quantile(1 - LEVEL / 2, sum(counts) - 2)
