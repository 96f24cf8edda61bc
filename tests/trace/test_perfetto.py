"""Protocol buffers and Perfetto traces, beside a reader that takes one field after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import events, open_trace
from circletools.trace.sources.batch import LATEST_NS, Fault, Trace
from circletools.trace.sources.wire import (
    CONTENT,
    FIXED,
    BrokenMessage,
    field_bytes,
    field_number,
    fields,
    number_bytes,
    varint,
    varints,
)

EDGES = [0, 1, 127, 128, 129, 255, 256, 16383, 16384, 2**31, 2**32 - 1, 2**32, 2**56 - 1, 2**56, 2**62, 2**63 - 1]


@pytest.mark.parametrize("value", EDGES)
def test_numbers_as_varints(value: int) -> None:
    data = number_bytes(value)
    digits = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    assert list(data) == [digit | 128 for digit in digits[:-1]] + digits[-1:]
    assert varint(b"\xff" + data, 1, 1 + len(data)) == (value, 1 + len(data))
    with pytest.raises(BrokenMessage) as caught:
        varint(data, 0, len(data) - 1)
    assert caught.value.args[0] == 0


def test_many_varints_at_once() -> None:
    data, places = b"\x80", []
    for value in EDGES:
        places.append(len(data))
        data += number_bytes(value)
    found, ends = varints(np.frombuffer(data + bytes(10), np.uint8), np.array(places))
    assert found.tolist() == EDGES
    assert ends.tolist() == [*places[1:], len(data)]


def test_none_of_many_numbers_is_negative() -> None:
    for value in (2**63, 2**64 - 1):
        found, ends = varints(np.frombuffer(number_bytes(value) + bytes(10), np.uint8), np.array([0]))
        assert (found.tolist(), ends.tolist()) == ([value % 2**63], [9])


def test_a_number_of_64_bits_is_cut_to_them() -> None:
    assert varint(b"\xff" * 9 + b"\x7f", 0, 10) == (2**64 - 1, 10)
    with pytest.raises(BrokenMessage):
        varint(b"\xff" * 10 + b"\x01", 0, 11)


def test_fields_of_a_message() -> None:
    message = field_number(1, 300) + field_bytes(2, b"abc") + b"\x19" + bytes(8) + b"\x25" + bytes(4)
    data = b"\0" + message
    assert list(fields(data, 1, len(data))) == [
        (1, 300, 2, 4), (2, CONTENT, 6, 9), (3, FIXED, 10, 18), (4, FIXED, 19, 23),
    ]  # fmt: skip
    assert list(fields(data, 1, 4)) == [(1, 300, 2, 4)]
    assert list(fields(b"", 0, 0)) == []


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"\x0b", 0),
        (b"\x0a\x02a", 0),
        (b"\x02\x00", 0),
        (b"\x08\x01\x0d\0\0\0", 2),
        (b"\x09" + bytes(7), 0),
        (b"\x80", 0),
    ],
)
def test_broken_messages(data: bytes, at: int) -> None:
    with pytest.raises(BrokenMessage) as caught:
        list(fields(data, 0, len(data)))
    assert caught.value.args[0] == at


# --- events of the kernel -----------------------------------------------------------------------------------

Read = tuple[int, int, str, bytes]
TEXTS = [
    b"B|7|a",
    b"B|7|b\n",
    b"B|7|",
    b"B|x|a",
    b"B|7",
    b"B|",
    b"B",
    b"B\n",
    b"E",
    b"E\n",
    b"E|7",
    b"E|7\n",
    b"Ex",
    b"C|7|c|1",
    b"",
]


def naive(bundle: list[bytes]) -> list[Read]:
    """Read the events of a bundle one field after the other; none has a field twice."""
    found: list[Read] = []
    for event in bundle:
        try:
            parts = {number: (value, event[at:stop]) for number, value, at, stop in fields(event, 0, len(event))}
            shown = {number: parts[3][1][at:stop] for number, _, at, stop in fields(parts[3][1], 0, len(parts[3][1]))}
            (time, _), (thread, _), text = parts[1], parts[2], shown[2]
        except (BrokenMessage, KeyError):
            continue
        if time >= LATEST_NS or thread >= 1 << 32:
            continue
        if text[:2] == b"B|":
            found.append((time, thread, "B", text[2:].partition(b"|")[2].rstrip(b"\n")))
        elif text[:1] == b"E" and text[1:2] in (b"", b"|", b"\n"):
            found.append((time, thread, "E", b""))
    return sorted(found, key=lambda event: event[0])


@st.composite
def printed(draw: st.DrawFn) -> bytes:
    """Return an event: most have their fields in order, some do not, lack one, have others, or are cut."""
    time = draw(st.sampled_from([*range(0, 5000, 700), LATEST_NS - 1, LATEST_NS, 2**63]))
    thread = draw(st.sampled_from([1, 127, 128, 2**32 - 1, 2**32, 2**32 + 7]))
    text = field_bytes(2, draw(st.sampled_from(TEXTS)))
    inside = [*draw(st.sampled_from([[field_number(1, 2**40)], [], [field_number(1, 3), field_number(3, 4)]])), text]
    parts = [field_number(1, time), field_number(2, thread), field_bytes(3, b"".join(inside))]
    others = draw(st.lists(st.integers(4, 9).map(lambda number: field_number(number, 900)), max_size=6, unique=True))
    at = draw(st.integers(1, 2))
    parts = [*parts[:at], *others, *parts[at:]]
    if draw(st.integers(0, 4)) == 0:
        parts = draw(st.permutations(parts))
    if draw(st.integers(0, 9)) == 0:
        parts = parts[: draw(st.integers(0, len(parts)))]
    data = b"".join(parts)
    return data if draw(st.integers(0, 9)) else data[: draw(st.integers(0, len(data)))]


def packet(*bundles: bytes) -> bytes:
    return b"".join(field_bytes(1, field_bytes(1, bundle)) for bundle in bundles)


def read_events(data: bytes) -> list[Read]:
    return [(event.t_ns, event.tid, event.kind, event.text) for event in events(open_trace(data))]


@given(st.lists(printed(), min_size=1, max_size=8), st.integers(1, 3))
def test_events_of_the_kernel_in_whatever_form(found: list[bytes], size: int) -> None:
    bundles = [found[at : at + size] for at in range(0, len(found), size)]
    start = field_number(1, 10) + field_number(2, 9) + field_bytes(3, field_bytes(2, b"B|9|start"))
    data = packet(*(b"".join(field_bytes(2, event) for event in bundle) for bundle in [[start], *bundles]))
    assert sorted(read_events(data)) == sorted(naive([start, *found]))


def faults_of(data: bytes) -> tuple[Trace, list[Fault]]:
    trace = open_trace(data)
    list(events(trace))
    return trace, trace.faults


def printing(time: int, text: bytes, thread: int = 5) -> bytes:
    parts = (
        field_number(1, time),
        field_number(2, thread),
        field_bytes(3, field_number(1, 1) + field_bytes(2, text)),
    )
    return field_bytes(2, b"".join(parts))


def test_what_is_wrong_with_bundles() -> None:
    good = printing(10, b"B|7|x")
    lost, none_lost = packet(field_number(3, 1) + good), packet(field_number(3, 0) + good)
    _, found = faults_of(none_lost + lost)
    assert found == [Fault("T003", len(none_lost), "events were lost before this bundle")]
    _, found = faults_of(packet(good) + packet(good + b"\x12\x7f"))
    assert found == [Fault("T004", len(packet(good)), "a corrupt or truncated bundle of events")]
    _, found = faults_of(packet(good + printing(11, b"B|x|name") + printing(12, b"B|y")))
    assert [(fault.code, fault.text) for fault in found] == [
        ("T004", "B|x|name"),
        ("T004", "B|y"),
    ]
    long = printing(13, b"B|7|" + b"n" * 200)
    assert read_events(packet(long + good)) == [(10, 5, "B", b"x"), (13, 5, "B", b"n" * 200)]


@pytest.mark.parametrize("field", [15, 16, 17, 31, 32, 2048])
@pytest.mark.parametrize("value", [0x10, 0x1A, 0x80])
def test_fields_of_any_number(field: int, value: int) -> None:
    time, thread, other = field_number(1, 10), field_number(2, 5), field_number(field, value)
    text = field_bytes(3, field_bytes(2, b"B|7|x"))
    for parts in ((time, other, thread, text), (time, thread, other, text), (time, thread, text, other)):
        assert read_events(packet(field_bytes(2, b"".join(parts)))) == [(10, 5, "B", b"x")]


def test_events_of_any_length() -> None:
    good, lengths = printing(10, b"B|7|x"), set[int]()
    for name in (b"n" * length for length in (*range(100, 130), 230, 231, 232, 233, 500)):
        long = printing(13, b"B|7|" + name)
        lengths.add(len(long))
        trace, found = faults_of(packet(long + good) + packet(long))
        assert found == []
        assert [event.text for event in events(trace)] == [b"x", name, name]
    assert lengths >= {128, 129, 131, 132}  # 126 and 127 behind two bytes, 128 and 129 behind three


def test_processes_and_names_of_threads() -> None:
    process = field_bytes(1, field_number(1, 70) + field_bytes(3, b"app\xff"))
    thread = field_bytes(2, field_number(1, 71) + field_bytes(2, b"worker") + field_number(3, 70))
    bare = field_bytes(2, field_number(1, 72)) + field_bytes(3, b"no thread")
    tree = field_bytes(1, field_bytes(2, process + thread + bare))
    start = packet(printing(10, b"B|7|x", 71) + printing(11, b"B|8|y", 73) + printing(12, b"B|9|y", 73))
    trace, found = faults_of(start + tree)
    assert found == []
    assert trace.processes == {70: 70, 71: 70, 72: 0, 73: 8}
    assert trace.thread_names == {70: "app\\xff", 71: "worker", 72: ""}
    broken = field_bytes(1, field_bytes(2, field_bytes(1, b"\x0b")))
    _, found = faults_of(start + broken)
    assert found == [Fault("T004", len(start), "a broken process tree")]


# --- what is written ----------------------------------------------------------------------------------------

LINE = " task-{tid} (  7) [000] ...1 {seconds}: tracing_mark_write: {mark}\n"


# --- track events -------------------------------------------------------------------------------------------


def test_what_another_machine_did_is_left_out() -> None:
    def mark(text: bytes, machine: int, time: int) -> bytes:
        event = field_number(1, time) + field_number(2, 8) + field_bytes(3, field_bytes(2, text))
        return field_bytes(1, field_bytes(1, field_bytes(2, event)) + field_number(98, machine) * bool(machine))

    data = mark(b"B|7|[NN_LR_PP]p", 0, 10) + mark(b"B|7|[NN_LR_PC]c", 3, 20) + mark(b"E|7", 0, 5_000_000_000)
    found = analyse(open_trace(data))
    assert [(one.code, one.severity) for one in found.diagnostics] == [("T005", "info")]
    assert {layer for table in found.tables.values() for layer in table.self_ns} == {("LR", "PP")}
    (cut,) = (one for one in analyse(open_trace(mark(b"E", 0, 5) + data)).diagnostics if one.code == "T010")
    assert cut.location == "<bytes>: at 0.000000 s"


def test_a_packet_that_only_reports_dropped_packets() -> None:
    trace = open_trace(field_bytes(1, field_number(42, 1)) + field_bytes(1, field_number(8, 1)))
    assert list(events(trace)) == []
    assert [fault.code for fault in trace.faults] == ["T003"]
