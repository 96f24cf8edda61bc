"""What traces come in: pages, compression, packets, pieces; and what a file may unpack to."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import InvalidInputError
from circletools.trace.sources import content, events, open_trace
from circletools.trace.sources.batch import Fault, Trace
from circletools.trace.sources.content import inflated, lines, most_unpacked
from circletools.trace.sources.perfetto import packet_fields
from circletools.trace.sources.wire import field_bytes, field_number, number_bytes

LINE = b"  task-9 (    7) [000] ...1 5.000001: tracing_mark_write: B|7|a\n"


def in_pieces(data: bytes, size: int) -> content.Pieces:
    return lambda: iter([data[at : at + size] for at in range(0, len(data), size)])


# --- pieces and lines -----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 30), st.booleans())
def test_whole_lines(lengths: list[int], size: int, closed: bool) -> None:
    """A line that is longer than five and met before its end is left out; where the pieces fall decides that."""
    rows = [b"x" * length + b"\n" for length in lengths]
    data = b"".join(rows) if closed or not rows else b"".join(rows)[:-1]
    found = list(lines(in_pieces(data, size)))
    assert (b"".join(piece for _, piece in found), {left_out for left_out, _ in found} <= {0}) == (data, True)
    assert all(piece.endswith(b"\n") for _, piece in found[:-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_LONGEST_LINE", 5)
        number, kept = 0, []
        for left_out, piece in lines(in_pieces(data, 1)):
            number += left_out
            for line in piece.splitlines(keepends=True):
                kept.append((number, line))
                number += 1
    wanted = [(at, line) for at, line in enumerate(data.splitlines(keepends=True)) if len(line.rstrip(b"\n")) <= 5]
    assert kept == wanted


def test_lines_that_are_left_out() -> None:
    long = b"x" * (8 << 20)
    size = 1 << 20
    assert [(at, len(piece)) for at, piece in lines(in_pieces(long + b"\na\n", size))] == [(0, (8 << 20) + 3)]
    assert list(lines(in_pieces(long + b"x\na\n", size))) == [
        (0, long + b"x\na\n")
    ]  # it ends in the piece that decides
    longer = long + b"x" * size
    assert list(lines(in_pieces(longer + b"\na\nb", size))) == [(1, b"a\n"), (0, b"b")]
    assert list(lines(in_pieces(longer + b"\n" + longer + b"\n", size))) == []
    assert list(lines(in_pieces(b"a\n" + longer + b"\nb\n", size)))[-1] == (1, b"b\n")
    assert list(lines(in_pieces(longer, size))) == []


# --- compression ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [15, 31])
def test_as_much_as_may_come_out(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 4
    packed = zlib.compress(data) if bits == 15 else gzip.compress(data)
    for size in (1, 7, 1 << 19):
        monkeypatch.setattr(content, "PIECE_BYTES", size)
        read = inflated(in_pieces(packed, 5), "name", bits, len(data))
        assert b"".join(bytes(piece) for piece in read()) == data == b"".join(bytes(piece) for piece in read())
        assert all(0 < len(piece) <= size for piece in read())
        with pytest.raises(InvalidInputError, match="name: it decompresses to far more than its size"):
            list(inflated(in_pieces(packed, 5), "name", bits, len(data) - 1)())
        assert b"".join(bytes(piece) for piece in inflated(in_pieces(packed[:-9], 4), "n", bits, 2000)()) != b""


@pytest.mark.parametrize("size", [1, 4, 1 << 19])
def test_what_follows_compressed_content(size: int) -> None:
    def unpacked(packed: bytes, bits: int) -> bytes:
        return b"".join(bytes(piece) for piece in inflated(in_pieces(packed, size), "name", bits, 100)())

    assert unpacked(gzip.compress(b"one") + gzip.compress(b"two"), 31) == b"onetwo"
    assert unpacked(gzip.compress(b"one") + bytes(9), 31) == b"one"
    assert unpacked(zlib.compress(b"one") + zlib.compress(b"two"), 15) == b"one"
    assert unpacked(zlib.compress(b"one") + b"\x1f\x8b", 15) == b"one"
    assert unpacked(gzip.compress(b"") + gzip.compress(b"two"), 31) == b"two"


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (b"TRACE:", True),
        (b"\r\n\nTRACE:\r\n\n", True),
        (b"first\nTRACE:\n", True),
        (b"first\nsecond\nTRACE:\n", False),
        (b"a|b TRACE:\n", False),
    ],
)
def test_text_of_a_shell_before_the_trace(start: bytes, found: bool) -> None:
    packed = start + zlib.compress(LINE * 20)
    if found:
        trace = open_trace(packed)
        assert (trace.encoding, len(list(events(trace)))) == ("ftrace text in zlib", 20)
        return
    with pytest.raises(InvalidInputError):
        list(events(open_trace(packed)))


@pytest.mark.parametrize(
    ("data", "encoding", "place"),
    [
        (LINE, "ftrace text", "line"),
        (gzip.compress(LINE, mtime=0), "ftrace text in gzip", "line"),
        (b"<idle>-0 [000] 1.0: x\n", "ftrace text", "line"),
        (b"<...>-7 [000] 1.0: x\n", "ftrace text", "line"),
        (b"\xef\xbb\xbf \t\r\n<html>", "systrace HTML", "line"),
        (b"\n[]", "Chrome JSON", "line"),
        (b"\xef\xbb\xbf{}", "Chrome JSON", "line"),
        (b"\n<\x01", "Perfetto", "byte"),
        (b"\n\x1f", "Perfetto", "byte"),
        (b"\n", "ftrace text", "line"),
        (b"\n\t\r\n x", "ftrace text", "line"),
        (b"x" * 4096 + b"\0", "ftrace text", "line"),
    ],
)
def test_encodings_by_their_first_bytes(data: bytes, encoding: str, place: str) -> None:
    trace = open_trace(data)
    assert (trace.encoding, trace.place_kind, trace.name) == (encoding, place, "<bytes>")
    assert trace.most_unpacked == most_unpacked(len(data))


def test_beginnings_unlike_any_trace() -> None:
    empty = gzip.compress(b"", mtime=0)
    for data, message in ((b"x" * 4095 + b"\0", "not a known trace format"), (empty, "is empty")):
        with pytest.raises(InvalidInputError, match=message):
            open_trace(data)


# --- packets --------------------------------------------------------------------------------------------------------


def trace_of(most: int = 1 << 20) -> Trace:
    return Trace("name", "Perfetto", "byte", lambda _: iter(()), most)


PACKETS = field_bytes(1, field_number(10, 300)) + field_bytes(1, b"") + field_bytes(1, field_bytes(2, b"y" * 200))
FOUND = [(0, 10, 300), (7, 2, -1)]  # bytes are not a number


@pytest.mark.parametrize("size", [1, 2, 19, 20, 21, 1000])
def test_packets_in_pieces(size: int) -> None:
    trace = trace_of()
    found = list(packet_fields(trace, in_pieces(PACKETS, size)))
    assert [(one.where, one.number, one.value) for one in found] == FOUND
    assert [one.data[one.start : one.end] for one in found] == [number_bytes(300), b"y" * 200]
    assert trace.faults == []
    packed = field_bytes(1, field_bytes(50, zlib.compress(PACKETS)))
    found = list(packet_fields(trace, in_pieces(PACKETS[:7] + packed + PACKETS, size)))
    assert [(one.where, one.number) for one in found] == [
        (0, 10), (7, 10), (7, 2), (len(packed) + 7, 10), (len(packed) + 14, 2)
    ]  # fmt: skip


def test_no_more_of_a_trace_is_read_than_a_header_may_need() -> None:
    """The tag and the length of the next packet may have ten bytes each."""
    taken, ends = 0, []

    def pieces() -> Iterator[bytes]:
        nonlocal taken
        for at in range(len(data)):
            taken += 1
            yield data[at : at + 1]

    packets = [field_bytes(1, field_bytes(2, b"y" * length)) for length in (0, 1, 30, 2, 200, 0, 40, 90)]
    data = b"".join(packets)
    for found, packet in zip(packet_fields(trace_of(), pieces), packets, strict=True):
        end = found.where + len(packet)
        assert taken == max(end, min(found.where + 20, len(data)))
        ends.append(end)
    assert ends[-1] == len(data)


@pytest.mark.parametrize("size", [1, 1000])
def test_packets_that_are_cut_or_broken(size: int) -> None:
    cut = "the trace ends within a packet"
    for stop, count, where in ((1, 0, 0), (4, 0, 0), (6, 1, 5), (8, 1, 7), (9, 1, 7), (12, 1, 7), (100, 1, 7)):
        trace = trace_of()
        found = list(packet_fields(trace, in_pieces(PACKETS[:stop], size)))
        assert [(one.where, one.number, one.value) for one in found] == FOUND[:count]
        assert [fault for fault in trace.faults if fault.text == cut] == [Fault("T004", where, cut)]
    with pytest.raises(InvalidInputError) as caught:
        list(packet_fields(trace_of(), in_pieces(PACKETS[:7] + b"\x12\x01x", size)))
    assert (caught.value.location, caught.value.hint) == ("name: byte 7", "copy it again")
    trace = trace_of()
    broken = field_bytes(1, field_number(10, 1) + b"\x0b")
    assert [one.number for one in packet_fields(trace, in_pieces(broken + PACKETS, size))] == [10, 10, 2]
    assert trace.faults == [Fault("T004", 0, "a corrupt or truncated packet")]


def test_how_much_packets_may_unpack_to() -> None:
    bodies = [field_bytes(2, b"y" * length) for length in (50, 60)]
    packed = [field_bytes(1, field_bytes(50, zlib.compress(field_bytes(1, body)))) for body in bodies]
    together = sum(len(body) + 2 + 16 + 16 for body in bodies)  # 16 for each packet, outside and inside
    data = b"".join(packed)
    assert len(list(packet_fields(trace_of(together), in_pieces(data, 1000)))) == 2
    with pytest.raises(InvalidInputError, match=f"name: byte {len(packed[0])}: it decompresses to far more than"):
        list(packet_fields(trace_of(together - 1), in_pieces(data, 1000)))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what is in memory")
def test_pages_of_a_file_are_released_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    marks = "".join(
        f"  app-7 (7) [000] .... 1.00000{at}: tracing_mark_write: {('B|7|x', 'E')[at]}\n" for at in (0, 1)
    )
    path.write_bytes(b"# tracer: nop\n" + marks.encode() * 100_000)

    def shared_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGESIZE")

    before, most = shared_bytes(), 0
    trace = open_trace(path)
    count = 0
    for batch in trace.batches():
        count += len(batch)
        most = max(most, shared_bytes() - before)
    assert count == 200_000
    assert path.stat().st_size > 10 << 20
    assert most < 8 << 20
    assert sum(len(batch) for batch in trace.batches()) == count
