"""Wall-clock time: each instant of an execution or a run is attributed to the deepest active layer.

Only threads of the window's process and of drivers count as active. A window's shares add up to its elapsed time,
however many threads there are; time without a deeper active layer belongs to the window's own layer. Traces do not
show which execution a worker or a driver serves, so time in which several executions are in flight is SHARED.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circletools.errors import InvalidInputError
from circletools.trace.nnapi.automaton import BUCKET, Contexts
from circletools.trace.nnapi.machine import LIMIT, Intervals
from circletools.trace.nnapi.marks import SUBPHASES
from circletools.trace.sources.names import Numbers, distinct

OWN_PROCESS = -1
"""Represents the execution's own process in shares of time that was not spent in a driver."""

Key = tuple[str, str, int]
"""A layer, a phase, and the process of a driver."""

SHARED: Key = ("", "", OWN_PROCESS)
"""The key for time in which several windows are open."""

EXECUTING = (*SUBPHASES, "PE")
PHASES = (*EXECUTING, "PT", "PC", "PP", "PI")
"""The phases that are counted within an execution, and within a run."""

_DEPTH = ("LD", "LC", "LI", "LR", "LA")
_BITS = {(layer, phase): 1 << BUCKET[layer, phase] for layer in _DEPTH for phase in PHASES}
_WORK = sum(_BITS.values())
_DRIVER = sum(bit for (layer, _), bit in _BITS.items() if layer == "LD")
_MOST_DRIVERS, _MOST_CLIENTS = 32, 64


class Windows(NamedTuple):
    """Time intervals: executions or runs, with their starts, ends, and processes.

    `layer` and `phase` are those of the windows. Within them, deeper layers count only while in one of `phases`.
    """

    starts: Numbers
    ends: Numbers
    processes: Numbers
    layer: str
    phase: str
    phases: Sequence[str] = EXECUTING


class Share(NamedTuple):
    """The share of one layer and phase in windows; both are empty for SHARED time.

    `self_ns` is the time in which this was the deepest active layer, so self times add up to the elapsed time.
    `inclusive_ns` is all time in which the layer was active; for the windows' own layer, the elapsed time. `process`
    is the driver's process, or else OWN_PROCESS, which is also used for drivers beyond the first 32.
    """

    layer: str
    phase: str
    process: int
    self_ns: int
    inclusive_ns: int


class WallClock:
    """The shares of all windows of a kind."""

    def __init__(self, keys: Sequence[Key], times: Numbers) -> None:
        """Keep the times: a row for each window, and two columns for each key, all self times before inclusive times.

        The first row must hold zeros. Times are summed in place.
        """
        self._keys = keys
        self._passed = np.cumsum(times, axis=0, out=times)

    def shares(self, chosen: Sequence[int] | None = None) -> tuple[Share, ...]:
        """Return the totals over all windows, or over those with the indices `chosen` (ascending)."""
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
        """Yield each key with its self times, one for each window."""
        for column, key in enumerate(self._keys):
            yield key, np.diff(self._passed[:, column])


def wall_clocks(
    stretches: Iterable[Intervals], contexts: Contexts, every: Sequence[Windows], processes: Sequence[int], name: str
) -> list[WallClock]:
    """Return the shares of sets of windows.

    `processes` maps threads to processes, `name` names the trace. Raises InvalidInputError for impossible times.
    """
    for windows in every:
        if sum((windows.ends - windows.starts).tolist()) >= LIMIT:
            raise InvalidInputError("executions take too long", location=name, hint="the timestamps are wrong")
    of_threads, masks = np.array([*processes, 0], np.int64), np.array(contexts.running, np.int64) & _WORK
    serving = [thread for one in stretches for thread in distinct(one.threads[masks[one.codes] & _DRIVER != 0])]
    drivers = list(dict.fromkeys(processes[thread] for thread in serving))[:_MOST_DRIVERS]
    known = np.where(np.isin(of_threads, drivers), of_threads, OWN_PROCESS)
    clients = sorted(set(np.concatenate([windows.processes for windows in every]).tolist()))[:_MOST_CLIENTS]
    clocks = [_Clock(windows, clients, apart=not drivers) for windows in every]
    for one in stretches:
        rows = one.only(masks[one.codes] != 0)
        at_work = masks[rows.codes]
        for client in clients:
            some = (of_threads[rows.threads] == client) | (at_work & _DRIVER != 0)
            moments = _Moments(rows.only(some), at_work[some], known)
            for clock in clocks:
                clock.add(client, moments)
    return [clock.finish() for clock in clocks]


class _Moments:
    """Activity over time: the moments at which any thread begins or ends an interval, and what is active then."""

    def __init__(self, rows: Intervals, masks: Numbers, processes: Numbers) -> None:
        """Start with rows of intervals, with their buckets as bits, and the process of each thread of a driver."""
        drivers = processes[rows.threads]
        present = int(np.bitwise_or.reduce(masks))
        served = sorted(set(processes[distinct(rows.threads[masks & _DRIVER != 0])].tolist()))
        self.keys: list[Key] = [
            (*pair, driver)
            for pair, bit in _BITS.items()
            if present & bit
            for driver in (served if bit & _DRIVER else [OWN_PROCESS])
        ]
        follows = (rows.threads[1:] == rows.threads[:-1]) & (rows.starts[1:] == rows.ends[:-1])
        closes = np.flatnonzero(~np.append(follows, False)) if len(masks) else np.zeros(0, np.int64)
        times = np.concatenate((rows.starts, rows.ends[closes]))
        order = np.argsort(times, kind="stable")
        # Nothing is active before the first moment.
        self.times = np.append(np.iinfo(np.int64).min, times[order])
        self.spans = np.append(0, np.diff(self.times[1:], append=self.times[-1:]))
        # The moments in which a thread is active, by key.
        self.at_work: list[npt.NDArray[np.bool_]] = []
        for key in self.keys:
            active = masks & _BITS[key[:2]] != 0
            if key[0] == _DEPTH[0]:
                active &= drivers == key[2]
            begins = active.astype(np.int32)
            begins[1:] -= active[:-1] & follows
            changes = np.concatenate((begins, -active[closes].astype(np.int32)))[order]
            self.at_work.append(np.append(False, np.cumsum(changes) > 0))


class _Clock:
    """Sums the shares of windows, client by client."""

    def __init__(self, windows: Windows, clients: Sequence[int], *, apart: bool) -> None:
        """Keep windows; if `apart`, those of different processes may overlap. Only `clients` get shares."""
        self._windows = windows
        self._elapsed = windows.ends - windows.starts
        self._shared = self._elapsed.copy()
        self._times: dict[Key, tuple[Numbers, Numbers]] = {}
        self._rest: Key = (windows.layer, windows.phase, OWN_PROCESS)
        self._layers = _DEPTH[: _DEPTH.index(windows.layer) + 1]
        self._alone: dict[int, tuple[Numbers, Numbers]] = {}
        for client in clients:
            mine = windows.processes == client
            bounds, of = _alone(windows, np.flatnonzero(mine) if apart else np.arange(len(mine)))
            self._alone[client] = bounds[:, mine[of]], of[mine[of]]
            np.subtract.at(self._shared, self._alone[client][1], np.diff(self._alone[client][0], axis=0)[0])

    def add(self, client: int, moments: _Moments) -> None:
        """Add the activity in the windows of a client."""
        bounds, of = self._alone[client]
        if not moments.keys:
            return
        first = int(np.searchsorted(bounds[1], moments.times[1], "right"))
        last = int(np.searchsorted(bounds[0], moments.times[-1]))
        bounds, of = bounds[:, first:last], of[first:last]
        at = np.searchsorted(moments.times, bounds, "right") - 1
        beyond = bounds - moments.times[at] - moments.spans[at]

        def passed(active: npt.NDArray[np.bool_]) -> Numbers:
            """Return how much of the unshared time of each window falls in active moments."""
            values = np.cumsum(moments.spans * active)[at] + beyond * active[at]
            found: Numbers = values[1] - values[0]
            return found

        deeper, reached = np.zeros(len(moments.times), np.bool_), np.zeros_like(of)
        for number, key in enumerate(moments.keys):
            if key[0] in self._layers and key[1] in self._windows.phases and key != self._rest:
                active = moments.at_work[number]
                deeper |= active
                now = passed(deeper)
                if key not in self._times:
                    self._times[key] = np.zeros_like(self._elapsed), np.zeros_like(self._elapsed)
                np.add.at(self._times[key][0], of, now - reached)
                np.add.at(self._times[key][1], of, passed(active))
                reached = now

    def finish(self) -> WallClock:
        rest = self._elapsed - self._shared - sum(own for own, _ in self._times.values())
        found = self._times | {self._rest: (rest, self._elapsed), SHARED: (self._shared, self._shared)}
        order = {pair: at for at, pair in enumerate((*_BITS, self._rest[:2], SHARED[:2]))}
        keys = sorted(found, key=lambda key: (order[key[:2]], key[2]))
        table = np.zeros((len(self._elapsed) + 1, 2 * len(keys)), np.int64)
        for column, key in enumerate(keys):
            table[1:, column], table[1:, len(keys) + column] = found.pop(key)
        return WallClock(keys, table)


def _alone(windows: Windows, places: Numbers) -> tuple[Numbers, Numbers]:
    """Return the intervals in which exactly one window is open (starts and ends), and the index of that window."""
    places = places[windows.starts[places] < windows.ends[places]]
    times = np.concatenate((windows.starts[places], windows.ends[places]))
    steps = np.concatenate((places + 1, -places - 1))
    order = np.lexsort((steps, times))
    times, steps = times[order], steps[order]
    first = np.flatnonzero((np.cumsum(np.sign(steps)) == 1) & (np.diff(times, append=times[-1:]) > 0))
    return np.stack((times[first], times[first + 1])), np.cumsum(steps)[first] - 1
