"""Track events of Perfetto: slices of `trace-export` (its field numbers are there), and of other programs.

Fields, from protos/perfetto/trace/: TracePacket { clock_snapshot = 6; timestamp = 8; trusted_packet_sequence_id = 10;
track_event = 11; interned_data = 12; sequence_flags = 13; timestamp_clock_id = 58; trace_packet_defaults = 59;
track_descriptor = 60 }; TrackDescriptor { uuid = 1; name = 2; thread = 4 { pid = 1; tid = 2; thread_name = 5 } };
TrackEvent { type = 9; name_iid = 10; track_uuid = 11; name = 23 }; InternedData { event_names = 2 { iid = 1;
name = 2 } }; TracePacketDefaults { track_event_defaults = 11; timestamp_clock_id = 58 }; ClockSnapshot { clocks = 1
{ clock_id = 1; timestamp = 2; is_incremental = 3; unit_multiplier_ns = 4 } }.

Names are interned by sequences of packets, and timestamps of their own clocks may count from the one before. Slices
of other programs count only where no `ftrace/print` has recorded marks: the same slices may be in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from circletools.trace.sources.batch import LATEST_NS, TRACK_NAME, Batch, FaultKind, Trace
from circletools.trace.sources.packets import Field
from circletools.trace.sources.wire import BrokenMessage, contents, fields

_CLOCKS, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLOCK_ID, _DEFAULTS, _DESCRIPTOR = (
    6, 8, 10, 11, 12, 13, 58, 59, 60
)  # fmt: skip
TRACK_FIELDS = frozenset({_CLOCKS, _EVENT, _INTERNED, _FLAGS, _DEFAULTS, _DESCRIPTOR})
"""The fields of packets that `TrackEvents` takes."""

_CLEARED = 1
_BEGIN, _END = 1, 2
_FIRST_OWN_CLOCK = 64
_Parts = dict[int, tuple[int, bytes]]


@dataclass(slots=True)
class _Clock:
    """A clock of a sequence: the last time, the nanoseconds of its unit, and whether times count from the last."""

    last: int
    unit_ns: int
    incremental: bool


@dataclass(slots=True)
class _Sequence:
    names: dict[int, bytes] = field(default_factory=dict)
    clocks: dict[int, _Clock] = field(default_factory=dict)
    track: int = -1
    clock: int = 0


class TrackEvents:
    """Gathers the slices of threads: of tracks that hold marks, else of all."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._threads: dict[int, tuple[int, int, str]] = {}
        self._own: set[int] = set()
        self._sequences: dict[int, _Sequence] = {}
        self._names: dict[bytes, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._packet: bytes | None = None

    def add(self, told: Field) -> None:
        """Take a field of a packet; the first of a packet stands for all of them."""
        if told.packet.data is self._packet:
            return
        data = self._packet = told.packet.data
        try:
            self._add(contents(data, 0, len(data)), told.packet.where)
        except BrokenMessage:
            self._trace.fault(FaultKind.MALFORMED, told.packet.where, b"a broken track event")

    def _add(self, parts: _Parts, where: int) -> None:
        number = _number(parts, _SEQUENCE)
        if _number(parts, _FLAGS) & _CLEARED:
            self._sequences[number] = _Sequence()
        sequence = self._sequences.setdefault(number, _Sequence())
        if _CLOCKS in parts:
            self._set_clocks(sequence, parts[_CLOCKS][1])
        if _DEFAULTS in parts:
            defaults = _inner(parts, _DEFAULTS)
            sequence.clock = _number(defaults, _CLOCK_ID)
            sequence.track = _number(_inner(defaults, _EVENT), 11, sequence.track)
        if _INTERNED in parts:
            for at, _, start, end in fields(parts[_INTERNED][1], 0, len(parts[_INTERNED][1])):
                if at == 2:
                    entry = contents(parts[_INTERNED][1], start, end)
                    sequence.names[_number(entry, 1)] = entry.get(2, (0, b""))[1]
        if _DESCRIPTOR in parts:
            self._describe(_inner(parts, _DESCRIPTOR))
        if _EVENT in parts:
            self._add_event(parts, sequence, where)

    def _describe(self, parts: _Parts) -> None:
        thread = _inner(parts, 4)
        tid = _number(thread, 2, -1)
        if not thread or not 0 <= tid < 1 << 32:
            return
        uuid = _number(parts, 1)
        self._threads[uuid] = tid, _number(thread, 1), thread.get(5, (0, b""))[1].decode("utf-8", "backslashreplace")
        if parts.get(2, (0, b""))[1] == TRACK_NAME:
            self._own.add(uuid)

    def _set_clocks(self, sequence: _Sequence, snapshot: bytes) -> None:
        for at, _, start, end in fields(snapshot, 0, len(snapshot)):
            clock = contents(snapshot, start, end) if at == 1 else {}
            if _number(clock, 1) >= _FIRST_OWN_CLOCK:
                unit_ns = _number(clock, 4) or 1
                time = _number(clock, 2)
                sequence.clocks[_number(clock, 1)] = _Clock(time, unit_ns, bool(_number(clock, 3)))

    def _add_event(self, parts: _Parts, sequence: _Sequence, where: int) -> None:
        data = parts[_EVENT][1]
        event = contents(data, 0, len(data))
        time = _time(parts, sequence)
        uuid, kind = _number(event, 11, sequence.track), _number(event, 9)
        if time is None or not 0 <= time < LATEST_NS or uuid < 0 or kind not in (_BEGIN, _END):
            return
        text = -1
        if kind == _BEGIN:
            name = event[23][1] if 23 in event else sequence.names.get(_number(event, 10), b"")
            for at, _, start, end in fields(data, 0, len(data)):
                note = contents(data, start, end) if at == 4 else {}
                name = note.get(6, (0, b""))[1] if note.get(10, (0, b""))[1] == b"mark" else name
            text = self._names.setdefault(name, len(self._names))
        self._rows.append((time, uuid, text, where))

    def finish(self, *, foreign: bool) -> Iterator[Batch]:
        """Yield the events, if there are any; those of other programs' tracks where they are asked for."""
        known = self._own or (set(self._threads) if foreign else set())
        rows = [row for row in self._rows if row[1] in known and row[1] in self._threads]
        for uuid in {row[1] for row in rows}:
            tid, process, name = self._threads[uuid]
            self._trace.processes[tid], self._trace.thread_names[tid] = process, name
        if rows:
            yield _batch(rows, {uuid: thread[0] for uuid, thread in self._threads.items()}, list(self._names))


def _batch(rows: list[tuple[int, int, int, int]], threads: dict[int, int], names: list[bytes]) -> Batch:
    columns = ((time, threads[uuid], text, where) for time, uuid, text, where in rows)
    times, tids, texts, places = (np.array(column, np.int64) for column in zip(*columns, strict=True))
    return Batch(times, tids, texts, places, names)


def _time(parts: _Parts, sequence: _Sequence) -> int | None:
    """Return the time of a packet in nanoseconds; of a clock that is not known it has none."""
    if _TIMESTAMP not in parts:
        return None
    time, number = parts[_TIMESTAMP][0], _number(parts, _CLOCK_ID, sequence.clock)
    if number < _FIRST_OWN_CLOCK:
        return time
    clock = sequence.clocks.get(number)
    if clock is None:
        return None
    clock.last = clock.last + time if clock.incremental else time
    return clock.last * clock.unit_ns


def _number(parts: _Parts, field_number: int, default: int = 0) -> int:
    return parts[field_number][0] if field_number in parts else default


def _inner(parts: _Parts, field_number: int) -> _Parts:
    data = parts[field_number][1] if field_number in parts else b""
    return contents(data, 0, len(data))
