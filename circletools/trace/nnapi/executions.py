"""Executions: from the start to the end of the wait, wherever the two are; and the driver's part of them.

Starts and waits are paired per process, first come first served: a mark does not say which execution it is of.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from circletools.trace.nnapi.marks import Mark, Role, Side

KINDS = {Role.START: "asynchronous", Role.FENCED: "fenced", Role.COMPUTE: "synchronous"}


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
        self._pending: dict[int, deque[Execution]] = {}
        self._flying: dict[int, int] = {}
        self._open: dict[int, list[Execution | None]] = {}

    def began(self, mark: Mark, t_ns: int, thread: int, process: int, segment: int, where: int) -> None:
        """Take a begin."""
        if mark.role is Role.WAIT:
            pending = self._pending.get(process)
            waited = pending.popleft() if pending else None
            if waited is None:
                self.lone_waits.append(where)
            self._open.setdefault(thread, []).append(waited)
            return
        self._count += 1
        execution = Execution(self._count, process, thread, KINDS[mark.role], t_ns, segment, where)
        self._open.setdefault(thread, []).append(execution)
        if mark.role is Role.START:
            if execution.number in self._ignored:
                self.ignored.append(execution)
                return
            self._pending.setdefault(process, deque()).append(execution)
            self._flying[thread] = self._flying.get(thread, 0) + 1
            self._fly(thread, True, t_ns, thread)

    def ended(self, mark: Mark, t_ns: int, thread: int, process: int) -> None:
        """Take an end."""
        execution = self._open[thread].pop()
        if execution is None or mark.role is Role.START:
            return
        known = execution.end_ns >= 0
        execution.end_ns = t_ns
        if mark.role is Role.FENCED:
            self._pending.setdefault(process, deque()).append(execution)
        elif mark.role is Role.WAIT and execution.kind == KINDS[Role.START]:
            self._flying[execution.thread] -= 1
            if not self._flying[execution.thread]:
                self._fly(execution.thread, False, t_ns, thread)
        if not known:
            self.all.append(execution)

    def unpaired(self) -> set[int]:
        """Return the numbers of the starts whose waits have not ended."""
        left = [execution for pending in self._pending.values() for execution in pending]
        waiting = [execution for stack in self._open.values() for execution in stack if execution is not None]
        start = KINDS[Role.START]
        return {one.number for one in left + waiting if one.kind == start and one.end_ns < 0}


class DriverExecutions:
    """The driver's part, by the three ways in which a trace can have it.

    `calls` are calls of the HAL in the driver; `marks` are [NN_LD_PE] marks outside such calls; `callbacks` go
    from a call to the callback that tells its result.
    """

    def __init__(self) -> None:
        self.calls: Spans = Spans()
        self.marks: Spans = Spans()
        self.callbacks: Spans = Spans()
        self._open: dict[int, list[tuple[int, Mark]]] = {}
        self._requests: dict[int, deque[int]] = {}

    def began(self, mark: Mark, t_ns: int, thread: int, process: int) -> None:
        """Take a begin in the driver."""
        if mark.role is Role.CALLBACK:
            requests = self._requests.get(process)
            if requests and mark.side is not Side.SERVER:
                self.callbacks.add(requests.popleft(), t_ns)
            return
        if mark.phase == "PE":
            self._open.setdefault(thread, []).append((t_ns, mark))
            if mark.side is Side.SERVER and "::execute" in mark.name and "Synchronously" not in mark.name:
                self._requests.setdefault(process, deque()).append(t_ns)

    def ended(self, mark: Mark, t_ns: int, thread: int) -> None:
        """Take an end in the driver."""
        if mark.phase != "PE":
            return
        stack = self._open[thread]
        start, began = stack.pop()
        if not stack:
            (self.calls if began.side is Side.SERVER else self.marks).add(start, t_ns)
