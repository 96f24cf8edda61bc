"""What exports hold: pieces, lanes, threads, and what is open at the end."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from circletools.trace.nnapi.analysis import analyse
from circletools.trace.nnapi.executions import Execution
from circletools.trace.nnapi.export import _lanes, chrome_parts, export_trace, perfetto_parts
from circletools.trace.sources import events, open_trace
from tests.kit.trace_support import US, Ev, ftrace, table


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(1, 2)), max_size=12),
)
def test_lanes_of_executions(rows: list[tuple[int, int, int]]) -> None:
    """Each execution is in the lowest lane of its process that is free when it begins."""
    executions = [
        Execution(at, process, 1, "synchronous", start, 0, 0, start + time)
        for at, (start, time, process) in enumerate(sorted(rows))
    ]
    ends: dict[tuple[int, int], int] = {}
    wanted = []
    for one in executions:
        lane = next(lane for lane in range(99) if ends.get((one.process, lane), 0) <= one.start_ns)
        ends[one.process, lane] = one.end_ns
        wanted.append((lane, one.number))
    assert [(lane, one.number) for lane, one in _lanes(executions)] == wanted


def exported(rows: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(b"".join(export_trace(ftrace(table(rows)), "chrome").pieces))[
        "traceEvents"
    ]
    assert found.pop() == {}
    return found


def test_what_is_open_ends_with_the_trace() -> None:
    found = exported(
        "10 T1 E\n20 T1 B [NN_LR_PP]p\n30 T1 B x\n40 T2 B foreign\n50 T1 B [NN_LR_PP]q\n60 T2 E\n70 D1 E"
    )
    assert [(one["ph"], one["tid"], one.get("ts")) for one in found] == [
        ("M", 100001, None), ("B", 100001, 20.0), ("B", 100001, 30.0), ("B", 100001, 50.0),
        *[("E", 100001, 70.0)] * 3,
    ]  # fmt: skip
    assert {one["pid"] for one in found} == {1000}


def test_lines_of_chrome() -> None:
    rows = "1 T1 B [NN_LR_PP]\n2 T1 E\n3 T1 B [NN_LX_PP]x\n4 T1 E\n5 T1 B [NN_LR_PP]\\q\n1500 T1 E"
    shown = [(one.get("name"), one.get("args"), one.get("ts")) for one in exported(rows)]
    tagged = {"layer": "LR", "phase": "PP"}
    assert shown == [
        ("thread_name", {"name": "task"}, None),
        ("[NN_LR_PP]", {**tagged, "mark": "[NN_LR_PP]"}, 1.0), (None, None, 2.0),
        ("[NN_LX_PP]x", {"mark": "[NN_LX_PP]x"}, 3.0), (None, None, 4.0),
        ("\\q", {**tagged, "mark": "[NN_LR_PP]\\q"}, 5.0), (None, None, 1500.0),
    ]  # fmt: skip


def test_a_thread_of_no_known_process() -> None:
    row = " task-8 (-----) [000] ...1 1.00000{}: tracing_mark_write: {}\n"
    data = "".join(row.format(at, mark) for at, mark in ((1, "B|x|[NN_LR_PP]p"), (2, "B|y|q"))).encode()
    trace = open_trace(data)
    found = json.loads(b"".join(chrome_parts(trace, analyse(trace))))["traceEvents"]
    assert [(one["ph"], one["pid"], one["tid"]) for one in found[:-1]] == [
        ("M", 0, 8), ("B", 0, 8), ("B", 0, 8), ("E", 0, 8), ("E", 0, 8)
    ]  # fmt: skip
    again = open_trace(b"".join(perfetto_parts(trace, analyse(trace))))
    assert [event[:5] for event in events(again)] == [
        (1_000_001_000, 8, 0, "B", b"[NN_LR_PP]p"), (1_000_002_000, 8, 0, "B", b"q"),
        (1_000_002_000, 8, 0, "E", b""), (1_000_002_000, 8, 0, "E", b""),
    ]  # fmt: skip


def test_large_exports_come_in_pieces() -> None:
    count = 2100
    name = "[NN_LR_PE]" + "n" * 300
    rows = [Ev(at, 100001, name if at % 2 == 0 else None) for at in range(2 * count)]
    trace = open_trace(ftrace(rows))
    analysis = analyse(trace)
    *pieces, last = chrome_parts(trace, analysis)
    assert [piece.count(b"\n") for piece in pieces] == [1, 4096]
    assert last.count(b"\n") == 1 + 2 * count - 4096 + 2
    slices = json.loads(b"".join([*pieces, last]))["traceEvents"][1 : 2 * count + 1]
    assert [round(one["ts"] * US) for one in slices] == [at * US for at in range(2 * count)]
    first, second = perfetto_parts(trace, analysis)
    assert 0 < len(first) - (1 << 20) <= 800
    assert 0 < len(second) < 1 << 20
