"""The state machine that follows all threads, one batch of events at a time.

Threads are followed one by one through the automaton. Events with further effects (a diagnostic, an execution, an
application phase) are then found in the resulting paths, and reported in time order.

State 2n is path n; 2n + 1 is the same path while an execution that began on the thread is in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from circletools.trace.nnapi.automaton import END, Automaton, Path
from circletools.trace.nnapi.marks import Mark, Role
from circletools.trace.sources.names import Columns, Numbers, by_thread


@dataclass(frozen=True, slots=True)
class EventBatch(Columns):
    """Begins and ends of marks that show executions, in time order: places in the batch, roles, times, threads."""

    at: Numbers
    roles: Numbers
    begins: npt.NDArray[np.bool_]
    times: Numbers
    threads: Numbers
    wheres: Numbers


@dataclass(frozen=True, slots=True)
class InFlightChanges:
    """When threads started or stopped having an execution in flight, in time order.

    `threads` are the threads of the executions, `current` the threads of the events at places `at` in the batch.
    """

    at: Numbers
    times: Numbers
    threads: Numbers
    current: Numbers


class Observer(Protocol):
    """Receives the events that do more than move a thread to another path."""

    def on_application_mark(self, at: int, path: int, t_ns: int, thread: int, where: int) -> None:
        """Handle a mark of a run or an application phase at a place in the batch; its end has the path ~path."""

    def on_unmatched_end(self, thread: int, where: int) -> None:
        """Handle an end without a begin."""

    def on_executions(self, batch: EventBatch) -> InFlightChanges:
        """Handle begins and ends of execution marks; application marks have been reported before."""

    def on_misplaced_mark(
        self, code: str, mark: Mark, outer: Mark | None, where: int, find: Callable[[], int]
    ) -> None:
        """Handle a mark that is not allowed at its place; `find` returns the place of the enclosing mark."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """Events by thread: `order` has their places in the batch, `firsts` the start of each thread.

    `before` and `after` are the paths around each event. `stacks` holds places of open marks up to some event.
    """

    order: Numbers
    threads: Numbers
    symbols: Numbers
    wheres: Numbers
    firsts: Numbers
    before: Numbers
    after: Numbers
    stacks: dict[int, tuple[int, list[int]]] = field(default_factory=dict)


class Machine:
    """Follows threads; `feed` processes events and returns the state that each event ends.

    `breaks` then lists state changes by events of other threads: position among the events, time, thread, state.
    """

    def __init__(self, observer: Observer) -> None:
        self.automaton: Automaton = Automaton()
        self.breaks: tuple[Numbers, ...] = ()
        self._observer = observer
        self._paths: list[int] = []
        self._in_flight = bytearray()
        self._places: list[list[int]] = []

    def add_thread(self) -> None:
        """Add a thread, with no marks open."""
        self._paths.append(0)
        self._in_flight.append(0)
        self._places.append([])

    def states(self) -> Numbers:
        """Return the state of each thread."""
        return np.array(self._paths, np.int64) << 1 | np.array(self._in_flight, np.uint8)

    def feed(self, times: Numbers, threads: Numbers, symbols: Numbers, wheres: Numbers) -> Numbers:
        """Process events; return the state of each event's thread before it."""
        walk = self._follow(threads, symbols, wheres)
        turns = self._report_events(walk, times)
        states = np.empty_like(times)
        states[walk.order] = walk.before << 1 | self._in_flight_before(walk, turns)
        self._keep_places(walk)
        return states

    def open_marks(self, thread: int) -> list[tuple[Mark, int]]:
        """Return the open marks of a thread, the innermost first, each with its place."""
        path, found = self._paths[thread], []
        for where in reversed(self._places[thread]):
            found.append((self.automaton.paths[path].mark, where))
            path = self.automaton.paths[path].up
        return found

    def _follow(self, threads: Numbers, symbols: Numbers, wheres: Numbers) -> _Walk:
        order = by_thread(threads)
        threads, symbols = threads[order], symbols[order]
        firsts = np.flatnonzero(np.append(True, threads[1:] != threads[:-1]))
        before, after, moves = list[int](), list[int](), self.automaton.moves
        for thread, some in zip(threads[firsts].tolist(), np.split(symbols, firsts[1:]), strict=True):
            path, listed = self._paths[thread], some.tolist()
            before.append(path)
            try:  # the usual case, in half the time
                after += [path := moves[path][symbol] for symbol in listed]
            except KeyError:
                after += self.automaton.follow(before[-1], listed)
            self._paths[thread] = after[-1]
        ends = np.array(after, np.int64)
        starts = np.append(0, ends[:-1])
        starts[firsts] = before
        return _Walk(order, threads, symbols, wheres[order], firsts, starts, ends)

    def _report_events(self, walk: _Walk, times: Numbers) -> InFlightChanges:
        """Report the events that do more than change the path, in time order."""
        begins = walk.symbols != END
        paths = np.where(begins, walk.after, walk.before)

        def in_time(chosen: npt.NDArray[np.bool_]) -> Numbers:
            at = np.flatnonzero(chosen)
            return at[np.argsort(walk.order[at], kind="stable")]

        faulty = np.array([bool(path.faults) for path in self.automaton.paths], np.bool_)
        for event in in_time(faulty[paths] & begins).tolist() if faulty.any() else ():
            self._report_misplaced(self.automaton.paths[paths[event]], walk, event)
        for event in in_time((paths == 0) & ~begins).tolist():
            self._observer.on_unmatched_end(int(walk.threads[event]), int(walk.wheres[event]))
        roles = np.concatenate(np.array(self.automaton.roles, np.uint8))[
            paths + (~begins) * len(self.automaton.paths)
        ]
        chosen = in_time(roles != 0)
        alone = roles[chosen] <= Role.BENCHMARK
        events = chosen[alone]
        columns = (walk.order, np.where(begins, paths, ~paths), times[walk.order], walk.threads, walk.wheres)
        for event in zip(*(one[events].tolist() for one in columns), strict=True):
            self._observer.on_application_mark(*event)
        events = chosen[~alone]
        at = walk.order[events]
        return self._observer.on_executions(
            EventBatch(at, roles[events], begins[events], times[at], walk.threads[events], walk.wheres[events])
        )

    def _report_misplaced(self, path: Path, walk: _Walk, event: int) -> None:
        """Report a mark together with the live mark around it."""
        paths, number = self.automaton.paths, int(walk.before[event])
        around = paths[number].home_of(number)

        def find() -> int:
            places = self._stack(walk, event)
            up, depth = number, len(places) - 1
            while up != around:
                up, depth = paths[up].up, depth - 1
            return places[depth]

        outer = paths[around].mark if around else None
        for code in path.faults:
            self._observer.on_misplaced_mark(code, path.mark, outer, int(walk.wheres[event]), find)

    def _stack(self, walk: _Walk, event: int) -> list[int]:
        """Return the places of the marks that are open before an event; calls must be in time order."""
        thread = int(walk.threads[event])
        if thread not in walk.stacks:
            walk.stacks[thread] = int(np.searchsorted(walk.threads, thread)), self._places[thread].copy()
        first, places = walk.stacks[thread]
        columns = walk.symbols[first:event], walk.wheres[first:event]
        for symbol, where in zip(*(one.tolist() for one in columns), strict=True):
            if symbol != END:
                places.append(where)
            elif places:
                places.pop()
        walk.stacks[thread] = event, places
        return places

    def _in_flight_before(self, walk: _Walk, changes: InFlightChanges) -> Numbers:
        """Return whether an execution is in flight before each event.

        Also record the states of threads that an event of another thread has changed.
        """
        self.breaks = ()
        in_flight = np.array(self._in_flight, np.int64)
        found = in_flight[walk.threads]
        now, threads = changes.at, changes.threads
        if not len(now):
            return found
        turns = np.bincount(threads, minlength=len(in_flight))
        self._in_flight = bytearray((in_flight + turns & 1).astype(np.uint8).tobytes())
        count = len(walk.order)
        # A change applies from the thread's next event in the batch on, if there is one.
        at = np.searchsorted(walk.threads * count + walk.order, threads * count + now + 1)
        within = np.append(walk.threads, -1)[at] == threads
        turns = np.bincount(at[within], minlength=count)
        passed = np.cumsum(turns)
        started = (passed - turns)[walk.firsts]
        found = (found + passed - np.repeat(started, np.diff(walk.firsts, append=count))) & 1
        paths = np.where(within, np.append(walk.before, 0)[at], np.array(self._paths, np.int64)[threads])
        others = threads != changes.current
        # Only the end of an execution can come from another thread.
        self.breaks = tuple(column[others] for column in (now + 1, changes.times, threads, paths << 1 | 1))
        return found

    def _keep_places(self, walk: _Walk) -> None:
        """Track the places of open marks: those left open by this batch or by earlier ones."""
        depths = np.array(self.automaton.depths)[walk.after]
        least = np.minimum.reduceat(depths, walk.firsts)
        for thread, depth in zip(walk.threads[walk.firsts].tolist(), least.tolist(), strict=True):
            del self._places[thread][depth:]
        # The least depth from here to the end of the thread; later threads are offset above all of this one's.
        index = np.repeat(np.arange(len(walk.firsts)), np.diff(walk.firsts, append=len(depths)))
        levels = depths + index * (int(depths.max()) + 1)
        later = np.append(np.minimum.accumulate(levels[::-1])[::-1][1:], levels[-1])
        left = np.flatnonzero((walk.symbols != END) & (levels <= later))
        for thread, where in zip(walk.threads[left].tolist(), walk.wheres[left].tolist(), strict=True):
            self._places[thread].append(where)
