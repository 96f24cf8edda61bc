"""Time by origin: what runtimes measured, joined with models, shared out among sources; and the command attribute."""

from __future__ import annotations

import csv
import io
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.model import open_model
from circletools.origin import Origins
from circletools.profile.attribution import Attribution, attribute_to
from circletools.profile.compare_profiles import compare_profiles
from circletools.profile.sharing import modules_of, split
from circletools.render.attribution import attribution_csv, attribution_json, attribution_text
from circletools.render.comparison import comparison_json
from circletools.trace.operators.names import agrees
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, without_first
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import (
    SAMPLES,
    TRACES,
    as_atrace,
    as_report,
    as_rows,
    litert_events,
    litert_record,
    onert_traces,
)
from tests.kit.origin_support import OP, embedded, origins, rebuilt
from tests.kit.support import bytes_of, edited, path_of
from tests.trace.test_operators import IN_ONERT, LITERT_MODELS, mutations

TOOL = Path(sys.executable).with_name("circletool")
MLP = bytes_of("circle/mlp")  # FULLY_CONNECTED, FULLY_CONNECTED, SOFTMAX
IF_TRACE, IF_MODEL = TRACES / "onert_if_cond.chrome.json", path_of("circle/if_cond")
CODES = ("FullyConnected", "FullyConnected", "Softmax")


def joined(data: bytes, trace: OperatorTrace, wanted: Origins | None = None, depth: int | None = None) -> Attribution:
    with open_model(data) as model:
        return attribute_to(model, trace, wanted, depth)


def comparison_document(before: OperatorTrace, after: OperatorTrace, threshold: float) -> dict[str, Any]:
    return comparison_json(compare_profiles(before, after, threshold))


def traced(*executions: Mapping[int, int], extra: tuple[OperatorRun, ...] = ()) -> OperatorTrace:
    """Return a trace of `mlp`: for each execution the nanoseconds of operators by index."""
    runs = [
        OperatorRun(0, index, CODES[index], "cpu", 1000 * number + 100 * index, time, number)
        for number, times in enumerate(executions)
        for index, time in times.items()
    ]
    return OperatorTrace("onert", (*runs, *extra), len(executions))


def totals(found: Attribution) -> tuple[int, int, int, int]:
    """Return the sums over operators, sources, modules, and what was added."""
    return (
        sum(row.time.total_ns for row in found.operators if row.time is not None),
        sum(row.share.time.total_ns for row in found.sources),
        sum(row.share.time.total_ns for row in found.modules),
        sum(row.time.total_ns for row in found.added if row.kind != "inside"),
    )


WITH_PERMUTES = ("constant_output", "input_as_output", "only_input", "output_twice", "while_loop")

# --- real traces --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", IN_ONERT, ids=lambda path: path.stem)
def test_every_operator_that_onert_ran_has_its_origins(model: Path, tmp_path: Path) -> None:
    """Each operator of each subgraph is given two sources, one of them that of the next operator too."""
    data = model.read_bytes()
    with open_model(data) as opened:
        counts = [len(subgraph.operators) for subgraph in opened.subgraphs]
    first = [sum(counts[:subgraph]) for subgraph in range(len(counts))]
    sources = {number: f"module{number % 3}/part::{number}" for number in range(sum(counts) + 1)}
    wanted = origins(
        sources, *({index: {start + index, start + index + 1} for index in range(count)}
                   for start, count in zip(first, counts, strict=True))
    )  # fmt: skip
    with_origins = tmp_path / "model.circle"
    with_origins.write_bytes(embedded(data, wanted) if sum(counts) else data)
    (tmp_path / "run").mkdir()
    runs = 1 if model.stem == "while_loop" else 2
    trace = read_profile(onert_traces(with_origins, runs, tmp_path / "run")["trace.chrome.json"])
    found = joined(data, trace, wanted)
    operators, by_source, by_module, added = totals(found)
    assert operators == by_source == by_module
    assert operators + added == found.total_ns == sum(run.duration_ns for run in trace.runs if run.subgraph == 0)
    assert (found.unchecked, found.ignored) == (0, ())
    for row in found.operators:
        assert row.sources == (first[row.subgraph] + row.index, first[row.subgraph] + row.index + 1)
        assert row.time is not None or row.subgraph > 0
    assert {(row.kind, row.name) for row in found.added} <= {("inserted", "Permute")}
    assert bool(found.added) == (model.stem in WITH_PERMUTES)


@pytest.mark.parametrize("name", LITERT_MODELS)
@pytest.mark.parametrize("report", [False, True], ids=["marks", "report"])
def test_every_operator_that_litert_ran_has_its_origins(name: str, report: bool) -> None:
    events = litert_events(path_of(f"tflite/{name}"), 3)
    trace = read_profile(as_report(as_rows(events), 3) if report else as_atrace(events))
    found = joined(bytes_of(f"tflite/{name}"), trace)
    operators, by_source, by_module, added = totals(found)
    assert operators == by_source == by_module
    assert operators == found.total_ns == sum(run.duration_ns for run in trace.runs if run.subgraph == 0)
    assert added == 0
    assert found.ignored == ()
    assert all(row.time is not None for row in found.operators if row.subgraph == 0)


def test_summaries_that_tell_no_subgraphs() -> None:
    path = path_of("tflite/while_loop")
    trace = read_profile(litert_record(path, 2)[1])
    found = joined(path.read_bytes(), trace)
    assert [(row.subgraph, row.code) for row in found.operators if row.time is not None] == [(0, "WHILE")]
    assert [(row.kind, row.subgraph, row.name) for row in found.added] == [("inside", 1, "LESS")]
    same = OperatorRun(-1, 0, "FULLY_CONNECTED", "", 0, 1, 0)
    with pytest.raises(
        InvalidInputError, match=r"does not tell operators 0 \(FULLY_CONNECTED\) of subgraphs\[1\] and"
    ):
        joined(bytes_of("circle/if_cond"), OperatorTrace("benchmark_model", (same,), 1, averaged=True))


def test_what_a_composite_stands_for_is_inserted() -> None:
    """LiteRT runs the operators of the composite's subgraph in its place, as operators of the main subgraph."""
    path = path_of("tflite/composite")
    trace = read_profile(as_atrace(litert_events(path, 3)))
    found = joined(path.read_bytes(), trace)
    assert found.operators[0].code == "STABLEHLO_COMPOSITE"
    assert found.added
    assert {row.kind for row in found.added} == {"inserted"}
    assert found.total_ns == sum(run.duration_ns for run in trace.runs)


def test_what_a_delegate_ran_is_listed_apart() -> None:
    path = path_of("tflite/cnn_int8")
    trace = read_profile(as_report(as_rows(litert_events(path, 3, 0)), 3))
    found = joined(path.read_bytes(), trace)
    with_time = [row.code for row in found.operators if row.time is not None]
    assert with_time == ["SOFTMAX"]  # XNNPACK does not take it where it is quantized
    assert {row.kind for row in found.added} == {"delegate"}
    operators, _, _, added = totals(found)
    assert operators + added == found.total_ns


# --- the join -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            OperatorRun(0, 2, "Conv2D", "cpu", 0, 1, 0),
            r"operators\[2\] is Conv2D in the trace; in the model SOFTMAX",
        ),
        (
            OperatorRun(0, 0, "Comparison", "cpu", 0, 1, 0),
            "is Comparison in the trace; in the model FULLY_CONNECTED",
        ),
        (
            OperatorRun(4, 0, "Softmax", "cpu", 0, 1, 0),
            "subgraph 4 runs Softmax in the trace; in the model subgraphs: 1",
        ),
        (
            OperatorRun(0, 3, "Softmax", "cpu", 0, 1, 0),
            r"operators\[3\] is Softmax in the trace; in the model operators there: 3",
        ),
    ],
)
def test_a_trace_of_another_model_is_refused(run: OperatorRun, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"the trace is not of this model: .*{message}"):
        joined(MLP, OperatorTrace("onert", (run,), 1))


@pytest.mark.parametrize("report", [False, True], ids=["marks", "report"])
def test_marks_of_another_model_are_refused(report: bool) -> None:
    events = litert_events(path_of("tflite/cnn"), 1)
    trace = read_profile(as_report(as_rows(events), 1) if report else as_atrace(events))
    with pytest.raises(InvalidInputError, match="the trace is not of this model"):
        joined(bytes_of("tflite/transformer_block"), trace)
    with pytest.raises(InvalidInputError, match="the trace is not of this model"):
        joined(bytes_of("tflite/custom_op"), trace)
    if report:
        odd = OperatorRun(0, 0, "MyOp", "", 0, 5, 0)
        with pytest.raises(InvalidInputError, match=r"operators\[0\] is MyOp in the trace"):
            joined(bytes_of("tflite/custom_op"), OperatorTrace("benchmark_model", (odd,), 1, averaged=True))


def test_what_the_runtime_inserted() -> None:
    permute = OperatorRun(0, 3, "Permute", "builtin", 900, 7, 0)
    found = joined(MLP, traced({0: 10, 1: 20, 2: 30}, extra=(permute,)))
    (row,) = found.added
    assert (row.kind, row.index, row.name, row.backends, row.time.total_ns) == (
        "inserted",
        3,
        "Permute",
        ("builtin",),
        7,
    )
    assert found.total_ns == 67


def test_names_that_cannot_be_compared_are_counted() -> None:
    odd = OperatorRun(0, 0, "SomethingNew", "npu", 0, 5, 0)
    found = joined(MLP, OperatorTrace("onert", (odd,), 1))
    assert (found.unchecked, found.operators[0].backends) == (1, ("npu",))
    stranger = OperatorRun(0, 0, "SomethingNew", "", 0, 5, 0)
    found = joined(MLP, OperatorTrace("litert", (stranger,), 1))
    assert (found.ignored, found.total_ns) == (("SomethingNew",), 0)


BUILTIN = ("CONV_2D", "ADD", "RELU6", "MEAN", "SQUARE", "SELECT_V2", "RMS_NORM")


@pytest.mark.parametrize(
    ("runtime", "name", "code", "expected"),
    [
        ("onert", "Conv2D", "CONV_2D", True),
        ("onert", "RmsNorm", "RMS_NORM", True),
        ("onert", "ReLU", "RELU6", True),
        ("onert", "Squre", "SQUARE", True),
        ("onert", "Select", "SELECT_V2", True),
        ("onert", "Conv2D", "ADD", False),
        ("onert", "ReduceMean", "ADD", False),
        ("onert", "Whatever", "ADD", None),
        ("onert", "Einsum", "CUSTOM:Einsum", None),
        ("litert", "CONV_2D", "CONV_2D", True),
        ("litert", "My/Op", "CUSTOM:My/Op", True),
        ("litert", "ADD", "CONV_2D", False),
        ("litert", "CONV_2D/x", "CONV_2D", None),
        ("benchmark_model", "CONV_2D/x", "CONV_2D", True),
        ("benchmark_model", "My/Op", "CUSTOM:My", True),
        ("benchmark_model", "CONV_2DX", "CONV_2D", None),
        ("benchmark_model", "ADD/x", "CONV_2D", False),
        ("benchmark_model", "MyOp", "ADD", None),
    ],
)
def test_names_of_operators(runtime: Any, name: str, code: str, expected: bool | None) -> None:
    assert agrees(runtime, name, code, BUILTIN) is expected


def test_a_called_subgraph_s_time_is_its_own() -> None:
    data = bytes_of("circle/if_cond")
    runs = (
        OperatorRun(0, 0, "If", "builtin", 100, 50, 0),
        OperatorRun(2, 0, "FullyConnected", "cpu", 110, 30, 0),
        OperatorRun(0, 0, "If", "builtin", 200, 20, 1),
        OperatorRun(1, 0, "FullyConnected", "cpu", 205, 5, 1),
    )
    found = joined(data, OperatorTrace("onert", runs, 2))
    assert [(row.subgraph, row.time and row.time.total_ns) for row in found.operators] == [(0, 35), (1, 5), (2, 30)]
    assert found.total_ns == 70


def test_averages_leave_a_called_subgraph_in_its_operator() -> None:
    data = bytes_of("circle/if_cond")
    runs = (
        OperatorRun(0, 0, "IF", "", 0, 50, 0, calls=2),
        OperatorRun(1, 0, "FULLY_CONNECTED", "", 0, 30, 0, calls=1),
    )
    found = joined(data, OperatorTrace("benchmark_model", runs, 2, averaged=True))
    assert found.total_ns == 50
    assert [(row.kind, row.subgraph, row.time.total_ns) for row in found.added] == [("inside", 1, 30)]


# --- shares -------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**30), st.integers(1, 1000))
def test_parts_add_up_and_differ_by_one_at_most(total: int, count: int) -> None:
    parts = split(total, count)
    assert (sum(parts), len(parts)) == (total, count)
    assert max(parts) - min(parts) <= 1
    assert parts == sorted(parts, reverse=True)


SETS = st.lists(st.frozensets(st.integers(0, 5), max_size=4), min_size=3, max_size=3)
TIMES = st.dictionaries(st.integers(0, 2), st.integers(0, 10**6))
NAMES = st.lists(st.text("ab/;:", max_size=8), min_size=6, max_size=6)


@given(SETS, st.lists(TIMES, min_size=1, max_size=5), NAMES, st.none() | st.integers(1, 3))
def test_sums_are_exact(
    chosen: list[frozenset[int]], times: list[dict[int, int]], names: list[str], depth: int | None
) -> None:
    wanted = Origins(dict(enumerate(names)), ({index: found for index, found in enumerate(chosen) if found},))
    permute = OperatorRun(0, 7, "Permute", "builtin", 999, 11, 0)
    found = joined(MLP, traced(*times, extra=(permute,)), wanted, depth)
    expected = [sum(execution.get(index, 0) for execution in times) for index in range(3)]
    assert [row.time.total_ns if row.time else 0 for row in found.operators] == expected
    assert totals(found) == (sum(expected),) * 3 + (11,)
    assert found.total_ns == sum(expected) + 11
    for group in found.sources:
        exact = sum(
            (
                Fraction(expected[index], len(sources) or 1)
                for index, sources in enumerate(chosen)
                if group.source in sources or (group.source is None and not sources)
            ),
            Fraction(0),
        )
        assert abs(group.share.time.total_ns - exact) < 3  # a nanosecond for each operator
        assert group.share.shared == any(len(found) > 1 and group.source in found for found in chosen)
    for row in found.operators:
        if row.time is not None:
            series = [execution.get(row.index, 0) for execution in times]
            assert row.time.median_ns == int(statistics.median(series))


def test_fission_and_fusion() -> None:
    """Operators 0 and 1 are what source 5 became; operator 2 is what sources 5, 6 and 7 became."""
    wanted = origins({5: "a/x", 6: "a/y", 7: "b/z", 8: "gone"}, {0: {5}, 1: {5}, 2: {5, 6, 7}})
    found = joined(MLP, traced({0: 100, 1: 10, 2: 8}, {0: 200, 1: 20, 2: 3}, {2: 0}), wanted)
    assert {
        row.source: (row.share.time.total_ns, row.share.time.median_ns, row.share.shared, row.share.operators)
        for row in found.sources
    } == {
        5: (334, 113, True, ((0, 0), (0, 1), (0, 2))),  # 330 and 4 of 11; the median of 112.7, 221 and 0
        6: (4, 1, True, ((0, 2),)),
        7: (3, 1, True, ((0, 2),)),
    }
    assert {row.name: row.share.time.total_ns for row in found.modules} == {"a": 338, "b": 3}


@pytest.mark.parametrize(
    ("name", "depth", "modules"),
    [
        ("model/dense/MatMul;model/dense/BiasAdd", None, ["model/dense"]),
        ("model/dense/MatMul;model/dense/BiasAdd", 1, ["model"]),
        ("a/b/c;d/e/f", 1, ["a", "d"]),
        ("a/b/c/d", 2, ["a/b"]),
        ("a/b", 5, ["a"]),
        ("torch.nn.modules.linear.Linear::linear_1", None, ["torch.nn.modules.linear.Linear"]),
        ("net::block/conv::0", 2, ["net::block"]),
        ("plain", 1, ["plain"]),
        ("", None, [""]),
        (";", None, [";"]),
    ],
)
def test_modules(name: str, depth: int | None, modules: list[str]) -> None:
    assert modules_of(name, depth) == modules


def test_without_the_first_executions() -> None:
    trace = traced({0: 100}, {0: 1, 1: 2}, {0: 3})
    left = without_first(trace, 1)
    assert (left.executions, [(run.execution, run.duration_ns) for run in left.runs]) == (2, [(0, 1), (0, 2), (1, 3)])
    assert without_first(trace, 0) is trace


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=50)
@given(st.data())
def test_any_trace_gives_an_attribution_or_one_error(name: str, data: st.DataObject) -> None:
    model = bytes_of("circle/if_cond" if "if_cond" in name else "tflite/custom_op")
    try:
        found = joined(model, read_profile(data.draw(mutations((TRACES / name).read_bytes()))))
    except CircleToolsError:
        return
    operators, by_source, by_module, added = totals(found)
    assert operators == by_source == by_module
    assert operators + added == found.total_ns
    list(attribution_text(found))
    json.dumps(attribution_json(found))
    attribution_csv(found)


# --- two traces ---------------------------------------------------------------------------------------------


def changed(trace: OperatorTrace, operator: int, factor: float) -> OperatorTrace:
    """Return a trace in which one operator takes `factor` times as long."""
    runs = tuple(
        run._replace(duration_ns=round(run.duration_ns * factor)) if run.operator == operator else run
        for run in trace.runs
    )
    return replace(trace, runs=runs)


STEADY = traced(*({0: 100 + step, 1: 1000 - step, 2: 5} for step in range(6)))


def test_a_trace_is_as_fast_as_itself() -> None:
    document = comparison_document(STEADY, STEADY, 0)
    assert document["regressed"] is False
    assert [(row["operator_index"], row["before_ns"], row["delta_ns"], row["ratio"]) for row in document["rows"]] == [
        (None, 1105, 0, 1.0), (0, 102, 0, 1.0), (1, 998, 0, 1.0), (2, 5, 0, 1.0)
    ]  # fmt: skip
    assert all(row["low"] <= 1 <= row["high"] for row in document["rows"])


@pytest.mark.parametrize(("factor", "threshold", "regressed"), [(1.5, 10, True), (1.5, 60, False), (0.5, 0, False)])
def test_a_slower_operator(factor: float, threshold: float, regressed: bool) -> None:
    document = comparison_document(STEADY, changed(STEADY, 0, factor), threshold)
    assert document["regressed"] is regressed
    whole, first, second, third = document["rows"]
    assert first["regressed"] is regressed
    assert first["low"] <= first["ratio"] <= first["high"]
    assert first["ratio"] == pytest.approx(factor, abs=0.01)
    assert whole["delta_ns"] == pytest.approx(102.5 * (factor - 1), abs=2)
    assert (second["delta_ns"], third["delta_ns"]) == (0, 0)


def test_no_time_in_many_executions_is_within_bounds() -> None:
    before, after = (
        traced(*({0: time, 1: 10_000} for time in times)) for times in ((1000, 0, 0, 0, 0), (1000, 1000, 0, 0, 0))
    )
    document = comparison_document(before, after, 10)
    assert not document["regressed"]
    row = document["rows"][1]
    assert (row["ratio"], row["high"]) == (2.0, None)
    assert 0 <= row["low"] <= 1
    json.dumps(document, allow_nan=False)


def test_few_executions_and_averages_have_no_bounds() -> None:
    few = traced({0: 100}, {0: 300})
    rows = comparison_document(few, few, 0)["rows"]
    assert [(row["before_ns"], row["low"], row["high"]) for row in rows] == [(200, None, None)] * 2
    calls = OperatorRun(0, 0, "IF", "", 0, 600, 0, calls=6)
    called = OperatorRun(1, 0, "ADD", "", 0, 60, 0, calls=6)
    averages = OperatorTrace("benchmark_model", (calls, called), 6, averaged=True)
    rows = comparison_document(averages, averages, 0)["rows"]
    assert [(row["name"], row["after_ns"], row["low"]) for row in rows] == [
        ("all operators", 100, None), ("IF", 100, None), ("ADD", 10, None)
    ]  # fmt: skip


def test_what_only_one_trace_has() -> None:
    document = comparison_document(traced({0: 100}), traced({0: 100, 1: 50}), 10)
    assert [(row["operator_index"], row["ratio"], row["regressed"]) for row in document["rows"]] == [
        (None, 1.5, True), (0, 1.0, False), (1, None, True)
    ]  # fmt: skip
    assert not comparison_document(traced({0: 100, 1: 50}), traced({0: 100}), 10)["regressed"]


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
    assert out.splitlines()[-1].split() == ["0", "Softmax", "10.000", "30.000", "20.000", "3.000", "-", "-", "slower"]
    assert out.startswith("before: onert, 1 execution\n")
    status, out, _ = run(after, before, "--operators", command="trace-compare")
    assert (status, out.splitlines()[-1].split()[2:5]) == (0, ["30.000", "10.000", "-20.000"])
    status, _, err = run(before, after, command="trace-compare")
    assert (status, "trace-compare --operators" in err) == (1, True)
    status, out, _ = run(*compared, "--json", "--threshold", "300", command="trace-compare")
    document = json.loads(out)
    assert (status, document["regressed"], document["schema_version"]) == (0, False, 1)
    _, out, _ = run(*compared, "--format", "csv", command="trace-compare")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["name"], row["delta_ns"], row["regressed"]) for row in rows] == [
        ("all operators", "20000", "True"), ("Softmax", "20000", "True")
    ]  # fmt: skip
    status, _, err = run(before, IF_MODEL, "--operators", command="trace-compare")
    assert (status, err.startswith(f"error: {IF_MODEL}: ")) == (3, True)


# --- the command --------------------------------------------------------------------------------------------


def run(*args: str | Path, stdin: bytes = b"", command: str = "attribute") -> tuple[int, str, str]:
    """Run `circletool attribute`, or another command."""
    done = subprocess.run([TOOL, command, *args], input=stdin, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def shown(tmp_path: Path, *events: tuple[str, str, int]) -> Path:
    """Write a trace of onert: names, phases, microseconds."""
    path = tmp_path / "trace.chrome.json"
    document = [
        {"name": name, "tid": "$0 sess, $0 subg" + ", cpu" * name.startswith("@"), "ph": phase, "ts": str(time)}
        for name, phase, time in events
    ]
    path.write_text(json.dumps({"traceEvents": [*document, {}]}), encoding="utf-8")
    return path


def test_text(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(embedded(MLP, origins({1: "a/one", 2: "a/two", 3: "b/three"}, {0: {1}, 1: {1, 2}})))
    events = [("$0 subg", "B", 0), ("@3 Permute", "B", 0), ("@3 Permute", "E", 100)]
    events += [("@0 FullyConnected", "B", 100), ("@0 FullyConnected", "E", 400)]
    events += [("@2 Softmax", "B", 400), ("@2 Softmax", "E", 1000), ("$0 subg", "E", 1001)]
    status, out, err = run(shown(tmp_path, *events), "--model", model)
    assert (status, err) == (0, "")
    assert out == (
        "onert: 1 execution, 1000.000 us in all\n"
        "\n"
        "operators\n"
        "  total_us  mean_us  median_us  share  index  code             backend\n"
        "   600.000  600.000    600.000  60.0%  2      SOFTMAX          cpu      <- (no origin)\n"
        "   300.000  300.000    300.000  30.0%  0      FULLY_CONNECTED  cpu      <- 1 a/one\n"
        "\n"
        "sources\n"
        "  total_us  mean_us  median_us  share  operators  shared\n"
        "   600.000  600.000    600.000  60.0%  1                  (no origin)\n"
        "   300.000  300.000    300.000  30.0%  2          yes     1 a/one\n"
        "\n"
        "modules\n"
        "  total_us  mean_us  median_us  share  operators  shared\n"
        "   600.000  600.000    600.000  60.0%  1                  (no origin)\n"
        "   300.000  300.000    300.000  30.0%  2                  a\n"
        "\n"
        "inserted by the runtime\n"
        "  total_us  mean_us  median_us  share  index  backend\n"
        "   100.000  100.000    100.000  10.0%  3      cpu      Permute\n"
        "\n"
        "operators without a time: 1 FULLY_CONNECTED\n"
    )


def test_json(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(embedded(IF_MODEL.read_bytes(), origins({4: "m/cond"}, {0: {4}}, {}, {})))
    status, out, err = run(IF_TRACE, "--model", model, "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert {
        key: document[key] for key in document.keys() - {"operators", "sources", "modules", "added", "total_ns"}
    } == {
        "schema_version": 1,
        "runtime": "onert",
        "executions": 3,
        "averaged": False,
        "incomplete_events": 0,
        "unchecked_operators": 0,
        "ignored_marks": [],
        "sources_from": "tables",
    }
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
    status, out, err = run(IF_TRACE, "--model", IF_MODEL, "--format", "csv", "--by", "operator", "--by", "module")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert err.startswith(f"note: {IF_MODEL}: the model has no origins, so every operator is its own source")
    assert [row["kind"] for row in rows] == ["operator"] * 3 + ["module"]
    assert [(row["subgraph"], row["operator_index"], row["name"]) for row in rows[:3]] == [
        ("0", "0", "IF"), ("1", "0", "FULLY_CONNECTED"), ("2", "0", "FULLY_CONNECTED")
    ]  # fmt: skip
    assert sum(int(row["total_ns"] or 0) for row in rows[:3]) == int(rows[3]["total_ns"])
    _, text, _ = run(IF_TRACE, "--model", IF_MODEL, "--by", "source")
    assert [line for line in text.splitlines() if line in ("operators", "sources", "modules")] == ["sources"]


def test_standard_input_and_depth_and_skip() -> None:
    status, out, _ = run(
        "-", "--model", IF_MODEL, "--json", "--skip", "1", "--depth", "1", stdin=IF_TRACE.read_bytes()
    )
    document = json.loads(out)
    assert (status, document["executions"], document["operators"][0]["runs"]) == (0, 2, 2)
    assert (
        run(IF_TRACE, "--model", "-", "--json", "--skip", "1", "--depth", "1", stdin=IF_MODEL.read_bytes())[1] == out
    )


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("-", "--model", "-"), 2, "the trace and the model cannot both be standard input"),
        (
            (IF_TRACE, "--model", IF_MODEL, "--json", "--format", "csv"),
            2,
            "--json and --format csv exclude each other",
        ),
        ((IF_TRACE, "--model", IF_MODEL, "--skip", "3"), 2, "3 executions cannot be left out: the trace has 3"),
        ((IF_TRACE, "--model", path_of("circle/mlp")), 3, "the trace is not of this model: subgraph 1 runs"),
        ((IF_MODEL, "--model", IF_MODEL), 3, f"{IF_MODEL}: "),
        (("missing", "--model", IF_MODEL), 3, "missing: cannot read it: No such file or directory"),
        ((IF_TRACE, "--model", IF_TRACE), 3, f"{IF_TRACE}: neither a TFLite nor a Circle model"),
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
    assert err == f"warning: {model}: the origins are stale: 3 operators then, 2 now\n"


def test_malformed_origins(tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    model.write_bytes(edited(embedded(IF_MODEL.read_bytes()), lambda edit: edit.set_metadata(OP, b"\1\0\0\0\5\0")))
    status, _, err = run(IF_TRACE, "--model", model)
    assert (status, err.startswith(f"error: {model}: {OP}: an entry is cut off")) == (3, True)


def test_notes(tmp_path: Path) -> None:
    path = shown(tmp_path, ("@0 Novel", "B", 1), ("@0 Novel", "E", 2), ("@2 Softmax", "B", 3))
    model = tmp_path / "model.circle"
    model.write_bytes(embedded(MLP))
    _, _, err = run(path, "--model", model)
    assert err.splitlines() == [
        f"note: {path}: begins or ends without the other, left out: 1",
        f"note: {path}: operators whose names could not be compared with the model's codes: 1",
    ]
