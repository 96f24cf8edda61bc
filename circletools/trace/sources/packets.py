"""Unpack the packets of a Perfetto trace: `Trace { repeated TracePacket packet = 1; }`.

Packets of other machines (TracePacket { machine_id = 98 }) are dropped, because their thread ids may clash.

The fields that show losses, from protos/perfetto/: TracePacket { trusted_packet_sequence_id = 10; ftrace_stats = 34;
trace_stats = 35; previous_packet_dropped = 42 }; FtraceStats { phase = 1; cpu_stats = 2 { cpu = 1; overrun = 3;
commit_overrun = 4; dropped_events = 8 } }; TraceStats { buffer_stats = 1 { patches_failed = 6; abi_violations = 9;
trace_writer_packet_loss = 19 } }. A ring buffer that overwrites old events only shortens the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from circletools.errors import InvalidInputError
from circletools.trace.sources.batch import FaultKind, Trace
from circletools.trace.sources.content import Pieces, inflated, pieces_of, too_large
from circletools.trace.sources.wire import CONTENT, BrokenMessage, contents, fields, number_in, varint

_COMPRESSED, _COMPRESSED_ZSTD = 50, 133
_MACHINE, _MACHINE_TAG = 98, b"\x90\x06"
_HEADER_BYTES = 20
_PACKET_BYTES = 16  # charged to the bytes that may be unpacked, since each packet takes time

SEQUENCE, FTRACE_STATS, TRACE_STATS, PREVIOUS_DROPPED = 10, 34, 35, 42
LOSSES = frozenset({SEQUENCE, FTRACE_STATS, TRACE_STATS, PREVIOUS_DROPPED})
"""The packet fields that `Losses` processes."""

_PHASE, _CPU_STATS, _BUFFER_STATS = 1, 2, 1
_START, _END = 1, 2
_EVENTS = {3: "overrun", 4: "commit overrun", 8: "dropped"}
_BUFFER = {6: "patches failed", 9: "violations of the ABI", 19: "packets of writers lost"}


class Field(NamedTuple):
    """A field of a packet, with the packet and its offset in the trace.

    A packet inside a compressed packet has the offset of the compressed one.
    """

    data: bytes
    where: int
    number: int
    value: int
    start: int
    end: int


def packet_fields(trace: Trace, pieces: Pieces) -> Iterator[Field]:
    """Yield the fields of all packets, including compressed ones. Raises InvalidInputError."""
    left = trace.most_unpacked

    def unpacked(content: memoryview, name: str) -> Iterator[memoryview | bytes]:
        nonlocal left
        for piece in inflated(pieces_of(content), name, 15, left)():
            left -= len(piece)
            yield piece

    for data, where in _framed(trace, pieces):
        left -= _PACKET_BYTES
        for field in _fields(trace, data, where):
            if field.number == _COMPRESSED and field.value == CONTENT:
                content = memoryview(data)[field.start : field.end]
                for inner, _ in _framed(trace, partial(unpacked, content, trace.place(where))):
                    left -= _PACKET_BYTES
                    if left < 0:
                        raise too_large(trace.place(where))
                    yield from _fields(trace, inner, where)
            elif field.number == _COMPRESSED_ZSTD and field.value == CONTENT:
                raise InvalidInputError(
                    "zstd compression of packets is not supported",
                    location=trace.place(where),
                    hint="decompress them with `traceconv decompress_packets IN OUT`",
                )
            else:
                yield field
        if left < 0:
            raise too_large(trace.place(where))


def _fields(trace: Trace, data: bytes, where: int) -> Iterator[Field]:
    try:
        if _MACHINE_TAG in data and (machine := number_in(contents(data, 0, len(data)), _MACHINE)):
            trace.fault(FaultKind.OTHER_MACHINE, where, b"machine %d" % machine)
            return
        for number, value, start, end in fields(data, 0, len(data)):
            yield Field(data, where, number, value, start, end)
    except BrokenMessage:
        trace.fault(FaultKind.MALFORMED, where, b"a corrupt or truncated packet")


def _framed(trace: Trace, pieces: Pieces) -> Iterator[tuple[bytes, int]]:
    """Yield each packet with its offset; for a packet truncated at the end, the available part is yielded."""
    held, base, source = bytearray(), 0, pieces()
    at = 0
    needed = _HEADER_BYTES
    ended = False
    while True:
        while not ended and len(held) - at < needed:
            piece = next(source, None)
            ended = piece is None
            if piece is not None:
                del held[:at]
                base, at = base + at, 0
                held += piece
        if at >= len(held):
            return
        try:
            tag, content = varint(held, at, len(held))
            size, start = varint(held, content, len(held))
        except BrokenMessage:
            if ended:
                trace.fault(FaultKind.MALFORMED, base + at, b"the trace ends within a packet")
                return
            tag, size, start = 0, 0, at
        if tag != 0x0A:
            raise InvalidInputError("no packet begins here", location=trace.place(base + at), hint="copy it again")
        needed = start - at + size
        if not ended and len(held) - at < needed:
            continue
        if start + size > len(held):
            trace.fault(FaultKind.MALFORMED, base + at, b"the trace ends within a packet")
        if size:
            yield bytes(held[start : start + size]), base + at
        at, needed = start + size, _HEADER_BYTES


class Losses:
    """Records losses of packets, kernel events and parts of Perfetto's own buffers as faults of the trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._first: dict[int, bytes] = {}
        self._before: dict[tuple[int, int], int] = {}

    def add(self, field: Field) -> None:
        """Process a field of a packet."""
        try:
            if field.number == SEQUENCE:
                self._first.setdefault(field.value, field.data)
            elif field.number == PREVIOUS_DROPPED:
                self._dropped(field)
            elif field.number == FTRACE_STATS and field.value == CONTENT:
                self._of_kernel(field)
            elif field.value == CONTENT:
                self._of_buffers(field)
        except BrokenMessage:
            self._trace.fault(FaultKind.MALFORMED, field.where, b"broken statistics of the trace")

    def _dropped(self, field: Field) -> None:
        data = field.data
        sequence = number_in(contents(data, 0, len(data)), SEQUENCE)
        # The first packet of a sequence also has the flag, where it means nothing.
        if field.value > 0 and (not sequence or self._first.get(sequence, data) is not data):
            self._note(field, "packets were dropped before this one")

    def _of_kernel(self, field: Field) -> None:
        """Compare the counters at the end with those at the start: the kernel does not reset them between traces."""
        data = field.data
        parts = list(fields(data, field.start, field.end))
        phase = next((value for number, value, _, _ in parts if number == _PHASE), 0)
        for number, value, start, end in parts:
            if number != _CPU_STATS or value != CONTENT or phase not in (_START, _END):
                continue
            counters = contents(data, start, end)
            cpu = number_in(counters, 1)
            for counter, word in _EVENTS.items():
                count = number_in(counters, counter)
                before = self._before.get((cpu, counter), 0)
                if phase == _END and count > before:
                    self._note(field, f"CPU {cpu}, events {word}: {count - before}")
                self._before[cpu, counter] = count

    def _of_buffers(self, field: Field) -> None:
        data = field.data
        for number, value, start, end in fields(data, field.start, field.end):
            counters = contents(data, start, end) if number == _BUFFER_STATS and value == CONTENT else {}
            for counter, word in _BUFFER.items():
                if count := number_in(counters, counter):
                    self._note(field, f"{word}: {count}")

    def _note(self, field: Field, text: str) -> None:
        self._trace.fault(FaultKind.LOST, field.where, text.encode())
