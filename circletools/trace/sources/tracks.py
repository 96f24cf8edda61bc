"""Track events of Perfetto: the slices that programs write themselves.

Fields, from protos/perfetto/trace/: TracePacket { clock_snapshot = 6; timestamp = 8; trusted_packet_sequence_id = 10;
track_event = 11; interned_data = 12; sequence_flags = 13; timestamp_clock_id = 58; trace_packet_defaults = 59;
track_descriptor = 60 }; TrackDescriptor { uuid = 1; name = 2; thread = 4 { pid = 1; tid = 2; thread_name = 5 } };
TrackEvent { type = 9; name_iid = 10; track_uuid = 11; name = 23 }; InternedData { event_names = 2 { iid = 1;
name = 2 } }; TracePacketDefaults { track_event_defaults = 11; timestamp_clock_id = 58 }; ClockSnapshot { clocks = 1
{ clock_id = 1; timestamp = 2; is_incremental = 3; unit_multiplier_ns = 4 } }.

Names are interned by sequences of packets, and timestamps of their own clocks may count from the one before. Slices
count only where no `ftrace/print` has recorded marks: the same slices may be in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from circletools.trace.sources.batch import LATEST_NS, Batch, FaultKind, Trace, place_at
from circletools.trace.sources.packets import Field
from circletools.trace.sources.wire import (
    CONTENT,
    BrokenMessage,
    Parts,
    bytes_in,
    contents,
    fields,
    message_in,
    number_in,
)

_CLOCKS, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLOCK_ID, _DEFAULTS, _DESCRIPTOR = (
    6, 8, 10, 11, 12, 13, 58, 59, 60
)  # fmt: skip
TRACK_FIELDS = frozenset({_CLOCKS, _EVENT, _INTERNED, _FLAGS, _DEFAULTS, _DESCRIPTOR})
"""The fields of packets that `TrackEvents` takes."""

_CLEARED = 1
_BEGIN, _END = 1, 2
_FIRST_OWN_CLOCK = 64


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
    """Gathers the slices of threads."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._threads: dict[int, tuple[int, int, str]] = {}
        self._sequences: dict[int, _Sequence] = {}
        self._names: dict[bytes, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._packet: bytes | None = None

    def add(self, field: Field) -> None:
        """Take a field of a packet; the first of a packet stands for all of them."""
        if field.packet.data is self._packet:
            return
        data = self._packet = field.packet.data
        try:
            self._add(contents(data, 0, len(data)))
        except BrokenMessage:
            self._trace.fault(FaultKind.MALFORMED, field.packet.where, b"a broken track event")

    def _add(self, parts: Parts) -> None:
        number = number_in(parts, _SEQUENCE)
        if number_in(parts, _FLAGS) & _CLEARED:
            self._sequences[number] = _Sequence()
        sequence = self._sequences.setdefault(number, _Sequence())
        if _CLOCKS in parts:
            self._set_clocks(sequence, bytes_in(parts, _CLOCKS))
        if _DEFAULTS in parts:
            defaults = message_in(parts, _DEFAULTS)
            sequence.clock = number_in(defaults, _CLOCK_ID)
            sequence.track = number_in(message_in(defaults, _EVENT), 11, sequence.track)
        if _INTERNED in parts:
            data = bytes_in(parts, _INTERNED)
            for at, value, start, end in fields(data, 0, len(data)):
                if at == 2 and value == CONTENT:
                    entry = contents(data, start, end)
                    sequence.names[number_in(entry, 1)] = bytes_in(entry, 2)
        if _DESCRIPTOR in parts:
            self._describe(message_in(parts, _DESCRIPTOR))
        if _EVENT in parts:
            self._add_event(parts, sequence)

    def _describe(self, parts: Parts) -> None:
        thread = message_in(parts, 4)
        uuid, tid = number_in(parts, 1), number_in(thread, 2, 1 << 32)
        if tid >= 1 << 32:
            return
        self._threads[uuid] = tid, number_in(thread, 1), bytes_in(thread, 5).decode("utf-8", "backslashreplace")

    def _set_clocks(self, sequence: _Sequence, snapshot: bytes) -> None:
        for at, value, start, end in fields(snapshot, 0, len(snapshot)):
            clock = contents(snapshot, start, end) if at == 1 and value == CONTENT else {}
            if number_in(clock, 1) >= _FIRST_OWN_CLOCK:
                unit_ns = number_in(clock, 4) or 1
                time = number_in(clock, 2)
                sequence.clocks[number_in(clock, 1)] = _Clock(time, unit_ns, bool(number_in(clock, 3)))

    def _add_event(self, parts: Parts, sequence: _Sequence) -> None:
        data = bytes_in(parts, _EVENT)
        event = contents(data, 0, len(data))
        time = _time(parts, sequence)
        uuid, kind = number_in(event, 11, sequence.track), number_in(event, 9)
        if time is None or time >= LATEST_NS or kind not in (_BEGIN, _END):
            return
        text = -1
        if kind == _BEGIN:
            name = bytes_in(event, 23) if 23 in event else sequence.names.get(number_in(event, 10), b"")
            text = self._names.setdefault(name, len(self._names))
        self._rows.append((time, uuid, text, place_at(time)))

    def finish(self) -> Iterator[Batch]:
        """Yield the events, if there are any."""
        rows = [row for row in self._rows if row[1] in self._threads]
        for uuid in {row[1] for row in rows}:
            tid, process, name = self._threads[uuid]
            self._trace.processes[tid], self._trace.thread_names[tid] = process, name
        if rows:
            columns = ((time, self._threads[uuid][0], text, where) for time, uuid, text, where in rows)
            times, tids, texts, places = (np.array(column, np.int64) for column in zip(*columns, strict=True))
            yield Batch(times, tids, texts, places, list(self._names))


def _time(parts: Parts, sequence: _Sequence) -> int | None:
    """Return the time of a packet in nanoseconds; of a clock that is not known it has none."""
    time, number = number_in(parts, _TIMESTAMP, -1), number_in(parts, _CLOCK_ID, sequence.clock)
    if time < 0:
        return None
    if number < _FIRST_OWN_CLOCK:
        return time
    clock = sequence.clocks.get(number)
    if clock is None:
        return None
    clock.last = clock.last + time if clock.incremental else time
    return clock.last * clock.unit_ns
