"""A naive reading of whole NNAPI traces: what is open, running and in flight, microsecond by microsecond."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from circletools.trace.nnapi.marks import HalSide, Mark, Role, classify
from tests.kit.trace_support import US, Bucket, Ev, Scope, clocks, opened

EXECUTIONS = {Role.START: "asynchronous", Role.FENCED: "fenced", Role.COMPUTE: "synchronous"}
PHASES = {Role.RUN: 0, Role.WARM_UP: 1, Role.BENCHMARK: 2}
Function = tuple[str, str, str]
Part = tuple[str, str, int]
"""Layer, phase, and the process of a driver (-1 for other layers)."""
Shares = tuple[dict[Part, int], dict[Part, int]]
UNTOLD: Part = ("", "", -1)
DEPTH = [(layer, phase) for layer in ("LD", "LC", "LI", "LR") for phase in ("PIO", "PTR", "PCO", "PR", "PE")]
_RUN_PHASES = ("PIO", "PTR", "PCO", "PR", "PE", "PT", "PC", "PP", "PI")
RUN_DEPTH = [*((layer, phase) for layer in ("LD", "LC", "LI", "LR", "LA") for phase in _RUN_PHASES), ("LA", "PO")]


@dataclass
class Flight:
    """An execution, and where it begins; times in microseconds here, `end` is -1 while it runs."""

    number: int
    process: int
    thread: int
    kind: str
    start: int
    segment: int
    line: int
    end: int = -1


@dataclass
class Reading:
    """The times of a trace, by segment and then by bucket.

    `shares` and `at_work` are by execution; what is in flight with another is nobody's.
    """

    run_ends: list[int] = field(default_factory=list)
    run_shares: dict[int, dict[Part, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    own: dict[int, dict[Bucket, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    whole: dict[int, dict[Bucket, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    shares: dict[int, dict[Part, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    at_work: dict[int, dict[Part, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    flights: list[Flight] = field(default_factory=list)
    ended: list[Flight] = field(default_factory=list)
    lone_waits: list[int] = field(default_factory=list)
    runs: list[tuple[int, str, int, int]] = field(default_factory=list)
    partial: set[int] = field(default_factory=set)
    phases: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    functions: dict[Function, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    counted: set[int] = field(default_factory=set)
    unmatched: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unended: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    calls: list[tuple[int, int]] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    callbacks: list[tuple[int, int]] = field(default_factory=list)


def reading(events: list[Ev]) -> Reading:
    """Read a trace whose times do not decrease, the lines of which begin with the third."""
    ignored: set[int] = set()
    while True:
        reader = _Reader(events, ignored)
        for at, event in enumerate(events):
            reader.take(event, at + 3)
        left = reader.unpaired()
        if left <= ignored:
            return reader.finish()
        ignored |= left


@dataclass
class _Open:
    scope: Scope
    mark: Mark
    line: int


class _Reader:
    def __init__(self, events: list[Ev], ignored: set[int]) -> None:
        self.events, self.ignored, self.found = events, ignored, Reading()
        marks = ((classify((event.text or "").encode()), event.tgid) for event in events)
        self.drivers = {tgid for mark, tgid in marks if mark.side is HalSide.SERVER and mark.layer}
        self.stacks: dict[int, list[_Open]] = {event.tid: [] for event in events}
        self.last = events[0].at
        self.numbers = 0
        self.pending: dict[int, deque[Flight]] = defaultdict(deque)
        self.executing: dict[int, list[Flight | None]] = defaultdict(list)
        self.latest: dict[int, int] = {}
        self.segments: dict[int, list[tuple[int, int]]] = {}
        self.common: list[tuple[int, int]] = [(-1, 0)]
        self.phases: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.driving: dict[int, list[tuple[int, Mark]]] = defaultdict(list)
        self.requests: dict[int, deque[int]] = defaultdict(deque)
        self.slots: list[tuple[int, int, set[Bucket], Bucket | None, list[Function]]] = []

    def take(self, event: Ev, line: int) -> None:
        for at in range(self.last, event.at):
            for tid, stack in self.stacks.items():
                running, owner = clocks([one.scope for one in stack])
                live = [one for one in stack if one.scope.bucket and not one.scope.ended]
                names = [(one.mark.layer, one.mark.phase, one.mark.name) for one in live]
                self.slots.append((at, tid, set(running), owner, names))
        self.last = event.at
        stack = self.stacks[event.tid]
        if event.text is not None:
            driver = event.tgid in self.drivers
            mark = classify(event.text.encode()).in_driver(driver)
            scopes = [one.scope for one in stack]
            scope = opened(scopes, event, event.tgid if driver else -1)
            if mark.switch and mark.role in PHASES and stack and stack[-1].mark.role in PHASES:
                self._end_phase(stack[-1].mark, event)
            stack.append(_Open(scope, mark, line))
            if scope.bucket:
                self.found.functions[mark.layer, mark.phase, mark.name][0] += 1
            self._begin(mark, event, line)
        elif stack:
            self._end(stack.pop().mark, event)
        else:
            self.found.unmatched[event.tid].append(line)

    def _begin(self, mark: Mark, event: Ev, line: int) -> None:
        process = event.tgid
        if mark.role is Role.WAIT:
            waited = self.pending[process].popleft() if self.pending[process] else None
            self.executing[event.tid].append(waited)
            if waited is None:
                self.found.lone_waits.append(line)
        elif mark.role in EXECUTIONS:
            self.numbers += 1
            own = self.segments.get(process, self.common)
            kind = EXECUTIONS[mark.role]
            flight = Flight(self.numbers, process, event.tid, kind, event.at, own[-1][1], line)
            self.executing[event.tid].append(flight)
            self.found.flights.append(flight)
            if mark.role is Role.START and flight.number not in self.ignored:
                self.pending[process].append(flight)
        elif mark.role in PHASES:
            self._begin_phase(mark, event, line)
        elif mark.role is Role.CALLBACK:
            if self.requests[process] and mark.side is not HalSide.SERVER:
                self.found.callbacks.append((self.requests[process].popleft(), event.at))
        elif (mark.layer, mark.phase) == ("LD", "PE"):
            self.driving[event.tid].append((event.at, mark))
            if mark.side is HalSide.SERVER and "::execute" in mark.name and "Synchronously" not in mark.name:
                self.requests[process].append(event.at)

    def _end(self, mark: Mark, event: Ev) -> None:
        if mark.role is Role.WAIT or mark.role in EXECUTIONS:
            flight = self.executing[event.tid].pop()
            if flight is None or mark.role is Role.START:
                return
            flight.end = event.at
            if mark.role is Role.FENCED:
                self.pending[event.tgid].append(flight)
        elif mark.role in PHASES:
            self._end_phase(mark, event)
        elif (mark.layer, mark.phase) == ("LD", "PE"):
            start, outer = self.driving[event.tid].pop()
            if not self.driving[event.tid]:
                (self.found.calls if outer.side is HalSide.SERVER else self.found.marks).append((start, event.at))

    def _begin_phase(self, mark: Mark, event: Ev, line: int) -> None:
        process, phase = event.tgid, PHASES[mark.role]
        if mark.role is Role.RUN or process not in self.latest:
            self.phases[process].clear()
            self.latest[process] = len(self.found.runs)
            self.found.runs.append((process, mark.name if mark.role is Role.RUN else "", event.at, line))
            self.found.run_ends.append(-1)
            self._switch(process, event.at, 0)
        if phase:
            self.phases[process].append((event.tid, phase))
            self.found.phases[self.latest[process]].add(phase)
            self._switch(process, event.at, phase)

    def _end_phase(self, mark: Mark, event: Ev) -> None:
        if event.tgid in self.latest:
            self.found.run_ends[self.latest[event.tgid]] = event.at
        stack, entry = self.phases[event.tgid], (event.tid, PHASES.get(mark.role, 0))
        if entry in stack:
            stack.remove(entry)
            self._switch(event.tgid, event.at, stack[-1][1] if stack else 0)

    def _switch(self, process: int, at: int, phase: int) -> None:
        run = self.latest[process]
        self.segments.setdefault(process, [(-1, 0)]).append((at, 1 + 3 * run + phase))
        if run == len(self.found.runs) - 1:
            self.common.append((at, 1 + 3 * run + phase))

    def unpaired(self) -> set[int]:
        waiting = [one for stack in self.executing.values() for one in stack if one is not None]
        left = [one for queue in self.pending.values() for one in queue] + waiting
        return {one.number for one in left if one.kind == "asynchronous" and one.end < 0}

    def finish(self) -> Reading:
        found = self.found
        flying = [one for one in found.flights if one.number not in self.ignored]
        found.ended = [one for one in flying if one.end >= 0]
        self._clock()
        for at, tid, running, innermost, names in self.slots:
            owner = innermost
            if any(one.thread == tid and one.kind == "asynchronous" and one.start <= at < one.end for one in flying):
                running |= {("LR", "PE")}
                owner = ("LR", "PE") if owner is None or owner[0] == "LA" else owner
            if not running or owner is None:
                continue
            found.counted.add(tid)
            own = self.segments.get(tid // 100) or self.common
            segment = [segment for begun, segment in own if begun <= at][-1]
            found.own[segment][owner] += US
            for bucket in running:
                found.whole[segment][bucket] += US
            for name in set(names):
                found.functions[name][2] += US
            if names:
                found.functions[names[-1]][1] += US
        self._run_clock()
        for tid, stack in self.stacks.items():
            found.unended[tid] = [one.line for one in stack if one.mark.layer]
            if found.unended[tid] and tid in found.counted and found.runs:
                found.partial.add(self.latest.get(tid // 100, len(found.runs) - 1))
        return found

    def _clock(self) -> None:
        """Look at every microsecond of every execution."""
        windows = [(one.start, one.end, one.process) for one in self.found.ended]
        for one, (own, whole) in zip(self.found.ended, self._shares(windows, DEPTH), strict=True):
            self.found.shares[one.number], self.found.at_work[one.number] = own, whole

    def _run_clock(self) -> None:
        """Look at every microsecond of every run."""
        ends = (self.last if end < 0 else end for end in self.found.run_ends)
        windows = [(start, end, process) for (process, _, start, _), end in zip(self.found.runs, ends, strict=True)]
        for number, (own, _) in enumerate(self._shares(windows, RUN_DEPTH)):
            self.found.run_shares[number] = own

    def _shares(self, windows: list[tuple[int, int, int]], depth: list[Bucket]) -> list[Shares]:
        """Return when each layer and phase was the deepest at work in each window, and when it was at work."""
        slots: dict[int, list[tuple[int, set[Bucket]]]] = defaultdict(list)
        for at, tid, running, _, _ in self.slots:
            slots[at].append((tid, running))
        served = any(bucket[0] == "LD" and bucket in RUN_DEPTH for slot in self.slots for bucket in slot[2])
        found: list[Shares] = []
        for number, (start, end, process) in enumerate(windows):
            own, whole = defaultdict[Part, int](int), defaultdict[Part, int](int)
            rest: Part = (*depth[-1], -1)
            for at in range(start, end):
                others = [one for place, one in enumerate(windows) if place != number and one[0] <= at < one[1]]
                if any(served or other[2] == process for other in others):
                    own[UNTOLD] += US
                    whole[UNTOLD] += US
                    continue
                there = set[Part]()
                for tid, running in slots[at]:
                    driver = any(bucket[0] == "LD" and bucket in RUN_DEPTH for bucket in running)
                    if driver or tid // 100 == process:
                        work = [bucket for bucket in running if bucket in depth]
                        there |= {(*bucket, tid // 100 if bucket[0] == "LD" else -1) for bucket in work}
                deepest = min(there | {rest}, key=lambda part: (depth.index(part[:2]), part[2]))
                own[deepest] += US
                for part in there - {rest}:
                    whole[part] += US
            whole[rest] += US * (end - start)
            found.append((own, whole))
        return found
