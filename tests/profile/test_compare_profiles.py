"""Two operator-level traces side by side."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from circletools.profile.comparisons import compare_profiles
from circletools.render.comparison import comparison_json
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from circletools.trace.operators.read import read_profile
from tests.kit.profile_support import IF_MODEL, IF_TRACE, run, shown, traced


def comparison_document(before: OperatorTrace, after: OperatorTrace, threshold: float) -> dict[str, Any]:
    return comparison_json(compare_profiles([before] * 3, [after] * 3, threshold))


def changed(trace: OperatorTrace, operator: int, factor: float) -> OperatorTrace:
    """Return a trace in which one operator takes `factor` times as long."""
    runs = tuple(
        run._replace(duration_ns=round(run.duration_ns * factor)) if run.operator == operator else run
        for run in trace.runs
    )
    return replace(trace, runs=runs)


STEADY = traced(*({0: 100_000 + step, 1: 1_000_000 - step, 2: 5000} for step in range(6)))


def delegated(*names: str, factor: int = 1) -> OperatorTrace:
    """Return a trace of two parts of a delegate, the second with these rows, the last by `factor`."""
    rows = [(at, name, True) for at, name in enumerate(("Multiply", "Convolution"))]
    rows += [(5, "POW", False), *((at, name, True) for at, name in enumerate(names))]
    times = [10_000] * (len(rows) - 1) + [10_000 * factor]
    runs = (
        OperatorRun(0, number, name, "", 10**6 * execution + 10**5 * at, times[at], execution, of_delegate=of)
        for execution in range(6)
        for at, (number, name, of) in enumerate(rows)
    )
    return OperatorTrace("litert", tuple(runs), 6)


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (("Copy", "Convolution"), {(2, "Copy"): 1.0, (3, "Convolution"): 3.0}),
        (("Copy", "Fully Connected"), {(2, "Copy"): 1.0, (3, "Convolution"): 3.0}),
        (("Convolution",), {(2, "Copy"): 0.0, (3, "Convolution"): 3.0}),
        (("Copy", "Pad", "Convolution"), {(2, "Copy"): 1.0, (3, "Convolution"): 3.0, (4, "Pad"): None}),
    ],
)
def test_rows_of_a_delegate_are_paired_in_their_order(
    names: tuple[str, ...], rows: dict[tuple[int, str], float | None]
) -> None:
    """Each part numbers its rows from 0, and a larger operator may have another kernel."""
    found = comparison_document(delegated("Copy", "Convolution"), delegated(*names, factor=3), 10)["rows"]
    places = {(row["row"], row["name"]): row["ratio"] for row in found if row["row"] is not None}
    assert places == {(0, "Multiply"): 1.0, (1, "Convolution"): 1.0} | rows
    assert [(row["operator_index"], row["name"]) for row in found if row["operator_index"] is not None] == [
        (5, "POW")
    ]


def test_a_trace_is_as_fast_as_itself() -> None:
    document = comparison_document(STEADY, STEADY, 0.1)
    assert document["regressed"] is False
    assert [
        (row["operator_index"], row["before_ns"], row["delta_ns"], row["ratio"], row["verdict"])
        for row in document["rows"]
    ] == [
        (None, 1_105_000, 0, 1.0, "same"), (0, 100_000, 0, 1.0, "same"), (1, 999_995, 0, 1.0, "same"),
        (2, 5000, 0, 1.0, "same"),
    ]  # fmt: skip
    assert all(row["low"] <= 1 <= row["high"] for row in document["rows"])


@pytest.mark.parametrize(("factor", "threshold", "regressed"), [(1.5, 10, True), (1.5, 60, False), (0.5, 0, False)])
def test_a_slower_operator(factor: float, threshold: float, regressed: bool) -> None:
    document = comparison_document(STEADY, changed(STEADY, 0, factor), threshold)
    assert document["regressed"] is regressed
    whole, first, second, third = document["rows"]
    assert (first["verdict"] == "slower") is regressed
    assert first["low"] <= first["ratio"] <= first["high"]
    assert first["ratio"] == pytest.approx(factor, abs=0.01)
    assert whole["delta_ns"] == pytest.approx(100_002 * (factor - 1), abs=2)
    assert (second["delta_ns"], third["delta_ns"]) == (0, 0)


def test_an_operator_of_few_executions_takes_no_time_in_most() -> None:
    before, after = (
        traced(*({0: time, 1: 10_000} for time in times)) for times in ((1000, 0, 0, 0, 0), (1000, 1000, 0, 0, 0))
    )
    document = comparison_document(before, after, 10)
    row = document["rows"][1]
    assert (row["before_ns"], row["after_ns"], row["verdict"]) == (200, 400, "cannot tell")
    json.dumps(document, allow_nan=False)


def test_averages_are_compared_between_recordings() -> None:
    calls = OperatorRun(0, 0, "IF", "", 0, 600_000, 0, calls=6)
    called = OperatorRun(1, 0, "ADD", "", 0, 60_000, 0, calls=6)
    averages = OperatorTrace("benchmark_model", (calls, called), 6, averaged=True)
    rows = comparison_document(averages, changed(averages, 0, 2), 10)["rows"]
    assert [(row["name"], row["before_ns"], row["after_ns"], row["verdict"]) for row in rows] == [
        ("all operators", 100_000, 200_000, "slower"), ("IF", 100_000, 200_000, "slower"),
        ("ADD", 10_000, 20_000, "slower"),
    ]  # fmt: skip
    alone = compare_profiles(averages, changed(averages, 0, 1.2)).rows
    assert {row.time.verdict for row in alone} == {"cannot tell"}


def test_the_clock_of_averages_is_finer_by_the_number_of_executions() -> None:
    """The sum over 100 executions is in whole microseconds, so the average has steps of 10 ns."""
    for nanoseconds, verdict in ((10, "cannot tell"), (20, "slower")):
        before, after = (
            OperatorTrace("benchmark_model", (OperatorRun(0, 0, "ADD", "", 0, time, 0),), 100, averaged=True)
            for time in (10_000, 10_000 + 100 * nanoseconds)
        )
        assert comparison_document(before, after, 1)["rows"][1]["verdict"] == verdict


def test_a_tick_of_the_clock_is_no_difference() -> None:
    before = [traced({0: 3000})] * 20
    for microseconds, verdict in ((4, "cannot tell"), (5, "slower")):
        after = [traced({0: 1000 * microseconds})] * 20
        assert {row.time.verdict for row in compare_profiles(before, after).rows} == {verdict}


def test_rows_in_only_one_trace() -> None:
    long = {0: 100_000, 1: 50_000}
    document = comparison_document(traced({0: 100_000}), traced(long), 10)
    assert [(row["operator_index"], row["ratio"], row["verdict"]) for row in document["rows"]] == [
        (None, 1.5, "slower"), (0, 1.0, "same"), (1, None, "slower")
    ]  # fmt: skip
    assert not comparison_document(traced(long), traced({0: 100_000}), 10)["regressed"]


def test_the_comparison_of_a_called_subgraph() -> None:
    trace = read_profile(IF_TRACE)
    whole, caller, called = comparison_document(trace, trace, 10)["rows"]
    assert whole["before_ns"] == pytest.approx(caller["before_ns"] + called["before_ns"], abs=1)


def test_trace_compare_operators(tmp_path: Path) -> None:
    times = {"before": 10, "after": 30}
    before, after = (tmp_path / f"{name}.json" for name in times)
    for path in (before, after):
        events = [("@0 Softmax", "B", 100), ("@0 Softmax", "E", 100 + times[path.stem])]
        shown(tmp_path, *events).rename(path)
    compared = (before, after, "--operators")
    status, out, err = run(*compared, command="trace-compare")
    assert (status, err) == (1, "")
    words = out.splitlines()[-1].split()
    assert (words[:6], words[-1]) == (["0", "Softmax", "10.000", "30.000", "20.000", "3.000"], "slower")
    status, out, _ = run(before, before, "--operators", "--", after, after, command="trace-compare")
    start = "before: onert, 1 execution (2 recordings)\nafter: onert, 1 execution (2 recordings)\nrows: 2 slower\n"
    assert (status, out.startswith(start)) == (1, True)
    (tmp_path / "earlier" / "no file").mkdir(parents=True)
    status, _, err = run(after, "--operators", "--history", tmp_path / "earlier", command="trace-compare")
    none, why = err.splitlines()
    assert (status, none) == (2, f"warning: {tmp_path / 'earlier'} has no recordings")
    assert why == "error: there is no earlier recording (give two traces, or record the earlier model)"
    for name in "ab":
        (tmp_path / "earlier" / name).write_bytes(before.read_bytes())
    status, out, _ = run(after, "--operators", "--history", tmp_path / "earlier", command="trace-compare")
    assert (status, "rows: 2 slower" in out) == (1, True)
    idle = shown(tmp_path, *events, ("@1 Reshape", "B", 200), ("@1 Reshape", "E", 200))  # takes no time
    status, out, err = run(idle, idle, "--operators", command="trace-compare")
    assert (status, err[:46], "1 same" in out) == (0, "warning: nothing was measured precisely enough", True)
    status, out, _ = run(after, before, "--operators", command="trace-compare")
    assert (status, out.splitlines()[-1].split()[2:5]) == (0, ["30.000", "10.000", "-20.000"])
    status, _, err = run(before, after, command="trace-compare")
    assert (status, "trace-compare --operators" in err) == (1, True)
    status, _, err = run(before, IF_TRACE, "--operators", command="trace-compare")
    assert (status, "operators on one side only" in err) == (1, True)
    status, out, _ = run(*compared, "--json", "--threshold", "300", command="trace-compare")
    document = json.loads(out)
    assert (status, document["regressed"], document["schema_version"]) == (0, False, 1)
    _, out, _ = run(*compared, "--format", "csv", command="trace-compare")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["name"], row["delta_ns"], row["verdict"]) for row in rows] == [
        ("all operators", "20000", "slower"), ("Softmax", "20000", "slower")
    ]  # fmt: skip
    status, _, err = run(before, IF_MODEL, "--operators", command="trace-compare")
    assert (status, err.startswith(f"error: {IF_MODEL}: ")) == (3, True)
