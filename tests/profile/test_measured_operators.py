"""Times compared and joined, in cases small enough to be counted by hand."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import InvalidInputError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.names import origins_by_output
from circletools.profile.attribution import attribute
from circletools.profile.joining import Measured, Spread, Time, median_bounds, time_in, time_of
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Runtime
from tests.kit.origin_support import embedded
from tests.kit.presence import Lazy
from tests.kit.profile_support import MLP, joined, traced, usual
from tests.kit.support import bytes_of


@given(st.dictionaries(st.integers(0, 6), st.integers(0, 9)), st.integers(0, 3))
def test_the_median_counts_executions_without_a_run(times: dict[int, int], more: int) -> None:
    executions = max(times, default=0) + 1 + more
    trace = OperatorTrace("onert", (), executions)
    assert time_in(1, 1, times, trace).median_ns == int(
        statistics.median(times.get(number, 0) for number in range(executions))
    )
    assert time_in(1, 1, times, OperatorTrace("onert", (), executions, averaged=True)) == Time(1, 1, None)


def test_what_is_measured_of_an_operator() -> None:
    measured = Measured()
    assert (measured.runs, measured.total_ns, measured.backends, measured.executions) == (0, 0, set(), {})
    measured.add(OperatorRun(0, 0, "x", "npu", 0, 99, 1, calls=3), 10)
    measured.add(OperatorRun(0, 0, "x", "", 0, 99, 1), 5)
    measured.add(OperatorRun(0, 0, "x", "cpu", 0, 99, 3), 1)
    assert measured.backends == {"npu", "cpu"}
    assert usual(time_of(measured, OperatorTrace("onert", (), 4))) == (5, 16, 0)
    assert time_of(measured, OperatorTrace("onert", (), 2)).median_ns == 8
    assert time_of(measured, OperatorTrace("onert", (), 2, averaged=True)) == Time(5, 16, None)


def test_how_the_times_of_executions_differ() -> None:
    times = {number: 10 * number for number in range(1, 21)}
    found = time_in(20, 2100, times, OperatorTrace("onert", (), 20))
    assert found == Time(20, 2100, 105, Spread(10, 180, 200, 100, 60, 150))
    assert time_in(1, 7, {0: 7}, OperatorTrace("onert", (), 4)).spread == Spread(0, 7, 7, 0, 0, 7)
    many = time_in(0, 0, {number: number + 1 for number in range(1000)}, OperatorTrace("onert", (), 1000))
    assert many.spread is not None
    assert (many.spread.p90_ns, many.spread.p99_ns, many.spread.spread_ns) == (900, 990, 750 - 250)


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 9, 10, 20, 101, 500, 999, 1000, 1001, 40_000])
def test_the_bounds_of_a_median_have_the_stated_coverage(count: int) -> None:
    low, high = median_bounds(count)
    assert low + high == count - 1

    def at_most(heads: int) -> float:
        return float(Lazy("scipy.stats").binom.cdf(heads, count, 0.5))

    assert low == 0 or at_most(low) <= 0.025
    assert at_most(low + 1 + count // 1000) > 0.025


WRONG = (
    "the trace is from another model: {} "
    "(use the model that was run: rewrites that add, remove or move operators change operator indices)"
)


def refused(data: bytes, trace: OperatorTrace) -> str:
    with pytest.raises(InvalidInputError) as caught:
        joined(data, trace)
    return str(caught.value)


COUNT = "in the trace; in the model, the operator count is 3"


def one(runtime: Runtime, subgraph: int, operator: int, name: str, **more: Any) -> OperatorTrace:
    """Return a trace of one run."""
    return OperatorTrace(runtime, (OperatorRun(subgraph, operator, name, "", 0, 5, 0, **more),), 1)


@pytest.mark.parametrize(
    ("trace", "text"),
    [
        (one("onert", 0, 2, "Conv2D"), "operators[2] is Conv2D in the trace; in the model, SOFTMAX"),
        (one("onert", 0, 0, "Comparison"), "operators[0] is Comparison in the trace; in the model, FULLY_CONNECTED"),
        (one("onert", 0, 3, "Softmax"), f"operators[3] is Softmax {COUNT}"),
        (one("onert", 1, 0, "Softmax"), "subgraph 1 ran Softmax in the trace; in the model, the subgraph count is 1"),
        (one("litert", 0, 3, "SOFTMAX"), f"operators[3] is SOFTMAX {COUNT}"),
        (one("benchmark_model", 0, 2, "MyOp"), "operators[2] is MyOp in the trace; in the model, SOFTMAX"),
    ],
)  # fmt: skip
def test_the_trace_of_another_model(trace: OperatorTrace, text: str) -> None:
    assert refused(MLP, trace) == WRONG.format(text.replace("operators[", "subgraphs[0].operators["))


@pytest.mark.parametrize(
    ("trace", "operators", "added", "unchecked", "ignored"),
    [
        (one("onert", 0, 2, "Softmax"), [2], [], 0, ()),
        (one("onert", 0, 2, "SomethingNew"), [2], [], 1, ()),
        (one("litert", 0, 2, "some mark"), [], [], 0, ("some mark",)),
        (one("onert", 0, 2, "Permute"), [], [("inserted", 0, 2, "Permute")], 0, ()),
        (one("onert", 0, 9, "Permute"), [], [("inserted", 0, 9, "Permute")], 0, ()),
        (one("onert", 0, 3, "SomethingNew"), [], [("inserted", 0, 3, "SomethingNew")], 0, ()),
        (one("benchmark_model", 7, 3, "MyDelegate", of_delegate=True), [], [("delegate", 7, 3, "MyDelegate")], 0, ()),
        (one("litert", 0, 0, "CONV_2D", of_delegate=True), [], [("delegate", 0, 0, "CONV_2D")], 0, ()),
        (one("litert", 1, 0, "CONV_2D", of_delegate=True), [], [("delegate", 1, 0, "CONV_2D")], 0, ()),
        (one("openvino", 0, 2, "Softmax"), [2], [], 0, ()),
        (one("litert", 7, 0, "CONV_2D", of_delegate=True), [], [("delegate", 7, 0, "CONV_2D")], 0, ()),
    ],
)
def test_what_a_run_is(
    trace: OperatorTrace, operators: list[int], added: list[Any], unchecked: int, ignored: tuple[str, ...]
) -> None:
    found = joined(MLP, trace)
    assert [row.index for row in found.operators if row.time is not None] == operators
    assert [(row.kind, row.subgraph, row.index, row.name) for row in found.added] == added
    assert (found.unchecked, found.ignored) == (unchecked, ignored)
    assert found.total_ns == 5 * len(operators + added)
    times = [row.time for row in found.added] + [row.time for row in found.operators]
    assert {usual(time) for time in times if time is not None} <= {(1, 5, 5)}


def test_parts_of_a_composite_are_inserted_behind_its_subgraph() -> None:
    data = bytes_of("tflite/composite")
    with open_model(data) as model:
        codes = model.code_names(0)
    assert "STABLEHLO_COMPOSITE" in codes
    (row,) = joined(data, one("litert", 0, len(codes), "ADD")).added
    assert (row.kind, row.index) == ("inserted", len(codes))
    assert "the operator count is" in refused(data, one("onert", 0, len(codes), "Add"))
    own = replace(one("openvino", 0, 0, "Add"), own=True)
    for trace in (own, one("openvino", 0, len(codes), "Odd")):
        (row,) = joined(data, trace).added
        assert (row.kind, row.time.total_ns) == ("unattributed", 5)


@pytest.mark.parametrize(("others", "text"), [(2, "2 of 4 layers fit no operator"), (1, "")])
def test_fewer_than_half_of_openvinos_layers_may_fit_no_operator(others: int, text: str) -> None:
    runs = [one("openvino", 0, 2, "Softmax").runs[0], *(one("openvino", 0, 9 + at, "Odd").runs[0] for at in range(3))]
    runs[1:] = [run._replace(operator=2, name=f"New{at}") if at >= others else run for at, run in enumerate(runs[1:])]
    trace = OperatorTrace("openvino", tuple(runs), 1)
    if text:
        assert text in refused(MLP, trace)
    else:
        (row,) = joined(MLP, trace).added
        assert (row.kind, row.index) == ("unattributed", 9)


def test_averages_of_what_is_called_are_inside_its_caller() -> None:
    data = bytes_of("tflite/if_cond")
    with open_model(data) as model:
        codes = [model.code_names(subgraph.index) for subgraph in model.subgraphs]
    caller = codes[0].index("IF")
    runs = (
        OperatorRun(0, caller, "IF", "", 0, 100, 0, calls=2),
        OperatorRun(1, 0, codes[1][0], "", 0, 60, 0, calls=2),
    )
    averaged = joined(data, OperatorTrace("benchmark_model", runs, 2, averaged=True))
    assert (averaged.total_ns, averaged.medians_ns) == (100, 0)
    assert [(row.kind, row.subgraph, row.time) for row in averaged.added] == [("inside", 1, Time(2, 60, None))]
    only = joined(data, OperatorTrace("benchmark_model", runs[1:], 2, averaged=True))
    assert (only.total_ns, only.added) == (60, ())
    inside = OperatorTrace("litert", (runs[0],), 1, inside=(runs[1]._replace(name="part"),))
    found = joined(data, inside)
    assert [(row.kind, row.name, row.time.total_ns) for row in found.added] == [("inside", "part", 60)]
    assert found.total_ns == 100


def test_the_notes_of_an_attribution() -> None:
    def shown(data: bytes, trace: OperatorTrace) -> list[tuple[str, str, str, str]]:
        with open_model(data) as model:
            notes = attribute(model, trace).notes
        return [(note.code, note.severity, note.location, note.message) for note in notes]

    with_origins = embedded(MLP)
    assert shown(with_origins, traced({0: 1})) == []
    ((code, severity, _, text),) = shown(MLP, traced({0: 1}))
    assert (code, severity) == ("NO_ORIGINS", "info")
    assert text == "the model has no origins, so every operator is its own source (embed-origins adds them)"
    odd = OperatorRun(0, 0, "New", "", 0, 5, 0)
    trace = OperatorTrace("onert", (odd, odd._replace(operator=1), odd), 1, incomplete=3, name="t.json")
    assert shown(with_origins, trace) == [
        ("UNCHECKED_OPERATORS", "info", "t.json",
         "operators not checked against the model, because their names are unknown: 2"),
        ("INCOMPLETE_EVENTS", "info", "t.json", "unmatched begin or end events (ignored): 3"),
    ]  # fmt: skip
    marks = OperatorTrace("litert", tuple(odd._replace(name=name) for name in ("z", "a", "z")), 1, name="t")
    assert shown(with_origins, marks) == [
        ("IGNORED_MARKS", "info", "t", "marks that are not operators of the model (ignored): a, z")
    ]


def test_names_of_operators_as_their_own_sources() -> None:
    with open_model(bytes_of("circle/while_loop")) as model:
        found = origins_by_output(model_graph(model), range(len(model.subgraphs)))
        names = [
            outputs[0].decode() if outputs else ""
            for graph in model.subgraphs
            for outputs in model.output_names(graph.index)
        ]
    assert list(found.sources.values()) == names
    flat = [source for entries in found.operators for index in sorted(entries) for source in entries[index]]
    assert flat == list(range(len(names)))


# --- shares -------------------------------------------------------------------------------------------------
