"""Executions: from the start to the end of the wait, wherever the two are; and the driver's part of them.

Starts and waits are paired per process, first come first served: a mark does not say which execution it is of.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from circletools.trace.nnapi.marks import Mark, Role, Side

KINDS = {Role.START: "asynchronous", Role.FENCED: "fenced", Role.COMPUTE: "synchronous"}
# Looked up for every execution: an attribute of an enumeration is slow.
_START, _WAIT, _FENCED, _CALLBACK, _SERVER = Role.START, Role.WAIT, Role.FENCED, Role.CALLBACK, Side.SERVER
_ASYNCHRONOUS = KINDS[_START]


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
    """Pairs starts with waits. `ignored` has the numbers of starts that no wait will follow."""

    def __init__(self, ignored: frozenset[int], fly: Callable[[int, bool, int, int], None]) -> None:
        self.all: list[Execution] = []
        self._count = 0
        self.lone_waits: list[int] = []
        self.ignored: list[Execution] = []
        self._ignored, self._fly = ignored, fly
        self._pending: defaultdict[int, deque[Execution]] = defaultdict(deque)
        self._flying: defaultdict[int, int] = defaultdict(int)
        self._open: defaultdict[int, list[Execution | None]] = defaultdict(list)

    def began(self, mark: Mark, t_ns: int, thread: int, process: int, segment: int, where: int) -> None:
        """Take a begin."""
        role = mark.role
        if role is _WAIT:
            pending = self._pending[process]
            if pending:
                self._open[thread].append(pending.popleft())
            else:
                self.lone_waits.append(where)
                self._open[thread].append(None)
            return
        self._count += 1
        execution = Execution(
            self._count, process, thread, _ASYNCHRONOUS if role is _START else KINDS[role], t_ns, segment, where
        )
        if role is not _START:
            self._open[thread].append(execution)
        elif execution.number in self._ignored:
            self.ignored.append(execution)
        else:
            self._pending[process].append(execution)
            self._flying[thread] += 1
            self._fly(thread, True, t_ns, thread)

    def ended(self, mark: Mark, t_ns: int, thread: int, process: int) -> None:
        """Take the end of a wait, or of an execution that has no wait."""
        execution = self._open[thread].pop()
        if execution is None:
            return
        known = execution.end_ns >= 0
        execution.end_ns = t_ns
        if mark.role is _FENCED:
            self._pending[process].append(execution)
        elif mark.role is _WAIT and execution.kind == _ASYNCHRONOUS:
            starter = execution.thread
            self._flying[starter] -= 1
            if not self._flying[starter]:
                self._fly(starter, False, t_ns, thread)
        if not known:
            self.all.append(execution)

    def unpaired(self) -> set[int]:
        """Return the numbers of the starts whose waits have not ended."""
        left = [execution for pending in self._pending.values() for execution in pending]
        waiting = [execution for stack in self._open.values() for execution in stack if execution is not None]
        return {one.number for one in left + waiting if one.kind == _ASYNCHRONOUS and one.end_ns < 0}


class DriverExecutions:
    """The driver's part, by the three ways in which a trace can have it.

    `calls` are calls of the HAL in the driver; `marks` are [NN_LD_PE] marks outside such calls; `callbacks` go
    from a call to the callback that tells its result.
    """

    def __init__(self) -> None:
        self.calls: Spans = Spans()
        self.marks: Spans = Spans()
        self.callbacks: Spans = Spans()
        self._open: defaultdict[int, list[tuple[int, Mark]]] = defaultdict(list)
        self._requests: defaultdict[int, deque[int]] = defaultdict(deque)

    def began(self, mark: Mark, t_ns: int, thread: int, process: int) -> None:
        """Take a begin in the driver."""
        if mark.role is _CALLBACK:
            requests = self._requests[process]
            if requests and mark.side is not _SERVER:
                self.callbacks.add(requests.popleft(), t_ns)
            return
        self._open[thread].append((t_ns, mark))
        if mark.side is _SERVER and "::execute" in mark.name and "Synchronously" not in mark.name:
            self._requests[process].append(t_ns)

    def ended(self, t_ns: int, thread: int) -> None:
        """Take the end of an execution in the driver."""
        stack = self._open[thread]
        start, began = stack.pop()
        if not stack:
            (self.calls if began.side is _SERVER else self.marks).add(start, t_ns)
