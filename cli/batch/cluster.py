"""Workers of a Dask cluster. They must have circletools, and see the files under the same absolute names."""

from __future__ import annotations

import re
import socket
from typing import Any
from uuid import uuid4

from distributed import CancelledError, Client, KilledWorker, as_completed

import circletools as ct

from .task import Outcome, Task, apply, lost

_CONNECT_SECONDS = 10
_LEAST_IN_FLIGHT = 16


def _knock(address: str) -> None:
    """Raise OSError where nothing listens, UsageError for what is no address: Dask takes long to give either up."""
    parts = re.fullmatch(r"(?:(?:tcp|tls|wss?)://)?\[?([^\[\]/]+)\]?:(\d{1,5})", address)
    if parts is None:
        raise ct.UsageError(f"--scheduler {address}: not an address", hint="write tcp://HOST:PORT")
    socket.create_connection((parts[1], int(parts[2])), timeout=_CONNECT_SECONDS).close()


class Cluster:
    """The workers of a Dask scheduler.

    Dask gives the tasks of a worker that died to others, and gives up a task that was with several workers when they
    died. Whose fault that was is unclear: any task on its way to such a worker counts. So what is given up is tried
    once more with no other task beside it, and lost when that fails too.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            _knock(address)
            self._client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, OverflowError) as error:
            raise ct.UsageError(f"cannot reach the scheduler: {error}", location=f"--scheduler {address}") from error
        self._window = max(_LEAST_IN_FLIGHT, 2 * sum(self._client.nthreads().values()))
        self._done = as_completed(loop=self._client.loop)
        self._tasks: dict[str, tuple[int, Task]] = {}
        self._suspects: list[tuple[int, Task]] = []
        self._alone = False

    @property
    def free(self) -> bool:
        """Return whether a further task can be started."""
        return not self._suspects and not self._alone and len(self._tasks) < self._window

    @property
    def busy(self) -> bool:
        """Return whether there is an outcome to wait for."""
        return bool(self._tasks or self._suspects)

    def start(self, number: int, task: Task) -> None:
        """Hand a task to the scheduler."""
        future = self._client.submit(apply, task, key=f"circletool-{uuid4().hex}", pure=False)
        self._tasks[future.key] = number, task
        self._done.add(future)

    def wait(self) -> tuple[int, Outcome]:
        """Return the first outcome that comes."""
        while True:
            if self._suspects and not self._tasks:
                self._alone = True
                self.start(*self._suspects.pop())
            future = next(self._done)
            number, task = self._tasks.pop(future.key)
            alone, self._alone = self._alone, False
            outcome = self._outcome(future)
            if outcome is not None:
                return number, outcome
            if alone:
                return number, lost(task, "several workers died of it")
            self._suspects.append((number, task))

    def _outcome(self, future: Any) -> Outcome | None:
        """Return the outcome of a future that has ended; None when workers died of it."""
        try:  # this can take as long as the task: where the worker died that had the result, it runs again
            outcome: Outcome = future.result()
            return outcome
        except KilledWorker:
            return None
        except CancelledError as error:
            hint = "with --log FILE, --resume goes on from here"
            raise ct.InvalidInputError("lost the scheduler", location=self._address, hint=hint) from error
        except Exception as error:  # `apply` lets none through, so the worker did not get as far as that
            hint = f"install circletools {ct.__version__} for each worker"
            raise ct.UsageError(f"a worker cannot run a task: {type(error).__name__}: {error}", hint=hint) from error

    def close(self) -> None:
        """Cancel tasks that are not running, and disconnect."""
        self._client.close()
