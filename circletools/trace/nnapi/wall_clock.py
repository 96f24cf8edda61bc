"""Wall-clock time of executions: each instant belongs to the deepest layer at work for the execution.

At work are the threads of the execution's process and those of drivers, so the shares of an execution add up to its
elapsed time, however many threads it has. What no deeper layer is at work for is the runtime's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.contexts import BUCKET, Contexts
from circletools.trace.nnapi.executions import Execution
from circletools.trace.nnapi.links import DRIVER, links_of
from circletools.trace.nnapi.marks import SUBPHASES
from circletools.trace.nnapi.statistics import Intervals, covered, union
from circletools.trace.sources.names import Numbers, by_thread, distinct

OWN_PROCESS = -1
"""The process of a share that is not a driver's: it is that of the execution."""

_DEPTH = tuple((layer, phase) for layer in ("LD", "LC", "LI", "LR") for phase in (*SUBPHASES, "PE"))
_BITS = {pair: 1 << BUCKET[pair] for pair in _DEPTH}
_WORK = sum(_BITS.values())
_MOST_DRIVERS = 32
_BLOCK = 4096  # executions
_LIMIT = 1 << 62

Key = tuple[str, str, int]
"""Layer, phase, and the process of a driver."""

_RUNTIME: Key = ("LR", "PE", OWN_PROCESS)


class Share(NamedTuple):
    """The part of executions that is one layer's and phase's.

    `self_ns` is when it was the deepest at work: these add up to the elapsed time. `inclusive_ns` is when it was at
    work at all; of execution in the runtime it is the elapsed time. `process` is the driver's, else OWN_PROCESS;
    drivers beyond the 32 that are busiest have OWN_PROCESS too.
    """

    layer: str
    phase: str
    process: int
    self_ns: int
    inclusive_ns: int


class WallClock:
    """The shares of all executions of a trace."""

    def __init__(self, keys: Sequence[Key], times: Numbers) -> None:
        """Take the times of executions: a row for each, self times and then inclusive ones, a column for each key.

        The first row is empty. They are added up in place.
        """
        self._keys = keys
        self._passed = np.cumsum(times, axis=0, out=times)

    def shares(self, chosen: Sequence[int] | None = None) -> tuple[Share, ...]:
        """Return the sums over executions: all, or by their places in `Analysis.executions`, in order."""
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
        """Yield each key with its self time in each execution."""
        for column, key in enumerate(self._keys):
            yield key, np.diff(self._passed[:, column])


class Work:
    """Gathers when the layers of execution are at work, on any thread."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._parts: list[Intervals] = []

    def add(self, intervals: Intervals) -> None:
        """Add a batch's; neighbours on a thread that are alike become one."""
        masks = np.array(self._contexts.running, np.int64)[intervals.codes & ~1] & _WORK
        some, masks = intervals.only(masks != 0), masks[masks != 0]
        if not len(masks):
            return
        new = np.ones(len(masks), np.bool_)
        new[1:] = (some.threads[1:] != some.threads[:-1]) | (masks[1:] != masks[:-1])
        new[1:] |= some.starts[1:] != some.ends[:-1]
        last = np.append(new[1:], True)
        self._parts.append(Intervals(some.starts[new], some.ends[last], some.threads[new], masks[new], masks[new]))

    def threads(self) -> Numbers:
        """Return the threads that are ever at work in a driver."""
        found = [part.threads[part.codes & DRIVER != 0] for part in self._parts]
        return np.array(distinct(np.concatenate(found)) if found else [], np.int64)

    def rows(self, low: int, high: int) -> Intervals:
        """Return the intervals that overlap these times, by thread and time.

        `codes` are the buckets at work, as bits; `paths` number the stretches. A stretch is time of a thread with no
        gap in it.
        """
        none = np.zeros(0, np.int64)
        # Batches come in the order of time, so few of them reach into a part of it.
        parts = [part for part in self._parts if part.ends.max() > low and part.starts.min() < high]
        parts = [part.only((part.ends > low) & (part.starts < high)) for part in parts]
        starts, ends, threads, codes = (
            np.concatenate([none, *(getattr(part, name) for part in parts)])
            for name in ("starts", "ends", "threads", "codes")
        )
        order = by_thread(threads)
        starts, ends, threads, codes = starts[order], ends[order], threads[order], codes[order]
        gaps = np.ones(len(order), np.bool_)
        gaps[1:] = (threads[1:] != threads[:-1]) | (starts[1:] != ends[:-1])
        return Intervals(starts, ends, threads, np.cumsum(gaps) - 1, codes)


def wall_clock(work: Work, executions: Sequence[Execution], processes: Sequence[int], name: str) -> WallClock:
    """Return the shares of executions; `processes` has that of each thread, `name` is that of the trace.

    Raises InvalidInputError where the times cannot be true.
    """
    begun = np.array([one.start_ns for one in executions], np.int64)
    ended = np.array([one.end_ns for one in executions], np.int64)
    elapsed = ended - begun
    if sum(elapsed.tolist()) >= _LIMIT:
        raise InvalidInputError("executions take too long", location=name, hint="timestamps are wrong")
    found: list[tuple[int, int, Key, Numbers, Numbers]] = []
    for first, last in _blocks(begun, ended, np.array([*processes, 0], np.int64)[work.threads()]):
        whole_trace = (first, last) == (0, len(begun))
        times = (-_LIMIT, _LIMIT) if whole_trace else (int(begun[first]), int(ended[last - 1]))
        shares = _shares(work.rows(*times), executions[first:last], processes)
        found += ((first, last, *share) for share in shares)
    keys = sorted({share[2] for share in found}, key=lambda key: (_DEPTH.index(key[:2]), key[2]))
    columns = {key: column for column, key in enumerate(keys)}
    every = np.zeros((len(begun) + 1, 2 * len(keys)), np.int64)
    for first, last, key, own, whole in found:
        every[first + 1 : last + 1, columns[key]] = own
        every[first + 1 : last + 1, len(keys) + columns[key]] = whole
    return WallClock(keys, every)


def _blocks(begun: Numbers, ended: Numbers, drivers: Numbers) -> list[tuple[int, int]]:
    """Return ranges of executions that can be looked at one by one, so that a long trace needs little memory.

    Where several are in flight at once, a thread is linked by what it did before, and all are one block; so they are
    where the busiest of very many drivers are to be found.
    """
    count = len(begun)
    if (ended[:-1] > begun[1:]).any() or len(np.unique(drivers)) > _MOST_DRIVERS:
        return [(0, count)]
    return [(at, min(at + _BLOCK, count)) for at in range(0, count, _BLOCK)] or [(0, 0)]


def _shares(
    rows: Intervals, executions: Sequence[Execution], processes: Sequence[int]
) -> Iterator[tuple[Key, Numbers, Numbers]]:
    """Yield the self and inclusive times of each key in executions, the deepest first."""
    begun = np.array([one.start_ns for one in executions], np.int64)
    ended = np.array([one.end_ns for one in executions], np.int64)
    elapsed = ended - begun
    base = np.append(0, np.cumsum(elapsed))  # one execution behind the other, as if none overlapped
    rows = links_of(rows, executions, (begun, ended), processes)
    moved = (base[:-1] - begun)[rows.paths]
    rows.starts, rows.ends = rows.starts + moved, rows.ends + moved
    reached, deeper = np.zeros_like(elapsed), (base[:0], base[:0])
    for key, starts, ends in _by_key(rows, np.array([*processes, 0], np.int64)):
        first, last, passed = union(np.concatenate((starts, deeper[0])), np.concatenate((ends, deeper[1])))
        now = np.diff(covered(base, first, last, passed))
        if key != _RUNTIME:
            yield key, now - reached, np.diff(covered(base, *union(starts, ends)))
            reached, deeper = now, (first, last)
    yield _RUNTIME, elapsed - reached, elapsed  # what no deeper layer is at work for


def _by_key(rows: Intervals, processes: Numbers) -> Iterator[tuple[Key, Numbers, Numbers]]:
    """Yield when each layer and phase was at work, the deepest first; drivers one by one."""
    present = int(np.bitwise_or.reduce(rows.codes))
    for layer, phase in _DEPTH:
        if not present & _BITS[layer, phase]:
            continue
        mine = np.flatnonzero(rows.codes & _BITS[layer, phase])
        starts, ends = rows.starts[mine], rows.ends[mine]
        if layer != "LD":
            yield (layer, phase, OWN_PROCESS), starts, ends
            continue
        drivers = processes[rows.threads[mine]]
        known, counts = np.unique(drivers, return_counts=True)
        most_frequent = np.sort(known[np.argsort(-counts, kind="stable")[:_MOST_DRIVERS]])
        drivers = np.where(np.isin(drivers, most_frequent), drivers, OWN_PROCESS)
        for driver in np.unique(drivers, return_counts=True)[0].tolist():
            some = drivers == driver
            yield (layer, phase, driver), starts[some], ends[some]
