"""The commands about traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.program import TRACE, put, run


def test_trace_stats_in_every_form(tmp_path: Path) -> None:
    forms = {form: run("trace-stats", TRACE, "--format", form) for form in ("text", "json", "csv")}
    assert {(ran.status, ran.err) for ran in forms.values()} == {(0, "")}
    assert b"all runs, by wall-clock time, in ms\n" in forms["text"].out
    title = b"run 0 model_0 (process 5143): thread time in ms\n"
    assert title in run("trace-stats", TRACE, "--by", "bucket").out
    document = json.loads(forms["json"].out)
    assert (document["schema_version"], document["trace"]["events"]) == (1, 150)
    rows = forms["csv"].out.decode().splitlines()
    assert rows[0].startswith("run,name,process,app_phase,layer,phase,self_ns,inclusive_ns")
    whole = next(part for part in document["runs"][0]["parts"] if part["app_phase"] == "all")
    assert sum(int(row.split(",")[6]) for row in rows[1:] if ",all," in row) == whole["covered_ns"]
    assert run("trace-stats", "-", "--json", stdin=TRACE.read_bytes()).out.count(b'"code"') == 0
    ran = run("trace-stats", TRACE, "--by", "function", "--format", "csv")
    assert ran.out.startswith(b"layer,phase,name,calls,self_ns,inclusive_ns\n")
    ran = run("trace-stats", TRACE, "--per-execution", "--format", "csv")
    assert len({row.split(b",")[0] for row in ran.out.splitlines()[1:]}) == 7


def test_trace_stats_of_a_bad_trace(tmp_path: Path) -> None:
    none = put(
        tmp_path / "none.txt", "          task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: B|1000|x\n"
    )
    ran = run("trace-stats", none)
    assert ran.status == 1
    assert f"error: {none}: T001: the trace has no NN marks; record while a model runs" in ran.err
    ran = run("trace-stats", none, "--strict")
    assert (ran.status, ran.out) == (3, b"")
    assert ran.err.startswith(f"error: {none}: T001: the trace has no NN marks (record while")
    ran = run("trace-stats", put(tmp_path / "bad", b"\x89PNG\0\0"))
    assert (ran.status, ran.out) == (3, b"")
    assert run("trace-stats", TRACE, "--json", "--format", "csv").status == 2
    assert run("trace-stats", tmp_path / "missing").status == 3


def test_trace_compare(tmp_path: Path) -> None:
    ran = run("trace-compare", TRACE, TRACE, "--threshold", "0")
    assert (ran.status, ran.err[:46]) == (0, "warning: nothing was measured precisely enough")
    line = "          task-1001  ( 1000) [003] ...1 5.0000{}: tracing_mark_write: {}\n"
    short, long = (
        put(tmp_path / f"{end}.txt", line.format("01", "B|1000|[NN_LR_PP]p") + line.format(end, "E|1000"))
        for end in ("20", "40")
    )
    assert run("trace-compare", short, long).status == 1
    assert run("trace-compare", short, short, "--json", "--", long).status == 1
    for words in ((short,), (short, long, long), (short, "--"), ("--", short), (short, "--", long, "--", long)):
        ran = run("trace-compare", *words)
        assert (ran.status, "give two traces, or several for each side, separated by --" in ran.err) == (2, True)
    assert run("trace-compare", long, short).status == 0
    assert run("trace-compare", short, long, "--threshold", "200").status == 0
    (row,) = json.loads(run("trace-compare", short, long, "--json").out)["rows"]
    assert (row["before_ns"], row["after_ns"], row["verdict"]) == (19_000, 39_000, "slower")
    assert run("trace-compare", "-", "-").status == 2
    assert run("trace-compare", short, long, "--format", "csv").out.startswith(b"layer,phase,unit,before_ns")


@pytest.mark.parametrize("target", ["chrome", "perfetto"])
def test_trace_export(target: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("trace-export", TRACE, out, "--to", target)
    assert (ran.status, ran.out, ran.err) == (0, b"", "")
    assert run("trace-export", TRACE, "-", "--to", target).out == out.read_bytes()
    runs = [json.loads(run("trace-stats", trace, "--json").out)["runs"] for trace in (TRACE, out)]
    assert runs[0] == runs[1]
    assert run("trace-export", out, out, "--to", target).status == 2
