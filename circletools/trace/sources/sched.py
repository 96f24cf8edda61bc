"""Switches of threads in Perfetto traces, as events of ftrace and as the compact form, where a bundle has columns.

Fields, from protos/perfetto/trace/ftrace/: FtraceEvent { sched_switch = 4; sched_wakeup = 17; sched_waking = 20;
sched_wakeup_new = 114 }; SchedSwitchFtraceEvent { prev_pid = 2; prev_state = 4; next_pid = 6 }; those that wake
{ pid = 2 }; FtraceEventBundle { cpu = 1; compact_sched = 4 }; CompactSched { switch_timestamp = 1;
switch_prev_state = 2; switch_next_pid = 3; waking_timestamp = 7; waking_pid = 8 }. Compact times count from the one
before in the bundle, and the thread before is the one that the CPU was switched to last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.batch import LATEST_NS, NO_THREAD, Trace
from circletools.trace.sources.counters import CPU_FREQUENCY
from circletools.trace.sources.names import Numbers
from circletools.trace.sources.wire import BrokenMessage, contents, number_bytes, varints

_SWITCH = 4
_WAKES = (17, 20, 114)
_STATES = 0xFF  # of a thread that does not run; the bits above are how it was switched away
_IDLE = 0
_MOST_FIELDS = 16
_PADDING = 16


def note_events(trace: Trace, data: npt.NDArray[np.uint8], times: Numbers, at: Numbers, ends: Numbers) -> None:
    """Note switches and frequencies of CPUs among events of ftrace; `at` is where the type of each event begins.

    The data must reach 32 bytes beyond the last event.
    """
    switches = _those(data, at, ends, _SWITCH)
    if len(switches):
        before, state, after = _numbers_in(data, at[switches], ends[switches], (2, 4, 6))
        _add(trace, times[switches], before, after, state)
    for kind in _WAKES:
        wakes = _those(data, at, ends, kind)
        if len(wakes):
            (thread,) = _numbers_in(data, at[wakes], ends[wakes], (2,))
            _add(trace, times[wakes], np.full(len(wakes), NO_THREAD), thread, np.zeros_like(thread))
    changes = _those(data, at, ends, CPU_FREQUENCY)
    changes = changes[(times[changes] >= 0) & (times[changes] < LATEST_NS)]
    if len(changes):
        khz, cpus = _numbers_in(data, at[changes], ends[changes], (1, 2))
        trace.counters.add_frequencies(times[changes], cpus, khz)


class CompactSwitches:
    """Notes the switches of bundles in the compact form."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._running: dict[int, int] = {}

    def add(self, cpu: int, message: bytes, *, lost: bool) -> None:
        """Take the columns of a bundle; `lost`: events before it were lost. Raises BrokenMessage."""
        parts = contents(message, 0, len(message))
        columns = [_packed(parts.get(number, (0, b""))[1]) for number in (1, 2, 3, 7, 8)]
        times, states, after = columns[0].cumsum(), *columns[1:3]
        wake_times, woken = columns[3].cumsum(), columns[4]
        if not len(times) == len(states) == len(after) or len(wake_times) != len(woken):
            raise BrokenMessage(0)
        if lost:
            self._running.pop(cpu, None)
        if len(times):
            before = np.append(self._running.get(cpu, _IDLE), after[:-1])
            self._running[cpu] = int(after[-1])
            _add(self._trace, times, before, after, states)
        _add(self._trace, wake_times, np.full(len(woken), NO_THREAD), woken, np.zeros_like(woken))


def _add(trace: Trace, times: Numbers, before: Numbers, after: Numbers, states: Numbers) -> None:
    good = (times >= 0) & (times < LATEST_NS) & (before >= NO_THREAD) & (after >= 0)
    trace.switches.add(times[good], before[good], after[good], (states[good] & _STATES) == 0)


def _those(data: npt.NDArray[np.uint8], at: Numbers, ends: Numbers, number: int) -> Numbers:
    """Return which events are of a kind, by the number of its field."""
    tag = number_bytes(number << 3 | 2)
    found = at + len(tag) < ends
    for offset, byte in enumerate(tag):
        found &= data[at + offset] == byte
    return np.flatnonzero(found)


def _numbers_in(
    data: npt.NDArray[np.uint8], starts: Numbers, ends: Numbers, wanted: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Read numbers of the messages that begin at `starts`, with their own tag and size; 0 for one that is absent."""
    _, sized = varints(data, starts)
    size, at = varints(data, sized)
    ends = np.minimum(at + np.maximum(size, 0), ends)
    found = np.zeros((len(wanted), len(starts)), np.int64)
    for _ in range(_MOST_FIELDS):
        live = np.flatnonzero(at < ends)
        if not len(live):
            break
        tag, content = varints(data, at[live])
        value, stop = varints(data, content)
        kind = tag & 7
        stop += np.where(kind == 2, value, 0)
        good = ((kind == 0) | (kind == 2)) & (stop > content) & (stop <= ends[live])
        for row, number in enumerate(wanted):
            hit = good & (tag == number << 3)
            found[row, live[hit]] = value[hit]
        at[live] = np.where(good, stop, ends[live])
    return found


def _packed(content: bytes) -> Numbers:
    """Return the numbers of a packed field."""
    data = np.frombuffer(content + bytes(_PADDING), np.uint8)
    ends = np.flatnonzero(data[: len(content)] < 0x80) + 1
    if len(content) and (not len(ends) or ends[-1] != len(content)):
        raise BrokenMessage(0)
    values, _ = varints(data, np.append(0, ends[:-1]) if len(ends) else ends)
    return values
