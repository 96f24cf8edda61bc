"""A field of another wire type than its own is a field that is not known: it tells nothing, and is no fault."""

from __future__ import annotations

import struct

import pytest

from circletools.trace.sources import Event, Trace, events, open_trace
from circletools.trace.sources.wire import bytes_in, contents, field_bytes, field_number, message_in, number_in

TIME, THREAD, TEXT = field_number(1, 10), field_number(2, 5), field_bytes(2, b"B|7|x")
MARK = field_bytes(3, TEXT)
WHOLE = field_bytes(2, TIME + THREAD + MARK)
THREAD_OF_TRACK = field_number(1, 70) + field_number(2, 8)
TRACK = field_bytes(60, field_number(1, 5) + field_bytes(2, b"thread") + field_bytes(4, THREAD_OF_TRACK))


def fixed(number: int, value: int = 0) -> bytes:
    """Return a field of four bytes."""
    return bytes([number << 3 | 5]) + struct.pack("<I", value)


def read(*packets: bytes) -> tuple[Trace, list[Event]]:
    trace = open_trace(b"".join(field_bytes(1, one) for one in packets))
    found = list(events(trace))
    assert trace.faults == []
    return trace, found


def bundle(*parts: bytes) -> bytes:
    return field_bytes(1, b"".join(parts))


@pytest.mark.parametrize("first", [b"", field_number(9, 1)], ids=["alone", "behind another"])
@pytest.mark.parametrize(
    "parts",
    [
        (field_bytes(1, b"\x0a"), THREAD, MARK), (fixed(1, 10), THREAD, MARK), (TIME, field_bytes(2, b"\x05"), MARK),
        (TIME, fixed(2, 5), MARK), (TIME, THREAD, field_number(3, 5)), (TIME, THREAD, fixed(3, 5)),
        (TIME, THREAD, field_bytes(3, field_number(2, 66))), (TIME, THREAD, field_bytes(3, fixed(2, 0x78377C42))),
    ],
)  # fmt: skip
def test_events_of_ftrace(parts: tuple[bytes, ...], first: bytes) -> None:
    for one in (parts, parts[::-1]):
        trace, found = read(bundle(field_bytes(2, first + b"".join(one)), WHOLE))
        assert [(event.t_ns, event.tid, event.text) for event in found] == [(10, 5, b"x")]
        assert trace.processes == {5: 7}


@pytest.mark.parametrize("wrong", [field_number(2, 66), fixed(2, 7), field_bytes(3, b"\x01"), fixed(3, 1)])
def test_bundles(wrong: bytes) -> None:
    trace, found = read(bundle(wrong, WHOLE, wrong))
    assert [event.text for event in found] == [b"x"]
    assert not trace.fault_counts


@pytest.mark.parametrize("number", [1, 2, 6, 11, 12, 34, 35, 50, 59, 60])
def test_packets(number: int) -> None:
    for value in (0, 5, 300, 1 << 40):
        assert [event.text for event in read(field_number(number, value), bundle(WHOLE))[1]] == [b"x"]


def test_a_packet_of_zstd_that_is_a_number() -> None:
    assert [event.text for event in read(field_number(133, 5), bundle(WHOLE))[1]] == [b"x"]


@pytest.mark.parametrize("number", [1, 2])
def test_the_tree_of_processes(number: int) -> None:
    tree = field_bytes(2, field_number(number, 8) + fixed(number, 8) + field_bytes(1, field_number(1, 9)))
    assert read(tree, bundle(WHOLE))[0].processes == {5: 7, 9: 9}


@pytest.mark.parametrize("flag", [field_bytes(42, b"\x01"), field_bytes(42, b"")])
def test_the_flag_of_losses(flag: bytes) -> None:
    sequence = field_number(10, 7)
    assert read(sequence + bundle(WHOLE), sequence + flag)[1] != []


@pytest.mark.parametrize("phase", [1, 2])
def test_counters_of_losses(phase: int) -> None:
    stats = field_number(1, phase) + field_number(2, 300) + field_number(2, 5)
    read(field_bytes(34, stats), field_bytes(35, field_number(1, 300)), bundle(WHOLE))


def test_slices() -> None:
    good = field_number(8, 3) + field_bytes(11, field_number(9, 1) + field_number(11, 5) + field_bytes(23, b"a"))
    named = field_number(9, 1) + field_number(11, 5) + field_number(23, 97)
    without_kind = field_bytes(9, b"\x01") + field_number(11, 5)
    others = (
        field_bytes(8, b"\x09") + field_bytes(11, field_number(9, 1) + field_number(11, 5)),
        field_number(8, 9) + field_number(11, 5), field_number(8, 9) + field_bytes(11, without_kind),
        field_bytes(6, field_number(1, 64)), field_bytes(12, field_number(2, 8)), field_number(8, 9) + fixed(11),
    )  # fmt: skip
    _, found = read(TRACK, *others, good, field_number(8, 4) + field_bytes(11, named + field_number(4, 9)))
    assert [(event.t_ns, event.tid, event.text) for event in found] == [(3, 8, b"a"), (4, 8, b"")]


def test_tracks_whose_thread_has_no_number() -> None:
    track = field_bytes(60, field_number(1, 5) + field_bytes(4, field_bytes(2, b"\x08")))
    slice_event = field_number(8, 3) + field_bytes(11, field_number(9, 1) + field_number(11, 5))
    assert read(track, slice_event)[1] == []


def test_what_fields_hold() -> None:
    message = field_number(1, 3) + field_bytes(2, field_number(1, 4)) + fixed(3, 5)
    parts = contents(message, 0, len(message))
    assert [number_in(parts, number, 9) for number in (1, 2, 3, 4)] == [3, 9, 9, 9]
    assert [bytes_in(parts, number) for number in (1, 2, 3, 4)] == [b"", field_number(1, 4), b"", b""]
    assert [number_in(message_in(parts, number), 1, 9) for number in (1, 2, 3, 4)] == [9, 4, 9, 9]
