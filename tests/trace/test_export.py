"""Exports for trace viewers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.traces import encoded, workload
from circletools.render.trace_slices import chrome_parts, export_trace, perfetto_parts
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import events, open_trace
from tests.kit.trace_support import EXAMPLE, US, Ev, document, executing, exported, ftrace, table

TARGETS = ("chrome", "perfetto")
COMPARED = ("runs", "all_runs", "all_executions", "executions", "functions", "driver_executions", "diagnostics")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ending", ["ftrace", "pftrace"])
def test_an_export_gives_the_same(target: str, ending: str) -> None:
    data = encoded(workload(300, per_run=5), ending)
    before, after = document(data), document(exported(data, target))
    assert {key: before[key] for key in COMPARED} == {key: after[key] for key in COMPARED}


@given(executing(), st.sampled_from(TARGETS), st.integers(0, 99))
def test_an_export_of_a_cut_trace_gives_the_same(trace: list[Ev], target: str, cut: int) -> None:
    data = ftrace(trace).replace(b"\n", b"\nCPU:2 [LOST 7 EVENTS]\n", cut % 3)
    data = data[: len(data) - cut]
    before, after = document(data), document(exported(data, target))
    for found in (before, after):
        diagnostics: Any = found["diagnostics"]
        found["diagnostics"] = sorted((one["code"], one["count"]) for one in diagnostics)
    if analyse(open_trace(data)).marked:
        assert {key: before[key] for key in COMPARED} == {key: after[key] for key in COMPARED}


@pytest.mark.parametrize(
    "record", [b"[]", b'{"x": [1, ""]}', b'{"T003": 1}', b'{"T003": ["a", ""]}', b'{"T003": [1, 2]}']
)
def test_a_broken_record_of_faults(record: bytes) -> None:
    trace = open_trace(b'{"displayTimeUnit": "ns", "otherData": {"faults": %b}, "traceEvents": [\n]}' % record)
    assert not list(trace.batches())
    assert trace.faults[-1].text == "a broken record of faults"


def test_a_count_of_faults_without_end() -> None:
    fault = b'{"faults": {"T003": [%b, ""]}}' % (b"9" * 4300)
    trace = open_trace(b'{"displayTimeUnit": "ns", "otherData": %b, "traceEvents": [\n]}' % fault)
    assert (list(trace.batches()), trace.fault_counts["T003"]) == ([], 1 + (1 << 53))


def test_contents_of_a_chrome_export() -> None:
    found = json.loads(exported(EXAMPLE.read_bytes(), "chrome"))["traceEvents"]
    begin = next(one for one in found if one.get("name") == "ANeuralNetworksCompilation_finish")
    assert begin["args"] == {"layer": "LR", "phase": "PC", "mark": "[NN_LR_PC]ANeuralNetworksCompilation_finish"}
    assert sum(one.get("ph") == "b" for one in found) == sum(one.get("ph") == "e" for one in found) == 7
    assert all("ph" in one for one in found)


def rows_of(rows: str) -> list[dict[str, object]]:
    data = b"".join(export_trace(ftrace(table(rows)), "chrome").pieces)
    found: list[dict[str, object]] = json.loads(data)["traceEvents"]
    return found


def test_what_is_open_stays_open() -> None:
    found = rows_of("10 T1 E\n20 T1 B [NN_LR_PP]p\n30 T1 B x\n40 T2 B foreign\n50 T1 B [NN_LR_PP]q\n60 T2 E\n70 D1 E")
    assert [(one["ph"], one["tid"], one.get("name"), one.get("ts")) for one in found] == [
        ("M", 100001, "thread_name", None), ("i", 100001, "end without a begin", 10.0), ("B", 100001, "p", 20.0),
        ("B", 100001, "x", 30.0), ("B", 100001, "q", 50.0), ("B", 100001, "end of trace", 70.0),
        ("E", 100001, None, 70.0),
    ]  # fmt: skip


def test_lines_of_chrome() -> None:
    rows = "1 T1 B [NN_LR_PP]\n2 T1 E\n3 T1 B [NN_LX_PP]x\n4 T1 E\n5 T1 B [NN_LR_PP]\\q\n1500 T1 E"
    shown = [(one.get("name"), one.get("args"), one.get("ts")) for one in rows_of(rows)]
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
    assert [(one["ph"], one["pid"], one["tid"]) for one in found] == [("M", 0, 8), ("B", 0, 8), ("B", 0, 8)]
    again = open_trace(b"".join(perfetto_parts(trace, analyse(trace))))
    assert [event[:5] for event in events(again)] == [
        (1_000_001_000, 8, 0, "B", b"[NN_LR_PP]p"), (1_000_002_000, 8, 0, "B", b"q")
    ]  # fmt: skip


def test_large_exports_come_in_pieces() -> None:
    count = 2100
    name = "[NN_LR_PE]" + "n" * 300
    rows = [Ev(at, 100001, name if at % 2 == 0 else None) for at in range(2 * count)]
    trace = open_trace(ftrace(rows))
    analysis = analyse(trace)
    pieces = list(chrome_parts(trace, analysis))
    assert len(pieces) == 3
    slices = json.loads(b"".join(pieces))["traceEvents"][1 : 2 * count + 1]
    assert [round(one["ts"] * US) for one in slices] == [at * US for at in range(2 * count)]
    assert max(map(len, perfetto_parts(trace, analysis))) < 70_000
