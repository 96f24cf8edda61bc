"""Time by the clock: each instant of an execution, or of a run, belongs to the deepest layer at work in it.

At work are the threads of its process and those of drivers, so the shares of a window add up to its elapsed time,
however many threads it has. What no deeper layer is at work for belongs to the layer that the window is of. Nothing
in a trace identifies the execution that a worker or a driver serves: while several are in flight, time is SHARED.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.contexts import BUCKET, Contexts
from circletools.trace.nnapi.marks import SUBPHASES
from circletools.trace.nnapi.statistics import Intervals, covered, pieces, union
from circletools.trace.sources.names import Numbers

OWN_PROCESS = -1
"""The process of a share that is not a driver's: it is that of the execution."""

Key = tuple[str, str, int]
"""Layer, phase, and the process of a driver."""

SHARED: Key = ("", "", OWN_PROCESS)
"""The key of time in which several windows are open at once."""

EXECUTING = (*SUBPHASES, "PE")
PHASES = (*EXECUTING, "PT", "PC", "PP", "PI")
"""The phases that count within an execution, and within a run."""

_DEPTH = ("LD", "LC", "LI", "LR", "LA")
_BITS = {(layer, phase): 1 << BUCKET[layer, phase] for layer in _DEPTH for phase in PHASES}
_WORK = sum(_BITS.values())
_DRIVER = sum(bit for (layer, _), bit in _BITS.items() if layer == "LD")
_MOST_DRIVERS, _MOST_CLIENTS = 32, 64
_EXECUTIONS, _RUNS = 4096, 64  # windows of a block
_LIMIT = 1 << 62
_SEVERAL, _OUTSIDE = -1, 0


class Windows(NamedTuple):
    """Stretches of time by their starts: starts, ends, and processes; `layer` and `phase` are what they are of."""

    starts: Numbers
    ends: Numbers
    processes: Numbers
    layer: str
    phase: str

    def only(self, first: int, last: int) -> Windows:
        """Return some of them."""
        return self._replace(
            starts=self.starts[first:last], ends=self.ends[first:last], processes=self.processes[first:last]
        )


class Share(NamedTuple):
    """The part of windows that is one layer's and phase's; both are empty for what is SHARED.

    `self_ns` is when it was the deepest at work: these add up to the elapsed time. `inclusive_ns` is when it was at
    work at all; of the layer that the windows are of it is the elapsed time. `process` is the driver's, else
    OWN_PROCESS; drivers beyond the first 32 have OWN_PROCESS too.
    """

    layer: str
    phase: str
    process: int
    self_ns: int
    inclusive_ns: int


class WallClock:
    """The shares of all windows of a kind."""

    def __init__(self, keys: Sequence[Key], times: Numbers) -> None:
        """Take the times of windows: a row for each, self times and then inclusive ones, a column for each key.

        The first row is empty. They are added up in place.
        """
        self._keys = keys
        self._passed = np.cumsum(times, axis=0, out=times)

    def shares(self, chosen: Sequence[int] | None = None) -> tuple[Share, ...]:
        """Return the sums over windows: all, or by their places, in order."""
        if chosen is None:
            chosen = range(len(self._passed) - 1)
        first, last = (chosen[0], chosen[-1] + 1) if chosen else (0, 0)
        if last - first == len(chosen):
            times = (self._passed[last] - self._passed[first]).tolist()
        else:
            places = np.array(chosen)
            times = (self._passed[places + 1] - self._passed[places]).sum(axis=0).tolist()
        count = len(self._keys)
        return tuple(
            Share(*key, self_ns, inclusive_ns)
            for key, self_ns, inclusive_ns in zip(self._keys, times[:count], times[count:], strict=True)
            if inclusive_ns
        )

    def each(self) -> Iterator[tuple[Key, Numbers]]:
        """Yield each key with its self time in each window."""
        for column, key in enumerate(self._keys):
            yield key, np.diff(self._passed[:, column])


class Work:
    """Gathers when layers are at work, on any thread."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._parts: list[tuple[Numbers, ...]] = []
        self.drivers: dict[int, None] = {}

    def add(self, intervals: Intervals) -> None:
        """Add a batch's; neighbours on a thread that are alike become one."""
        masks = np.array(self._contexts.running, np.int64)[intervals.codes] & _WORK
        some, masks = intervals.only(masks != 0), masks[masks != 0]
        if not len(masks):
            return
        new = np.ones(len(masks), np.bool_)
        new[1:] = (some.threads[1:] != some.threads[:-1]) | (masks[1:] != masks[:-1])
        new[1:] |= some.starts[1:] != some.ends[:-1]
        last = np.append(new[1:], True)
        self._parts.append((some.starts[new], some.ends[last], some.threads[new].astype(np.int32), masks[new]))
        self.drivers |= dict.fromkeys(np.unique(some.threads[masks & _DRIVER != 0]).tolist())

    def rows(self, low: int, high: int) -> Intervals:
        """Return the intervals that overlap these times; `codes` are the buckets at work, as bits."""
        # Batches come in the order of time, so few of them reach into a part of it.
        parts = [part for part in self._parts if part[1].max() > low and part[0].min() < high]
        parts = [tuple(column[(part[1] > low) & (part[0] < high)] for column in part) for part in parts]
        none = np.zeros(0, np.int64)
        starts, ends, threads, codes = (np.concatenate([none, *(part[at] for part in parts)]) for at in range(4))
        return Intervals(starts, ends, threads, codes, codes)


def wall_clock(
    work: Work, windows: Windows, processes: Sequence[int], name: str, phases: Sequence[str] = EXECUTING
) -> WallClock:
    """Return the shares of windows; `processes` has that of each thread, `name` is that of the trace.

    Raises InvalidInputError where the times cannot be true.
    """
    if sum((windows.ends - windows.starts).tolist()) >= _LIMIT:
        raise InvalidInputError("executions take too long", location=name, hint="timestamps are wrong")
    of_threads = np.array([*processes, 0], np.int64)
    drivers = list(dict.fromkeys(of_threads[list(work.drivers)].tolist()))[:_MOST_DRIVERS]
    known = np.where(np.isin(of_threads, drivers), of_threads, OWN_PROCESS)
    clients = np.unique(windows.processes).tolist()
    # A driver serves all, so only without one are processes apart.
    apart = clients if not drivers and len(clients) <= _MOST_CLIENTS else None
    found: list[tuple[int, int, Key, Numbers, Numbers]] = []
    for first, last in _blocks(windows, _EXECUTIONS if phases == EXECUTING else _RUNS):
        some = windows.only(first, last)
        rows = work.rows(int(some.starts.min(initial=_LIMIT)), int(some.ends.max(initial=-_LIMIT)))
        found += ((first, last, *share) for share in _shares(rows, some, of_threads, known, apart, phases))
    order = {pair: at for at, pair in enumerate((*_BITS, (windows.layer, windows.phase), SHARED[:2]))}
    keys = sorted({share[2] for share in found}, key=lambda key: (order[key[:2]], key[2]))
    columns = {key: column for column, key in enumerate(keys)}
    every = np.zeros((len(windows.starts) + 1, 2 * len(keys)), np.int64)
    for first, last, key, own, whole in found:
        every[first + 1 : last + 1, columns[key]] = own
        every[first + 1 : last + 1, len(keys) + columns[key]] = whole
    return WallClock(keys, every)


def _blocks(windows: Windows, size: int) -> Iterable[tuple[int, int]]:
    """Return ranges of windows that overlap no others, so that a long trace needs little memory."""
    count = len(windows.starts)
    gaps = np.flatnonzero(np.maximum.accumulate(windows.ends)[:-1] <= windows.starts[1:]) + 1
    cuts = np.unique(gaps[np.searchsorted(gaps, np.arange(size, int(gaps.max(initial=0)) + 1, size))])
    bounds = [0, *cuts.tolist(), count]
    return pairwise(bounds)


def _shares(
    rows: Intervals,
    windows: Windows,
    processes: Numbers,
    known: Numbers,
    apart: Sequence[int] | None,
    phases: Sequence[str],
) -> Iterator[tuple[Key, Numbers, Numbers]]:
    """Yield the self and inclusive times of each key in windows, the deepest first."""
    elapsed = windows.ends - windows.starts
    base = np.append(0, np.cumsum(elapsed))  # one window behind the other, as if none overlapped
    rows, shared = _within_one(rows, windows, processes, apart)
    moved = (base[:-1] - windows.starts)[rows.paths]
    rows.starts, rows.ends = rows.starts + moved, rows.ends + moved
    reached, deeper = np.zeros_like(elapsed), (base[:0], base[:0])
    rest: Key = (windows.layer, windows.phase, OWN_PROCESS)
    for key, starts, ends in _by_key(rows, known, _DEPTH[: _DEPTH.index(windows.layer) + 1], phases):
        first, last, passed = union(np.concatenate((starts, deeper[0])), np.concatenate((ends, deeper[1])))
        now = np.diff(covered(base, first, last, passed))
        if key != rest:
            yield key, now - reached, np.diff(covered(base, *union(starts, ends)))
            reached, deeper = now, (first, last)
    yield rest, elapsed - reached - shared, elapsed
    if shared.any():
        yield SHARED, shared, shared


def _within_one(
    rows: Intervals, windows: Windows, processes: Numbers, apart: Sequence[int] | None
) -> tuple[Intervals, Numbers]:
    """Return the parts of rows that lie within one window alone, whose place is in `paths`; and what is SHARED.

    Windows of the processes that are `apart` do not touch each other.
    """
    groups = [(np.arange(len(windows.starts)), np.arange(len(rows.starts)))]
    if apart is not None:
        groups = [
            (np.flatnonzero(windows.processes == client), np.flatnonzero(processes[rows.threads] == client))
            for client in apart
        ]
    shared = np.zeros(len(windows.starts), np.int64)
    parts = [rows.only(np.zeros(0, np.int64))]
    for places, mine in groups:
        times, segments = _alone(windows, places)
        if (several := np.flatnonzero(segments == _SEVERAL)).size:
            spans = union(times[several], times[several + 1])
            shared[places] = covered(windows.ends[places], *spans) - covered(windows.starts[places], *spans)
        for part, flights in pieces(rows.only(mine), times, segments):
            alone = part.only(flights > _OUTSIDE)
            alone.paths = flights[flights > _OUTSIDE] - 1
            own = processes[alone.threads] == windows.processes[alone.paths]
            parts.append(alone.only(own | (alone.codes & _DRIVER != 0)))
    columns = ("starts", "ends", "threads", "paths", "codes")
    return Intervals(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns)), shared


def _alone(windows: Windows, places: Numbers) -> tuple[Numbers, Numbers]:
    """Return from when on which of some windows is open alone: its place and 1 as the segment."""
    places = places[windows.starts[places] < windows.ends[places]]
    starts, ends, numbers = windows.starts[places], windows.ends[places], places + 1
    times, steps = np.concatenate((starts, ends)), np.concatenate((numbers, -numbers))
    order = np.lexsort((steps, times))
    flying, alone = np.cumsum(np.sign(steps[order])), np.cumsum(steps[order])
    segments = np.where(flying > 1, _SEVERAL, alone)
    return np.append(np.iinfo(np.int64).min, times[order]), np.append(_OUTSIDE, segments)


def _by_key(
    rows: Intervals, known: Numbers, deepest: Sequence[str], phases: Sequence[str]
) -> Iterator[tuple[Key, Numbers, Numbers]]:
    """Yield when each of these layers and phases was at work, the deepest first; drivers one by one."""
    present = int(np.bitwise_or.reduce(rows.codes))
    for (layer, phase), bit in _BITS.items():
        if layer not in deepest or phase not in phases or not present & bit:
            continue
        mine = np.flatnonzero(rows.codes & bit)
        starts, ends = rows.starts[mine], rows.ends[mine]
        drivers = known[rows.threads[mine]] if layer == _DEPTH[0] else np.full(len(mine), OWN_PROCESS)
        for driver in np.unique(drivers).tolist():
            some = drivers == driver
            yield (layer, phase, driver), starts[some], ends[some]
