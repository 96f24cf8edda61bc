"""Workers for tasks: this process, or several others.

All are used in the same way: a task is started while they are free, and while they are busy there is an outcome to
wait for. Tasks end in any order.
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

from ..console.memory import keep_freed
from .task import Outcome, Task, apply, lost

_PATIENCE_SECONDS = 5.0


class Workers(Protocol):
    """A worker, or several, for tasks."""

    @property
    def free(self) -> bool:
        """Return whether a further task can be started."""

    @property
    def busy(self) -> bool:
        """Return whether there is an outcome to wait for."""

    def start(self, number: int, task: Task) -> None:
        """Begin a task."""

    def wait(self) -> tuple[int, Outcome]:
        """Return the outcome of a task that was started, and its number."""

    def close(self) -> None:
        """End, also in the middle of tasks."""


class ThisProcess:
    """This process, one task after the other."""

    def __init__(self) -> None:
        self._next: deque[tuple[int, Task]] = deque()

    @property
    def free(self) -> bool:
        """Return whether a further task can be started."""
        return not self._next

    @property
    def busy(self) -> bool:
        """Return whether there is an outcome to wait for."""
        return bool(self._next)

    def start(self, number: int, task: Task) -> None:
        """Take a task; it is worked on when it is waited for."""
        self._next.append((number, task))

    def wait(self) -> tuple[int, Outcome]:
        """Run the task."""
        number, task = self._next.popleft()
        outcome = apply(task)
        _tidy()
        return number, outcome

    def close(self) -> None:
        """Do nothing."""


class _Process:
    """A process that takes tasks from a pipe, and this end of the pipe.

    It starts from nothing (spawn): a fork would inherit the pipes of the others, and with them their end would go
    unnoticed. It never sees Ctrl-C, which is for the one who waits for it.
    """

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        resource_tracker.ensure_running()  # else `start` starts it, and lets interrupts through meanwhile
        with without_interrupts():
            self.process.start()
        theirs.close()

    def end(self) -> str:
        """Return how the process ended, as text."""
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"the process that worked on it ended with exit status {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = str(-code)
        reason = ", as for lack of memory" if name == "SIGKILL" else ""
        return f"the process that worked on it was ended by {name}{reason}"


class Processes:
    """Up to `count` processes. One that ends under its task costs that task only."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: list[_Process] = []
        self._busy: dict[Connection[Any, Any], tuple[_Process, int, Task]] = {}

    @property
    def free(self) -> bool:
        """Return whether a further task can be started."""
        return len(self._busy) < self._count

    @property
    def busy(self) -> bool:
        """Return whether there is an outcome to wait for."""
        return bool(self._busy)

    def start(self, number: int, task: Task) -> None:
        """Give a task to a process that has none, a new one if need be."""
        while True:
            worker = self._idle.pop() if self._idle else _Process()
            self._busy[worker.pipe] = worker, number, task
            try:
                worker.pipe.send(task)
                return
            except OSError:  # it has ended since its last task
                del self._busy[worker.pipe]

    def wait(self) -> tuple[int, Outcome]:
        """Return the first outcome that comes; that a process has ended is one, too."""
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
        """End the processes: at once those that work, the others when they see their pipe closed."""
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
    """Put off Ctrl-C until the end of what must not be torn. A process started meanwhile never sees it.

    Windows cannot put it off; a line of the log that is cut off so is recognised.
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception: a file half written is removed
    gc.disable()  # as in the command itself, and so is this
    keep_freed()
    with suppress(EOFError, OSError):  # whoever gave the tasks is gone, or wants no more
        while True:
            pipe.send(apply(pipe.recv()))
            _tidy()


def _tidy() -> None:
    """Let go of cycles, and spare what has been imported the next search for them."""
    gc.collect()
    gc.freeze()
