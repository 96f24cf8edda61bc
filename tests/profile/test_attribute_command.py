"""The command attribute."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.operator_support import TRACES
from tests.kit.origin_support import OP, embedded, origins, rebuilt
from tests.kit.profile_support import IF_MODEL, IF_TRACE, MLP, run, shown
from tests.kit.support import edited, path_of

EXPECTED = Path(__file__).with_name("attributed.txt")


def test_text(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(embedded(MLP, origins({1: "a/one", 2: "a/two", 3: "b/three"}, {0: {1}, 1: {1, 2}})))
    events = [("$0 subg", "B", 0), ("@3 Permute", "B", 0), ("@3 Permute", "E", 100)]
    events += [("@0 FullyConnected", "B", 100), ("@0 FullyConnected", "E", 400)]
    events += [("@2 Softmax", "B", 400), ("@2 Softmax", "E", 1000), ("$0 subg", "E", 1001)]
    status, out, err = run(shown(tmp_path, *events), "--model", model)
    assert (status, err) == (0, "")
    assert out == EXPECTED.read_text(encoding="utf-8")


def test_a_log_without_a_model(tmp_path: Path) -> None:
    log, tables = tmp_path / "log.txt", (TRACES / "benchmark_custom_op.txt").read_text(encoding="utf-8")
    head = "Explicitly applied GPU delegate, and the model graph will be partially executed\nGraph: [net.tflite]\n"
    head += "count=2 curr=9\ncount=50 first=152 curr=139 min=130 max=161 avg=145 std=9 p5=131 median=140 p95=160\n"
    head += "Inference timings in us: Init: 5685, First inference: 1853, Warmup (avg): 1446.3, Inference (avg): 145\n"
    for text, begin, absent in ((tables, "averages of ", ""), ("", "averages of 50 executions; no", ", operators")):
        log.write_text(head + text, encoding="utf-8")
        status, out, _ = run(log)
        assert status == 0
        assert out.startswith(f"benchmark_model: {begin}")
        assert "GPU: graph will be partially executed" in out
        assert f"  not in the log  threads{absent}, memory of the process" in out
        assert "5% 0.131 ms, median 0.140, 95% 0.160" in out


def test_json(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(embedded(IF_MODEL.read_bytes(), origins({4: "m/cond"}, {0: {4}}, {}, {})))
    status, out, err = run(IF_TRACE, "--model", model, "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert {
        key: document[key]
        for key in document.keys() - {"operators", "sources", "modules", "types", "added", "ambiguous", "total_ns"}
    } == {
        "file": str(model),
        "schema_version": 1,
        "runtime": "onert",
        "executions": 3,
        "averaged": False,
        "incomplete_events": 0,
        "unchecked_operators": 0,
        "ignored_marks": [],
        "sources_from": "tables",
        "unit": "ns",
        "whole": document["whole"],
        "groups": [],
    }
    assert document["whole"]["initialization_ns"] is None
    assert document["whole"]["first_ns"] > document["whole"]["steady_ns"] > 0
    first, second, third = document["operators"]
    assert (first["code"], first["sources"], first["backends"], first["runs"]) == ("IF", [4], ["builtin"], 3)
    assert (second["subgraph"], second["operator_index"], second["runs"]) == (1, 0, 3)
    assert third["total_ns"] is third["runs"] is None
    assert first["total_ns"] + second["total_ns"] == document["total_ns"] > 0
    assert first["share_percent"] + second["share_percent"] == pytest.approx(100)
    source, nameless = document["sources"]
    assert (source["id"], source["name"], source["total_ns"]) == (4, "m/cond", first["total_ns"])
    assert source["operators"] == [{"subgraph": 0, "operator_index": 0}]
    assert (nameless["id"], nameless["name"], nameless["total_ns"]) == (None, None, second["total_ns"])
    assert run(IF_TRACE, "--model", model, "--format", "json") == (0, out, "")


def test_csv_and_tables() -> None:
    def rows(by: str) -> list[dict[str, str]]:
        status, out, err = run(IF_TRACE, "--model", IF_MODEL, "--format", "csv", "--by", by)
        assert status == 0
        assert err.startswith(f"note: {IF_MODEL}: the model has no origins, so every operator is its own source")
        return list(csv.DictReader(io.StringIO(out)))

    operators, (module,) = rows("operator"), rows("module")
    assert [(row["subgraph"], row["operator_index"], row["code"]) for row in operators] == [
        ("0", "0", "IF"), ("1", "0", "FULLY_CONNECTED"), ("2", "0", "FULLY_CONNECTED")
    ]  # fmt: skip
    assert sum(int(row["total_ns"] or 0) for row in operators) == int(module["total_ns"])
    status, _, err = run(IF_TRACE, "--model", IF_MODEL, "--format", "csv", "--by", "operator", "--by", "module")
    assert (status, err) == (2, "error: CSV holds only one table (choose one with --by)\n")
    _, text, _ = run(IF_TRACE, "--model", IF_MODEL, "--by", "source")
    assert [line for line in text.splitlines() if line in ("operators", "sources", "modules")] == ["sources"]


def test_standard_input_and_depth_and_skip() -> None:
    status, out, _ = run(
        "-", "--model", IF_MODEL, "--json", "--skip", "1", "--depth", "1", stdin=IF_TRACE.read_bytes()
    )
    document = json.loads(out)
    assert (status, document["executions"], document["operators"][0]["runs"]) == (0, 2, 2)
    words = ("--model", "-", "--json", "--skip", "1", "--depth", "1")
    assert json.loads(run(IF_TRACE, *words, stdin=IF_MODEL.read_bytes())[1]) == {**document, "file": "-"}


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("-", "--model", "-"), 2, "the trace and the model cannot both come from standard input"),
        (
            (IF_TRACE, "--model", IF_MODEL, "--json", "--format", "csv"),
            2,
            "--json and --format csv cannot be combined",
        ),
        ((IF_TRACE, "--model", IF_MODEL, "--skip", "3"), 2, "cannot skip 3 executions: the trace has 3"),
        ((IF_TRACE, "--model", path_of("circle/mlp")), 3, "the trace is from another model: subgraph 1 ran"),
        ((IF_MODEL, "--model", IF_MODEL), 3, f"{IF_MODEL}: "),
        (("missing", "--model", IF_MODEL), 3, "missing: cannot read it: No such file or directory"),
        ((IF_TRACE, "--model", IF_TRACE), 3, f"{IF_TRACE}: JSON, not a TFLite or Circle model"),
    ],
)
def test_errors(args: tuple[str | Path, ...], status: int, message: str) -> None:
    ended, out, err = run(*args)
    assert (ended, out) == (status, "")
    assert err.startswith("error: ")
    assert message in err


def test_no_execution_of_averages_can_be_left_out() -> None:
    ended, _, err = run(TRACES / "benchmark_custom_op.csv", "--model", path_of("tflite/custom_op"), "--skip", "1")
    assert (ended, "only averages" in err) == (2, True)


def test_stale_origins_are_a_finding(tmp_path: Path) -> None:
    model = tmp_path / "stale.circle"
    model.write_bytes(rebuilt(embedded(IF_MODEL.read_bytes()), lambda made: made.subgraphs[0].operators.reverse()))
    assert run(IF_TRACE, "--model", model)[0] == 0  # one operator, so still in order
    stale = rebuilt(embedded(MLP), lambda made: made.subgraphs[0].operators.pop())
    model.write_bytes(stale)
    status, out, err = run(
        shown(tmp_path, ("@0 FullyConnected", "B", 1), ("@0 FullyConnected", "E", 2)), "--model", model
    )
    assert (status, out != "") == (1, True)
    assert err == f"warning: {model}: the origins are stale: the number of operators was 3 and is now 2\n"


def test_malformed_origins(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(edited(embedded(IF_MODEL.read_bytes()), lambda edit: edit.set_metadata(OP, b"\1\0\0\0\5\0")))
    status, _, err = run(IF_TRACE, "--model", model)
    assert (status, err.startswith(f"error: {model}: {OP}: an entry is truncated")) == (3, True)


def test_notes(tmp_path: Path) -> None:
    path = shown(tmp_path, ("@0 Novel", "B", 1), ("@0 Novel", "E", 2), ("@2 Softmax", "B", 3))
    model = tmp_path / "model.circle"
    model.write_bytes(embedded(MLP))
    _, _, err = run(path, "--model", model)
    assert err.splitlines() == [
        f"note: {path}: operators not checked against the model, because their names are unknown: 1",
        f"note: {path}: unmatched begin or end events (ignored): 1",
    ]


def test_a_single_long_run_makes_no_hot_spot(tmp_path: Path) -> None:
    events = []
    for execution, first in enumerate((2, 2, 12_000)):
        at = 20_000 * execution
        events += [("$0 subg", "B", at), ("@0 FullyConnected", "B", at), ("@0 FullyConnected", "E", at + first)]
        events += [
            ("@2 Softmax", "B", at + first),
            ("@2 Softmax", "E", at + first + 50),
            ("$0 subg", "E", at + 19_000),
        ]
    status, out, _ = run(shown(tmp_path, *events), "--model", path_of("circle/mlp"), "--by", "operator")
    lines = out.splitlines()
    rows = [line.split() for line in lines[lines.index("operators") + 2 :]]
    assert (status, [(row[0], row[1], row[8]) for row in rows[:2]]) == (
        0, [("1", "50.000", "SOFTMAX"), ("2", "2.000", "FULLY_CONNECTED")]
    )  # fmt: skip


def test_recordings_are_merged(tmp_path: Path) -> None:
    def document(*words: str | Path) -> dict[str, Any]:
        status, out, _ = run(*words, "--model", IF_MODEL, "--json")
        assert status == 0
        return dict(json.loads(out))

    alone, skipped = document(IF_TRACE), document(IF_TRACE, "--skip", "1")
    twice = document(IF_TRACE, IF_TRACE)
    assert (alone["executions"], twice["executions"]) == (3, 6)
    assert twice["total_ns"] == 2 * alone["total_ns"]
    for one, two in zip(alone["operators"], twice["operators"], strict=True):
        assert (two["median_ns"], two["mean_ns"]) == (one["median_ns"], one["mean_ns"])
        assert two["runs"] == (None if one["runs"] is None else 2 * one["runs"])
    assert document(IF_TRACE, IF_TRACE, "--skip", "1")["total_ns"] == 2 * skipped["total_ns"]
    status, _, err = run(IF_TRACE, TRACES / "benchmark_custom_op.csv", "--model", IF_MODEL)
    assert (status, "only recordings of one runtime" in err) == (2, True)
