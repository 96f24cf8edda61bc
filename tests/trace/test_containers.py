"""What traces come in: pages, compression, packets, pieces; and what a file may unpack to."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.errors import InvalidInputError
from circletools.trace.sources import content, events, open_trace
from circletools.trace.sources.batch import Batch, Fault, FaultKind, Trace
from circletools.trace.sources.content import head, inflated, lines, most_unpacked, pieces_of
from circletools.trace.sources.html import _sections
from circletools.trace.sources.open import _after
from circletools.trace.sources.packets import packet_fields
from circletools.trace.sources.perfetto import _blocks, _find_prints, _heads
from circletools.trace.sources.wire import field_bytes, field_number, number_bytes

LINE = b"  task-9 (    7) [000] ...1 5.000001: tracing_mark_write: B|7|a\n"


def in_pieces(data: bytes, size: int) -> content.Pieces:
    return lambda: iter([data[at : at + size] for at in range(0, len(data), size)])


# --- pieces and lines -----------------------------------------------------------------------------------------------


def test_pieces_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIECE_BYTES", 3)
    read = pieces_of(memoryview(b"abcdefg"))
    assert [bytes(piece) for piece in read()] == [b"abc", b"def", b"g"] == [bytes(piece) for piece in read()]
    for count in range(9):
        assert head(read, count) == b"abcdefg"[:count]
        assert b"".join(bytes(piece) for piece in _after(read, count)()) == b"abcdefg"[count:]
    taken = []

    def watched() -> Iterator[bytes]:
        for piece in (b"abc", b"def", b"g"):
            taken.append(piece)
            yield piece

    for count, pieces in ((3, 1), (4, 2), (6, 2), (7, 3)):
        taken.clear()
        assert head(watched, count) == b"abcdefg"[:count]
        assert len(taken) == pieces


@settings(max_examples=60)
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
    ]  # it ends in the piece that tells
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
        with pytest.raises(InvalidInputError, match="name: it decompresses to more than 100 times its size"):
            list(inflated(in_pieces(packed, 5), "name", bits, len(data) - 1)())
        assert b"".join(bytes(piece) for piece in inflated(in_pieces(packed[:-9], 4), "n", bits, 2000)()) != b""


@pytest.mark.parametrize("size", [1, 4, 1 << 19])
def test_what_stands_behind_compressed_content(size: int) -> None:
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
def test_what_a_shell_says_first(start: bytes, found: bool) -> None:
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
        (b"\n[]", "Chrome JSON", "event"),
        (b"\xef\xbb\xbf{}", "Chrome JSON", "event"),
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


def test_what_begins_like_no_trace() -> None:
    empty = gzip.compress(b"", mtime=0)
    for data, message in ((b"x" * 4095 + b"\0", "not a known trace format"), (empty, "is empty")):
        with pytest.raises(InvalidInputError, match=message):
            open_trace(data)


# --- pages ----------------------------------------------------------------------------------------------------------

PARTS = (
    b'<script class="trace-data">\n', b"<script class='trace-data' x>", b"var linuxPerfData\n", b"</script>", b"\n",
    b"a\n", b"bb", b"<script>\n",
)  # fmt: skip


def page_lines(page: bytes) -> list[tuple[int, bytes]]:
    """Return the number and the text of each piece of a line that a script with a trace holds."""
    found, at = [], 0
    opening = re.compile(rb"""<script class=(?:"trace-data"|'trace-data')|var linuxPerfData""")
    while (opened := opening.search(page, at)) is not None:
        start = page.find(b"\n", opened.start()) + 1 or len(page)
        close = page.find(b"</script>", start)
        stop = len(page) if close < 0 else close
        number = page.count(b"\n", 0, start)
        found += [(number + more, line) for more, line in enumerate(page[start:stop].splitlines(keepends=True))]
        at = len(page) if close < 0 else close + len(b"</script>")
    return found


@settings(max_examples=80)
@given(st.lists(st.sampled_from(PARTS), max_size=14), st.integers(1, 200))
def test_lines_of_scripts(parts: list[bytes], size: int) -> None:
    page = b"".join(parts)
    number, found = 0, []
    for left_out, data in _sections(lines(in_pieces(page, size))):
        assert data
        number += left_out
        for line in data.splitlines(keepends=True):
            found.append((number, line))
            number += 1
    assert found == page_lines(page)


# --- packets --------------------------------------------------------------------------------------------------------


def trace_of(most: int = 1 << 20) -> Trace:
    return Trace("name", "Perfetto", "byte", lambda _: iter(()), most)


PACKETS = field_bytes(1, field_number(8, 300)) + field_bytes(1, b"") + field_bytes(1, field_bytes(9, b"y" * 200))
FOUND = [(0, 8, 300), (7, 9, -1)]  # bytes are no number


@pytest.mark.parametrize("size", [1, 2, 19, 20, 21, 1000])
def test_packets_in_pieces(size: int) -> None:
    trace = trace_of()
    found = list(packet_fields(trace, in_pieces(PACKETS, size)))
    assert [(one.packet.where, one.number, one.value) for one in found] == FOUND
    assert [one.packet.data[one.start : one.end] for one in found] == [number_bytes(300), b"y" * 200]
    assert trace.faults == []
    packed = field_bytes(1, field_bytes(50, zlib.compress(PACKETS)))
    found = list(packet_fields(trace, in_pieces(PACKETS[:7] + packed + PACKETS, size)))
    assert [(one.packet.where, one.number) for one in found] == [
        (0, 8), (7, 8), (7, 9), (len(packed) + 7, 8), (len(packed) + 14, 9)
    ]  # fmt: skip


def test_no_more_of_a_trace_is_read_than_a_header_may_need() -> None:
    """The tag and the length of the next packet may have ten bytes each."""
    taken, ends = 0, []

    def pieces() -> Iterator[bytes]:
        nonlocal taken
        for at in range(len(data)):
            taken += 1
            yield data[at : at + 1]

    packets = [field_bytes(1, field_bytes(9, b"y" * length)) for length in (0, 1, 30, 2, 200, 0, 40, 90)]
    data = b"".join(packets)
    for found, packet in zip(packet_fields(trace_of(), pieces), packets, strict=True):
        end = found.packet.where + len(packet)
        assert taken == max(end, min(found.packet.where + 20, len(data)))
        ends.append(end)
    assert ends[-1] == len(data)


@pytest.mark.parametrize("size", [1, 1000])
def test_packets_that_are_cut_or_broken(size: int) -> None:
    cut = "the trace ends within a packet"
    for stop, count, where in ((1, 0, 0), (4, 0, 0), (6, 1, 5), (8, 1, 7), (9, 1, 7), (12, 1, 7), (100, 1, 7)):
        trace = trace_of()
        found = list(packet_fields(trace, in_pieces(PACKETS[:stop], size)))
        assert [(one.packet.where, one.number, one.value) for one in found] == FOUND[:count]
        assert [fault for fault in trace.faults if fault.text == cut] == [Fault(FaultKind.MALFORMED, where, cut)]
    with pytest.raises(InvalidInputError) as caught:
        list(packet_fields(trace_of(), in_pieces(PACKETS[:7] + b"\x12\x01x", size)))
    assert (caught.value.location, caught.value.hint) == ("name: byte 7", "copy it again")
    trace = trace_of()
    broken = field_bytes(1, field_number(8, 1) + b"\x0b")
    assert [one.number for one in packet_fields(trace, in_pieces(broken + PACKETS, size))] == [8, 8, 9]
    assert trace.faults == [Fault(FaultKind.MALFORMED, 0, "a packet that is broken or cut")]


def test_how_much_packets_may_unpack_to() -> None:
    bodies = [field_bytes(9, b"y" * length) for length in (50, 60)]
    packed = [field_bytes(1, field_bytes(50, zlib.compress(field_bytes(1, body)))) for body in bodies]
    together = sum(len(body) + 2 for body in bodies)
    data = b"".join(packed)
    assert len(list(packet_fields(trace_of(together), in_pieces(data, 1000)))) == 2
    with pytest.raises(InvalidInputError, match=f"name: byte {len(packed[0])}: it decompresses to more than"):
        list(packet_fields(trace_of(together - 1), in_pieces(data, 1000)))


def test_usual_events_are_read_many_at_a_time() -> None:
    def event(*parts: bytes) -> bytes:
        return b"".join(parts)

    text = field_bytes(3, field_number(1, 2**40) + field_bytes(2, b"B|7|x"))
    time, thread = field_number(1, 2**61), field_number(2, 2**32 - 1)
    others = [field_number(number, 300) for number in range(4, 9)]
    rows = [
        (event(time, thread, text), False),
        (event(time, *others, thread, text), False),
        (event(time, thread, *others, text), False),
        (event(time, thread, field_bytes(3, field_bytes(2, b"E"))), False),
        (event(time, thread, field_bytes(9, b"other")), False),
        (event(time, thread), True),
        (event(time, thread, field_bytes(3, field_bytes(2, b""))), False),
        (event(time, thread, *others, field_number(9, 1), text), True),
        (event(thread, time, text), True),
        (event(time, text), True),
        (event(time, field_number(2, 2**32), text), True),
        (event(time, thread, field_bytes(3, field_bytes(4, b"") + field_bytes(2, b"E"))), True),
        (event(time, thread, field_bytes(3, b"")), True),
        (b"", True),
    ]
    lengths = np.array([len(row) for row, _ in rows])
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(row for row, _ in rows) + bytes(32), np.uint8)
    ends = starts + lengths
    found = _find_prints(data, starts, ends, _heads(data, starts, ends))
    assert found.odd.tolist() == [odd for _, odd in rows]
    shown = [bytes(data[start:stop]) for start, stop in zip(found.start, found.stop, strict=True)]
    assert shown == [b"B|7|x"] * 3 + [b"E"] + [b""] * 10
    assert found.times[:4].tolist() == [2**61] * 4
    assert found.threads[:4].tolist() == [2**32 - 1] * 4


def test_bundles_are_read_in_blocks() -> None:
    mark = field_number(1, 10) + field_number(2, 9) + field_bytes(3, field_bytes(2, b"B|70|start"))
    bundle = field_bytes(2, mark)

    def blocks(size: int) -> list[int]:
        filler = size - len(bundle) - 4
        full = bundle + field_bytes(9, bytes(filler))
        assert len(full) == size
        data = b"".join(field_bytes(1, field_bytes(1, one)) for one in (bundle, full, bundle))
        told: dict[int, int] = {}
        trace = trace_of()
        found: list[Batch] = list(_blocks(trace, in_pieces(data, 1 << 20), told))
        assert (told, trace.processes, trace.faults) == ({9: 70}, {9: 70}, [])
        return [len(batch) for batch in found]

    assert blocks((2 << 20) - len(bundle) - 1) == [3]
    assert blocks((2 << 20) - len(bundle)) == [2, 1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what is in memory")
def test_what_was_read_of_a_file_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    marks = "".join(
        f"  app-7 (7) [000] .... 1.00000{at}: tracing_mark_write: {('B|7|x', 'E')[at]}\n" for at in (0, 1)
    )
    path.write_bytes(b"# tracer: nop\n" + marks.encode() * 200_000)

    def shared_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGESIZE")

    before, most = shared_bytes(), 0
    trace = open_trace(path)
    count = 0
    for batch in trace.batches():
        count += len(batch)
        most = max(most, shared_bytes() - before)
    assert count == 400_000
    assert path.stat().st_size > 20 << 20
    assert most < 12 << 20
    assert sum(len(batch) for batch in trace.batches()) == count
