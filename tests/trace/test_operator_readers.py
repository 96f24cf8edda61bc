"""Operator-level traces: what their readers take, merge and leave out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, merged, warm_up, without_first
from circletools.trace.operators.read import read_profile


def run(execution: int, duration: int, lane: int = 0, subgraph: int = 0, start: int = 0) -> OperatorRun:
    return OperatorRun(subgraph, 0, "N", "", start, duration, execution, lane)


def lasting(*times: int) -> OperatorTrace:
    """Return a trace whose executions take these times."""
    return OperatorTrace("litert", tuple(run(at, time, at) for at, time in enumerate(times)), len(times))


def test_how_many_executions_warm_up() -> None:
    for times, wanted in (
        ((9000, 1000, 1000, 1000), 1),
        ((1101, 1101, 1000, 1000), 2),
        ((1100, 1101, 1000, 1000), 0),  # a tenth is no more than chance
        ((9000, 9000, 9000, 9000), 0),
        ((9000, 9000, 9000, 1000, 1000, 1000), 3),
        ((9000, 9000, 9000, 9000, 1000, 1000, 1000), 3),  # half of them stay
        ((9000, 9000, 1000, 1000, 1000), 2),
        ((9000, 1000, 1000), 0),  # too few to decide
        ((), 0),
        ((600, 1000, 100, 200), 2),
        ((500, 1000, 100, 200), 0),
        ((175, 175, 175, 90, 100, 110), 3),  # a spread of 14.8 about 100: 174.1
        ((174, 175, 175, 90, 100, 110), 0),
        ((0, 9000, 1000, 1000), 0),
        ((900, 500, 100, 101, 99, 100, 100, 101), 2),
        ((900, 100, 900, 100, 100, 101, 99, 100), 1),
        ((130, 100, 100, 120, 80, 110, 90, 100), 0),
        ((0, 0, 0, 0), 0),
    ):
        assert warm_up(lasting(*times)) == wanted, times
        found = without_first(lasting(*times), "auto")
        assert (found.skipped, found.executions) == (wanted, len(times) - wanted)
        assert [(one.execution, one.duration_ns) for one in found.runs] == [*enumerate(times[wanted:])]
    assert warm_up(replace(lasting(9000, 1000, 1000, 1000), averaged=True)) == 0


def test_the_time_of_a_called_subgraph_counts_once() -> None:
    runs = [run(at, 1000, at) for at in range(4)]
    called = [run(1, 1000, 1, subgraph=1), run(1, 900, 1, subgraph=2)]
    assert warm_up(OperatorTrace("litert", (*runs, *called), 4)) == 0
    apart = [run(0, 200, 0, subgraph=1, start=1000)]
    assert warm_up(OperatorTrace("litert", (*runs, *apart), 4)) == 1


def test_recordings_one_behind_the_other() -> None:
    first = OperatorTrace("litert", (run(0, 5, 2), run(1, 6)), 2, inside=(run(1, 1, 3),), incomplete=1, skipped=2)
    empty = OperatorTrace("litert", (), 1, incomplete=4)
    last = OperatorTrace("litert", (run(0, 7, 1),), 1, inside=(run(0, 2),), incomplete=8, skipped=16, name="last")
    found = merged([replace(first, name="first"), empty, last])
    assert [(one.execution, one.lane, one.duration_ns) for one in found.runs] == [(0, 2, 5), (1, 0, 6), (3, 6, 7)]
    assert [(one.execution, one.lane, one.duration_ns) for one in found.inside] == [(1, 3, 1), (3, 5, 2)]
    assert (found.executions, found.incomplete, found.skipped, found.name) == (4, 13, 18, "first")
    assert merged([last]) == last
    averaged = replace(last, averaged=True)
    assert merged([averaged, averaged]).averaged
    for wrong in ([], [last, averaged], [last, replace(last, runtime="onert")]):
        with pytest.raises(UsageError, match="only recordings of one runtime"):
            merged(wrong)


def litert(*rows: tuple[str, int, int, int, int, int]) -> OperatorTrace:
    names = ("tag", "event_type", "start_timestamp_us", "elapsed_time_us", "event_metadata1", "event_metadata2")
    return read_profile(json.dumps({"events": [dict(zip(names, row, strict=True)) for row in rows]}).encode())


def test_an_inference_begins_where_the_one_before_has_ended() -> None:
    def executions(*times: tuple[int, int]) -> int:
        return litert(*(("Invoke", 1, *time, 0, 0) for time in times), ("ADD", 2, 0, 0, 0, 0)).executions

    assert executions((0, 5)) == 1
    assert executions((0, 5), (5, 5), (9, 1), (10, 0), (10, 0)) == 4
    assert executions((3, 5), (4, 1)) == 1
    # Only a default event of that name is an inference.
    found = litert(("Invoke", 1, 0, 5, 0, 0), ("Invoke", 2, 6, 5, 7, 8), ("x", 1, 20, 5, 0, 0), ("y", 8, 0, 2, 1, 1))
    assert (found.executions, found.inside, found.incomplete) == (1, (), 0)
    assert found.runs == (
        OperatorRun(8, 7, "Invoke", "", 6_000, 5_000, 0),
        OperatorRun(1, 1, "y", "", 6_000, 2_000, 0, of_delegate=True),
    )


def test_each_table_of_counters_is_an_execution() -> None:
    header = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
    rows = "a;b;Status.EXECUTED;T;k;1.5;0;\nx;EXECUTED;U;k;0.25;0\n123456789;EXECUTED;V;k;2.000001;0\n"
    rows += "1;NOT_RUN;T;k;0.0;0\nz;NOT_RUN;X;undef;7.0;7.0\nTotal;;;;1.5;9.0\n"
    found = read_profile((header + rows + "\n" + header + rows).encode())
    first = (
        OperatorRun(0, 0, "T", "k", 0, 1_500_000, 0, 1, of_delegate=True),
        OperatorRun(0, 1, "U", "k", 1_500_000, 250_000, 0, 1, of_delegate=True),
        OperatorRun(0, 123456789, "V", "k", 1_750_000, 2_000_001, 0, 1),
        OperatorRun(0, 1, "T", "k", 3_750_001, 0, 0, 1),
    )
    assert found.runs == (*first, *(one._replace(execution=1, lane=2) for one in first))
    assert (found.executions, found.averaged) == (2, False)
    assert read_profile((header + "1234567890;EXECUTED;T;k;1.5;0").encode()).runs[0].of_delegate
    with pytest.raises(InvalidInputError, match=f"'{'9' * 40}' is not a time") as caught:
        read_profile((header + rows + "a;EXECUTED;T;k;" + "9" * 41 + ";0").encode())
    assert caught.value.location == "<bytes>:8"
    with pytest.raises(InvalidInputError, match="no layer of the report was executed"):
        read_profile(header.encode())
    with pytest.raises(InvalidInputError, match="the tables belong to several models"):
        read_profile((header + rows + header + rows.replace("x;", "y;")).encode())


def test_operators_begin_within_the_innermost_inference() -> None:
    def read(*texts: str) -> OperatorTrace:
        head = " app-7 (70) [001] .... 1.{:06}: tracing_mark_write: {}\n"
        marks = [head.format(at, "E" if text == "E" else f"B|70|{text}") for at, text in enumerate(texts)]
        return read_profile("".join(marks).encode())

    found = read(
        "Invoke@0/0", "x", "A@1/0", "E", "Invoke@0/1", "B@2/1", "E", "E", "E", "C@3/0", "y", "D@4/0", "E", "E", "E"
    )
    assert [(one.name, one.execution) for one in found.runs] == [("A", 0), ("B", 0), ("C", 0)]
    assert ([one.name for one in found.inside], found.executions, found.incomplete) == (["D"], 1, 1)
    found = read(
        "E", "Invoke@0/0", "A@1/0", "E", "E", "B@1/0", "C@2/0", "E", "E", "Invoke@0/0", "D@1/0", "E", "x", "E@2/0"
    )
    assert [(one.name, one.execution) for one in found.runs] == [("A", 0), ("D", 1)]
    assert (found.executions, found.incomplete) == (2, 2)
