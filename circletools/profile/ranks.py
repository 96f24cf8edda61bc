"""The order of times. Times share a rank if the trace cannot resolve them: its clock has a step, and runs vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from circletools.profile.joining import Time

_FINER = 3  # a mean resolves more than the steps of the clock
_NEAR = 0.1  # of the greater time: closer times change order from one recording of a model to the next


class Rank(NamedTuple):
    """A place in the order, 1 for the first; `shared` is the place of the first time that cannot be distinguished."""

    place: int
    shared: int


def ranks(times: Sequence[Time], tick_ns: int, work: Sequence[int] | None = None) -> list[Rank]:
    """Return the rank of each time, the greatest first.

    Times are compared by `typical_ns`. Times that share a rank differ from the greatest of them by less than a third
    of a step of the clock, or less than a tenth; the one with the most `work` comes first, as work is the same in
    each trace. Averages, and operators that do not run in most executions, are ranked by their totals.
    """
    groups: list[list[int]] = []
    for at in sorted(range(len(times)), key=lambda at: _key(times[at])):
        if groups and _near(times[groups[-1][0]], times[at], tick_ns):
            groups[-1].append(at)
        else:
            groups.append([at])
    found, done = {}, 0
    for group in groups:
        for place, at in enumerate(sorted(group, key=lambda at: (-work[at] if work else 0, at)), done + 1):
            found[at] = Rank(place, done + 1)
        done += len(group)
    return [found[at] for at in range(len(times))]


def _key(time: Time) -> tuple[int, int]:
    return -(time.typical_ns or 0), 0 if time.typical_ns else -time.total_ns


def _near(greater: Time, time: Time, tick_ns: int) -> bool:
    if not greater.typical_ns or not time.typical_ns:
        return _key(greater) == _key(time)
    less = greater.typical_ns - time.typical_ns
    return _FINER * less < tick_ns or less < _NEAR * greater.typical_ns
