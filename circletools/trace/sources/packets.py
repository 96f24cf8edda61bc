"""The packets of a Perfetto trace, unpacked: `Trace { repeated TracePacket packet = 1; }`.

Packets of other machines (TracePacket { machine_id = 98 }) are dropped: their thread ids may clash.
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
_PACKET_BYTES = 16  # counted for each packet, which takes time, with the bytes that may be unpacked


class Packet(NamedTuple):
    """A packet and its offset in the trace; packets inside a compressed packet have the offset of that packet."""

    data: bytes
    where: int


class Field(NamedTuple):
    """A field of a packet."""

    packet: Packet
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
        packet = Packet(data, where)
        left -= _PACKET_BYTES
        for field in _fields(trace, packet):
            if field.number == _COMPRESSED and field.value == CONTENT:
                content = memoryview(data)[field.start : field.end]
                for inner, _ in _framed(trace, partial(unpacked, content, trace.place(where))):
                    left -= _PACKET_BYTES
                    if left < 0:
                        raise too_large(trace.place(where))
                    yield from _fields(trace, Packet(inner, where))
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


def _fields(trace: Trace, packet: Packet) -> Iterator[Field]:
    try:
        if _MACHINE_TAG in packet.data and number_in(contents(packet.data, 0, len(packet.data)), _MACHINE):
            trace.fault(FaultKind.OTHER_MACHINE, packet.where, b"a packet of another machine")
            return
        for number, value, start, end in fields(packet.data, 0, len(packet.data)):
            yield Field(packet, number, value, start, end)
    except BrokenMessage:
        trace.fault(FaultKind.MALFORMED, packet.where, b"a corrupt or truncated packet")


def _framed(trace: Trace, pieces: Pieces) -> Iterator[tuple[bytes, int]]:
    """Yield each packet with its offset. A packet truncated at the end is returned as far as it goes."""
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
