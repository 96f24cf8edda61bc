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
from circletools.profile.student import tail

_LEAST_TICKS = 10  # shorter operators are too coarse to tell a pace
_LEAST_ROWS, _MOST_OTHERS = 3, 1 / 3
_ALIKE = math.log(1.1)

Floats = npt.NDArray[np.float64]


def paces(rows: Sequence[Row], tick_ns: float) -> list[Floats]:
    """Return for each side by what its recordings are slower than the usual one: 1.5 takes half as long again.

    `rows` are operators. The pace of a recording is the median over operators of what each takes there, by its mean
    over both sides. All are 1 where that says nothing: with one recording a side, less than three operators that
    take ten ticks of the clock, or a third of them that differ otherwise between the sides; and where the sides
    surely differ in pace (Student's t, 5 %), which may be what is looked for.
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
    left = logs - found
    differ = np.abs(left[:, first:].mean(axis=1) - left[:, :first].mean(axis=1)) > _ALIKE
    if differ.mean() > _MOST_OTHERS or _surely_differ(found[:first], found[first:]):
        return ones
    return [np.exp(found[:first]), np.exp(found[first:])]


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


def _surely_differ(before: Floats, after: Floats) -> bool:
    freedom = len(before) + len(after) - 2
    variance = (((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum()) / freedom
    error = math.sqrt(variance * (1 / len(before) + 1 / len(after)))
    shift = abs(float(after.mean() - before.mean()))
    return tail(shift / error, freedom) <= LEVEL / 2 if error else shift > 0
