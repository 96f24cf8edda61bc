"""The state machine that follows all threads, one batch of events at a time.

Threads are followed one by one through the automaton. Events with further effects (a diagnostic, an execution, or an
application phase) are then found in the resulting paths, and reported in time order.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from circletools.errors import InvalidInputError
from circletools.findings import Finding, explain, severities
from circletools.trace.nnapi.automaton import END, Automaton
from circletools.trace.nnapi.executions import EventBatch, Evidence, Executions
from circletools.trace.nnapi.marks import Mark, Role
from circletools.trace.nnapi.timeline import Runs
from circletools.trace.sources.batch import NO_PROCESS, Trace
from circletools.trace.sources.names import Columns, Numbers, by_thread


@dataclass(frozen=True, slots=True)
class Diagnostic(Finding):
    """A finding in a trace, with the place of its first occurrence, the number of occurrences, and a remedy."""

    count: int
    hint: str


LIMIT = 1 << 62
"""The sum of times over all threads must stay below this number."""


@dataclass(slots=True)
class Intervals(Columns):
    """Periods in which threads stay in the same state, as columns."""

    starts: Numbers
    ends: Numbers
    threads: Numbers
    paths: Numbers
    codes: Numbers


class Collector:
    """Collects diagnostics (see `circletools/codes.json`); equal cases are combined in one with a count."""

    def __init__(self) -> None:
        self._cases: dict[tuple[str, ...], tuple[int, str, int]] = {}

    def add(self, code: str, where: int, message: str, *like: str, count: int = 1) -> None:
        """Record a case; cases are equal if they have the same code and the same `like`."""
        first, shown, before = self._cases.get((code, *like), (where, message, 0))
        self._cases[(code, *like)] = first, shown, before + count

    def known(self, code: str, *like: str) -> bool:
        """Return whether an equal case was added before."""
        return (code, *like) in self._cases

    def drop(self, code: str, *like: str) -> list[tuple[int, str, int]]:
        """Remove cases of a code whose `like` begins with these words; return each one's place, message and count."""
        keys = [key for key in self._cases if key[: 1 + len(like)] == (code, *like)]
        return [self._cases.pop(key) for key in keys]

    def finish(self, place: Callable[[int], str]) -> list[Diagnostic]:
        """Return all diagnostics, ordered by code and place; `place` formats the place of a case."""
        found = [(key[0], *case) for key, case in self._cases.items()]
        cases = sorted(found, key=lambda case: (case[0], abs(case[1]), *case[2:]))  # places below 0 are times
        return [
            Diagnostic(code, severities()[code][0], place(where), message, count, explain(code).remedy)
            for code, where, message, count in cases
        ]


@dataclass(frozen=True, slots=True)
class _Walk:
    """Events sorted by thread: `order` holds their indices in the batch, and `firsts` the start of each thread.

    `before` and `after` are the paths before and after each event. `stacks` holds places of a thread's open marks.
    """

    order: Numbers
    threads: Numbers
    symbols: Numbers
    wheres: Numbers
    firsts: Numbers
    before: Numbers
    after: Numbers
    stacks: dict[int, tuple[int, array[int]]] = field(default_factory=dict)


class Machine:
    """Follows threads; `feed` processes events.

    `unmatched` holds, for each thread with unmatched end events, the place of the first one and their number.
    `processes` holds the process of each thread, and `first_ns` the first time.
    """

    def __init__(self, ignored: frozenset[int], collector: Collector, trace: Trace) -> None:
        self.automaton: Automaton = Automaton()
        self.unmatched: dict[int, tuple[int, int]] = {}
        self.events = 0
        self.processes: list[int] = []
        self.runs = Runs()
        self.executions = Executions(ignored, self.processes, self.runs)
        self.evidence = Evidence(self.processes, self.runs)
        self.first_ns: int | None = None
        self._collector, self._trace = collector, trace
        self._last: Numbers = np.zeros(0, np.int64)
        self._paths: list[int] = []
        self._in_flight = bytearray()
        self._places: list[array[int]] = []

    def add_thread(self) -> None:
        """Add a thread of an unknown process, with no marks open."""
        self.processes.append(NO_PROCESS)
        self._paths.append(0)
        self._in_flight.append(0)
        self._places.append(array("q"))

    def feed(self, times: Numbers, threads: Numbers, symbols: Numbers, wheres: Numbers) -> Intervals:
        """Process events; return the intervals that end within them; open intervals end with the last event.

        Calls are added to each path's count. Raises InvalidInputError for impossible times.
        """
        walk = self._follow(threads, symbols, wheres)
        changes = self._report_events(walk, times)
        in_flight, breaks = self._in_flight_before(walk, *changes)
        states = np.empty_like(times)
        states[walk.order] = walk.before << 1 | in_flight
        self._keep_places(walk)
        self.events += len(times)
        return self._cut([times, threads, states, symbols != END], breaks)

    def _cut(self, columns: list[npt.NDArray[Any]], breaks: tuple[Numbers, ...]) -> Intervals:
        """Return the intervals between events, and state changes by other threads (`breaks`).

        State 2n is path n; 2n + 1 is the same path while an execution that began on the thread is in flight.
        """
        if breaks:
            at, *own = *breaks, np.zeros(1, np.bool_)
            columns = [np.insert(one, at, value) for one, value in zip(columns, own, strict=True)]
        times = columns[0]
        now = np.array(self._paths, np.int64) << 1 | np.array(self._in_flight, np.uint8)
        still = np.flatnonzero(now)
        more = np.full(len(still), times[-1]), still, now[still], np.zeros(len(still), np.bool_)
        times, threads, states, begins = (np.concatenate(pair) for pair in zip(columns, more, strict=True))
        if self.first_ns is None:
            self.first_ns = int(times[0])
        span = int(times[-1]) - self.first_ns
        if span * len(now) >= LIMIT:
            message = f"timestamps span {span // 86_400_000_000_000} days"
            hint = "the timestamps are wrong, or two traces were concatenated"
            raise InvalidInputError(message, location=self._trace.name, hint=hint)
        order = by_thread(threads)
        times, threads, states, begins = (one[order] for one in (times, threads, states, begins))
        first = np.append(True, threads[1:] != threads[:-1])
        last = np.append(first[1:], True)
        self._last = np.concatenate((self._last, np.zeros(len(now) - len(self._last), np.int64)))
        starts = np.append(0, times[:-1])
        starts[first] = self._last[threads[first]]
        self._last[threads[last]] = times[last]
        after = np.append(states[1:], 0)
        after[last] = now[threads[last]]
        counts = np.bincount(after[begins] >> 1)
        np.frombuffer(self.automaton.calls, np.int64)[: len(counts)] += counts
        paths = states >> 1
        codes = np.array(self.automaton.context_numbers)[paths] << 1 | states & 1
        running = np.array([mask != 0 for mask in self.automaton.contexts.running], np.bool_)
        return Intervals(starts, times, threads, paths, codes).only(running[codes] & (times > starts))

    def open_marks(self, thread: int) -> Iterator[tuple[Mark, int]]:
        """Yield the open marks of a thread with their places, starting with the innermost."""
        path = self._paths[thread]
        for where in reversed(self._places[thread]):
            yield self.automaton.mark(path), where
            path = self.automaton.ups[path]

    def _follow(self, threads: Numbers, symbols: Numbers, wheres: Numbers) -> _Walk:
        order = by_thread(threads)
        threads, symbols = threads[order], symbols[order]
        firsts = np.flatnonzero(np.append(True, threads[1:] != threads[:-1]))
        before, after, moves = list[int](), list[int](), self.automaton.moves
        for thread, some in zip(threads[firsts].tolist(), np.split(symbols, firsts[1:]), strict=True):
            path, listed = self._paths[thread], some.tolist()
            before.append(path)
            try:  # takes half the time in the usual case
                after += [path := moves[path][symbol] for symbol in listed]
            except KeyError:
                after += self.automaton.follow(before[-1], listed)
            self._paths[thread] = after[-1]
        ends = np.fromiter(after, np.int64, len(after))
        starts = np.append(0, ends[:-1])
        starts[firsts] = before
        return _Walk(order, threads, symbols, wheres[order], firsts, starts, ends)

    def _report_events(self, walk: _Walk, times: Numbers) -> tuple[EventBatch, Numbers]:
        """Report, in time order, events that do more than change the path; return what `Executions.add` returns."""
        begins = walk.symbols != END
        paths = np.where(begins, walk.after, walk.before)

        def in_time(chosen: npt.NDArray[np.bool_]) -> Numbers:
            at = np.flatnonzero(chosen)
            return at[np.argsort(walk.order[at], kind="stable")]

        faulty = np.array(self.automaton.faults) != 0
        for event in in_time(faulty[paths] & begins).tolist() if faulty.any() else ():
            self._report_misplaced(int(paths[event]), walk, event)
        for event in in_time((paths == 0) & ~begins).tolist():
            first, count = self.unmatched.get(int(walk.threads[event]), (int(walk.wheres[event]), 0))
            self.unmatched[int(walk.threads[event])] = first, count + 1
        of_paths = np.concatenate(np.array(self.automaton.roles, np.uint8))  # begin events, then end events
        roles = of_paths[paths + ~begins * len(self.automaton.ups)]
        chosen = in_time(roles != 0)
        alone = roles[chosen] <= Role.BENCHMARK
        events = chosen[alone]
        columns = (walk.order, np.where(begins, paths, ~paths), times[walk.order], walk.threads, walk.wheres)
        for event in zip(*(one[events].tolist() for one in columns), strict=True):
            self._follow_application(*event)
        events = chosen[~alone]
        at = walk.order[events]
        batch = EventBatch(at, roles[events], begins[events], times[at], walk.threads[events], walk.wheres[events])
        runtime = batch.roles <= Role.COMPUTE
        changes = self.executions.add(batch.only(runtime), self.events)
        self.evidence.add(batch.only(~runtime), self.events, of_driver=bool(self.executions))
        return changes

    def _follow_application(self, at: int, path: int, t_ns: int, thread: int, where: int) -> None:
        """Follow the mark of a run or application phase at index `at` of the batch; an end has the path ~path."""
        self.runs.now = self.events + at
        mark_of, process = self.automaton.mark, self.processes[thread]
        if path < 0:
            self.runs.ended(mark_of(~path), t_ns, thread, process)
            return
        mark, outer = mark_of(path), mark_of(self.automaton.ups[path])
        if mark.switch and Role.NONE < outer.role <= Role.BENCHMARK:
            self.runs.ended(outer, t_ns, thread, process)
        self.runs.began(mark, t_ns, thread, process, where)

    def _report_misplaced(self, path: int, walk: _Walk, event: int) -> None:
        """Report the misplaced mark of a path, and the mark around it that counts time."""
        paths, number = self.automaton, int(walk.before[event])
        around, mark = paths.home(number), paths.mark(path)
        outer = paths.mark(around) if around else None
        within = (outer.layer, outer.phase) if outer else ("", "")
        like = (*within, mark.layer, mark.phase if mark.layer else mark.name)
        for code in [*paths.fault_codes][paths.faults[path]]:
            message = f"{explain(code).meaning}: {mark.text}"
            if outer and not self._collector.known(code, *like):
                places, up = self._stack(walk, event), number
                depth = len(places) - 1
                while up != around:
                    up, depth = paths.ups[up], depth - 1
                message += f" inside {outer.text} ({self._trace.place(places[depth])})"
            self._collector.add(code, int(walk.wheres[event]), message, *like)

    def _stack(self, walk: _Walk, event: int) -> array[int]:
        """Return the places of the marks that are open before an event; calls must be in time order."""
        thread = int(walk.threads[event])
        if thread not in walk.stacks:
            walk.stacks[thread] = int(np.searchsorted(walk.threads, thread)), self._places[thread][:]
        first, places = walk.stacks[thread]
        columns = walk.symbols[first:event], walk.wheres[first:event]
        for symbol, where in zip(*(one.tolist() for one in columns), strict=True):
            if symbol != END:
                places.append(where)
            elif places:
                places.pop()
        walk.stacks[thread] = event, places
        return places

    def _in_flight_before(
        self, walk: _Walk, changes: EventBatch, threads: Numbers
    ) -> tuple[Numbers, tuple[Numbers, ...]]:
        """Return whether an execution is in flight before each event, and the changes by events of other threads.

        These are columns: index in the batch, time, thread, and the state that ends.
        """
        in_flight = np.array(self._in_flight, np.int64)
        found = in_flight[walk.threads]
        now = changes.at
        if not len(now):
            return found, ()
        turns = np.bincount(threads, minlength=len(in_flight))
        self._in_flight = bytearray((in_flight + turns & 1).astype(np.uint8).tobytes())
        count = len(walk.order)
        # A change takes effect at the thread's next event in the batch, if there is one.
        at = np.searchsorted(walk.threads * count + walk.order, threads * count + now + 1)
        within = np.append(walk.threads, -1)[at] == threads
        turns = np.bincount(at[within], minlength=count)
        passed = np.cumsum(turns)
        started = (passed - turns)[walk.firsts]
        found = (found + passed - np.repeat(started, np.diff(walk.firsts, append=count))) & 1
        paths = np.where(within, np.append(walk.before, 0)[at], np.array(self._paths, np.int64)[threads])
        others = threads != changes.threads
        # The only change that another thread can cause is the end of an execution.
        return found, tuple(column[others] for column in (now + 1, changes.times, threads, paths << 1 | 1))

    def _keep_places(self, walk: _Walk) -> None:
        """Track the places of open marks: those left open by this batch or by earlier ones."""
        depths = np.array(self.automaton.depths)[walk.after]
        least = np.minimum.reduceat(depths, walk.firsts)
        for thread, depth in zip(walk.threads[walk.firsts].tolist(), least.tolist(), strict=True):
            del self._places[thread][depth:]
        # The least depth from here to the end of the thread; the depths of later threads are offset above these.
        index = np.repeat(np.arange(len(walk.firsts)), np.diff(walk.firsts, append=len(depths)))
        levels = depths + index * (int(depths.max()) + 1)
        later = np.append(np.minimum.accumulate(levels[::-1])[::-1][1:], levels[-1])
        left = np.flatnonzero((walk.symbols != END) & (levels <= later))
        for thread, where in zip(walk.threads[left].tolist(), walk.wheres[left].tolist(), strict=True):
            self._places[thread].append(where)
