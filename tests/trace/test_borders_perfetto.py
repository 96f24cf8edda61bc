"""Prints of the kernel in Perfetto traces: the borders of their fields, and what stands around them."""

from __future__ import annotations

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.sources import Event, events, open_trace
from circletools.trace.sources.batch import LATEST_NS, Fault, FaultKind, Trace
from circletools.trace.sources.wire import field_bytes, field_number

TIME, THREAD = field_number(1, 10), field_number(2, 5)
MARK = field_bytes(3, field_bytes(2, b"B|7|x"))


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
READ = [(10, 5, "B", b"x")]


# --- fields ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("usual", [True, False])
@pytest.mark.parametrize(
    ("time", "thread", "kept"),
    [
        (0, 0, True),
        (LATEST_NS - 1, 2**32 - 1, True),
        (LATEST_NS, 5, False),
        (2**63 - 1, 5, False),
        (2**63, 5, False),
        (10, 2**32, False),
        (10, 2**63, False),
    ],
)
def test_the_latest_time_and_the_last_thread(time: int, thread: int, kept: bool, usual: bool) -> None:
    parts = field_number(1, time), field_number(2, thread), MARK
    found = read(event(*(parts if usual else reversed(parts))))
    assert found == [(time, thread, "B", b"x")] * kept


@pytest.mark.parametrize("parts", [(TIME, MARK), (THREAD, MARK), (TIME, THREAD), (MARK,), (THREAD, TIME), ()])
def test_an_event_that_lacks_a_field_is_none(parts: tuple[bytes, ...]) -> None:
    assert read(event(*parts), GOOD) == READ
    assert read(event(*reversed(parts)), GOOD) == READ


@pytest.mark.parametrize("inside", [b"", field_number(1, 300), field_bytes(4, b"E")])
def test_a_print_without_a_text_is_none(inside: bytes) -> None:
    text = field_bytes(3, inside)
    assert read(event(TIME, THREAD, text), GOOD) == READ
    assert read(event(text, THREAD, TIME), GOOD) == READ


def test_an_event_may_have_eight_numbers_before_its_print() -> None:
    others = [field_number(number, 300) for number in range(4, 12)]
    for count in range(9):
        assert read(event(TIME, *others[:count], THREAD, MARK), GOOD) == READ * 2


def test_what_follows_a_text_is_no_part_of_it() -> None:
    def fixed(field: int, value: bytes) -> bytes:
        return bytes([field << 3 | 5]) + value

    bare = field_bytes(3, field_bytes(2, b"E"))
    assert read(event(TIME, THREAD, bare, fixed(15, b"|||\n"))) == [(10, 5, "E", b"")]
    empty = field_bytes(3, field_bytes(2, b""))
    assert read(event(TIME, THREAD, empty, fixed(8, b"|E|E"))) == []
    assert read(event(TIME, THREAD, field_bytes(3, field_bytes(2, b"B")), b"|7|x")) == []


@pytest.mark.parametrize("size", [b"\x06", b"\x7f", b"\xff" * 8 + b"\x7f"])
def test_a_text_that_is_longer_than_its_print_is_none(size: bytes) -> None:
    assert read(event(TIME, THREAD, field_bytes(3, b"\x12\x05B|7|x")), GOOD) == READ * 2
    assert read(event(TIME, THREAD, field_bytes(3, b"\x12" + size + b"B|7|x")), GOOD) == READ


@pytest.mark.parametrize(
    ("text", "kind"),
    [(b"B|7|x", "B"), (b"B|7", "B"), (b"B|", "B"), (b"B", ""), (b"B\n", ""), (b"Bx|", ""), (b"E", "E"), (b"E\n", "E"),
     (b"E|", "E"), (b"E|7", "E"), (b"Ex", ""), (b"F", ""), (b"\n", ""), (b"|", "")],
)  # fmt: skip
def test_which_texts_are_marks(text: bytes, kind: str) -> None:
    _, found = opened(packet(printing(text)))
    assert [one.kind for one in found] == list(kind)


# --- bundles --------------------------------------------------------------------------------------------------


def test_other_fields_of_a_bundle_are_no_losses() -> None:
    others = field_number(1, 3) + field_number(4, 1) + field_bytes(3, b"bytes") + field_bytes(7, b"\x0b")
    assert read(others, GOOD, others) == READ


@pytest.mark.parametrize("end", [b"\x12", b"\x12\x01", b"\x12\x80", b"\x12\x80\x01", b"\x18", b"\x0b"])
def test_a_bundle_that_ends_within_a_field(end: bytes) -> None:
    trace, found = opened(packet(GOOD, end), packet(GOOD))
    assert [one[:2] for one in found] == [(10, 5)] * 2
    assert trace.faults == [Fault(FaultKind.MALFORMED, 0, "a bundle of events that is broken or cut")]


def test_marks_have_the_place_of_their_packet() -> None:
    packets = [packet(GOOD, GOOD), packet(), packet(printing(b"E", 11), printing(b"B|z", 12))]
    trace, found = opened(*packets)
    last = len(packets[0] + packets[1])
    assert [one.where for one in found] == [0, 0, last, last]
    assert trace.faults == [Fault(FaultKind.MALFORMED, last, "B|z")]


def test_a_process_may_have_the_number_0() -> None:
    trace, found = opened(packet(printing(b"B|x|a"), printing(b"B|0|b"), printing(b"B|8|c")))
    assert [one.tgid for one in found] == [0, 0, 0]
    assert [fault.text for fault in trace.faults] == ["B|x|a"]


def test_the_process_tree_is_right_about_threads() -> None:
    tree = field_bytes(1, field_bytes(2, field_bytes(2, field_number(1, 5) + field_number(3, 70))))
    for packets in ((tree, packet(GOOD)), (packet(GOOD), tree)):
        trace, _ = opened(*packets)
        assert trace.processes == {5: 70}


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


@pytest.mark.parametrize("marks", [0, 1, 2])
def test_slices_of_others_do_not_count_beside_marks_of_any_block(marks: int) -> None:
    """Bundles are read two megabytes at a time: marks may be in the first block, in the last, or in none."""
    filler = field_bytes(9, bytes(2 << 20))
    bundles = [packet(GOOD if marks == 1 else b"", filler), packet(filler), packet(GOOD if marks == 2 else b"")]
    thread = field_bytes(4, field_number(1, 70) + field_number(2, 9))
    track = field_bytes(1, field_bytes(60, field_number(1, 3) + thread))
    slices = field_bytes(1, field_number(8, 1) + field_bytes(11, field_number(9, 2) + field_number(11, 3)))
    _, found = opened(track, slices, *bundles)
    assert [one.tid for one in found] == [5 if marks else 9]
