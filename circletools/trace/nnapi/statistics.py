"""Totals over the intervals between events: time by segment and context, and by path.

All times are whole nanoseconds, and all sums are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.automaton import BUCKETS, Contexts
from circletools.trace.nnapi.machine import Machine
from circletools.trace.sources.names import Columns, Numbers, by_thread, sums

_MOST_PIECES = 1 << 20  # pieces processed at a time
_MOST_CUT = 1 << 24  # pieces in one batch, which take two seconds
_LIMIT = 1 << 62


@dataclass(slots=True)
class Intervals(Columns):
    """Periods in which threads stay in the same state, as columns."""

    starts: Numbers
    ends: Numbers
    threads: Numbers
    paths: Numbers
    codes: Numbers


class Cutter:
    """Turns events, and the states that end at them, into intervals."""

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine, self._name = machine, name
        self._last = np.zeros(0, np.int64)
        self.first_ns: int | None = None

    def cut(self, times: Numbers, threads: Numbers, begins: npt.NDArray[np.bool_], before: Numbers) -> Intervals:
        """Return the intervals that end within a batch; open intervals end with its last event.

        Calls are added to each path's count. Raises InvalidInputError for impossible times.
        """
        machine, states = self._machine, before
        if machine.breaks:
            at, when, which, was = machine.breaks
            times, threads = np.insert(times, at, when), np.insert(threads, at, which)
            states, begins = np.insert(states, at, was), np.insert(begins, at, False)
        now = machine.states()
        still = np.flatnonzero(now)
        times = np.concatenate((times, np.full(len(still), times[-1])))
        threads, states = np.concatenate((threads, still)), np.concatenate((states, now[still]))
        begins = np.concatenate((begins, np.zeros(len(still), np.bool_)))
        if self.first_ns is None:
            self.first_ns = int(times[0])
        span = int(times[-1]) - self.first_ns
        if span * len(now) >= _LIMIT:
            raise InvalidInputError(
                f"timestamps span {span // 86_400_000_000_000} days",
                location=self._name,
                hint="the timestamps are wrong, or two traces were concatenated",
            )
        order = by_thread(threads)
        times, threads, states, begins = times[order], threads[order], states[order], begins[order]
        first = np.append(True, threads[1:] != threads[:-1])
        last = np.append(first[1:], True)
        self._last = np.concatenate((self._last, np.zeros(len(now) - len(self._last), np.int64)))
        starts = np.append(0, times[:-1])
        starts[first] = self._last[threads[first]]
        self._last[threads[last]] = times[last]
        after = np.append(states[1:], 0)
        after[last] = now[threads[last]]
        begun = after[begins] >> 1
        for path, count in zip(*(one.tolist() for one in sums(begun, np.ones(len(begun), np.int64))), strict=True):
            self._machine.automaton.paths[path].calls += count
        paths = states >> 1
        codes = np.array(self._machine.automaton.context_numbers)[paths] << 1 | states & 1
        running = np.array([mask != 0 for mask in self._machine.automaton.contexts.running], np.bool_)
        return Intervals(starts, times, threads, paths, codes).only(running[codes] & (times > starts))


_CODE_BITS = 32
_NOTHING = np.zeros((2, 0), np.int64)


def pieces(
    intervals: Intervals, starts: Numbers, segments: Numbers, name: str
) -> Iterable[tuple[Intervals, Numbers]]:
    """Yield the intervals, cut where segments start, with the segment of each piece; the first segment has no start.

    Raises InvalidInputError, with `name` as its location, if there are too many pieces.
    """
    if len(starts) == 1:
        yield intervals, np.full(len(intervals.starts), segments[0])
        return
    first = np.searchsorted(starts, intervals.starts, "right") - 1
    whole = intervals.ends <= np.append(starts[1:], _LIMIT)[first]
    if whole.all():
        yield intervals, segments[first]
        return
    yield intervals.only(whole), segments[first[whole]]
    at = np.flatnonzero(~whole)
    counts = np.searchsorted(starts, intervals.ends[at], "left") - first[at]
    if counts.sum() > _MOST_CUT:
        raise InvalidInputError(f"{counts.sum()} runs and executions begin in scopes of other threads", location=name)
    bounds = np.searchsorted(np.cumsum(counts), np.arange(0, counts.sum() + _MOST_PIECES, _MOST_PIECES), "right")
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        some, count = at[low:high], counts[low:high]
        if not len(some):
            continue
        cut = intervals.only(np.repeat(some, count))
        index = np.repeat(first[some] - np.cumsum(count) + count, count) + np.arange(count.sum())
        ends = np.append(starts[1:], _LIMIT)[index]
        cut.starts, cut.ends = np.maximum(cut.starts, starts[index]), np.minimum(cut.ends, ends)
        yield cut, segments[index]


def totals(intervals: Intervals, segments: Numbers) -> tuple[Numbers, Numbers]:
    """Return ascending numbers, each for a segment and context, and their times; `intervals` must not be empty."""
    low, width = int(segments.min()), int(intervals.codes.max()) + 1
    keys, times = sums((segments - low) * width + intervals.codes, intervals.ends - intervals.starts)
    return (low + keys // width) << _CODE_BITS | keys % width, times


@dataclass(slots=True)
class Table:
    """Time by layer and phase, in nanoseconds; missing entries are 0.

    The self times add up to `covered_ns`, the time in which marks were open, summed over threads.
    """

    self_ns: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    inclusive_ns: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    @property
    def covered_ns(self) -> int:
        """The total of all self times."""
        return sum(self.self_ns.values())

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for each layer and phase."""
        return [
            {"layer": layer, "phase": phase, "self_ns": self.self_ns.get((layer, phase), 0), "inclusive_ns": time_ns}
            for (layer, phase), time_ns in sorted(self.inclusive_ns.items())
        ]


class Tables(Mapping[int, Table]):
    """The table of each segment, made on demand, since a long trace has thousands."""

    def __init__(self, contexts: Contexts, parts: Iterable[tuple[Numbers, Numbers]]) -> None:
        """Start with the results of `totals`."""
        keys, times = (np.concatenate(column) for column in zip(_NOTHING, *parts, strict=True))
        keys, self._times = sums(keys, times)
        self._contexts = contexts
        self._codes = keys & (1 << _CODE_BITS) - 1
        segments, starts = np.unique(keys >> _CODE_BITS, return_index=True)
        bounds = pairwise([*starts.tolist(), len(keys)])
        self._rows = dict(zip(segments.tolist(), bounds, strict=True))

    def __getitem__(self, segment: int) -> Table:
        """Return the table of a segment."""
        if segment not in self._rows:
            raise KeyError(segment)
        return self.total([segment])

    def __iter__(self) -> Iterator[int]:
        """Yield all segments."""
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def covered_ns(self) -> int:
        """The total of all self times."""
        return int(self._times.sum())

    def total(self, segments: Iterable[int]) -> Table:
        """Return the sum of the tables of some segments."""
        found, owners, running = Table(), self._contexts.owners, self._contexts.running
        for low, high in (self._rows[segment] for segment in segments if segment in self._rows):
            for code, time in zip(self._codes[low:high].tolist(), self._times[low:high].tolist(), strict=True):
                found.self_ns[BUCKETS[owners[code]]] += time
                mask = running[code]
                while mask:
                    found.inclusive_ns[BUCKETS[(mask & -mask).bit_length() - 1]] += time
                    mask &= mask - 1
        return found
