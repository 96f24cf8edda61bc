"""The order of times. What a trace cannot tell apart has one rank: its clock has a step, and each run differs."""

from __future__ import annotations

from collections.abc import Sequence

from circletools.profile.joining import Time

_FINER = 4  # a mean tells more than the steps of the clock
_NEAR = 10  # a tenth of the greater


def ranks(times: Sequence[Time], tick_ns: int) -> list[int]:
    """Return the rank of each time, 1 for the greatest; those of one rank cannot be told apart.

    Times are compared by `typical_ns`. Those of one rank differ from the greatest of them by less than a quarter of a
    step of the clock, or less than a tenth. Averages, and what does not run in most executions, go by their totals.
    """
    leaders: list[tuple[int, Time]] = []
    found = {}
    for rank, at in enumerate(sorted(range(len(times)), key=lambda at: _key(times[at])), 1):
        if not leaders or not _near(leaders[-1][1], times[at], tick_ns):
            leaders.append((rank, times[at]))
        found[at] = leaders[-1][0]
    return [found[at] for at in range(len(times))]


def _key(time: Time) -> tuple[int, int]:
    return -(time.typical_ns or 0), 0 if time.typical_ns else -time.total_ns


def _near(greater: Time, time: Time, tick_ns: int) -> bool:
    if not greater.typical_ns or not time.typical_ns:
        return _key(greater) == _key(time)
    less = greater.typical_ns - time.typical_ns
    return _FINER * less < tick_ns or _NEAR * less < greater.typical_ns
