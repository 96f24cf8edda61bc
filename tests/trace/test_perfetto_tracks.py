"""Track events of Perfetto: what sequences intern, which clock a time is of, and which tracks count."""

from __future__ import annotations

import pytest

from circletools.trace.sources import Event, events, open_trace
from circletools.trace.sources.batch import LATEST_NS, Fault, FaultKind, Trace
from circletools.trace.sources.wire import field_bytes, field_number

BEGIN, END = 1, 2


def packet(*parts: bytes, sequence: int = 1) -> bytes:
    return field_bytes(1, field_number(10, sequence) + b"".join(parts))


def described(uuid: int, tid: int, name: bytes = b"") -> bytes:
    thread = field_number(1, 70) + field_number(2, tid)
    return field_bytes(60, field_number(1, uuid) + field_bytes(2, name) + field_bytes(4, thread))


def slice_event(kind: int, *body: bytes, track: int | None = 5) -> bytes:
    return field_bytes(
        11, field_number(9, kind) + (b"" if track is None else field_number(11, track)) + b"".join(body)
    )


def interned(number: int, name: bytes, field: int = 2) -> bytes:
    return field_bytes(12, field_bytes(field, field_number(1, number) + field_bytes(2, name)))


def at(time: int, clock: int | None = None) -> bytes:
    return field_number(8, time) + (b"" if clock is None else field_number(58, clock))


def snapshot(*clocks: dict[int, int], field: int = 1) -> bytes:
    """Return a snapshot of clocks, each by its fields: 1 is its number, 2 the time, 3 incremental, 4 the unit."""
    told = (field_bytes(field, b"".join(field_number(*one) for one in clock.items())) for clock in clocks)
    return field_bytes(6, b"".join(told))


TRACK = packet(described(5, 8))
NAMED = field_number(10, 3)  # the name that has number 3


def read(*packets: bytes) -> list[Event]:
    trace = open_trace(b"".join((TRACK, *packets)))
    found = list(events(trace))
    assert trace.faults == []
    return found


def texts(*packets: bytes) -> list[bytes]:
    return [event.text for event in read(*packets)]


def times(*packets: bytes) -> list[int]:
    return [event.t_ns for event in read(*packets)]


# --- names ----------------------------------------------------------------------------------------------------


def test_names_are_interned_by_each_sequence() -> None:
    named = slice_event(BEGIN, NAMED)
    assert texts(
        packet(interned(3, b"one")),
        packet(interned(3, b"two"), sequence=2),
        packet(at(1), named),
        packet(at(2), named, sequence=2),
        packet(at(3), named, sequence=4),
        packet(at(4), named, interned(3, b"newer")),
        packet(at(5), slice_event(BEGIN, field_number(10, 4))),
    ) == [b"one", b"two", b"", b"newer", b""]


def test_only_names_of_events_are_names() -> None:
    assert texts(
        packet(interned(3, b"a")), packet(interned(3, b"b", field=3)), packet(at(1), slice_event(1, NAMED))
    ) == [b"a"]
    own = slice_event(BEGIN, NAMED, field_bytes(23, b"own"))
    assert texts(packet(interned(3, b"a")), packet(at(1), own)) == [b"own"]


@pytest.mark.parametrize(("flags", "kept"), [(0, True), (1, False), (2, True), (3, False)])
def test_a_sequence_that_is_cleared_forgets_names_and_clocks(flags: int, kept: bool) -> None:
    before = packet(interned(3, b"a"), snapshot({1: 64, 2: 100}))
    found = read(before, packet(field_number(13, flags)), packet(at(1), slice_event(BEGIN, NAMED)))
    assert [event.text for event in found] == [b"a" if kept else b""]
    found = read(before, packet(field_number(13, flags)), packet(at(200, 64), slice_event(END)))
    assert [event.t_ns for event in found] == [200] * kept
    assert texts(before, packet(field_number(13, flags), sequence=2), packet(at(1), slice_event(1, NAMED))) == [b"a"]


# --- times ----------------------------------------------------------------------------------------------------


def test_a_snapshot_of_the_systems_clocks_changes_none_of_them() -> None:
    told = packet(snapshot({1: 63, 2: 100, 3: 1, 4: 1000}))
    assert times(told, packet(at(7, 63), slice_event(END))) == [7]


def test_times_of_a_sequences_own_clock() -> None:
    def of(clock: dict[int, int], *said: int, field: int = 1) -> list[int]:
        told = packet(snapshot({1: 64} | clock, field=field))
        return times(told, *(packet(at(time, 64), slice_event(END)) for time in said))

    assert of({2: 100}, 7, 9) == [7, 9]
    assert of({2: 100, 3: 0, 4: 0}, 7, 9) == [7, 9]
    assert of({2: 100, 4: 1000}, 7, 9) == [7_000, 9_000]
    assert of({2: 100, 3: 1}, 7, 9) == [107, 116]
    assert of({2: 100, 3: 1, 4: 1000}, 7, 9) == [107_000, 116_000]
    assert of({3: 1}, 7) == [7]
    assert of({2: 100}, 7, field=2) == []
    assert of({2: 0, 4: 2}, LATEST_NS // 2 - 1, LATEST_NS // 2) == [LATEST_NS - 2]


def test_a_clock_is_of_its_sequence() -> None:
    told = packet(snapshot({1: 64, 2: 100, 3: 1}, {1: 65, 2: 5, 4: 10}))
    other = packet(at(7, 64), slice_event(END), sequence=2)
    assert times(told, other, packet(at(7, 65), slice_event(END)), packet(at(8, 64), slice_event(END))) == [70, 108]


def test_packets_take_clock_and_track_from_their_sequence() -> None:
    def defaults(*parts: bytes) -> bytes:
        return field_bytes(59, b"".join(parts))

    of_track = field_bytes(11, field_number(11, 5))
    clocks = snapshot({1: 64, 2: 0, 4: 1000})
    bare = slice_event(END, track=None)
    assert times(packet(at(1), bare)) == []
    assert times(packet(defaults(of_track)), packet(at(1), bare), packet(at(2), bare, sequence=2)) == [1]
    told = packet(clocks, defaults(of_track, field_number(58, 64)))
    assert times(told, packet(at(1), bare), packet(at(2, 6), bare)) == [2, 1_000]
    # Later defaults are all there is of the clock, but no track there leaves the track as it was.
    assert times(told, packet(defaults()), packet(at(3), bare)) == [3]
    # An event's own track comes first.
    assert times(packet(defaults(field_bytes(11, field_number(11, 6)))), packet(at(1), slice_event(END))) == [1]


# --- tracks ---------------------------------------------------------------------------------------------------


def test_each_track_is_its_thread() -> None:
    found = read(
        packet(described(6, 9)),
        packet(at(1), slice_event(BEGIN, field_bytes(23, b"a"))),
        packet(at(2), slice_event(BEGIN, field_bytes(23, b"b"), track=6)),
        packet(at(3), slice_event(END)),
        packet(at(4), slice_event(0, track=6)),
        packet(at(5), slice_event(END, track=6)),
    )
    assert [event[:5] for event in found] == [
        (1, 8, 70, "B", b"a"), (2, 9, 70, "B", b"b"), (3, 8, 70, "E", b""), (5, 9, 70, "E", b"")
    ]  # fmt: skip
    assert [Trace("t", "", "byte", lambda _: iter(()), 0).place(event.where) for event in found[:2]] == [
        "t: at 0.000000 s", "t: at 0.000000 s"
    ]  # fmt: skip


def printed(text: bytes) -> bytes:
    """Return a packet of the kernel's with a print at 9 on thread 4; none for no text."""
    event = field_number(1, 9) + field_number(2, 4) + field_bytes(3, field_bytes(2, text))
    return field_bytes(1, field_bytes(1, field_bytes(2, event) if text else field_number(1, 0)))


@pytest.mark.parametrize("first", [False, True])
def test_slices_of_others_count_where_the_kernel_has_no_marks(first: bool) -> None:
    def both(kernel: bytes, track: bytes) -> list[int]:
        slices = packet(described(6, 9, track)) + packet(at(1), slice_event(END, track=6))
        return [event.tid for event in events(open_trace(kernel + slices if first else slices + kernel))]

    assert both(printed(b"E"), b"x") == [4]
    assert both(printed(b"C|7|counter|1"), b"x") == [9]
    assert both(printed(b""), b"x") == [9]


def test_a_broken_packet_of_tracks_is_told_once() -> None:
    bad = packet(at(1), field_bytes(12, b"\x0b"), slice_event(END))
    trace = open_trace(TRACK + bad + packet(at(2), slice_event(END)))
    assert [event.t_ns for event in events(trace)] == [2]
    assert trace.faults == [Fault(FaultKind.MALFORMED, len(TRACK), "a broken track event")]
