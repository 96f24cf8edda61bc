"""Runs and their application phases, as segments of time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circletools.trace.nnapi.marks import Mark, Role
from circletools.trace.sources.names import Numbers, grouped

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
    seen: frozenset[int] = frozenset()
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


class Timeline(NamedTuple):
    """The events and times at which the segment of a process changes, and the segments: the first has no start."""

    events: Numbers
    starts: Numbers
    segments: Numbers


def _timeline(changes: Numbers, column: int) -> Timeline:
    starts = np.append(np.iinfo(np.int64).min, changes[:, 1])
    return Timeline(changes[:, 0], starts, np.append(OUTSIDE, changes[:, column]))


class Runs:
    """Follows application marks. The time of a process without runs is part of the run that began last.

    `last` holds the last run of each process with runs.
    """

    def __init__(self) -> None:
        self.all: list[Run] = []
        self.misplaced: list[tuple[int, str]] = []
        self.last: dict[int, Run] = {}
        # For each change of segment: event (`now`), time, process, its new segment, that of processes without runs.
        self.now = 0
        self._changes = array("q")
        self._open: dict[int, list[tuple[int, int]]] = {}

    def timelines(self, processes: Numbers) -> Iterator[tuple[Numbers, Timeline]]:
        """Yield the rows of each process with runs, and those of all others together, with the timeline of each."""
        changes = np.array(self._changes, np.int64).reshape(-1, 5)
        own = np.isin(processes, [*self.last]) if len(self.last) > 1 else np.zeros(len(processes), np.bool_)
        others = np.flatnonzero(~own)
        if len(others):
            yield others, _timeline(changes, 4)
        places = np.flatnonzero(own)
        of_process = {process: changes[rows] for process, rows in grouped(changes[:, 2])} if len(places) else {}
        for process, rows in grouped(processes[places]):
            yield places[rows], _timeline(of_process[process], 3)

    def segments(self, at: Numbers, processes: Numbers) -> Numbers:
        """Return the segment of each process at an event; `at` holds event numbers.

        Until its first run begins, a process counts as one without runs.
        """
        found = np.zeros(len(at), np.int64)
        common = _timeline(np.array(self._changes, np.int64).reshape(-1, 5), 4)
        for rows, own in self.timelines(processes):
            places = np.searchsorted(own.events, at[rows])
            shared = common.segments[np.searchsorted(common.events, at[rows])]
            found[rows] = np.where(places > 0, own.segments[places], shared)
        return found

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
        self.last[process].seen |= {phase}
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
