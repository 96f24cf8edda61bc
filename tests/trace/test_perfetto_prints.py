"""Prints of the kernel in Perfetto traces: which texts are marks, and packets around them."""

from __future__ import annotations

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.sources import Event, events, open_trace
from circletools.trace.sources.batch import Trace
from circletools.trace.sources.wire import field_bytes, field_number

TIME, THREAD = field_number(1, 10), field_number(2, 5)


def packet(*bundle: bytes) -> bytes:
    return field_bytes(1, field_bytes(1, b"".join(bundle)))


def event(*parts: bytes) -> bytes:
    return field_bytes(2, b"".join(parts))


def printing(text: bytes, time: int = 10, thread: int = 5) -> bytes:
    return event(field_number(1, time), field_number(2, thread), field_bytes(3, field_bytes(2, text)))


def opened(*packets: bytes) -> tuple[Trace, list[Event]]:
    trace = open_trace(b"".join(packets))
    return trace, list(events(trace))


def read(*bundle: bytes) -> list[tuple[int, int, str, bytes]]:
    trace, found = opened(packet(*bundle))
    assert trace.faults == []
    return [(one.t_ns, one.tid, one.kind, one.text) for one in found]


GOOD = printing(b"B|7|x")


@pytest.mark.parametrize(
    ("text", "kind"),
    [(b"B|7|x", "B"), (b"B|7", "B"), (b"B|", "B"), (b"B", ""), (b"B\n", ""), (b"Bx|", ""), (b"E", "E"), (b"E\n", "E"),
     (b"E|", "E"), (b"E|7", "E"), (b"Ex", ""), (b"F", ""), (b"\n", ""), (b"|", "")],
)  # fmt: skip
def test_which_texts_are_marks(text: bytes, kind: str) -> None:
    _, found = opened(packet(printing(text)))
    assert [one.kind for one in found] == list(kind)


def test_packets_that_are_compressed_with_zstd() -> None:
    first = packet(GOOD)
    with pytest.raises(InvalidInputError, match="zstd compression of packets is not supported") as caught:
        opened(first, field_bytes(1, field_bytes(133, b"x")))
    assert caught.value.location == f"<bytes>: byte {len(first)}"
    assert opened(first, field_bytes(1, field_bytes(132, b"x") + field_bytes(134, b"x")))[0].faults == []


@pytest.mark.parametrize(
    ("data", "where"),
    [(b"\x0b\x01x", 0), (b"\x0a\x01\x08\x12\x01x", 3), (b"\x0a" + b"\xff" * 20, 0), (b"\xff" * 20, 0)],
)
def test_where_no_packet_begins(data: bytes, where: int) -> None:
    first = packet(GOOD)
    with pytest.raises(InvalidInputError, match="no packet begins here") as caught:
        opened(first, data, bytes(20))
    assert caught.value.location == f"<bytes>: byte {len(first) + where}"
