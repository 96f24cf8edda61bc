"""A clock that stops while the process is ready to run but waits for a processor.

Linux counts that time for each thread (`schedstat`: time on a processor, time waiting for one, time slices). On other
systems, this is an ordinary clock. The clock cannot detect another virtual machine on the same core, which can take
away a third of its speed for several seconds; `Pace` can.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from time import perf_counter, process_time

from circletools.storage.platform import read_at

_THREADS = "/proc/self/task"
_LOOKS, _STEPS = 3, 2000  # this takes about a tenth of a millisecond, so cold caches do not matter
_NEAR = 1.15


class Clock:
    """Measures the time of calls; call `watch` after new threads have started."""

    def __init__(self, folder: str = _THREADS) -> None:
        """Watch the existing threads; `folder` contains a subfolder for each of them."""
        self._folder = folder
        self._files: dict[str, int] = {}
        self._waited_ns: dict[str, int] = {}
        self.watch()

    def watch(self) -> None:
        """Watch the threads that have started since the last call."""
        with suppress(OSError):
            for thread in os.listdir(self._folder):
                if thread not in self._files:
                    self._files[thread] = os.open(f"{self._folder}/{thread}/schedstat", os.O_RDONLY)

    def laps(self, *calls: Callable[[], object]) -> list[float]:
        """Return the duration of each of several consecutive calls, in seconds.

        The time that this process waited is subtracted from the longest call, since checking after each call would
        slow down short ones. Threads may wait while another one runs, so time that the process spent on a processor
        is never subtracted.
        """
        waited, worked = self._seconds_waited(), process_time()
        marks = [perf_counter()]
        for call in calls:
            call()
            marks.append(perf_counter())
        worked = process_time() - worked
        waited = self._seconds_waited() - waited
        seconds = [after - before for before, after in pairwise(marks)]
        longest = seconds.index(max(seconds))
        idle = max(0.0, sum(seconds) - worked)
        seconds[longest] -= min(waited, idle, seconds[longest])
        return seconds

    def _seconds_waited(self) -> float:
        for thread, file in self._files.items():
            with suppress(OSError, ValueError, IndexError):  # a thread that has ended no longer waits
                self._waited_ns[thread] = int(read_at(file, 128, 0).split()[1])
        return sum(self._waited_ns.values()) / 1e9

    def close(self) -> None:
        """Stop watching."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


class Pace:
    """Keeps the best time of a small loop, and checks whether the processor is still that fast."""

    def __init__(self) -> None:
        """Start without a best time."""
        self._best = float("inf")

    def is_full(self) -> bool:
        """Return whether the loop takes at most 1.15 times its best time so far."""
        taken = min(self._time_loop() for _ in range(_LOOKS))
        self._best = min(self._best, taken)
        return taken <= _NEAR * self._best

    @staticmethod
    def _time_loop() -> float:
        start = perf_counter()
        for _ in range(_STEPS):
            pass
        return perf_counter() - start


def run_times(means: Sequence[int]) -> list[int]:
    """Return the time of each run; `means` has, after each run, the mean of all runs so far, rounded down.

    The sum of the first n runs is thus known to within n. Of the possible sums, those on the shortest path are taken,
    so that times change only where the means show it.
    """
    lows = [0, *(number * mean for number, mean in enumerate(means, 1))]
    sums = [0.0]
    while (at := len(sums) - 1) < len(means):
        low, high = (0.0, at), (math.inf, at)  # bounds of the slope, and where they were found
        for number in range(at + 1, len(lows)):
            least, most = ((one - sums[at]) / (number - at) for one in (lows[number], lows[number] + number - 1))
            if least > high[0] or most < low[0]:
                slope, end = high if least > high[0] else low
                break
            low, high = max(low, (least, number)), min(high, (most, -number))
        else:
            slope, end = (low[0] + high[0]) / 2, len(means)
        sums += [sums[at] + slope * passed for passed in range(1, max(1, abs(end) - at) + 1)]
    return [round(after) - round(before) for before, after in pairwise(sums)]
