"""Executions, each from its start to the end of its wait, on any threads; and other evidence of executions.

Starts and waits are paired within each process, first in, first out, because marks do not identify executions.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from circletools.trace.nnapi.marks import Role
from circletools.trace.nnapi.timeline import Runs
from circletools.trace.sources.names import Columns, Numbers, by_thread

KINDS = {
    Role.START: "asynchronous",
    Role.FENCED: "fenced",
    Role.COMPUTE: "synchronous",
    Role.CALL: "HAL call",
    Role.APPLICATION: "application",
}

_START, _FENCED, _WAIT, _NONE = Role.START.value, Role.FENCED.value, Role.WAIT.value, -1
_SERVED = (Role.SERVED_CALL, Role.SERVED_REQUEST)
_OF_DRIVERS = (*_SERVED, Role.DRIVER, Role.CALLBACK)


@dataclass(frozen=True, slots=True)
class EventBatch(Columns):
    """Begin and end events of marks that show executions, in time order; `at` holds their indices in the batch."""

    at: Numbers
    roles: Numbers
    begins: npt.NDArray[np.bool_]
    times: Numbers
    threads: Numbers
    wheres: Numbers


@dataclass(slots=True)
class Execution:
    """An execution. `segment` is the run and application phase in which it began; `end_ns` is -1 while it is running.

    `number` counts executions in the order of their starts.
    """

    number: int
    process: int
    thread: int
    kind: str
    start_ns: int
    segment: int
    where: int
    end_ns: int

    @property
    def elapsed_ns(self) -> int:
        """The duration."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionColumns(Columns):
    """Executions as columns, converted to objects on demand, since there may be very many. Kinds are numbers."""

    numbers: Numbers
    processes: Numbers
    threads: Numbers
    kinds: Numbers
    starts: Numbers
    segments: Numbers
    wheres: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Execution]:
        """Yield all executions in the order of their starts."""
        numbers, processes, threads, kinds, *others = (getattr(self, name).tolist() for name in self.__slots__)
        return map(Execution, numbers, processes, threads, map(KINDS.__getitem__, kinds), *others)


class _Rows:
    """Events of a trace as columns that grow batch by batch."""

    def __init__(self, count: int) -> None:
        self._columns = [array("q") for _ in range(count)]

    def add(self, *columns: npt.NDArray[Any]) -> None:
        for column, values in zip(self._columns, columns, strict=True):
            column.frombytes(values.astype(np.int64).tobytes())

    def arrays(self) -> list[npt.NDArray[Any]]:
        return [np.array(column) for column in self._columns]


class Executions:
    """Pairs starts with waits. `ignored` are the starts that no wait follows (see `unpaired`).

    `processes` holds the process of each thread.
    """

    def __init__(self, ignored: frozenset[int], processes: list[int], runs: Runs) -> None:
        self.unmatched_waits: list[int] = []
        self._ignored, self._processes, self._runs = ignored, processes, runs
        # For each execution: the number of its begin event, its process, thread, role, start, and place.
        self._begun = _Rows(6)
        # For each execution: the end, _NONE while it runs; the thread of its start mark, _NONE for other marks.
        self._ends, self._starters = array("q"), array("q")
        # Executions yet to be waited for, by process; those of open marks, by thread; the number in flight.
        self._pending: dict[int, deque[int]] = defaultdict(deque)
        self._open: dict[int, list[int]] = defaultdict(list)
        self._in_flight: dict[int, int] = defaultdict(int)

    def __bool__(self) -> bool:
        """Return whether any execution has begun."""
        return bool(self._ends)

    def add(self, batch: EventBatch, first: int) -> tuple[EventBatch, Numbers]:
        """Add events of a batch in time order; `first` is the number of its first event.

        Return the events at which threads began or ceased to have executions in flight, and those threads.
        """
        processes = np.array(self._processes, np.int64)[batch.threads]
        number = len(self._ends)
        new = batch.begins & (batch.roles != _WAIT)
        some = batch.only(new)
        self._begun.add(some.at + first, processes[new], some.threads, some.roles, some.times, some.wheres)
        self._starters.frombytes(np.where(some.roles == _START, some.threads, _NONE).tobytes())
        self._ends.extend([_NONE] * len(some.at))
        changes = list[int]()
        pending, opened, in_flight, ends = self._pending, self._open, self._in_flight, self._ends
        columns = (np.where(batch.begins, 1, -1) * batch.roles, processes, batch.threads, batch.times)
        for event, (role, process, thread, t_ns) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
            if role < 0:
                ended = opened[thread].pop()
                if ended == _NONE:
                    continue
                ends[ended] = t_ns
                starter = self._starters[ended]
                if role == -_FENCED:
                    pending[process].append(ended)
                elif starter != _NONE:
                    in_flight[starter] -= 1
                    if not in_flight[starter]:
                        changes += event, starter
            elif role == _WAIT:  # waits for the oldest pending execution of its process
                queue = pending[process]
                found = queue.popleft() if queue else _NONE
                opened[thread].append(found)
                if found == _NONE:
                    self.unmatched_waits.append(int(batch.wheres[event]))
            else:
                if role != _START:
                    opened[thread].append(number)
                elif number not in self._ignored:
                    pending[process].append(number)
                    if not in_flight[thread]:
                        changes += event, thread
                    in_flight[thread] += 1
                number += 1
        events, threads = np.array(changes, np.int64).reshape(-1, 2).T.copy()
        return batch.only(events), threads

    def ended(self) -> ExecutionColumns:
        """Return the executions that have ended."""
        ends = np.array(self._ends, np.int64)
        places = np.flatnonzero(ends >= 0)
        at, processes, threads, roles, starts, wheres = (column[places] for column in self._begun.arrays())
        segments = self._runs.segments(at, processes)
        return ExecutionColumns(places + 1, processes, threads, roles, starts, segments, wheres, ends[places])

    def unmatched_starts(self) -> list[int]:
        """Return the places of starts that no wait follows."""
        places: list[int] = self._begun.arrays()[-1][sorted(self._ignored)].tolist()
        return places

    def unpaired(self) -> set[int]:
        """Return the starts whose waits have not ended, as indices among all executions."""
        some = chain(*self._pending.values(), *self._open.values())
        return {number for number in some if number != _NONE and self._starters[number] != _NONE}


class Evidence:
    """Evidence of executions in a trace other than the runtime's own marks.

    For drivers, the evidence is HAL calls, [NN_LD_PE] marks outside them, and callbacks with the results of calls;
    for applications, it is [NN_LA_PE] marks and HAL calls.
    """

    def __init__(self, processes: list[int], runs: Runs) -> None:
        """Start with the process of each thread."""
        self._processes, self._runs = processes, runs
        self._found = _Rows(6)

    def add(self, batch: EventBatch, first: int, *, of_driver: bool) -> None:
        """Add events of a batch in time order; `of_driver` keeps only drivers' events, since runtime marks exist."""
        some = batch.only(np.isin(batch.roles, _OF_DRIVERS)) if of_driver else batch
        self._found.add(some.at + first, some.roles, some.begins, some.times, some.threads, some.wheres)

    def _outermost(self, *wanted: Role) -> tuple[EventBatch, Numbers]:
        """Return the begin and end events of the outermost marks with these roles on each thread, in order."""
        events = EventBatch(*self._found.arrays())
        events = events.only(np.isin(events.roles, wanted))
        order = by_thread(events.threads)
        begins = events.begins[order] > 0
        sums = np.cumsum(np.where(begins, 1, -1))
        firsts = np.diff(events.threads[order], prepend=-1) != 0
        # Marks that have no end stay open until the last event of their thread.
        before = (sums - np.where(begins, 1, -1))[firsts][np.cumsum(firsts) - 1]
        outer = order[sums - before == begins]
        pairs = np.flatnonzero(events.begins[outer[:-1]] > events.begins[outer[1:]])
        pairs = pairs[np.argsort(outer[pairs + 1])]
        return events.only(outer[pairs]), events.times[outer[pairs + 1]]

    def _callbacks(self, request: Role, callback: Role) -> tuple[Numbers, Numbers]:
        """Pair requests with callbacks within each process, first in, first out."""
        _, roles, begins, times, threads, _ = self._found.arrays()
        found, waiting = array("q"), dict[int, deque[int]]()
        some = begins.astype(np.bool_) & np.isin(roles, (request, callback))
        columns = roles[some], np.array(self._processes, np.int64)[threads[some]], times[some]
        for role, process, t_ns in zip(*(one.tolist() for one in columns), strict=True):
            if role == request:
                waiting.setdefault(process, deque()).append(t_ns)
            elif waiting.get(process):
                found.extend((waiting[process].popleft(), t_ns))
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def of_driver(self) -> dict[str, tuple[Numbers, Numbers]]:
        """Return the starts and ends of executions in drivers, by kind of evidence."""
        begins, ends = self._outermost(*_SERVED, Role.DRIVER)
        calls = np.isin(begins.roles, _SERVED)
        return {
            "server calls": (begins.times[calls], ends[calls]),
            "marks": (begins.times[~calls], ends[~calls]),
            "requests and callbacks": self._callbacks(Role.SERVED_REQUEST, Role.CALLBACK),
        }

    def executions(self) -> ExecutionColumns:
        """Return the executions that the application's HAL calls show or, if there are none, its [NN_LA_PE] marks.

        A call that returns immediately lasts until its callback.
        """
        kind, (found, ends) = Role.CALL, self._outermost(Role.CALL, Role.REQUEST)
        if not len(ends):
            kind, (found, ends) = Role.APPLICATION, self._outermost(Role.APPLICATION)
        order = np.argsort(found.times, kind="stable")
        found, ends = found.only(order), ends[order]
        spans = self._callbacks(Role.REQUEST, Role.SERVER_CALLBACK)
        back = dict(zip(*(column.tolist() for column in spans), strict=True))
        pairs = zip(found.times.tolist(), ends.tolist(), strict=True)
        ends = np.array([back.get(start, end) for start, end in pairs], np.int64)
        processes = np.array(self._processes, np.int64)[found.threads]
        segments = self._runs.segments(found.at, processes)
        numbers, kinds = np.arange(1, len(ends) + 1), np.full(len(ends), kind.value)
        return ExecutionColumns(numbers, processes, found.threads, kinds, found.times, segments, found.wheres, ends)
