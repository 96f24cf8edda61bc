"""Diagnostics that need the whole trace."""

from __future__ import annotations

from dataclasses import dataclass, field

from circletools.codes import explain
from circletools.trace.nnapi.diagnostics import Collector
from circletools.trace.nnapi.executions import Executions
from circletools.trace.nnapi.machine import Machine
from circletools.trace.nnapi.marks import HalSide, Mark
from circletools.trace.nnapi.timeline import APP_PHASES, Runs
from circletools.trace.sources import FaultKind, Trace

WHOLE_TRACE = -1


@dataclass(slots=True)
class SeenMarks:
    """The marks of a trace. Threads are indices; places are line numbers or byte offsets.

    `counted` are threads with time in the tables; `unmatched` holds, for each thread with unmatched ends, the place
    of the first one and their number.
    """

    layers: dict[int, set[str]] = field(default_factory=dict)
    calls: bool = False
    drivers: set[int] = field(default_factory=set)
    counted: set[int] = field(default_factory=set)
    unmatched: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, mark: Mark, process: int, driver: bool) -> None:
        """Record a mark."""
        if mark.layer:
            self.layers.setdefault(process, set()).add(mark.layer)
            self.calls = self.calls or mark.side is HalSide.CLIENT
        if driver or mark.side is HalSide.PASSTHROUGH:
            self.drivers.add(process)


def judge(
    collector: Collector,
    trace: Trace,
    seen: SeenMarks,
    runs: Runs,
    executions: Executions,
    machine: Machine,
    threads: list[tuple[int, int]],
) -> None:
    """Add the diagnostics that need the whole trace; `threads` holds the number and the process of each."""
    for fault, code in ((FaultKind.LOST, "T003"), (FaultKind.MALFORMED, "T004"), (FaultKind.OTHER_MACHINE, "T005")):
        shown = [one for one in trace.faults if one.kind is fault]
        if shown:
            message = f"{explain(code).meaning}: {shown[0].text.strip()}"
            collector.add(code, shown[0].where, message, count=trace.fault_counts[fault])
    _judge_processes(collector, seen)
    _judge_scopes(collector, seen, runs, machine, threads)
    for run in runs.all:
        if len(run.seen) == 1:
            present, absent = (1, 2) if 1 in run.seen else (2, 1)
            collector.add("T032", run.where, f"run {run.index} has {APP_PHASES[present]} but no {APP_PHASES[absent]}")
    for where in executions.unmatched_waits:
        collector.add("T040", where, "a wait without a start", "wait")
    for execution in executions.ignored():
        collector.add("T040", execution.where, "a start without a wait", "start")


def _judge_processes(collector: Collector, seen: SeenMarks) -> None:
    layers = set().union(*seen.layers.values())
    if not layers:
        collector.add("T001", WHOLE_TRACE, explain("T001").meaning)
    if "LR" not in layers:
        collector.drop("T021", "LA")  # otherwise the runtime's work in between cannot be nested
        for where, message, count in collector.drop("T020", "LA"):
            collector.add("T031", where, message, message, count=count)
        if "LA" in layers:
            collector.add("T002", WHOLE_TRACE, explain("T002").meaning)
    clients = [process for process, found in seen.layers.items() if process not in seen.drivers and "LR" in found]
    clients = clients or [process for process, found in seen.layers.items() if "LA" in found]
    if len(clients) > 1:
        shown = ", ".join(str(process) for process in sorted(clients)[:10])
        collector.add("T041", WHOLE_TRACE, f"{len(clients)} client processes: {shown}")
    if seen.calls and not seen.drivers:
        collector.add("T050", WHOLE_TRACE, explain("T050").meaning)


def _judge_scopes(
    collector: Collector, seen: SeenMarks, runs: Runs, machine: Machine, threads: list[tuple[int, int]]
) -> None:
    for thread, (where, count) in seen.unmatched.items():
        if thread in seen.counted:
            message = f"an end without a begin on thread {threads[thread][0]}"
            collector.add("T010", where, message, str(thread), count=count)
    for thread in sorted(seen.counted):
        marks = [(mark, where) for mark, where in machine.open_marks(thread) if mark.layer]
        if marks:
            mark, where = marks[-1]
            message = f"{mark.text} on thread {threads[thread][0]} has no end"
            collector.add("T011", where, message, str(thread), count=len(marks))
            run = runs.latest(threads[thread][1])
            if run is not None:
                run.partial = True
