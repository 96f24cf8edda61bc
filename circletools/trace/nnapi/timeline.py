"""Runs and their application phases, as segments of time."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from circletools.trace.nnapi.marks import Mark, Role
from circletools.trace.sources.names import Numbers

OUTSIDE = 0
"""The segment of time outside any run."""

APP_PHASES = ("overall", "warm-up", "benchmark")
_MOST_OPEN = 16
_PHASE = {Role.WARM_UP: 1, Role.BENCHMARK: 2}


@dataclass(slots=True)
class Run:
    """A run, from an [NN_LA_PO] to the next one in its process. `end_ns` is the end of its last mark (-1 if open)."""

    index: int
    process: int
    name: str
    start_ns: int
    where: int
    seen: set[int] = field(default_factory=set)
    partial: bool = False
    end_ns: int = -1

    @property
    def first_segment(self) -> int:
        """The segment of the run's time outside warm-up and benchmark; their segments follow it."""
        return 1 + self.index * len(APP_PHASES)


def run_of(segment: int) -> tuple[int, str]:
    """Return the index of a segment's run (-1 for none) and its application phase."""
    run, phase = divmod(segment - 1, len(APP_PHASES))
    return (run, APP_PHASES[phase]) if segment else (-1, APP_PHASES[0])


class Runs:
    """Follows application marks. The time of a process without runs is part of the run that began last.

    `last` holds the last run of each process with runs.
    """

    def __init__(self) -> None:
        self.all: list[Run] = []
        self.misplaced: list[tuple[int, str]] = []
        self.last: dict[int, Run] = {}
        # For each change of segment: event (`now`), time, process, its new segment, and the segment of processes
        # without runs. Then the length of this list before the batch, and the segments at that point.
        self.now = 0
        self._changes, self._earlier, self._before = array("q"), 0, dict[int, int]()
        self._batch: tuple[Numbers, Numbers] | None = None  # its changes, in order and by process
        self._open: dict[int, list[tuple[int, int]]] = {}

    def timeline(self, process: int | None) -> tuple[Numbers, Numbers]:
        """Return the starts and indices of this batch's segments, for a process with runs or (None) all others."""
        if self._batch is None:
            changes = np.array(self._changes[self._earlier :], np.int64).reshape(-1, 5)
            self._batch = changes, changes[np.argsort(changes[:, 2], kind="stable")]
        changes, ordered = self._batch
        if process is None:
            first, column = self._changes[self._earlier - 1] if self._earlier else OUTSIDE, 4
        else:
            own = slice(*np.searchsorted(ordered[:, 2], (process, process + 1)).tolist())
            first, column, changes = self._before.get(process, OUTSIDE), 3, ordered[own]
        return np.append(np.iinfo(np.int64).min, changes[:, 1]), np.append(first, changes[:, column])

    def segments(self, at: Numbers, processes: Numbers) -> Numbers:
        """Return the segment of each process at an event; `at` holds event numbers."""
        changes = np.array(self._changes, np.int64).reshape(-1, 5)
        commons: Numbers = np.append(OUTSIDE, changes[:, 4])[np.searchsorted(changes[:, 0], at)]
        if len(self.last) < 2:
            return commons
        known, index = np.unique(processes, return_inverse=True)
        changes = changes[np.isin(changes[:, 2], known)]
        changes = changes[np.argsort(changes[:, 2], kind="stable")]
        width = 1 + int(max(at.max(initial=0), changes[:, 0].max(initial=0)))
        keys = np.searchsorted(known, changes[:, 2]) * width + changes[:, 0]
        last = np.searchsorted(keys, index * width + at)
        own = last > np.searchsorted(keys, index * width)
        commons[own] = changes[last[own] - 1, 3]
        return commons

    def forget(self) -> None:
        """Begin a new batch."""
        changes = self._changes[self._earlier :]
        self._before |= zip(changes[2::5], changes[3::5], strict=True)
        self._earlier, self._batch = len(self._changes), None

    def latest(self, process: int) -> Run | None:
        """Return the current run of a process; for a process without runs, the run that began last."""
        return self.last.get(process, self.all[-1] if self.all else None)

    def began(self, mark: Mark, t_ns: int, thread: int, process: int, where: int) -> None:
        """Process the beginning of an application mark."""
        if mark.role is Role.RUN:
            if self._open.pop(process, None):
                self.misplaced.append((where, "a run begins while a warm-up or benchmark is open"))
            self._begin(mark.name, t_ns, process, where)
            return
        phase = _PHASE[mark.role]
        if process not in self.last:
            self.misplaced.append((where, f"a {APP_PHASES[phase]} begins outside a run, and starts one"))
            self._begin("", t_ns, process, where)
        stack = self._open.setdefault(process, [])
        if stack:
            self.misplaced.append((where, f"a {APP_PHASES[phase]} begins before a {APP_PHASES[stack[-1][1]]} ends"))
        if len(stack) < _MOST_OPEN:
            stack.append((thread, phase))
        self.last[process].seen.add(phase)
        self._switch(t_ns, process, phase)

    def ended(self, mark: Mark, t_ns: int, thread: int, process: int) -> None:
        """Process the end of an application mark."""
        if process in self.last:
            self.last[process].end_ns = t_ns
        entry = (thread, _PHASE.get(mark.role, 0))
        stack = self._open.get(process, [])
        if entry in stack:
            stack.remove(entry)
            self._switch(t_ns, process, stack[-1][1] if stack else 0)

    def _begin(self, name: str, t_ns: int, process: int, where: int) -> None:
        run = Run(len(self.all), process, name, t_ns, where)
        self.all.append(run)
        self.last[process] = run
        self._switch(t_ns, process, 0)

    def _switch(self, t_ns: int, process: int, phase: int) -> None:
        run = self.last[process]
        segment = run.first_segment + phase
        common = segment if run is self.all[-1] else self._changes[-1]
        self._changes.extend((self.now, t_ns, process, segment, common))
