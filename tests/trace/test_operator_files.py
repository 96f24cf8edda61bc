"""Traces of operators that are written here: every field of every run, and names of operators."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.trace.operators.names import agrees, is_builtin
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Runtime, without_first
from circletools.trace.operators.read import read_profile

BUILTIN = ("ADD", "CONV_2D", "ARG_MAX", "ARG_MIN", "RELU6", "SQUARE", "PADV2", "MEAN", "SELECT_V2", "RMS_NORM")


@pytest.mark.parametrize(
    ("runtime", "same", "pairs"),
    [
        ("onert", True, "Conv2D:CONV_2D ArgMinMax:ARG_MIN Squre:SQUARE Bulk:RUN_MODEL RmsNorm:RMS_NORM ReLU:RELU6"),
        ("onert", True, "Select:SELECT_V2 ADD:ADD Add:ADD"),
        ("onert", False, "Conv2D:ADD ArgMinMax:ADD ReduceMean:ADD Squre:ADD"),
        ("onert", None, "Unheard:ADD Conv2D:CUSTOM:Conv2D"),
        ("openvino", True, "Pad:PADV2 add_:ADD FullyConnected:FULLY_CONNECTED Softmax:SOFTMAX"),
        ("openvino", False, "Pad:ADD FullyConnected:ADD Reorder:TRANSPOSE"),
        ("openvino", None, "Sub:ADD Softmax:ADD"),
        ("litert", True, "ADD:ADD Mine:CUSTOM:Mine"),
        ("litert", False, "ADD:CONV_2D"),
        ("litert", None, "Mine:CUSTOM:Other TheDelegate:ADD ADD/x:ADD"),
        ("benchmark_model", True, "ADD:ADD ADD/kernel,1:ADD a/b/kernel:CUSTOM:a/b a/b:CUSTOM:a/b"),
        ("benchmark_model", False, "ADD/kernel:CONV_2D CONV_2D:ADD"),
        ("benchmark_model", None, "ADDX/kernel:ADD a/c:CUSTOM:a/b"),
    ],
)
def test_names_of_operators(runtime: Runtime, same: bool | None, pairs: str) -> None:
    for name, _, code in (pair.partition(":") for pair in pairs.split()):
        assert agrees(runtime, name, code, BUILTIN) is same
        if same is not None and not code.startswith("CUSTOM:") and runtime != "openvino":
            assert is_builtin(runtime, name, BUILTIN)


@pytest.mark.parametrize("runtime", get_args(Runtime))
def test_names_of_builtin_operators(runtime: Runtime) -> None:
    assert is_builtin(runtime, "ADD", BUILTIN)
    assert is_builtin(runtime, "Conv2D", BUILTIN) is (runtime == "onert")
    assert is_builtin(runtime, "Squre", ()) is (runtime == "onert")
    assert is_builtin(runtime, "ADD/x/y", BUILTIN) is (runtime == "benchmark_model")
    assert not any(is_builtin(runtime, name, BUILTIN) for name in ("x", "x/ADD"))


# --- what is left out, what lies within what ------------------------------------------------------------------------


def test_executions_that_are_skipped() -> None:
    runs = tuple(OperatorRun(0, at, "n", "", at, 1, at) for at in range(4))
    trace = OperatorTrace("onert", runs, 4, inside=runs[1:3], incomplete=5)
    assert without_first(trace, 0) is trace
    found = without_first(trace, 2)
    assert [(run.operator, run.execution) for run in found.runs] == [(2, 0), (3, 1)]
    assert [(run.operator, run.execution) for run in found.inside] == [(2, 0)]
    assert (found.executions, found.incomplete) == (2, 5)
    assert [run.operator for run in without_first(trace, 3).runs] == [3]
    with pytest.raises(UsageError, match="cannot skip 4 executions: the trace has 4"):
        without_first(trace, 4)
    averaged = replace(trace, averaged=True)
    assert without_first(averaged, 0) is averaged
    with pytest.raises(UsageError, match="only averages"):
        without_first(averaged, 1)


# --- LiteRT ---------------------------------------------------------------------------------------------------------


def marks(*rows: tuple[int, int, str]) -> bytes:
    """Return ftrace text of times in microseconds, threads, and marks; `E` is an end."""
    lines = (
        f" app-{tid} (70) [001] .... 1.{at:06}: tracing_mark_write: {'E|70' if mark == 'E' else 'B|70|' + mark}"
        for at, tid, mark in rows
    )
    return "\n".join(["# tracer: nop", "#", *lines, ""]).encode()


def test_inferences_on_two_threads() -> None:
    second = 10**9
    data = marks(
        (1, 7, "ALLOCATE@9/0"), (2, 7, "E"), (3, 7, "Invoke@0/0"), (4, 8, "Invoke@0/0"), (5, 7, "ADD@3/0"),
        (6, 8, "MUL@4/0"), (7, 8, "x"), (8, 8, "part@1/0"), (9, 8, "deep@2/0"), (10, 8, "E"), (12, 8, "E"),
        (13, 8, "E"), (15, 8, "E"), (16, 7, "E"), (17, 7, "E"), (18, 7, "Invoke@5/0"), (19, 7, "WHILE@0/0"),
        (20, 7, "Invoke@0/1"), (21, 7, "SUB@0/1"), (22, 7, "E"), (23, 7, "E"), (29, 7, "E"), (30, 7, "E"),
        (31, 7, "E"), (32, 7, "ADD@1/0"), (33, 7, "E"), (34, 7, "Invoke@0/0"), (35, 7, "DIV@1/0"), (36, 8, "E"),
    )  # fmt: skip
    trace = read_profile(data)
    assert trace.runs == (
        OperatorRun(0, 4, "MUL", "", second + 6_000, 9_000, 1, 8),
        OperatorRun(0, 3, "ADD", "", second + 5_000, 11_000, 0, 7),
        OperatorRun(1, 0, "SUB", "", second + 21_000, 1_000, 2, 7),
        OperatorRun(0, 0, "WHILE", "", second + 19_000, 10_000, 2, 7),
    )
    assert trace.inside == (
        OperatorRun(0, 2, "deep", "", second + 9_000, 1_000, 1, 8),
        OperatorRun(0, 1, "part", "", second + 8_000, 4_000, 1, 8),
    )
    assert (trace.runtime, trace.executions, trace.averaged, trace.incomplete) == ("litert", 4, False, 2)
    assert trace.name == "<bytes>"


# --- onert ----------------------------------------------------------------------------------------------------------


def event(name: str, phase: str, time: str, track: str) -> dict[str, object]:
    return {"name": name, "ph": phase, "ts": time, "tid": track}


def test_runs_of_sessions_and_subgraphs() -> None:
    main, called = "$2 sess, $0 subg", "$2 sess, $1 subg, cpu"
    rows = [
        event("@1 Add", "B", "30", called), event("@1 Add", "E", "35", called),
        event("@1 Add", "B", "10", called), event("@1 Add", "E", "12", called),
        event("@1 Add", "B", "5", called), event("@1 Add", "E", "6", called),
        event("$0 subg", "B", "10", main), event("@0 While", "B", "10", f"{main}, acl"),
        event("@0 While", "E", "20", f"{main}, acl"), event("$0 subg", "E", "21", main),
        event("$0 subg", "B", "30", main), event("@0 While", "B", "31", f"{main}, acl"),
        event("@0 While", "B", "32", f"{main}, acl"), event("@0 While", "E", "33", f"{main}, acl"),
        event("@0 While", "E", "39", f"{main}, acl"), event("$0 subg", "E", "40", main),
        event("@9 Other", "B", "1", "else"), event("@9 Other", "E", "2", "$0 subg"),
        {"ph": "X", "name": "@0 While", "ts": "1", "tid": main}, {"ph": "B", "name": None, "ts": "1", "tid": main},
    ]  # fmt: skip
    trace = read_profile(json.dumps({"traceEvents": rows}).encode())
    assert trace.runs == (
        OperatorRun(1, 1, "Add", "cpu", 30_000, 5_000, 1, 2),
        OperatorRun(1, 1, "Add", "cpu", 10_000, 2_000, 0, 2),
        OperatorRun(1, 1, "Add", "cpu", 5_000, 1_000, 0, 2),
        OperatorRun(0, 0, "While", "acl", 10_000, 10_000, 0, 2),
        OperatorRun(0, 0, "While", "acl", 32_000, 1_000, 1, 2),
        OperatorRun(0, 0, "While", "acl", 31_000, 8_000, 1, 2),
    )
    assert (trace.executions, trace.incomplete, trace.averaged, trace.inside) == (2, 0, False, ())


# --- benchmark_model ------------------------------------------------------------------------------------------------

HEADER = "node type, first, avg_ms, %, cdf%, mem KB, times called, name"
ORDER = "============================== Run Order =============================="


def report(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def row(kind: str, mean: str, calls: int, name: str) -> str:
    return f"{kind}, 0.5, {mean}, 10%, 10%, 0, {calls}, {name}"


def test_a_report_of_several_subgraphs() -> None:
    data = report(
        ORDER, HEADER, row("OLD", "9", 1, "[o]:0"), "",
        "Operator-wise Profiling Info for Regular Benchmark Runs:",
        ORDER, HEADER, row("ADD", "0.0015", 1, "[a]:0"), row("WHILE", "2", 0, "[w]:1"), row("X", "1e-05", 1, "none"),
        row("D", "1", 2, "Delegate/D:4"), "",
        "Number of nodes executed: 2", "Timings (microseconds): count=5 first=1",
        "Subgraph (index: 3) profile:", ORDER + " \r", HEADER + "\r", row("MUL", "0.25", 2, "[m]:7") + "\r", "\r",
        "Subgraph (index: 3) Timings (microseconds): count=4 curr=1",
        "Delegate internal: ", ORDER, HEADER, row("Conv", "3.", 1, "Delegate/Conv:2"),
    )  # fmt: skip
    trace = read_profile(data)
    assert trace.runs == (
        OperatorRun(0, 0, "ADD", "", 0, 7_500, 0, 0, 5, label="a"),
        OperatorRun(0, 1, "WHILE", "", 0, 10_000_000, 0, 0, 5, label="w"),
        OperatorRun(0, 4, "D", "", 0, 10_000_000, 0, 0, 10, True),
        OperatorRun(3, 7, "MUL", "", 0, 2_000_000, 0, 0, 8, label="m"),
    )
    assert trace.inside == (OperatorRun(0, 2, "Conv", "", 0, 15_000_000, 0, 0, 5, True),)
    assert (trace.executions, trace.averaged) == (5, True)


TEXT_HEADER = "  [node type]  [first]  [avg ms]  [%]  [cdf%]  [mem KB]  [times called]  [Name]"
TEXT_ROW = "  ADD   0.5  0.25  10%  10%  0.000  2  [a,  b]:3"


def test_tables_in_text() -> None:
    wanted = (OperatorRun(0, 3, "ADD", "", 0, 500_000, 0, 0, 2, label="a,  b"),)
    assert read_profile(report(ORDER, TEXT_HEADER, TEXT_ROW)).runs == wanted
    start = TEXT_HEADER.replace("[first]", "[start]  [first]")
    assert read_profile(report(ORDER, start, TEXT_ROW.replace("ADD ", "ADD  0.125"))).runs == wanted
    tabs = TEXT_ROW.strip().replace("   ", "\t").replace("  ", "\t", 6)
    assert read_profile(report(ORDER, TEXT_HEADER, tabs)).runs == wanted
    for header, line, place, message in (
        (HEADER + ", more", TEXT_ROW, 2, "unknown table columns"),
        (TEXT_HEADER, TEXT_ROW.replace("  2  ", "  two  "), 3, "the row does not match the table's columns"),
        (TEXT_HEADER, TEXT_ROW.replace("  10%", "", 1).replace(",  ", ", "), 3, "the row does not match"),
        (TEXT_HEADER, TEXT_ROW.replace("0.25", "fast"), 3, "'fast' is not a time in milliseconds"),
        (TEXT_HEADER, TEXT_ROW.replace("0.25", "9" * 50), 3, f"'{'9' * 40}' is not a time in milliseconds"),
    ):
        with pytest.raises(InvalidInputError, match=message) as caught:
            read_profile(report(ORDER, header, line))
        assert caught.value.location == f"<bytes>:{place}"
    with pytest.raises(InvalidInputError, match="unknown table columns") as caught:
        read_profile(report("x", ORDER))
    assert caught.value.location == "<bytes>:3"
