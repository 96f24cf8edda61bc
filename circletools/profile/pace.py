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


def at_one_pace(rows: Sequence[Row], names: Sequence[str], tick_ns: float) -> tuple[list[Row], Floats | None]:
    """Return operators as they would be if all recordings were of the usual pace, and the paces of the recordings.

    Those before come first; None where it is not known. What operators of one name still have in common goes too:
    what waits for memory slows otherwise than the rest.
    """
    if not rows:
        return [], None
    first = len(rows[0].before)
    times = np.array([[location(times) for times in (*row.before, *row.after)] for row in rows])
    common = pace_of(times, first, tick_ns)
    paces = np.ones_like(times) if common is None else np.tile(common, (len(rows), 1))
    alike: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        alike.setdefault(name, []).append(at)
    for places in alike.values():
        own = pace_of(times[places] / paces[places], first, tick_ns)
        if own is not None:
            paces[places] *= own
    return [_at_pace(row, pace) for row, pace in zip(rows, paces, strict=True)], common


def pace_of(times: Floats, first: int, tick_ns: float) -> Floats | None:
    """Return by what recordings are slower than the usual one, 1.5 where they take half as long again.

    `times` are of operators by recording, the `first` ones of which are those before. The pace of a recording is the
    median over operators of what each takes there, by its mean over both sides. None where that says nothing: with
    one recording a side, or less than three operators that take ten ticks of the clock; where more than a third of
    them surely differ otherwise between the sides; and where the sides surely differ in pace (Student's t, 5 %),
    which may be what is looked for.
    """
    times = times[(times >= _LEAST_TICKS * tick_ns).all(axis=1)]
    recordings = times.shape[1]
    if min(first, recordings - first) < 2 or len(times) < _LEAST_ROWS:
        return None
    logs = np.log(times)
    found = np.median(logs - _centre(logs, first)[:, None], axis=0)
    found -= _centre(found, first)
    sure = quantile(1 - LEVEL / 2, recordings - 2)
    shifts, errors = _shifts(logs - found, first)
    others = (abs(shifts) > _ALIKE) & (abs(shifts) > sure * errors)
    shift, error = _shifts(found, first)
    return None if others.mean() > _MOST_OTHERS or abs(shift) > sure * error else np.exp(found)


def _at_pace(row: Row, pace: Floats) -> Row:
    recordings = [times / slower for times, slower in zip((*row.before, *row.after), pace, strict=True)]
    first = len(row.before)
    return replace(row, before=recordings[:first], after=recordings[first:])


def _centre(logs: Floats, first: int) -> Floats:
    """Return the mean over recordings, in which both sides count alike."""
    return np.asarray(logs[..., :first].mean(axis=-1) + logs[..., first:].mean(axis=-1)) / 2


def _shifts(logs: Floats, first: int) -> tuple[Floats, Floats]:
    """Return what the mean of the second side is above that of the first, and the standard error of that."""
    sides = logs[..., :first], logs[..., first:]
    variance = sum(((side - side.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1) for side in sides)
    freedom, inverse = logs.shape[-1] - 2, sum(1 / side.shape[-1] for side in sides)
    return sides[1].mean(axis=-1) - sides[0].mean(axis=-1), np.sqrt(variance / freedom * inverse)
