"""NNAPI traces as text, CSV and JSON, compared with what `expected` holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circletools.render.traces import trace_csv, trace_json, trace_text
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
        "runs", "models", "driver_executions", "all_runs", "all_executions"
    }  # fmt: skip


def test_the_functions_with_the_most_time() -> None:
    def functions(count: int, by: Any = None) -> list[str]:
        marks = (f"{10 * at} T1 B [NN_LR_PE]f{at}\n{10 * at + 5} T1 E" for at in range(1, count + 1))
        return list(trace_text(trace_json(read("\n".join(marks)), "function"), by))

    assert functions(8)[3] == "functions, in ms"
    titled = functions(9)
    assert titled[3] == "functions, the 8 with the most self time of 9, in ms"
    assert len(titled) == 13
    assert len(functions(16, "function")) >= 20


def test_endless_runs_are_stopped() -> None:
    document = trace_json(read("10 T1 B [NN_LA_PO]run\n20 T1 B [NN_LR_PE]f\n30 T1 E"))
    assert "run 0 run (process 1000), cut short, by wall-clock time, in ms" in trace_text(document, "bucket")
    text = list(trace_text(document))
    assert text[text.index("") + 3].split() == ["0", "1000", "0.020", "0", "run,", "cut", "short"]
    assert "all runs, cut short, by wall-clock time, in ms" in text
    marks = "5 T1 E\n10 T1 B [NN_LA_PE]a\n15 T1 E\n"
    lost = "\n".join(
        trace_text(trace_json(read(marks + "20 T1 B [NN_LA_PO]run\n30 T1 B [NN_LA_PE]b\n40 T1 E\n50 T1 E")))
    )
    assert [lost.count(text) for text in ("\n  outside runs  1 ", " max  first seen ")] == [1, 1]
    assert "functions, in ms, counting open scopes up to the end of the trace" in text


def test_many_runs_are_summed_up_by_name_and_those_without_an_end_apart() -> None:
    marks = (f"{at}0 T1 B [NN_LA_PO]m{at % 2}\n{at}{at % 5 + 1} T1 E" for at in range(10, 24))
    text = list(trace_text(trace_json(read("\n".join((*marks, "300 T1 B [NN_LA_PO]m1\n390 T2 B x"))))))
    assert "no known losses, incomplete (T011)" in text[0]
    at = text.index("runs by name, process 1000, in ms")
    names = [line.split()[0] + line.split("  ")[-1] for line in text[at + 2 : at + 5]]
    assert names == ["7m0", "7m1", "1m1, cut"]
    assert text[at + 2].split()[1:3] == ["0.001", "0.003"]
    at = text.index("complete runs (14), by wall-clock time, in ms")
    assert text[at + 2].split()[2:5] == ["0.040", "0.040", "100.0"]


def test_an_execution_in_which_no_other_time_passed() -> None:
    document = {"executions": [{**DOCUMENT["executions"][0], "wall_clock": []}]}
    _, line = trace_csv(document, per_execution=True).splitlines()
    assert line == "0,0,warm-up,1000,synchronous,3100000,900000,,,,,"


def test_time_outside_any_run() -> None:
    marks = "10 T1 B [NN_LR_PE]ANeuralNetworksExecution_compute\n11 T1 B [NN_LC_PE]run\n15 T1 E\n20 T1 E"
    (run,) = (document := trace_json(read(marks)))["runs"]
    assert [run[name] for name in ("index", "process", "name", "start_ns", "partial")] == [-1, -1, "", -1, False]
    assert [one["group"] for one in document["all_executions"]["groups"]] == ["CPU only"]


def test_executions_are_asked_for() -> None:
    assert {*DOCUMENT} - {*trace_json(ANALYSIS)} == {"executions"}


def test_a_bucket_without_time_of_its_own() -> None:
    (row,) = Table(inclusive_ns={("LR", "PE"): 5}).to_rows()
    assert row == {"layer": "LR", "phase": "PE", "self_ns": 0, "inclusive_ns": 5}
