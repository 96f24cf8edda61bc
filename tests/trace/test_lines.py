"""Encodings of traces, line by line: what is taken, what is left out, and where faults are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import InvalidInputError
from circletools.render.trace_slices import export_trace
from circletools.trace.sources import events, open_trace
from circletools.trace.sources.batch import LATEST_NS, Batch, Fault, merged
from circletools.trace.sources.names import distinct, read_names, sums
from circletools.trace.sources.text import HEAD

LINE = " task-{tid} ({tgid:>5}) [000] ...1 {seconds}: tracing_mark_write: {mark}\n"


def line(mark: str, seconds: str = "1.000001", tid: int = 8, tgid: str = "7") -> str:
    return LINE.format(mark=mark, seconds=seconds, tid=tid, tgid=tgid)


def read(data: bytes) -> list[tuple[int, int, int, str, bytes, int]]:
    return [tuple(event) for event in events(open_trace(data))]  # type: ignore[misc]


# --- pages and text -----------------------------------------------------------------------------------------


def faults(data: str) -> list[Fault]:
    trace = open_trace(data.encode())
    list(events(trace))
    return trace.faults


def test_losses_are_reported_with_their_line() -> None:
    lost = "CPU:2 [LOST 7 EVENTS]\n"
    data = line("B|7|a") + lost + line("E|7", "2.0") + line("B|7|b", "3.0") + lost
    assert faults(data) == [
        Fault("T003", 2, "CPU:2 [LOST 7 EVENTS]"),
        Fault("T003", 5, "CPU:2 [LOST 7 EVENTS]"),
    ]
    assert [fault.where for fault in faults(lost + data)] == [1, 3, 6]


@pytest.mark.parametrize(("kept", "written", "lost"), [(5, 5, False), (5, 6, True), (6, 5, False), (0, 9, False)])
def test_entries_that_the_kernel_wrote_over(kept: int, written: int, lost: bool) -> None:
    text = f"# entries-in-buffer/entries-written: {kept}/{written}"
    found = faults(f"# tracer: nop\n#\n{text}   #P:4\n{line('B|7|a')}")
    assert [(fault.code, fault.where) for fault in found] == [("T003", 3)] * lost


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (line("B|7"), True),
        (line("B|x|a"), True),
        (line("B|12345678901|a"), True),
        (line("B|1234567890|a"), False),
        (line("B|7|a", tid=2**32), True),
        (line("B|7|a", tid=2**32 - 1), False),
        (line("B|7|a", seconds=f"{LATEST_NS // 10**9 + 1}.0"), True),
        (line("C|7|a|1"), False),
        ("x: tracing_mark_write: B|7|a\n", True),
    ],
)
def test_lines_that_are_broken(text: str, fault: bool) -> None:
    found = faults(f"# tracer: nop\n{line('B|7|first')}{text}")
    wanted = Fault("T004", 3, text.rstrip("\n")[:200])
    assert found == [wanted] * fault


# --- Chrome JSON --------------------------------------------------------------------------------------------


REST = ',"name":"n","args":{"mark":"%s"}}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HEAD % ("B", 3, 4, 1, 2) + REST % "[NN_LR_PE]n", (3004, 1, 2, "B", b"[NN_LR_PE]n")),
        (HEAD % ("B", 3, 4, 1, 2) + REST % "\\udcff\\u00e9", (3004, 1, 2, "B", b"\xff\xc3\xa9")),
        (HEAD % ("E", 0, 0, 2**32 - 1, 0) + "}", (0, 2**32 - 1, 0, "E", b"")),
        (HEAD % ("i", 9, 0, 1, 2) + ',"name":"x"}', (9000, 1, 2, "E", b"")),
        (HEAD % ("E", (LATEST_NS - 1) // 1000, 0, 1, 2) + "}", ((LATEST_NS - 1) // 1000 * 1000, 1, 2, "E", b"")),
        (HEAD % ("E", LATEST_NS // 1000 + 1, 0, 1, 2) + "}", None),
        (HEAD % ("E", 10**16 - 1, 0, 1, 2) + "}", None),
        (HEAD % ("E", 3, 0, 2**32, 2) + "}", None),
        (HEAD % ("X", 3, 0, 1, 2) + "}", None),
        ((HEAD % ("E", 3, 0, 1, 2)).replace("3.", "x.") + "}", None),
        ('{"ts":3.000,"ph":"b","pid":7,"cat":"execution","id":1,"name":"synchronous, and more of it"}', None),
    ],
)
def test_lines_of_chrome(text: str, found: Any) -> None:
    document = f'{{"displayTimeUnit": "ns", "traceEvents": [\n{text},\n{text}\n]}}\n'
    assert read(document.encode()) == ([] if found is None else [(*found, 2), (*found, 3)])


@pytest.mark.parametrize("mark", ["5", '{"x":1}', '"\\ud800"', '"cut'])
def test_a_mark_of_chrome_that_is_broken(mark: str) -> None:
    text = HEAD % ("B", 3, 4, 1, 2) + f',"name":"n","args":{{"mark":{mark}}}}}'
    assert [fault.where for fault in faults(HEAD % ("E", 1, 0, 1, 2) + "}\n" + text)] == [2]


def test_json_that_is_no_export() -> None:
    with pytest.raises(InvalidInputError, match="this JSON is not an exported trace"):
        read(b'{"events": []}')


def test_an_export_to_chrome() -> None:
    compute = "ANeuralNetworksExecution_compute"
    data = line(f"B|7|[NN_LR_PE]{compute}") + line("B|7|other", "1.000002")
    data += line("E|7", "1.0000035") + line("E|7", "1.000004")
    exported = json.loads(b"".join(export_trace(data.encode(), "chrome").pieces))
    place = {"pid": 7, "tid": 8}
    args = {"layer": "LR", "phase": "PE", "mark": f"[NN_LR_PE]{compute}"}
    execution = {"pid": 7, "cat": "execution", "id": 0, "name": "compute"}
    assert exported["displayTimeUnit"] == "ns"
    *shown, begin, end = exported["traceEvents"]
    assert shown == [
        {"ph": "M", **place, "name": "thread_name", "args": {"name": "task"}},
        {"ts": 1000001.0, "ph": "B", **place, "name": compute, "args": args},
        {"ts": 1000002.0, "ph": "B", **place, "name": "other", "args": {"mark": "other"}},
        {"ts": 1000003.5, "ph": "E", **place},
        {"ts": 1000004.0, "ph": "E", **place},
    ]
    assert [{**one, "id": 0, "name": "compute"} for one in (begin, end)] == [
        {"ts": 1000001.0, "ph": "b", **execution},
        {"ts": 1000004.0, "ph": "e", **execution},
    ]


# --- columns ------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 100)), max_size=12), st.sampled_from([1, 1 << 20, 1 << 40])
)
def test_sums_and_distinct_keys(pairs: list[tuple[int, int]], factor: int) -> None:
    keys = np.array([key * factor for key, _ in pairs], np.int64)
    values = np.array([value + 1 for _, value in pairs], np.int64)
    wanted: dict[int, int] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        wanted[key] = wanted.get(key, 0) + value
    assert list(zip(*sums(keys, values), strict=True)) == sorted(wanted.items())
    assert distinct(keys) == sorted(wanted)
    large = values * (1 << 53)
    assert list(zip(*sums(keys, large), strict=True)) == [(key, value << 53) for key, value in sorted(wanted.items())]


def test_names_of_marks() -> None:
    texts = [b"7|a", b"end", b"7|a\n", b"8|a\r\n", b"7|b\\n\\", b"x|c", b"9", b"7|", b"12345678901|d", b"7|a|b"]
    ends = np.cumsum([len(text) for text in texts])
    starts = np.array([0, *ends[:-1].tolist()])
    codes, names, pids = read_names(b"".join(texts), np.array([text != b"end" for text in texts]), starts, ends)
    found = [None if code < 0 else names[code] for code in codes.tolist()]
    assert found == [b"a", None, b"a", b"a", b"b", b"c", b"", b"", b"d", b"a|b"]
    assert (codes[1], len(set(names))) == (-1, len(names))
    assert pids.tolist() == [7, -1, 7, 8, 7, -1, -1, 7, -1, 7]


def batch(*rows: tuple[int, int, bytes | None]) -> Batch:
    names = sorted({name for _, _, name in rows if name is not None})
    texts = [-1 if name is None else names.index(name) for _, _, name in rows]
    times, threads = ([row[at] for row in rows] for at in (0, 1))
    return Batch(np.array(times), np.array(threads), np.array(texts), np.arange(len(rows)), names)


def test_batches_are_merged_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = batch((5, 1, b"x"), (9, 1, None)), batch((5, 2, b"a"), (7, 2**32 - 1, b"x"), (9, 2, None))
    for size in (1, 2, 5, 6):
        monkeypatch.setattr("circletools.trace.sources.batch._BATCH_EVENTS", size)
        found = list(merged(iter([first, second])))
        assert [len(one) for one in found] == [size] * (5 // size) + [5 % size] * (5 % size > 0)
        rows = [
            (time, thread, None if text < 0 else one.names[text], place)
            for one in found
            for time, thread, text, place in zip(
                one.times.tolist(), one.threads.tolist(), one.texts.tolist(), one.places.tolist(), strict=True
            )
        ]
        assert rows == [(5, 1, b"x", 0), (5, 2, b"a", 0), (7, 2**32 - 1, b"x", 1), (9, 1, None, 1), (9, 2, None, 2)]
    assert list(merged(iter([]))) == []
