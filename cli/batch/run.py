"""Run one command on many files: distribute tasks to workers, and print outcomes in order on standard output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing

import circletools as ct

from ..console.progress import tell_progress
from ..console.terminal import print_diagnostic, show_bytes, sum_up
from .options import BatchOptions
from .task import Outcome, Task
from .workers import Processes, ThisProcess, Workers, without_interrupts

UNKNOWN = 5
"""The exit status of `fit` if it is unknown whether a model runs."""
_HELD_BYTES = 64 << 20
"""The maximum number of bytes of finished output that may wait to be printed; beyond it, no new tasks start."""


def run(tasks: Iterable[Task], batch: BatchOptions) -> int:
    """Run the tasks with the options in `batch`; return the highest exit status, where UNKNOWN ranks below 1."""
    statuses: list[int] = []
    with closing(_workers(batch)) as workers:
        printer = _Printer()
        for task, outcome in in_order(tasks, workers):
            if outcome.fatal:
                printer.show(task, outcome)
                printer.end()
                return outcome.status
            with without_interrupts():  # otherwise, a line could be cut off
                printer.show(task, outcome)
            statuses.append(outcome.status)
            tell_progress(f"{len(statuses)} done")
        printer.end()
    return max(statuses, key=lambda status: 0.5 if status == UNKNOWN else status, default=0)


def in_order(tasks: Iterable[Task], workers: Workers) -> Iterator[tuple[Task, Outcome]]:
    """Yield each task with its outcome in the order of `tasks`, even if workers finish them in another order."""
    rest = enumerate(tasks)
    begun: dict[int, Task] = {}
    done: dict[int, Outcome] = {}
    due = held = 0
    while True:
        while workers.free and held < _HELD_BYTES and (following := next(rest, None)) is not None:
            number, task = following
            begun[number] = task
            workers.start(number, task)
        if not workers.busy:
            return
        number, outcome = workers.wait()
        done[number] = outcome
        held += len(outcome.out)
        while due in done:
            outcome = done.pop(due)
            held -= len(outcome.out)
            yield begun.pop(due), outcome
            due += 1


class _Printer:
    """Prints outcomes: results under headings, separated by empty lines; tables with a single header line.

    SARIF runs are merged into one run, JUnit suites and GitLab arrays into one document; findings are counted.
    """

    def __init__(self) -> None:
        self._columns = self._end = b""
        self._sarif: ct.render.SarifText | None = None
        self._begun = False
        self._counts: list[tuple[ct.render.Tally, bool]] = []
        self._statistics = False
        self._unmatched: frozenset[str] | None = None

    def show(self, task: Task, outcome: Outcome) -> None:
        out = outcome.out
        if task.several and out:
            if task.form == "csv":
                columns, end, rows = out.partition(b"\n")
                out = rows if columns == self._columns else columns + end + rows
                self._columns = columns
            elif task.form == "sarif":
                self._sarif = self._sarif or ct.render.SarifText()
                out = self._sarif.add(json.loads(out)).encode()
            elif task.form == "junit":
                self._end = ct.render.JUNIT_END.encode()
                out = (b"" if self._begun else ct.render.JUNIT_BEGIN.encode()) + out
            elif task.form == "gitlab":
                issues = out.strip(b"[]\n")
                out = (b",\n" if self._end == b"\n]\n" else b"[\n") * bool(issues) + issues
                self._end = b"\n]\n" if issues else self._end or b"[]\n"
            elif task.form != "json" and task.heading != "line" and self._begun:
                out = b"\n" + out
            self._begun = True
        if out:
            show_bytes(out)
        for kind, text in outcome.messages:
            print_diagnostic(kind, text)
        if outcome.unmatched is not None:
            self._unmatched = outcome.unmatched if self._unmatched is None else self._unmatched & outcome.unmatched
        if outcome.counts is not None:
            self._counts.append((outcome.counts, outcome.error is not None))
            self._statistics = task.options["statistics"]

    def end(self) -> None:
        """Write the end of merged documents, and the summary."""
        if self._sarif is not None:
            self._end = self._sarif.end().encode()
        if self._end:
            show_bytes(self._end)
        if self._counts:
            sum_up(self._counts, statistics=self._statistics)
        for pattern in sorted(self._unmatched or ()):
            print_diagnostic("warning", f"per-file-ignores: {pattern!r} matches none of these models")


def _workers(batch: BatchOptions) -> Workers:
    return ThisProcess() if batch.jobs == 1 else Processes(batch.jobs)
