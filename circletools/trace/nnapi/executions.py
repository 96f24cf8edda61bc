"""Executions: from the start to the end of the wait, on any threads; and other evidence of executions.

Starts and waits are paired per process, in order (first in, first out): a mark does not identify its execution.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circletools.trace.nnapi.machine import EventBatch, InFlightChanges
from circletools.trace.nnapi.marks import HalSide, Mark, Role, is_call
from circletools.trace.nnapi.pairing import NONE, Flags, Queue, left, levels, nested
from circletools.trace.sources.names import Columns, Numbers

KINDS = {Role.START: "asynchronous", Role.FENCED: "fenced", Role.COMPUTE: "synchronous"}

_START, _FENCED, _WAIT, _CALLBACK = Role.START.value, Role.FENCED.value, Role.WAIT.value, Role.CALLBACK.value
HAL_CALL, _BY_MARKS = -1, -2
_NAMES = {role.value: kind for role, kind in KINDS.items()} | {HAL_CALL: "HAL call", _BY_MARKS: "application"}
_ROLE = 0xFF
_EXECUTES, _SERVED, _REQUESTS, _APPLICATION, _CALLS, _ASYNCHRONOUS = (1 << bit for bit in range(8, 14))


def kind_of(mark: Mark) -> int:
    """Return the bit set of a mark: its role, and its meaning for driver and client."""
    served = mark.side is HalSide.SERVER
    asynchronous = "::execute" in mark.name and "Synchronously" not in mark.name
    executes = mark.role in (*KINDS, Role.WAIT)
    bits = mark.role.value | _EXECUTES * executes | _SERVED * served | _REQUESTS * (served and asynchronous)
    if is_call(mark):
        bits |= _CALLS | _ASYNCHRONOUS * (asynchronous and "Fenced" not in mark.name)
    return bits | _APPLICATION * ((mark.layer, mark.phase) == ("LA", "PE"))


@dataclass(slots=True)
class Execution:
    """An execution. `segment` is the run and application phase in which it began; `end_ns` is -1 while it runs.

    `number` counts executions in the order of their begins.
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
    """Executions as columns, turned into objects on demand: a long trace has very many. Kinds are numbers."""

    numbers: Numbers
    processes: Numbers
    threads: Numbers
    kinds: Numbers
    starts: Numbers
    segments: Numbers
    wheres: Numbers
    ends: Numbers

    def __len__(self) -> int:
        """Return the number of executions."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[Execution]:
        """Yield all executions in the order of their begins."""
        numbers, processes, threads, kinds, *others = (getattr(self, name).tolist() for name in self.__slots__)
        return map(Execution, numbers, processes, threads, map(_NAMES.__getitem__, kinds), *others)


class Spans(NamedTuple):
    """Starts and ends, in nanoseconds."""

    starts: Numbers
    ends: Numbers


_NOTHING = np.zeros(0, np.int64)


class Executions:
    """Pairs starts with waits. `ignored` holds the numbers of starts that no wait will follow.

    `processes` has the process of each thread; `segments` returns the segment of each process at an event of a batch.
    """

    def __init__(
        self, ignored: frozenset[int], processes: list[int], segments: Callable[[Numbers, Numbers], Numbers]
    ) -> None:
        self.unmatched_waits: list[int] = []
        self._ignored, self._processes, self._segments = ignored, processes, segments
        # By number: process, thread, role, start, segment, place, end.
        self._columns = [array("q") for _ in range(7)]
        # Pending starts of each process, and open marks of each thread: its number, and execution.
        self._pending, self._open = Queue(), (_NOTHING, _NOTHING)
        self._in_flight = _NOTHING

    def add(self, batch: EventBatch, kinds: Numbers) -> InFlightChanges:
        """Add events of a batch in time order; return when threads started or stopped having executions in flight."""
        some = np.flatnonzero(kinds & _EXECUTES)
        batch, roles = batch.only(some), kinds[some] & _ROLE
        starts = batch.begins & (roles == _START)
        waits = batch.begins & (roles == _WAIT)
        which = self._add_begun(batch, roles)
        if self._ignored:
            starts &= ~np.isin(which + 1, list(self._ignored))
        which = self._paired(batch, roles, which, starts, waits)
        ended = np.flatnonzero(~batch.begins & (which != NONE))
        np.frombuffer(self._columns[-1], np.int64)[which[ended]] = batch.times[ended]
        return self._in_flight_changes(batch, which, starts, ended[roles[ended] == _WAIT])

    def _add_begun(self, batch: EventBatch, roles: Numbers) -> Numbers:
        """Add the executions that begin; return which execution each event begins."""
        at = np.flatnonzero(batch.begins & (roles != _WAIT))
        which = np.full(len(roles), NONE)
        which[at] = len(self._columns[0]) + np.arange(len(at))
        threads = batch.threads[at]
        processes = np.array(self._processes, np.int64)[threads]
        segments = self._segments(batch.at[at], processes)
        more = (processes, threads, roles[at], batch.times[at], segments, batch.wheres[at], np.full(len(at), NONE))
        for column, values in zip(self._columns, more, strict=True):
            column.frombytes(values.tobytes())
        return which

    def _paired(self, batch: EventBatch, roles: Numbers, which: Numbers, starts: Flags, waits: Flags) -> Numbers:
        """Return the execution that each event begins, ends, or waits for."""
        nests = np.flatnonzero(roles != _START)
        threads = np.append(self._open[0], batch.threads[nests])
        begins = np.append(np.ones(len(self._open[0]), np.bool_), batch.begins[nests])
        begun = nested(threads, begins)
        held = np.append(self._open[1], which[nests])
        ends = np.flatnonzero(~begins)
        held[ends] = held[begun[ends]]
        which = which.copy()
        which[nests] = held[len(self._open[1]) :]
        self._queue(batch, which, starts | (~batch.begins & (roles == _FENCED)), waits)
        held = np.append(self._open[1], which[nests])
        held[ends] = held[begun[ends]]
        which[nests] = held[len(self._open[1]) :]
        still = left(begins, begun)
        self._open = threads[still], held[still]
        return which

    def _queue(self, batch: EventBatch, which: Numbers, puts: Flags, waits: Flags) -> None:
        """Match each wait with the oldest pending start of its process (first in, first out)."""
        some = np.flatnonzero(puts | waits)
        processes = np.array(self._processes, np.int64)[batch.threads[some]]
        found = self._pending.match(processes, which[some], puts[some])[waits[some]]
        waiting = some[waits[some]]
        which[waiting] = found
        self.unmatched_waits += batch.wheres[waiting[found == NONE]].tolist()

    def _in_flight_changes(
        self, batch: EventBatch, which: Numbers, starts: Flags, waited: Numbers
    ) -> InFlightChanges:
        """Return when each thread started to have executions in flight, and when its last one ended."""
        _, threads, roles, *_ = (np.frombuffer(column, np.int64) for column in self._columns)
        waited = waited[roles[which[waited]] == _START]
        at = np.append(np.flatnonzero(starts), waited)
        steps = np.append(np.ones(len(at) - len(waited), np.int64), np.full(len(waited), -1))
        order = np.lexsort((at, threads[which[at]]))
        at, steps = at[order], steps[order]
        of = threads[which[at]]
        in_flight = np.append(self._in_flight, np.zeros(len(self._processes) - len(self._in_flight), np.int64))
        new = np.diff(of, prepend=-1) != 0
        sums = np.cumsum(steps)
        numbers = in_flight[of] + sums - (sums - steps)[new][np.cumsum(new) - 1]
        in_flight[of] = numbers  # keep the last one of each thread
        self._in_flight = in_flight
        changes = np.flatnonzero(numbers == (steps > 0))
        changes = changes[np.argsort(at[changes])]
        events = at[changes]
        return InFlightChanges(batch.at[events], batch.times[events], of[changes], batch.threads[events])

    def ended(self) -> ExecutionColumns:
        """Return the executions that have ended."""
        return self._chosen(np.flatnonzero(np.array(self._columns[-1]) >= 0))

    def __bool__(self) -> bool:
        """Return whether any execution has begun."""
        return bool(self._columns[0])

    def ignored(self) -> ExecutionColumns:
        """Return the executions that have begun and are not followed by a wait."""
        return self._chosen(np.array(sorted(self._ignored), np.int64) - 1)

    def _chosen(self, places: Numbers) -> ExecutionColumns:
        return ExecutionColumns(places + 1, *(np.array(column)[places] for column in self._columns))

    def unpaired(self) -> set[int]:
        """Return the numbers of the starts whose waits have not ended."""
        found = np.append(self._pending.items, self._open[1])
        found = found[found != NONE]
        return set((found[np.array(self._columns[2])[found] == _START] + 1).tolist())


class Outermost:
    """The outermost marks of certain kinds on each thread, with their kinds and the segments of their begins."""

    def __init__(self, processes: list[int], segments: Callable[[Numbers, Numbers], Numbers]) -> None:
        """Start with the process of each thread and a function that returns each process's segment at an event."""
        self._processes, self._segments = processes, segments
        self._open: tuple[Numbers, ...] = (_NOTHING,) * 5
        self._found = [array("q") for _ in range(6)]

    def add(self, batch: EventBatch, kinds: Numbers) -> None:
        """Add events of a batch in time order."""
        if not len(kinds):
            return
        segments = self._segments(batch.at, np.array(self._processes, np.int64)[batch.threads])
        columns = (batch.threads, batch.times, kinds, segments, batch.wheres)
        known = tuple(np.append(old, new) for old, new in zip(self._open, columns, strict=True))
        threads, times = known[:2]
        begins = np.append(np.ones(len(self._open[0]), np.bool_), batch.begins)
        begun = nested(threads, begins)
        still = left(begins, begun)
        self._open = tuple(column[still] for column in known)
        ends = np.flatnonzero(~begins & (levels(threads, begins) == 1))
        for found, values in zip(self._found, (times[ends], *(column[begun[ends]] for column in known)), strict=True):
            found.frombytes(values.tobytes())

    def of_kind(self, kind: int = -1, unlike: int = 0) -> tuple[Numbers, ...]:
        """Return ends, threads, starts, kinds, segments and places, in the order of ends."""
        columns = tuple(np.array(column) for column in self._found)
        return tuple(column[(columns[3] & kind != 0) & (columns[3] & unlike == 0)] for column in columns)


class Callbacks:
    """Pairs requests with the callbacks of their process, first in, first out."""

    def __init__(self, processes: list[int]) -> None:
        """Start with the process of each thread."""
        self._found = array("q"), array("q")
        self._processes = processes
        self._requests = Queue()

    def add(self, batch: EventBatch, puts: Flags, takes: Flags) -> None:
        """Add the begins of a batch in time order."""
        some = np.flatnonzero(batch.begins & (puts | takes))
        processes = np.array(self._processes, np.int64)[batch.threads[some]]
        requests = self._requests.match(processes, batch.times[some], puts[some])
        back = requests != NONE
        for found, values in zip(self._found, (requests[back], batch.times[some][back]), strict=True):
            found.frombytes(values.tobytes())

    @property
    def spans(self) -> Spans:
        """The intervals from requests to their callbacks."""
        return Spans(*map(np.array, self._found))


class Evidence:
    """Evidence of executions in a trace besides the runtime's own marks.

    For drivers: HAL calls, [NN_LD_PE] marks outside such calls, and callbacks with the results of calls. For
    applications: [NN_LA_PE] marks, and HAL calls.
    """

    def __init__(self, processes: list[int], segments: Callable[[Numbers, Numbers], Numbers]) -> None:
        """Start with the process of each thread and a function that returns each process's segment at an event."""
        self._processes = processes
        self._served, self._application, self._calls = (Outermost(processes, segments) for _ in range(3))
        self._server, self._client = Callbacks(processes), Callbacks(processes)

    def add(self, batch: EventBatch, kinds: Numbers, *, of_driver: bool) -> None:
        """Add events of a batch in time order; with `of_driver`, only drivers' events, as runtime marks are known."""
        some = np.flatnonzero(kinds & _EXECUTES == 0)
        batch, kinds = batch.only(some), kinds[some]
        back, from_server = kinds & _ROLE == _CALLBACK, kinds & _SERVED != 0
        served = ~back & (kinds & (_APPLICATION | _CALLS) == 0)
        self._served.add(batch.only(served), kinds[served])
        self._server.add(batch, kinds & _REQUESTS != 0, back & ~from_server)
        if of_driver:
            return
        for kind, found in ((_APPLICATION, self._application), (_CALLS, self._calls)):
            found.add(batch.only(kinds & kind != 0), kinds[kinds & kind != 0])
        self._client.add(batch, kinds & _ASYNCHRONOUS != 0, back & from_server)

    def of_driver(self) -> dict[str, Spans]:
        """Return the executions in drivers by each kind of evidence."""
        calls, marks = self._served.of_kind(_SERVED), self._served.of_kind(unlike=_SERVED)
        return {
            "server calls": Spans(calls[2], calls[0]),
            "marks": Spans(marks[2], marks[0]),
            "requests and callbacks": self._server.spans,
        }

    def executions(self) -> ExecutionColumns:
        """Return executions by the application's HAL calls or, if there are none, by [NN_LA_PE] marks.

        A call that returns immediately lasts until its callback.
        """
        kind, found = HAL_CALL, self._calls.of_kind()
        if not len(found[0]):
            kind, found = _BY_MARKS, self._application.of_kind()
        order = np.argsort(found[2], kind="stable")
        ends, threads, starts, _, segments, wheres = (column[order] for column in found)
        back = dict(zip(*(column.tolist() for column in self._client.spans), strict=True))
        ends = np.array(list(map(back.get, starts.tolist(), ends.tolist())), np.int64)
        processes = np.array(self._processes, np.int64)[threads]
        kinds = np.full_like(starts, kind)
        return ExecutionColumns(
            np.arange(1, len(starts) + 1), processes, threads, kinds, starts, segments, wheres, ends
        )
