"""Which execution a thread works for.

Where one execution is in flight, it is that one. Where several are, no mark identifies it: a worker thread is taken
to serve the one that began first and has no worker, and a driver the one whose thread is calling a driver.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from circletools.trace.nnapi.contexts import BUCKETS
from circletools.trace.nnapi.executions import KINDS, Execution
from circletools.trace.nnapi.marks import Role
from circletools.trace.nnapi.statistics import Intervals, pieces
from circletools.trace.nnapi.timeline import OUTSIDE
from circletools.trace.sources.names import Numbers

Times = tuple[Numbers, Numbers]
"""Starts and ends."""

_SEVERAL, _NONE = -1, -1
_MOST_LOOKED_AT = 64
DRIVER, _CALL = (
    sum(1 << number for number, bucket in enumerate(BUCKETS) if bucket[0] == layer) for layer in ("LD", "LI")
)


def links_of(rows: Intervals, executions: Sequence[Execution], times: Times, processes: Sequence[int]) -> Intervals:
    """Return the parts of `rows` that lie within executions; their `paths` are the places of these.

    `rows` are those of `Work.rows`; `times` are those of the executions, `processes` has that of each thread.
    """
    driver, everything = rows.codes & DRIVER != 0, _alone_in_flight(times, np.arange(len(executions)))
    of_rows = np.array([*processes, 0], np.int64)[rows.threads]
    owners = np.array([one.process for one in executions], np.int64)
    if (owners == owners[:1]).all():
        groups = [(np.flatnonzero(driver | np.isin(of_rows, owners[:1])), everything)]
    else:
        clients = np.flatnonzero(~driver)
        groups = [(np.flatnonzero(driver), everything), *_by_process(clients, of_rows[clients], owners, times)]
    found, unsure = [rows.only(of_rows[:0])], [rows.only(of_rows[:0])]
    for chosen, segments in groups:
        for part, flights in pieces(rows.only(chosen), *segments):
            alone = part.only(flights > OUTSIDE)
            alone.paths = flights[flights > OUTSIDE] - 1
            found.append(alone)
            unsure.append(part.only(flights == _SEVERAL))
    left = _joined(unsure)
    if len(left.starts):
        links = _links(rows, executions, processes)
        left.paths = links[left.paths]
        found.append(left.only(_within(left, times)))
    return _joined(found)


def _by_process(
    places: Numbers, processes: Numbers, owners: Numbers, times: Times
) -> Iterator[tuple[Numbers, Times]]:
    """Yield for each process of executions its places, and what `_alone_in_flight` gives for its executions."""
    order = np.argsort(processes, kind="stable")
    for process in sorted(set(owners.tolist())):
        first, last = np.searchsorted(processes, (process, process + 1), sorter=order)
        yield places[order[first:last]], _alone_in_flight(times, np.flatnonzero(owners == process))


def _joined(parts: Sequence[Intervals]) -> Intervals:
    names = ("starts", "ends", "threads", "paths", "codes")
    return Intervals(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _within(rows: Intervals, times: Times) -> Numbers:
    """Return the places of the rows that lie within the execution that they are linked to."""
    starts, ends = times
    known = rows.paths != _NONE
    return np.flatnonzero(known & (starts[rows.paths] <= rows.starts) & (rows.ends <= ends[rows.paths]))


def _alone_in_flight(executions: Times, places: Numbers) -> tuple[Numbers, Numbers]:
    """Return from when on which of some executions is alone in flight, its place and 1 as the segment."""
    places = places[executions[0][places] < executions[1][places]]
    starts, ends, numbers = executions[0][places], executions[1][places], places + 1
    times, steps = np.concatenate((starts, ends)), np.concatenate((numbers, -numbers))
    order = np.lexsort((steps, times))
    flying, alone = np.cumsum(np.sign(steps[order])), np.cumsum(steps[order])
    segments = np.where(flying > 1, _SEVERAL, alone)
    return np.append(np.iinfo(np.int64).min, times[order]), np.append(OUTSIDE, segments)


def _links(rows: Intervals, executions: Sequence[Execution], processes: Sequence[int]) -> Numbers:
    """Return for each stretch the place of the execution that it works for."""
    links = np.full(int(rows.paths[-1]) + 1, _NONE)
    first = np.flatnonzero(np.diff(rows.paths, prepend=-1))
    last = np.append(first[1:], len(rows.paths)) - 1
    calls: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row in np.flatnonzero(rows.codes & _CALL).tolist():
        for times, time in zip(calls[int(rows.threads[row])], (rows.starts[row], rows.ends[row]), strict=True):
            times.append(int(time))
    linker = _Linker(executions, processes, calls)
    for stretch in np.argsort(rows.starts[first], kind="stable").tolist():
        start, thread = int(rows.starts[first[stretch]]), int(rows.threads[first[stretch]])
        in_driver = bool(rows.codes[first[stretch]] & DRIVER)
        links[stretch] = linker.link(start, int(rows.ends[last[stretch]]), thread, in_driver)
    return links


class _Linker:
    """Links stretches, which come by their starts."""

    def __init__(
        self,
        executions: Sequence[Execution],
        processes: Sequence[int],
        calls: dict[int, tuple[list[int], list[int]]],
    ) -> None:
        self._executions, self._processes, self._calls = executions, processes, calls
        self._coming = deque(sorted(range(len(executions)), key=lambda place: executions[place].start_ns))
        self._flying: deque[int] = deque()
        self._served: dict[tuple[int, bool], int] = {}
        self._workers: dict[int, list[int]] = defaultdict(list)

    def link(self, start: int, end: int, thread: int, in_driver: bool) -> int:
        """Return the place of the execution that a stretch works for."""
        while self._coming and self._executions[self._coming[0]].start_ns <= start:
            self._flying.append(self._coming.popleft())
        while self._flying and self._executions[self._flying[0]].end_ns <= start:
            self._flying.popleft()
        flying = [one for one in islice(self._flying, _MOST_LOOKED_AT) if self._executions[one].end_ns > start]
        if in_driver:
            calling = [place for place in flying if self._calls_a_driver(place, start)]
            chosen = self._free(calling or flying, start, in_driver=True)
        else:
            process = self._processes[thread]
            mine = [place for place in flying if self._executions[place].process == process]
            own = [place for place in mine if self._executions[place].thread == thread]
            chosen = self._own(own, start) if own else self._free(mine, start, in_driver=False)
        if chosen != _NONE:
            self._served[chosen, in_driver] = end
            if not in_driver:
                self._workers[chosen].append(thread)
        return chosen

    def _own(self, places: Iterable[int], start: int) -> int:
        """Return the execution that a thread works for which began some itself."""
        asynchronous = KINDS[Role.START]
        for place in places:
            one = self._executions[place]
            if one.kind != asynchronous or one.start_ns == start:
                return place
        return _NONE  # it waits

    def _free(self, places: Iterable[int], start: int, *, in_driver: bool) -> int:
        return next((place for place in places if self._served.get((place, in_driver), start) <= start), _NONE)

    def _calls_a_driver(self, place: int, t_ns: int) -> bool:
        """Return whether a thread that works for an execution is calling a driver."""
        for thread in self._workers[place][-_MOST_LOOKED_AT:]:
            starts, ends = self._calls.get(thread, ((), ()))
            at = bisect_right(starts, t_ns) - 1
            if at >= 0 and t_ns < ends[at]:
                return True
        return False
