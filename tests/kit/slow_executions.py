"""Executions and the driver's part of them, followed an event at a time: what the columns are held against."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from circletools.trace.nnapi.marks import Mark, Role, Side
from tests.kit.trace_reference import EXECUTIONS, Flight


@dataclass
class SlowExecutions:
    """Takes an event at a time, and tells `fly` when threads begin and end to have one in flight."""

    ignored: frozenset[int]
    processes: list[int]
    fly: Callable[[int, bool, int, int], None]
    segment: Callable[[int], int] = lambda process: 0
    all: list[Flight] = field(default_factory=list)
    lone_waits: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pending: defaultdict[int, deque[Flight]] = defaultdict(deque)
        self.flying: defaultdict[int, int] = defaultdict(int)
        self.open: defaultdict[int, list[Flight | None]] = defaultdict(list)

    def begin(self, role: Role, t_ns: int, thread: int, where: int) -> None:
        process = self.processes[thread]
        pending = self.pending[process]
        if role is Role.WAIT:
            if not pending:
                self.lone_waits.append(where)
            self.open[thread].append(pending.popleft() if pending else None)
            return
        one = Flight(len(self.all) + 1, process, thread, EXECUTIONS[role], t_ns, self.segment(process), where)
        self.all.append(one)
        if role is not Role.START:
            self.open[thread].append(one)
        elif one.number not in self.ignored:
            pending.append(one)
            self.flying[thread] += 1
            if self.flying[thread] == 1:
                self.fly(thread, True, t_ns, thread)

    def end(self, role: Role, t_ns: int, thread: int) -> None:
        one = None if role is Role.START else self.open[thread].pop()
        if one is None:
            return
        one.end = t_ns
        if role is Role.FENCED:
            self.pending[one.process].append(one)
        if role is Role.WAIT and one.kind == "asynchronous":
            self.flying[one.thread] -= 1
            if not self.flying[one.thread]:
                self.fly(one.thread, False, t_ns, thread)

    def unpaired(self) -> set[int]:
        left = [one for pending in self.pending.values() for one in pending]
        left += [one for stack in self.open.values() for one in stack if one is not None]
        return {one.number for one in left if one.kind == "asynchronous"}


@dataclass
class SlowDriver:
    """Takes an event at a time: spans of calls, of marks, and from requests to callbacks."""

    processes: list[int]
    calls: list[tuple[int, int]] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    callbacks: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        self.requests: defaultdict[int, deque[int]] = defaultdict(deque)

    def begin(self, mark: Mark, t_ns: int, thread: int) -> None:
        requests, served = self.requests[self.processes[thread]], mark.side is Side.SERVER
        if mark.role is Role.CALLBACK:
            if requests and not served:
                self.callbacks.append((requests.popleft(), t_ns))
            return
        self.open[thread].append((t_ns, served))
        if served and "::execute" in mark.name and "Synchronously" not in mark.name:
            requests.append(t_ns)

    def end(self, t_ns: int, thread: int) -> None:
        start, served = self.open[thread].pop()
        if not self.open[thread]:
            (self.calls if served else self.marks).append((start, t_ns))
