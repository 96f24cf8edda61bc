"""Totals over the intervals between events: time by segment and context, and by path.

All times are whole nanoseconds, and all sums are exact.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.automaton import BUCKETS, Contexts
from circletools.trace.nnapi.machine import LIMIT, Intervals
from circletools.trace.nnapi.timeline import Runs
from circletools.trace.sources.names import Numbers, small, sums

_MOST_PIECES = 1 << 20  # pieces processed at a time
_MOST_CUT = 1 << 24  # pieces in one batch, which take two seconds
_CODE_BITS = 32
_NOTHING = np.zeros((2, 0), np.int64)


def pieces(spans: Intervals, starts: Numbers, segments: Numbers, name: str) -> Iterable[tuple[Intervals, Numbers]]:
    """Yield the intervals, cut where segments start, with the segment of each piece; the first segment has no start.

    Raises InvalidInputError, with `name` as its location, if there are too many pieces.
    """
    if len(starts) == 1:
        yield spans, np.full(len(spans.starts), segments[0])
        return
    first = np.searchsorted(starts, spans.starts, "right") - 1
    whole = spans.ends <= np.append(starts[1:], LIMIT)[first]
    if whole.all():
        yield spans, segments[first]
        return
    yield spans.only(whole), segments[first[whole]]
    at = np.flatnonzero(~whole)
    counts = np.searchsorted(starts, spans.ends[at], "left") - first[at]
    if counts.sum() > _MOST_CUT:
        raise InvalidInputError(f"{counts.sum()} runs and executions begin in scopes of other threads", location=name)
    bounds = np.searchsorted(np.cumsum(counts), np.arange(0, counts.sum() + _MOST_PIECES, _MOST_PIECES), "right")
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        some, count = at[low:high], counts[low:high]
        if not len(some):
            continue
        cut = spans.only(np.repeat(some, count))
        index = np.repeat(first[some] - np.cumsum(count) + count, count) + np.arange(count.sum())
        ends = np.append(starts[1:], LIMIT)[index]
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


class Stretches:
    """The intervals of all threads; adjacent ones of a thread with the same code are joined."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, intervals: Intervals) -> None:
        """Add the intervals of a batch."""
        if not len(intervals.codes):
            return
        threads, codes, starts, ends = intervals.threads, intervals.codes, intervals.starts, intervals.ends
        changes = (threads[1:] != threads[:-1]) | (codes[1:] != codes[:-1])
        new = np.append(True, changes | (starts[1:] != ends[:-1]))
        last = np.append(new[1:], True)
        first = starts.min()
        self._parts.append((first, *map(small, (starts[new] - first, ends[last] - first, threads[new], codes[new]))))

    def __iter__(self) -> Iterator[Intervals]:
        """Yield the intervals of each batch; batches do not overlap in time. The intervals have no paths."""
        for first, *columns in self._parts:
            starts, ends, threads, codes = (column.astype(np.int64) for column in columns)
            yield Intervals(starts + first, ends + first, threads, threads, codes)


class Tables(Mapping[int, Table]):
    """The table of each segment, made on demand, since a long trace has thousands."""

    def __init__(
        self, contexts: Contexts, stretches: Iterable[Intervals], runs: Runs, processes: Sequence[int], name: str
    ) -> None:
        """Divide the time among the segments of `runs`; `processes` maps threads to processes.

        Raises InvalidInputError, with `name` as its location, for too many pieces.
        """
        parts, of_threads = [_NOTHING], np.array([*processes, 0], np.int64)
        for intervals in stretches:
            for rows, timeline in runs.timelines(of_threads[intervals.threads]):
                cut = pieces(intervals.only(rows), timeline.starts, timeline.segments, name)
                parts += [np.stack(totals(part, segments)) for part, segments in cut if len(segments)]
        keys, self._times = sums(*np.concatenate(parts, axis=1))
        self._contexts = contexts
        self._codes = keys & (1 << _CODE_BITS) - 1
        segments, starts = np.unique(keys >> _CODE_BITS, return_index=True)
        # The segments, and the first row of each; a dictionary would take seven times as much memory.
        self._segments, self._bounds = (
            array("q", some.tobytes()) for some in (segments, np.append(starts, len(keys)))
        )

    def __getitem__(self, segment: int) -> Table:
        """Return the table of a segment."""
        found = self.total([segment])
        if not found.self_ns:
            raise KeyError(segment)
        return found

    def __iter__(self) -> Iterator[int]:
        """Yield all segments."""
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def covered_ns(self) -> int:
        """The total of all self times."""
        return int(self._times.sum())

    def total(self, segments: Iterable[int]) -> Table:
        """Return the sum of the tables of some segments."""
        found, owners, running = Table(), self._contexts.owners, self._contexts.running
        for segment in segments:
            at = bisect_left(self._segments, segment)
            low, high = self._bounds[at : at + 2] if segment in self._segments[at : at + 1] else (0, 0)
            for code, time in zip(self._codes[low:high].tolist(), self._times[low:high].tolist(), strict=True):
                found.self_ns[BUCKETS[owners[code]]] += time
                mask = running[code]
                while mask:
                    found.inclusive_ns[BUCKETS[(mask & -mask).bit_length() - 1]] += time
                    mask &= mask - 1
        return found
