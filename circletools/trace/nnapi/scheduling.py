"""What threads did in the time of their scopes, where the trace has the kernel's switches: run, wait, or sleep.

Of a thread, from a switch to it on it runs. From a switch away from it on it can run where the kernel marks it so
(state R), else it is blocked, until something wakes it. Before the first switch of a trace and after the last,
nothing is known; a thread that is switched away first of all ran until then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from circletools.trace.nnapi.contexts import BUCKETS, Contexts
from circletools.trace.nnapi.statistics import Intervals, covered, union
from circletools.trace.sources import Trace
from circletools.trace.sources.names import Numbers, sums

RUNNING, RUNNABLE, BLOCKED = range(3)
_OUT, _IN, _WOKEN = range(3)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The self time of a layer and phase on threads, in nanoseconds, by what the threads did."""

    layer: str
    phase: str
    running_ns: int
    runnable_ns: int
    blocked_ns: int
    unknown_ns: int


class Scheduling:
    """Collects when scopes were innermost, from the first switch in the trace on."""

    def __init__(self, trace: Trace, contexts: Contexts) -> None:
        self._trace, self._contexts = trace, contexts
        self._parts: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        self._all: defaultdict[int, int] = defaultdict(int)

    def add(self, intervals: Intervals) -> None:
        """Add a batch's."""
        owners = np.array(self._contexts.owners, np.int64)[intervals.codes]
        for owner, total in sums(owners, intervals.ends - intervals.starts):
            self._all[owner] += total
        if self._trace.switches:
            self._parts.append((intervals.starts, intervals.ends, intervals.threads, owners))

    def finish(self, tids: list[int]) -> list[Scheduled]:
        """Return the times by layer and phase; none where the trace has no switches of these threads."""
        switches = self._trace.switches
        if not switches:
            return []
        found = np.zeros((3, len(BUCKETS)), np.int64)
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        for index, steps in _steps(switches.rows(), tids).items():
            if columns:
                mine = columns[2] == index
                starts, ends, owners = columns[0][mine], columns[1][mine], columns[3][mine]
                for state, (begins, stops) in enumerate(_segments(steps, switches.first_ns, switches.last_ns)):
                    if len(begins):
                        spans = union(begins, stops)
                        np.add.at(found[state], owners, covered(ends, *spans) - covered(starts, *spans))
        if not found.any():
            return []
        return [
            Scheduled(
                *BUCKETS[owner],
                running_ns=int(found[RUNNING, owner]),
                runnable_ns=int(found[RUNNABLE, owner]),
                blocked_ns=int(found[BLOCKED, owner]),
                unknown_ns=total - int(found[:, owner].sum()),
            )
            for owner, total in sorted(self._all.items())
        ]


def _steps(rows: list[tuple[int, int, int, bool]], tids: list[int]) -> dict[int, list[tuple[int, int, bool]]]:
    """Return the events of each thread, by its index: time, kind, and whether it can still run."""
    indices = {tid: index for index, tid in enumerate(tids)}
    found: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for t_ns, before, after, runnable in sorted(rows, key=lambda row: row[0]):
        if before in indices:
            found[indices[before]].append((t_ns, _OUT, runnable))
        if after in indices:
            found[indices[after]].append((t_ns, _WOKEN if before < 0 else _IN, runnable))
    return found


def _segments(steps: list[tuple[int, int, bool]], first_ns: int, last_ns: int) -> list[tuple[Numbers, Numbers]]:
    """Return when a thread ran, could run, and was blocked: starts and ends of each."""
    state = RUNNING if steps[0][1] == _OUT else None
    since = first_ns
    found: list[list[tuple[int, int]]] = [[], [], []]
    for t_ns, what, runnable in [*steps, (last_ns, _WOKEN, False)]:
        end_ns = min(max(t_ns, first_ns), last_ns)  # a wake-up can lie outside the switches
        if state is not None and end_ns > since:
            found[state].append((since, end_ns))
        since = end_ns
        if what == _IN:
            state = RUNNING
        elif what == _OUT:
            state = RUNNABLE if runnable else BLOCKED
        elif state == BLOCKED or state is None:
            state = RUNNABLE
    return [
        (np.array([one[0] for one in some], np.int64), np.array([one[1] for one in some], np.int64)) for some in found
    ]
