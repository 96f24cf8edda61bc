"""NNAPI traces as text, CSV and JSON, compared with what `expected` holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circletools.render.trace_tables import trace_csv, trace_text
from circletools.render.traces import trace_json
from circletools.trace.nnapi.statistics import Table
from tests.kit.trace_support import read

EXPECTED = Path(__file__).with_name("expected")
ANALYSIS = read((EXPECTED / "trace.table").read_text(encoding="utf-8"))
DOCUMENT = trace_json(ANALYSIS, per_execution=True)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("trace.txt", lambda document: "\n".join(trace_text(document)) + "\n"),
        ("trace_buckets.txt", lambda document: "\n".join(trace_text(document, "bucket")) + "\n"),
        ("buckets.csv", trace_csv),
        ("functions.csv", lambda document: trace_csv(document, "function")),
        ("executions.csv", lambda document: trace_csv(document, per_execution=True)),
        ("trace.json", lambda document: json.dumps(document, indent=1) + "\n"),
    ],
)
def test_every_form(name: str, written: Callable[[dict[str, Any]], str]) -> None:
    assert written(DOCUMENT) == (EXPECTED / name).read_text(encoding="utf-8")


def test_runs_can_be_made_as_they_are_read() -> None:
    streamed = trace_json(ANALYSIS, per_execution=True, stream=True)
    assert list(trace_text(streamed)) == list(trace_text(DOCUMENT))
    assert list(streamed["runs"]) == []
    assert isinstance(DOCUMENT["runs"], list)


def test_one_view_leaves_out_the_other() -> None:
    whole = set(trace_json(ANALYSIS))
    assert whole - set(trace_json(ANALYSIS, "bucket")) == {"functions"}
    assert whole - set(trace_json(ANALYSIS, "function")) == {
        "runs", "driver_executions", "all_runs", "all_executions"
    }  # fmt: skip


def test_the_functions_with_the_most_time() -> None:
    def functions(count: int) -> list[str]:
        marks = (f"{10 * at} T1 B [NN_LR_PE]f{at}\n{10 * at + 5} T1 E" for at in range(1, count + 1))
        return list(trace_text(trace_json(read("\n".join(marks)), "function")))

    assert functions(8)[2] == "functions"
    titled = functions(9)
    assert titled[2] == "functions, the 8 with the most self time of 9"
    assert len(titled) == 12
    document = trace_json(
        read("\n".join(f"{10 * at} T1 B [NN_LR_PE]f{at}\n{10 * at + 5} T1 E" for at in range(1, 17)))
    )
    assert len(list(trace_text(document, "function"))) >= 20


def test_what_never_ends_is_cut_short() -> None:
    document = trace_json(read("10 T1 B [NN_LA_PO]run\n20 T1 B [NN_LR_PE]f\n30 T1 E"))
    assert list(trace_text(document, "bucket"))[3] == "run 0 run (process 1000), cut short, by wall-clock time, in ms"
    assert list(trace_text(document))[5].split() == ["0", "1000", "0.020", "0", "-", "-", "run,", "cut", "short"]


def test_an_execution_in_which_no_other_time_passed() -> None:
    document = {"executions": [{**DOCUMENT["executions"][0], "wall_clock": []}]}
    assert trace_csv(document, per_execution=True).splitlines()[1:] == [
        "0,0,warm-up,1000,synchronous,3100000,900000,,,,,"
    ]


def test_time_outside_any_run() -> None:
    (run,) = trace_json(read("10 T1 B [NN_LR_PE]f\n20 T1 E"))["runs"]
    assert [run[name] for name in ("index", "process", "name", "start_ns", "partial")] == [-1, -1, "", -1, False]


def test_executions_are_asked_for() -> None:
    assert "executions" in DOCUMENT
    assert "executions" not in trace_json(ANALYSIS)


def test_a_bucket_without_time_of_its_own() -> None:
    assert Table(inclusive_ns={("LR", "PE"): 5}).to_rows() == [
        {"layer": "LR", "phase": "PE", "self_ns": 0, "inclusive_ns": 5}
    ]
