"""A clock that stands still while a process is ready to run, but others have the processors.

Linux counts that time for each thread (`schedstat`: time on a processor, time waiting for one, slices). Where the
system does not count it, the clock is an ordinary one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TypeVar

Result = TypeVar("Result")
_THREADS = "/proc/self/task"


class Clock:
    """Takes the time of calls; `watch` must be called when threads were started."""

    def __init__(self, folder: str = _THREADS) -> None:
        """Watch the threads that there are; `folder` has a folder for each."""
        self._folder = folder
        self._files: dict[str, int] = {}
        self._waited_ns: dict[str, int] = {}
        self.watch()

    def watch(self) -> None:
        """Watch the threads that were started since."""
        with suppress(OSError):
            for thread in os.listdir(self._folder):
                if thread not in self._files:
                    self._files[thread] = os.open(f"{self._folder}/{thread}/schedstat", os.O_RDONLY)

    def taken(self, call: Callable[[], Result]) -> tuple[Result, float]:
        """Return what a call returns, and the seconds that it took."""
        waited = self._seconds_waited()
        start = perf_counter()
        result = call()
        end = perf_counter()
        return result, max(0.0, end - start - (self._seconds_waited() - waited))

    def _seconds_waited(self) -> float:
        for thread, file in self._files.items():
            with suppress(OSError, ValueError, IndexError):  # a thread that ended waits no more
                self._waited_ns[thread] = int(os.pread(file, 128, 0).split()[1])
        return sum(self._waited_ns.values()) / 1e9

    def close(self) -> None:
        """Watch nothing any more."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()
