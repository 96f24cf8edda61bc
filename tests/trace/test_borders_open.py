"""What a trace is by its first bytes, where its pieces end, and how its numbers are read many at a time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from mmap import mmap

import numpy as np
import pytest

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.trace.sources import Event, content, events, open_trace
from circletools.trace.sources.batch import LATEST_NS, NO_PROCESS, NO_THREAD, Fault, FaultKind, Switches, Trace
from circletools.trace.sources.content import head, inflated, lines, pieces_of
from circletools.trace.sources.digits import beginning, number, spread, up_to_last, words_at
from circletools.trace.sources.merge import merged
from circletools.trace.sources.names import distinct, read_names, sums

LINE = b"  task-9 (    7) [000] ...1 5.000001: tracing_mark_write: B|7|a\n"


def said_of(data: bytes) -> str:
    """Return the encoding of a trace, or what is wrong with it."""
    try:
        return open_trace(data).encoding
    except CircleToolsError as error:
        return str(error).partition(": ")[2]


def test_the_encoding_is_told_by_the_first_bytes() -> None:
    for data, wanted in (
        (b"x", "ftrace text"),
        (b"\n\x05", "Perfetto"),
        (b"\n\x1f", "Perfetto"),
        (b"\n ", "ftrace text"),
        (b"\n\n\x05", "Perfetto"),
        (b"\n\t\n\r", "ftrace text"),
        (b"x\x05", "ftrace text"),
        (b"<", "systrace HTML"),
        (b" <idle>-0", "ftrace text"),
        (b"[", "Chrome JSON"),
        (b"\n{", "Chrome JSON"),
        (b"x{", "ftrace text"),
        (b"x\0", "not a known trace format"),
        (b"", "the trace is empty"),
        (gzip.compress(b"x"), "ftrace text in gzip"),
        (gzip.compress(gzip.compress(b"x")), "compressed with gzip twice"),
        (gzip.compress(b"\x1fx"), "ftrace text in gzip"),
        (b"\x28\xb5\x2f\xfdx", "zstd compression is not supported"),
        (b"PK\x03\x04", "a ZIP archive, not a trace"),
        (b"PK\x03", "ftrace text"),
    ):
        assert wanted in said_of(data), data


def test_the_place_of_an_event_by_encoding() -> None:
    kinds = (b"x", "line"), (b"\n\x05", "byte"), (b"[", "event"), (b"<", "line")
    assert [open_trace(data).place_kind for data, _ in kinds] == [kind for _, kind in kinds]


def test_zlib_begins_behind_the_word_that_a_shell_wrote() -> None:
    packed = zlib.compress(LINE)
    for start, found in (
        (b"TRACE:", True), (b"TRACE:\r\n\n", True), (b"\n\nTRACE:\n", True), (b"said\r\nTRACE:\n", True),
        (b"said\nsaid\nTRACE:\n", False), (b"a|TRACE:\n", False), (b"hello", False), (b"", False),
        (b"TRACE: ", False), (b"TRACE:\nx", False),
    ):  # fmt: skip
        assert (said_of(start + packed) == "ftrace text in zlib") is found, start
    assert said_of(b"TRACE:") == said_of(b"TRACE:\n") == "ftrace text"
    assert [event.text for event in events(open_trace(b"TRACE:\n" + packed))] == [b"a"]


# --- pieces ---------------------------------------------------------------------------------------------------


class Mapping(mmap):
    """A file in memory that notes what it is told to let go."""

    told: list[tuple[int, int]]

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        """Note the place and the length."""
        assert option == 4  # MADV_DONTNEED
        self.told.append((start, length))
        super().madvise(option, start, length)


def test_a_mapping_is_let_go_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIECE_BYTES", 6000)
    mapped = Mapping(-1, 10_000)
    mapped.told = []
    assert [len(piece) for piece in pieces_of(memoryview(mapped))()] == [6000, 4000]
    assert mapped.told == [(0, 6000), (4096, 5904)]
    mapped.told = []
    assert [len(piece) for piece in pieces_of(memoryview(mapped)[5:])()] == [6000, 3995]
    assert mapped.told == []


def given(*pieces: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter(pieces)


def test_the_first_bytes_come_from_as_many_pieces_as_they_need() -> None:
    assert [head(given(b"ab", b"cd"), count) for count in range(6)] == [b"", b"a", b"ab", b"abc", b"abcd", b"abcd"]

    def endless() -> Iterator[bytes]:
        yield b"abc"
        raise AssertionError("nobody asked for more")

    assert head(endless, 3) == b"abc"


def test_a_line_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_LONGEST_LINE", 3)
    assert list(lines(given(b"ab", b"c", b"d\n"))) == [(0, b"abcd\n")]  # three bytes are none too many
    assert list(lines(given(b"ab", b"cd", b"e\nf\ng"))) == [(1, b"f\n"), (0, b"g")]
    assert list(lines(given(b"abcd", b"\n", b"efgh", b"\n", b"i\n"))) == [(2, b"i\n")]
    assert list(lines(given(b"a\n", b"bcde", b"f"))) == [(0, b"a\n")]
    assert list(lines(given(b"a\nb", b"\n"))) == [(0, b"a\n"), (0, b"b\n")]


def test_what_compressed_content_may_have_behind_it() -> None:
    def unpacked(packed: bytes, bits: int, most: int = 6) -> bytes:
        return b"".join(bytes(piece) for piece in inflated(given(packed), "name", bits, most)())

    assert unpacked(gzip.compress(b"one") + gzip.compress(b"two"), 31) == b"onetwo"
    assert unpacked(gzip.compress(b"one") + b"\x1e\x8b", 31) == b"one"
    assert unpacked(zlib.compress(b"one") + b"\x1f\x8b", 15) == b"one"
    assert unpacked(zlib.compress(b"one")[:-1], 15) == b"one"
    with pytest.raises(InvalidInputError, match="corrupt compressed data"):
        unpacked(gzip.compress(b"one") + b"\x1f\x8c" + bytes(20), 31)
    with pytest.raises(InvalidInputError, match="more than 100 times"):
        unpacked(gzip.compress(b"one") + gzip.compress(b"two"), 31, 5)


# --- columns --------------------------------------------------------------------------------------------------


def test_digits_at_either_end_of_a_word() -> None:
    def numbers(text: bytes) -> tuple[int, int, int]:
        """Return the number at the end, that at the beginning, and how many characters the latter leaves out."""
        values, others = spread(words_at(text))
        first, dropped = beginning(values, others)
        return int(number(values & ~up_to_last(others))[0]), int(number(first)[0]), int(dropped[0])

    for text, wanted in (
        (b"12345678", (12345678, 12345678, 0)), (b"1234567x", (0, 1234567, 1)), (b"x2345678", (2345678, 0, 8)),
        (b"12x45678", (45678, 12, 6)), (b"123x5x78", (78, 123, 5)), (b"1/345:78", (78, 1, 7)),
        (b"99999999", (99999999, 99999999, 0)), (b"123456\xb07", (7, 123456, 2)), (b"        ", (0, 0, 8)),
    ):  # fmt: skip
        assert numbers(text) == wanted, text
    assert [len(words_at(bytes(size))) for size in (0, 6, 7, 8, 9)] == [0, 0, 0, 1, 2]


def test_sums_of_small_and_of_large_numbers() -> None:
    for largest in (1, (1 << 20) - 1, 1 << 20, 1 << 40):
        for value in (1, (1 << 52) - 5, (1 << 53) + 1, 1 << 60):
            keys, values = np.array([largest, 0, largest], np.int64), np.array([3, 1, value], np.int64)
            assert sums(keys, values) == [(0, 1), (largest, value + 3)]
        assert distinct(np.array([largest, 0, largest])) == [0, largest]
    none = np.zeros(0, np.int64)
    assert (sums(none, none), distinct(none)) == ([], [])


def test_the_process_and_the_text_of_a_begin() -> None:
    texts = [b"0|a", b"7|a", b"1234567890|b", b"12345678901|b", b"|c", b"7x|c", b"7", b"7|", b"7|a|b\r\n"]
    ends = np.cumsum([len(text) for text in texts])
    codes, names, pids = read_names(b"".join(texts), np.ones(len(texts), np.bool_), np.append(0, ends[:-1]), ends)
    assert [names[code] for code in codes] == [b"a", b"a", b"b", b"b", b"c", b"c", b"", b"", b"a|b"]
    assert pids.tolist() == [0, 7, 1234567890, -1, -1, -1, -1, 7, 7]


# --- traces ---------------------------------------------------------------------------------------------------


def test_a_trace_keeps_a_thousand_faults_of_each_kind() -> None:
    trace = Trace("name", "", "line", lambda _: iter(()), 0)
    for kind in FaultKind:
        for where in range(1001):
            trace.fault(kind, where, b"x" * 201)
    assert [fault.where for fault in trace.faults] == [*range(1000)] * 2
    assert (trace.faults[0], trace.fault_counts) == (
        Fault(FaultKind.LOST, 0, "x" * 200), dict.fromkeys(FaultKind, 1001)
    )  # fmt: skip
    assert [trace.place(where) for where in (-1, 0)] == ["name", "name:0"]


def test_switches_from_the_first_moment_on() -> None:
    switches = Switches()

    def add(*rows: tuple[int, int, int, bool]) -> None:
        columns = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        switches.add(*columns)

    assert (bool(switches), switches.first_ns, switches.last_ns) == (False, LATEST_NS, -1)
    add((3, NO_THREAD, 7, True))
    assert not switches
    add((0, 0, 7, False))
    assert switches
    assert (switches.first_ns, switches.last_ns) == (0, 0)
    add((9, 7, 0, True), (5, 1, 2, True), (11, NO_THREAD, 7, True))
    assert (switches.first_ns, switches.last_ns) == (0, 9)
    assert switches.rows() == [
        (3, -1, 7, True),
        (0, 0, 7, False),
        (9, 7, 0, True),
        (5, 1, 2, True),
        (11, -1, 7, True),
    ]


def test_an_event_at_0_of_no_known_process() -> None:
    data = b"  task-0 (-----) [000] ...1 0.000000: tracing_mark_write: E\n"
    assert list(events(open_trace(data))) == [Event(0, 0, NO_PROCESS, "E", b"", 1)]
    assert next(iter(merged(open_trace(data).batches()))).texts.tolist() == [-1]
