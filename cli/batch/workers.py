"""Run one command on many files, in this process or in several others, and print the outcomes in order."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import circletools as ct

from ..console import bounds
from ..console.process import keep_freed
from ..console.progress import tell_progress
from ..console.terminal import print_diagnostic, show_bytes, sum_up
from .task import UNKNOWN, Outcome, Task, apply, lost

_PATIENCE_SECONDS = 5.0
_HELD_BYTES = 64 << 20
"""The maximum number of bytes of finished output that may wait to be printed; beyond it, no new tasks start."""


def outcomes(tasks: Iterable[Task], jobs: int) -> Generator[tuple[Task, Outcome]]:
    """Yield each task with its outcome; with one job, tasks run in this process, otherwise in `jobs` others."""
    if jobs != 1:
        with closing(Processes(jobs)) as workers:
            yield from in_order(tasks, workers)
        return
    for task in tasks:
        yield task, apply(task)
        _tidy()


def in_order(tasks: Iterable[Task], workers: Processes) -> Iterator[tuple[Task, Outcome]]:
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


class _Process:
    """A child process that reads tasks from a pipe, and this process's end of the pipe.

    The process is spawned, because a forked one would inherit the pipes of other workers and keep them open after a
    worker died. It ignores Ctrl-C, which the parent process handles.
    """

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        resource_tracker.ensure_running()  # otherwise `start` would start the tracker, with interrupts allowed
        with without_interrupts():
            self.process.start()
        theirs.close()

    def end(self) -> str:
        """Return a description of how the process ended."""
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"its process ended with exit status {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = str(-code)
        reason = ", perhaps because it ran out of memory" if name == "SIGKILL" else ""
        return f"its process was killed by {name}{reason}"


class Processes:
    """Up to `count` processes: call `start` while `free`, and `wait` while `busy`; tasks may finish in any order.

    If a process dies, only its current task is lost.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: list[_Process] = []
        self._busy: dict[Connection[Any, Any], tuple[_Process, int, Task]] = {}

    @property
    def free(self) -> bool:
        """Whether another task can be started."""
        return len(self._busy) < self._count

    @property
    def busy(self) -> bool:
        """Whether there is an outcome to wait for."""
        return bool(self._busy)

    def start(self, number: int, task: Task) -> None:
        """Give a task to an idle process, or to a new one."""
        while True:
            worker = self._idle.pop() if self._idle else _Process()
            self._busy[worker.pipe] = worker, number, task
            try:
                worker.pipe.send(task)
                return
            except OSError:  # the process has died since its last task
                del self._busy[worker.pipe]

    def wait(self) -> tuple[int, Outcome]:
        """Return the next outcome; the death of a process counts as an outcome too."""
        pipe: Any = connection.wait(list(self._busy))[0]
        worker, number, task = self._busy.pop(pipe)
        try:
            outcome = pipe.recv()
        except (EOFError, OSError):
            pipe.close()
            return number, lost(task, worker.end())
        self._idle.append(worker)
        return number, outcome

    def close(self) -> None:
        """End the processes: terminate busy ones; idle ones end when their pipe is closed."""
        working = [worker for worker, _, _ in self._busy.values()]
        for worker in working:
            worker.process.terminate()
        for worker in (*working, *self._idle):
            worker.pipe.close()
            worker.process.join(_PATIENCE_SECONDS)
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. A process started in the block never receives it.

    Windows cannot delay Ctrl-C, so the last line of a log may be truncated, which its readers recognize.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that a half-written file is removed
    gc.disable()  # as `main` does
    keep_freed()
    bounds.enable()
    with suppress(EOFError, OSError):  # the parent process is gone, or has no more tasks
        while True:
            pipe.send(apply(pipe.recv()))
            _tidy()


def _tidy() -> None:
    """Collect cyclic garbage, and exclude the remaining objects, such as modules, from later collections."""
    gc.collect()
    gc.freeze()


def run(tasks: Iterable[Task], jobs: int) -> int:
    """Run the tasks in `jobs` processes; return the highest exit status, where UNKNOWN ranks below 1."""
    statuses: list[int] = []
    with closing(outcomes(tasks, jobs)) as ended:
        printer = _Printer()
        for task, outcome in ended:
            with without_interrupts():  # otherwise, a line could be cut off
                printer.show(task, outcome)
            if outcome.fatal:
                printer.end()
                return outcome.status
            statuses.append(outcome.status)
            tell_progress(f"{len(statuses)} done")
        printer.end()
    return max(statuses, key=lambda status: 0.5 if status == UNKNOWN else status, default=0)


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
        if out:
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
