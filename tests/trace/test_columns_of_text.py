"""Lines in the kernel's columns, read many at a time, beside the expression that reads one; and digits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.trace.sources import open_trace, text
from circletools.trace.sources.batch import LATEST_NS, Fault
from circletools.trace.sources.names import blocks, stamps
from tests.kit.trace_support import Ev, lines

LONG = 2_000_000


@given(
    st.one_of(
        st.from_regex(rb"[a-z ]{7,9} [0-9]{1,9}\.[0-9]{5,7}", fullmatch=True),
        st.text("0123456789. a", min_size=15, max_size=24).map(str.encode),
    ).filter(lambda text: len(text) >= 15)
)
def test_stamps(text: bytes) -> None:
    times, good = stamps(blocks(text + b":" + bytes(8), np.zeros(1, np.int64), len(text) + 9), len(text))
    stamp = re.search(rb" (\d{1,7})\.(\d{6})$", text)
    assert good.tolist() == [stamp is not None]
    if stamp is not None:
        assert times.tolist() == [int(stamp[1]) * 1_000_000_000 + int(stamp[2]) * 1000]


def canonical(event: Ev, flags: str = "...1", task: str = "task") -> bytes:
    (line,) = lines([event], flags, task)
    return line


FAST = (
    canonical(Ev(5_000_001, 99999, "[NN_LR_PP]p")),
    canonical(Ev(1_234_567_890_123, 7, "x")),
    canonical(Ev(9_999_999_999_999, 65432, None)),
    canonical(Ev(5_000_001, 99999, "x"), ".....", "a (b) [c] d-5 e"),
    b"            task-1001  (-----) [003] ...1  5034.700001: tracing_mark_write: B|7|x\n",
    b"            task-1001  [003] ...1  5034.700001: tracing_mark_write: B|7|x\n",
    b"            task-9999999 (1234567) [003] ...1 15034.700001: tracing_mark_write: B|7|x\n",
    b"            task-1234567 [003] ...1 15034.700001: tracing_mark_write: E|7\n",
    b"            task-1       [003] ...1 15034.700001: tracing_mark_write: E\n",
    b"            task-12345 [003] ...1 15034.700001: tracing_mark_write: E|7\n",
    b"            task-12345 [003] ...1 15034.700001: tracing_mark_write: E\n",
    b"            task-1     [003] d..1 15034.700001: tracing_mark_write: E\r\n",
    b"            task-1     [003] d..1 9999999.999999: tracing_mark_write: E\r\n",
)


Told = tuple[list[list[tuple[int, ...]]], list[list[bytes]], list[Fault], dict[int, int], dict[int, str]]


def everything(data: bytes) -> Told:
    trace = open_trace(b"# tracer: nop\n" + data)
    found = list(trace.batches())
    columns = [
        list(zip(*(column.tolist() for column in (one.times, one.threads, one.texts, one.places)), strict=True))
        for one in found
    ]
    return columns, [one.names for one in found], trace.faults, trace.processes, trace.thread_names


def by_the_expression(data: bytes) -> Told:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text._Reader, "_in_columns", lambda _, lines, *__: np.zeros(len(lines.index), np.bool_))
        return everything(data)


@pytest.mark.parametrize("line", FAST)
def test_every_change_of_a_character(line: bytes) -> None:
    """Where the columns are looked at: the dash, and all from the point of the time on."""
    point = line.rindex(b".", 0, line.index(b"tracing"))
    data = b"".join(
        line[:at] + bytes([byte]) + line[at + 1 :]
        for at in (16, *range(point, len(line) - 1))
        for byte in b" -(|:.09AE\xff"
    )
    for found in (line, line * 3, data):
        assert everything(found) == by_the_expression(found)


HEAD = "   task-9 (    7) [000] ...1 5.000001: "
MARK = "tracing_mark_write: "


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (HEAD + MARK + "B|7|a", [b"a"]),
        (HEAD + MARK + "E", [None]),
        (HEAD + MARK + "E ", []),
        (HEAD + MARK + "E|", [None]),
        (HEAD + MARK + " B|7|a E|7", [b"a E|7"]),
        (HEAD + MARK + "B|7|a E|7| B|8|", [b"a E|7| B|8|"]),
        (HEAD + MARK + "xB|7|a", []),
        (HEAD + MARK + "F|7|a", []),
        ("E", []),
        (": E", []),
        ("|", []),
        ("B|", []),
        (" B|", []),
        (HEAD + "0: B|7|a", [b"a"]),
        (HEAD + "1: B|7|a", []),
    ],
)
def test_which_lines_are_events(line: str, found: list[bytes | None]) -> None:
    before = f"{HEAD}sched: x\n" * 7
    for end in ("\n", "", "\r\n"):
        batches, names, *_ = everything((before + line + end).encode())
        assert [row[3] for rows in batches for row in rows] == [9] * len(found)
        texts = [names[0][row[2]] if row[2] >= 0 else None for rows in batches for row in rows]
        assert texts == found
    first = everything((line + "\n" + before).encode())[0]
    assert [row for rows in first for row in rows] == [
        (5_000_001_000, 9, -1 if name is None else 0, 2) for name in found
    ]


def test_times_and_threads_of_the_expression() -> None:
    def times(seconds: str, tid: int = 9) -> list[tuple[int, ...]]:
        data = f" task-{tid} [000] {seconds}: tracing_mark_write: B|7|a\n".encode()
        return [row[:2] for batch in everything(data)[0] for row in batch]

    assert times("5.1") == [(5_100_000_000, 9)]
    assert times("5.123456789") == [(5_123_456_789, 9)]
    assert times("0.000000001") == [(1, 9)]
    assert times("5.1234567890") == []
    last, rest = divmod(LATEST_NS - 1, 10**9)
    assert times(f"{last}.{rest:09}") == [(LATEST_NS - 1, 9)]
    assert times(f"{last}.{rest + 1:09}") == []
    assert times("5.1", 2**32 - 1) == [(5_100_000_000, 2**32 - 1)]
    assert times("5.1", 2**32) == []


def test_a_head_that_is_no_trace() -> None:
    for data in (b"# tracer: nop\n", b"a-7 x [000] y\n", b" a-7 (7) [000]\n#"):
        assert not list(open_trace(data).batches())
    late = b"x\n" * 2047 + b"\n# tracer: nop\n"
    assert late.index(b"#") == 4095
    for data in (b"a-x [000]", b"a-7 000", b"-7 [000] x", late[:-1] + b"\n", b"x # tracer:"):
        with pytest.raises(Exception, match="the text contains no ftrace lines"):
            list(open_trace(data).batches())
    assert list(open_trace(late.replace(b"x\n" * 7, b"", 1)).batches()) == []


def test_losses_are_read_from_the_first_lines_of_the_header() -> None:
    note = b"# entries-in-buffer/entries-written: 10/20"
    line = HEAD.encode() + MARK.encode() + b"B|7|a\n"
    for lost, where in ((note, 2), (b"#" * 4000 + b"\n" + note, 3), (b"#" * 4060 + b"\n" + note, None)):
        found = everything(lost + b"\n" + line)[2]
        assert [(one.where, one.text) for one in found] == ([(where, note.decode())] if where else [])


@pytest.mark.parametrize(
    "part", [b" ", b"-", b"-1 ", b" -", b"-1 (- ", b"-1 (", b"-1 [1", b"-1 [1] ", b"-1 [1] x ", b"-1 [1] 1."]
)
@pytest.mark.parametrize("end", [b"x", b" " * LONG, b"-" * LONG, b"1" * LONG])
def test_a_line_of_anything_is_read_once(part: bytes, end: bytes) -> None:
    # So long that the square of it would not end.
    line = part * (LONG // len(part)) + end + b" 0: B|7|a\n"
    assert len(everything(HEAD.encode() + line)[0]) <= 1
