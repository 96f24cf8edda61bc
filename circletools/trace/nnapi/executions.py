"""Executions: from the start to the end of the wait, wherever the two are; and the driver's part of them.

Starts and waits are paired per process, first come first served: a mark does not say which execution it is of.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from circletools.trace.nnapi.machine import Begin, End
from circletools.trace.nnapi.marks import Mark, Role, Side

KINDS = {Role.START: "asynchronous", Role.FENCED: "fenced", Role.COMPUTE: "synchronous"}
EXECUTIONS = (*KINDS, Role.WAIT)
"""The roles of marks that begin or end executions."""

_ASYNCHRONOUS = KINDS[Role.START]


@dataclass(slots=True)
class Execution:
    """An execution. `segment` says in which run and application phase it began; `end_ns` is -1 while it runs.

    `number` counts executions in the order of their begins.
    """

    number: int
    process: int
    thread: int
    kind: str
    start_ns: int
    segment: int
    where: int
    end_ns: int = -1

    @property
    def elapsed_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(slots=True)
class Spans:
    """Starts and ends, in nanoseconds."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))

    def add(self, start: int, end: int) -> None:
        """Add one."""
        self.starts.append(start)
        self.ends.append(end)


class Executions:
    """Pairs starts with waits. `ignored` has the numbers of starts that no wait will follow.

    `processes` has the process of each thread; `segment` tells which segment a process is in.
    """

    def __init__(
        self,
        ignored: frozenset[int],
        fly: Callable[[int, bool, int, int], None],
        processes: list[int],
        segment: Callable[[int], int],
    ) -> None:
        self.all: list[Execution] = []
        self._count = 0
        self.lone_waits: list[int] = []
        self.ignored: list[Execution] = []
        self._ignored, self._fly, self._processes, self._segment = ignored, fly, processes, segment
        self._pending: defaultdict[int, deque[Execution]] = defaultdict(deque)
        self._flying: defaultdict[int, int] = defaultdict(int)
        self._open: defaultdict[int, list[Execution | None]] = defaultdict(list)

    def handlers(self, mark: Mark) -> tuple[Begin, End]:
        """Return what takes the begins and the ends of a mark; the end of a start tells nothing."""
        if mark.role is Role.WAIT:
            return self._waits, self._waited
        if mark.role is Role.START:
            return self._started, self._end
        return partial(self._computes, KINDS[mark.role]), self._fenced if mark.role is Role.FENCED else self._end

    def _new(self, kind: str, t_ns: int, thread: int, where: int) -> Execution:
        self._count += 1
        process = self._processes[thread]
        return Execution(self._count, process, thread, kind, t_ns, self._segment(process), where)

    def _started(self, t_ns: int, thread: int, where: int) -> None:
        execution = self._new(_ASYNCHRONOUS, t_ns, thread, where)
        if execution.number in self._ignored:
            self.ignored.append(execution)
            return
        self._pending[execution.process].append(execution)
        self._flying[thread] += 1
        self._fly(thread, True, t_ns, thread)

    def _computes(self, kind: str, t_ns: int, thread: int, where: int) -> None:
        self._open[thread].append(self._new(kind, t_ns, thread, where))

    def _waits(self, t_ns: int, thread: int, where: int) -> None:
        pending = self._pending[self._processes[thread]]
        if not pending:
            self.lone_waits.append(where)
        self._open[thread].append(pending.popleft() if pending else None)

    def _fenced(self, t_ns: int, thread: int) -> None:
        execution = self._end(t_ns, thread)
        if execution is not None:
            self._pending[self._processes[thread]].append(execution)

    def _waited(self, t_ns: int, thread: int) -> None:
        execution = self._end(t_ns, thread)
        if execution is not None and execution.kind == _ASYNCHRONOUS:
            starter = execution.thread
            self._flying[starter] -= 1
            if not self._flying[starter]:
                self._fly(starter, False, t_ns, thread)

    def _end(self, t_ns: int, thread: int) -> Execution | None:
        """End the execution that is innermost on a thread, and return it; none for a lone wait."""
        execution = self._open[thread].pop()
        if execution is not None:
            if execution.end_ns < 0:
                self.all.append(execution)
            execution.end_ns = t_ns
        return execution

    def unpaired(self) -> set[int]:
        """Return the numbers of the starts whose waits have not ended."""
        left = [execution for pending in self._pending.values() for execution in pending]
        waiting = [execution for stack in self._open.values() for execution in stack if execution is not None]
        return {one.number for one in left + waiting if one.kind == _ASYNCHRONOUS}


class DriverExecutions:
    """The driver's part, by the three ways in which a trace can have it.

    `calls` are calls of the HAL in the driver; `marks` are [NN_LD_PE] marks outside such calls; `callbacks` go
    from a call to the callback that tells its result.
    """

    def __init__(self, processes: list[int]) -> None:
        """Take the process of each thread."""
        self.calls: Spans = Spans()
        self.marks: Spans = Spans()
        self.callbacks: Spans = Spans()
        self._processes = processes
        self._open: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        self._requests: defaultdict[int, deque[int]] = defaultdict(deque)

    def handlers(self, mark: Mark) -> tuple[Begin, End]:
        """Return what takes the begins and the ends of a mark in the driver."""
        served = mark.side is Side.SERVER
        if mark.role is Role.CALLBACK:
            return partial(self._calls_back, served), self._ended
        requests = served and "::execute" in mark.name and "Synchronously" not in mark.name
        return partial(self._began, served, requests), self._ended

    def _calls_back(self, served: bool, t_ns: int, thread: int, where: int) -> None:
        requests = self._requests[self._processes[thread]]
        if requests and not served:
            self.callbacks.add(requests.popleft(), t_ns)

    def _began(self, served: bool, requests: bool, t_ns: int, thread: int, where: int) -> None:
        self._open[thread].append((t_ns, served))
        if requests:
            self._requests[self._processes[thread]].append(t_ns)

    def _ended(self, t_ns: int, thread: int) -> None:
        stack = self._open[thread]
        start, served = stack.pop()
        if not stack:
            (self.calls if served else self.marks).add(start, t_ns)
