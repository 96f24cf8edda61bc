"""Traces that onert and LiteRT wrote here, joined with their models."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.model.model import open_model
from circletools.trace.operators.read import read_profile
from tests.kit.layered_models import Network
from tests.kit.operator_support import (
    IN_ONERT,
    LITERT_MODELS,
    as_atrace,
    as_events,
    as_report,
    as_rows,
    litert_events,
    onert_traces,
)
from tests.kit.origin_support import embedded, origins
from tests.kit.profile_support import joined, totals
from tests.kit.support import bytes_of, path_of

WITH_PERMUTES = ("constant_output", "input_as_output", "only_input", "output_twice", "while_loop")


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


def test_a_composite_is_replaced_by_its_subgraph() -> None:
    """LiteRT runs the operators of the composite's subgraph in its place, as operators of the main subgraph."""
    path = path_of("tflite/composite")
    trace = read_profile(as_atrace(litert_events(path, 3)))
    found = joined(path.read_bytes(), trace)
    assert found.operators[0].code == "STABLEHLO_COMPOSITE"
    assert found.added
    assert {row.kind for row in found.added} == {"inserted"}
    assert found.total_ns == sum(run.duration_ns for run in trace.runs)


@pytest.mark.parametrize("form", ["events", "report"])
@pytest.mark.parametrize("name", ["cnn_int8", "cnn", "transformer_block", "sparse"])
def test_xnnpack_rows_belong_to_the_model_s_operators(name: str, form: str) -> None:
    path = path_of(f"tflite/{name}")
    events = litert_events(path, 3, "xnnpack")
    trace = read_profile(as_events(events) if form == "events" else as_report(as_rows(events), 3))
    found = joined(path.read_bytes(), trace)
    assert found.added == ()
    assert found.executions == 3
    assert found.total_ns == sum(run.duration_ns for run in trace.runs)
    delegated = sum(row.time.delegated_ns for row in found.operators if row.time)
    assert delegated == sum(run.duration_ns for run in trace.runs if run.of_delegate) > 0
    ambiguous = sum(row.time.ambiguous_ns for row in found.operators if row.time)
    assert ambiguous == sum(row.total_ns for row in found.ambiguous)


@pytest.mark.parametrize("seed", [3, 8, 16])
def test_the_row_of_an_enlarged_layer_grows(seed: int, tmp_path: Path) -> None:
    """Nothing in XNNPACK's rows names an operator: that they are aligned well shows in what changes."""
    network = Network(seed, None)
    before = network.to_bytes()
    layer = network.weighted[seed % len(network.weighted)]
    medians = []
    for at, data in enumerate((before, Network(seed, layer).to_bytes())):
        path = tmp_path / f"{at}.tflite"
        path.write_bytes(data)
        found = joined(data, read_profile(as_events(litert_events(path, 30, "xnnpack"))))
        medians.append([row.time.median_ns or 0 if row.time else 0 for row in found.operators])
    growth = [second - first for first, second in zip(*medians, strict=True)]
    assert growth.index(max(growth)) == layer
    assert growth[layer] > sum(medians[0][layer : layer + 1])
