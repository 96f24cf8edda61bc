"""Workers that run tasks: this process, or several child processes.

All kinds have the same interface: call `start` while `free`, and `wait` while `busy`. Tasks may finish in any order.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from ..console import bounds
from ..console.memory import keep_freed
from .task import Outcome, Task, apply, lost

_PATIENCE_SECONDS = 5.0


class Workers(Protocol):
    """One or several workers that run tasks."""

    @property
    def free(self) -> bool:
        """Return whether another task can be started."""

    @property
    def busy(self) -> bool:
        """Return whether there is an outcome to wait for."""

    def start(self, number: int, task: Task) -> None:
        """Start a task."""

    def wait(self) -> tuple[int, Outcome]:
        """Return the number and outcome of a finished task."""

    def close(self) -> None:
        """End all workers, even in the middle of tasks."""


class ThisProcess:
    """Runs tasks in this process, one after another."""

    def __init__(self) -> None:
        self._next: deque[tuple[int, Task]] = deque()

    @property
    def free(self) -> bool:
        return not self._next

    @property
    def busy(self) -> bool:
        return bool(self._next)

    def start(self, number: int, task: Task) -> None:
        """Store a task; `wait` runs it."""
        self._next.append((number, task))

    def wait(self) -> tuple[int, Outcome]:
        """Run the stored task and return its number and outcome."""
        number, task = self._next.popleft()
        outcome = apply(task)
        _tidy()
        return number, outcome

    def close(self) -> None:
        """Do nothing."""


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
    """Workers in up to `count` processes. If one dies, only its current task is lost."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: list[_Process] = []
        self._busy: dict[Connection[Any, Any], tuple[_Process, int, Task]] = {}

    @property
    def free(self) -> bool:
        return len(self._busy) < self._count

    @property
    def busy(self) -> bool:
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by an exception, to remove a half-written file
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
