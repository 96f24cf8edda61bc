"""The analysis of a trace: runs, tables, executions, functions and diagnostics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from circletools.errors import InvalidInputError
from circletools.findings import explain
from circletools.trace.nnapi.automaton import Function, functions
from circletools.trace.nnapi.executions import Evidence, ExecutionColumns
from circletools.trace.nnapi.machine import Collector, Diagnostic, Machine
from circletools.trace.nnapi.marks import FOREIGN, HalSide, Mark, Role, classify
from circletools.trace.nnapi.statistics import Stretches, Tables
from circletools.trace.nnapi.timeline import APP_PHASES, Run, run_of
from circletools.trace.nnapi.wall_clock import EXECUTING, PHASES, WallClock, Windows, wall_clocks
from circletools.trace.sources import Batch, Trace, open_trace
from circletools.trace.sources.batch import NO_PROCESS, MachineUse, machine_in, merged
from circletools.trace.sources.names import Numbers, distinct, sums
from circletools.wording import Tabular, warn

_MOST_REMEMBERED = 1 << 16
WHOLE_TRACE = -1


@dataclass(slots=True, repr=False)
class Analysis(Tabular):
    """The results of analyzing a trace. `tables` holds thread time for each segment (see timeline.run_of).

    `wall_clock` holds the shares of `executions` in wall-clock time, and `run_clock` those of `runs`; `machine` holds
    frequencies and energy during executions. If the runtime has no marks, executions are HAL calls or marks of the
    application ([NN_LA_PE]), as their kind shows. `threads` are the threads with time in the tables; `marked` are
    those with any NNAPI mark. `drivers` maps each process that served HAL calls to the name of one of its threads;
    `clients` maps each other process with time to the name of its main thread or, prefixed with `thread `, of another
    thread. `ordered` means that the times of the trace never decrease.
    """

    name: str
    encoding: str
    events: int
    runs: list[Run]
    tables: Tables
    executions: ExecutionColumns
    wall_clock: WallClock
    run_clock: WallClock
    driver: Evidence
    functions: list[Function]
    diagnostics: list[Diagnostic]
    threads: frozenset[int] = frozenset()
    marked: frozenset[int] = frozenset()
    drivers: dict[int, str] = field(default_factory=dict)
    clients: dict[int, str] = field(default_factory=dict)
    first_ns: int = 0
    last_ns: int = 0
    ordered: bool = True
    machine: list[MachineUse] = field(default_factory=list)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return thread time in nanoseconds, by run (-1 outside any), application phase, layer and phase."""
        names = {run.index: run.name for run in self.runs}
        return [
            {"run": run, "name": names.get(run, ""), "app_phase": app_phase, **bucket}
            for segment, table in sorted(self.tables.items())
            for run, app_phase in (run_of(segment),)
            for bucket in table.to_rows()
        ]


@dataclass(slots=True)
class _Known:
    """Facts that are known only after a complete pass over a trace; the next pass starts with them."""

    drivers: set[int] = field(default_factory=set)
    ignored: frozenset[int] = frozenset()
    sort: bool = False


def analyse(trace: Trace) -> Analysis:
    """Analyze a trace. Raises InvalidInputError if the input is broken or not a trace.

    One pass is enough for most traces. Another pass is made if times decrease, if the first marks of a process do not
    show that it is a driver, or if a start has no wait.
    """
    known = _Known()
    while True:
        one = _Pass(trace, known)
        if one.read():
            return one.finish()
        known = one.learnt


def read_trace(source: str | os.PathLike[str] | bytes | BinaryIO, *, strict: bool = False) -> Analysis:
    """Read an NNAPI trace of any encoding: a path (`-` is standard input), bytes, or a binary file.

    Raises InvalidInputError if the input is broken or not a trace; if `strict`, also for the first diagnostic that is
    an error.
    """
    analysis = checked(analyse(open_trace(source)), strict=strict)
    if any(one.code == "T001" for one in analysis.diagnostics):
        warn("the trace has no NN marks; for the times of operators, write ct.read_profile(path)")
    return analysis


def checked(analysis: Analysis, *, strict: bool) -> Analysis:
    """Return the analysis. If `strict`, raises InvalidInputError for the first error among its diagnostics."""
    for one in analysis.diagnostics if strict else ():
        if one.severity == "error":
            raise InvalidInputError(f"{one.code}: {one.message}", location=one.location, hint=one.hint)
    return analysis


class _Pass:
    """One pass over a trace."""

    def __init__(self, trace: Trace, known: _Known) -> None:
        self.trace, self.known = trace, known
        self.learnt = _Known(set(known.drivers), known.ignored, known.sort)
        self.collector = Collector()
        self.machine = Machine(known.ignored, self.collector, trace)
        self.automaton, self.runs, self._processes = self.machine.automaton, self.machine.runs, self.machine.processes
        self.stretches = Stretches()
        self.last_ns = 0
        self._symbols: dict[bytes, tuple[int, int]] = {}
        self._indices: dict[int, int] = {}
        self._tids: list[int] = []
        self._unsure: set[int] = set()
        self._marked: set[int] = set()
        self._late = False
        # The layers of each process; whether there are HAL calls; driver processes; threads with time in the tables.
        self._layers: dict[int, set[str]] = {}
        self._calls = False
        self._drivers: set[int] = set()
        self._counted: set[int] = set()

    def read(self) -> bool:
        """Read the whole trace; return whether the facts known before this pass were complete."""
        batches = self.trace.batches()
        for batch in merged(batches) if self.known.sort else batches:
            if batch.times[0] < self.last_ns or (batch.times[1:] < batch.times[:-1]).any():
                self.learnt.sort = True
                return False
            self._take(batch)
            self.last_ns = int(batch.times[-1])
        self.learnt.ignored |= self.machine.executions.unpaired()
        return not self._late and self.learnt.ignored == self.known.ignored

    def finish(self) -> Analysis:
        self._symbols.clear()  # only reading needs these, and they may use much memory
        self.automaton.moves.clear()
        executions, layer = self.machine.executions.ended(), "LR"
        if not len(executions):
            executions = self.machine.evidence.executions()
            layer = "LI" if Role.CALL in executions.kinds[:1] else "LA"
        columns = (executions.starts, executions.ends, executions.processes)
        runs = np.array([(run.start_ns, run.end_ns, run.process) for run in self.runs.all], np.int64)
        windows = self._windows(columns, layer, "PE"), self._windows(runs.reshape(-1, 3).T.copy(), "LA", "PO", PHASES)
        contexts, trace, name = self.automaton.contexts, self.trace, self.trace.name
        tables = Tables(contexts, self.stretches, self.runs, self._processes, name)
        clock, run_clock = wall_clocks(self.stretches, contexts, windows, self._processes, name)
        self._judge()
        times = self.runs.all, tables, executions, clock, run_clock, self.machine.evidence, functions(self.automaton)
        found = Analysis(name, trace.encoding, self.machine.events, *times, self.collector.finish(trace.place))
        counted, marked = ([self._tids[thread] for thread in some] for some in (self._counted, self._marked))
        found.threads, found.marked = frozenset(counted), frozenset(marked)
        known = {tid: name for tid, name in self.trace.thread_names.items() if name != "<...>"}
        # Main threads name processes; without one, any other thread does
        names = {process: known[tid] for tid, process in self.trace.processes.items() if tid in known} | known
        found.drivers = {process: names.get(process, "") for process in sorted(self.learnt.drivers)}
        threads = ((self._processes[thread], self._tids[thread]) for thread in sorted(self._counted, reverse=True))
        others = {process: f"thread {known[tid]}" for process, tid in threads if tid in known}
        found.clients = {one: known.get(one, name) for one, name in others.items() if one not in found.drivers}
        found.ordered = not self.known.sort
        found.first_ns, found.last_ns = self.machine.first_ns or 0, self.last_ns
        found.machine = machine_in(trace.counters, *windows[not len(executions)][:2])
        return found

    def _windows(
        self, columns: Iterable[Numbers], layer: str, phase: str, phases: Sequence[str] = EXECUTING
    ) -> Windows:
        """Return executions or runs as time intervals; open ones end with the trace."""
        starts, ends, processes = columns
        ends = np.maximum(starts, np.where(ends < 0, self.last_ns, ends))
        return Windows(starts, ends, processes, layer, phase, phases)

    def _take(self, batch: Batch) -> None:
        threads = self._threads(batch)
        symbols = self._symbols_of(batch, threads)
        intervals = self.machine.feed(batch.times, threads, symbols, batch.places)
        self._counted.update(distinct(intervals.threads))
        paths, self_ns = sums(intervals.paths, intervals.ends - intervals.starts)
        np.frombuffer(self.automaton.self_ns, np.int64)[paths] += self_ns
        self.stretches.add(intervals)

    def _threads(self, batch: Batch) -> Numbers:
        """Return the index of each event's thread."""
        tids, found = distinct(batch.threads), []
        for tid in tids:
            index = self._indices.get(tid)
            if index is None:
                index = self._indices[tid] = len(self._tids)
                self._tids.append(tid)
                self.machine.add_thread()
            if self._processes[index] == NO_PROCESS:
                process = self.trace.processes.get(tid, NO_PROCESS)
                self._processes[index] = process if process.bit_length() < 64 else NO_PROCESS
            found.append(index)
        indices: Numbers = np.array(found, np.int64)[np.searchsorted(tids, batch.threads)]
        return indices

    def _symbols_of(self, batch: Batch, threads: Numbers) -> Numbers:
        """Return the symbol of each event's mark in its process, or -1 for end events."""
        both = np.array([self._symbol(name) for name in batch.names] + [(-1, -1)], np.int64)
        symbols: Numbers = both[batch.texts, 0]
        at = np.flatnonzero(symbols > 0)
        if not len(at):
            return symbols
        width = len(self._tids)
        pairs = [divmod(pair, width) for pair in distinct(symbols[at] * width + threads[at])]
        self._marked.update(thread for _, thread in pairs)
        self._note_marks([(self.automaton.marks[symbol], self._processes[thread]) for symbol, thread in pairs])
        drivers = np.array([process in self.learnt.drivers for process in self._processes], np.bool_)
        return np.where(drivers[threads], both[batch.texts, 1], symbols)

    def _note_marks(self, pairs: list[tuple[Mark, int]]) -> None:
        """Record the marks of a batch in each process, and which of these processes are drivers."""
        for mark, process in pairs:
            if mark.side is HalSide.SERVER and mark.layer and process not in self.learnt.drivers:
                self.learnt.drivers.add(process)
                self._late = self._late or process in self._unsure
        for mark, process in pairs:
            if mark.layer:
                self._layers.setdefault(process, set()).add(mark.layer)
                self._calls = self._calls or mark.side is HalSide.CLIENT
            if process in self.learnt.drivers or mark.side is HalSide.PASSTHROUGH:
                self._drivers.add(process)
            if mark.layer in ("LC", "LD") and process not in self.learnt.drivers:
                self._unsure.add(process)

    def _symbol(self, text: bytes) -> tuple[int, int]:
        """Return two symbols of a mark: outside a driver process and inside one."""
        known = self._symbols.get(text)
        if known is None:
            mark = classify(text)
            outside, inside = mark.in_driver(False), mark.in_driver(True)
            first = 0 if mark is FOREIGN else self.automaton.symbol(outside)
            known = (first, first if inside == outside else self.automaton.symbol(inside))
            if first or len(self._symbols) < _MOST_REMEMBERED:
                self._symbols[text] = known
        return known

    # Diagnostics that need the whole trace.

    def _judge(self) -> None:
        add, trace = self.collector.add, self.trace
        for code, count in trace.fault_counts.items():
            shown = next(one for one in trace.faults if one.code == code)
            add(code, shown.where, f"{explain(code).meaning}: {shown.text.strip()}", count=count)
        for where, message in self.runs.misplaced:
            add("T031", where, message)
        self._judge_processes()
        self._judge_scopes()
        for run in self.runs.all:
            if len(run.seen) == 1:
                present, absent = (1, 2) if 1 in run.seen else (2, 1)
                add("T032", run.where, f"run {run.index} has a {APP_PHASES[present]} but no {APP_PHASES[absent]}")
        for where in self.machine.executions.unmatched_waits:
            add("T040", where, "a wait without a start", "wait")
        for where in self.machine.executions.unmatched_starts():
            add("T040", where, "a start without a wait", "start")

    def _judge_processes(self) -> None:
        collector = self.collector
        layers = set().union(*self._layers.values())
        if not layers:
            collector.add("T001", WHOLE_TRACE, explain("T001").meaning)
        if "LR" not in layers:
            collector.drop("T021", "LA")  # without HAL marks, the runtime's work in between cannot be nested
            for where, message, count in collector.drop("T020", "LA"):
                collector.add("T031", where, message, message, count=count)
            if "LA" in layers:
                collector.add("T002", WHOLE_TRACE, explain("T002").meaning)
        clients = [process for process in self._layers.keys() - self._drivers if "LR" in self._layers[process]]
        clients = clients or [process for process, found in self._layers.items() if "LA" in found]
        if len(clients) > 1:
            shown = ", ".join(str(process) for process in sorted(clients)[:10])
            collector.add("T041", WHOLE_TRACE, f"the trace has {len(clients)} client processes: {shown}")
        if self._calls and not self._drivers:
            collector.add("T050", WHOLE_TRACE, explain("T050").meaning)

    def _judge_scopes(self) -> None:
        for thread, (where, count) in self.machine.unmatched.items():
            if thread in self._counted:
                message = f"an end event without a begin event on thread {self._tids[thread]}"
                self.collector.add("T010", where, message, str(thread), count=count)
        for thread in sorted(self._counted):
            count = 0
            for mark, where in self.machine.open_marks(thread):
                if mark.layer:
                    first, count = (mark, where), count + 1
            if count:
                message = f"{first[0].text} on thread {self._tids[thread]} has no end event"
                self.collector.add("T011", first[1], message, str(thread), count=count)
                run = self.runs.latest(self._processes[thread])
                if run is not None:
                    run.partial = True
