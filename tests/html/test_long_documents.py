"""What the page omits from long documents, and how it reports omissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.html.document import ReadTrace, layer_times, operator_times, read_times, shortened
from circletools.html.graph import short
from circletools.origin.modules import module_tree
from circletools.origin.read import Origins
from circletools.trace.nnapi.automaton import Function
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, row
from tests.kit.origin_support import rebuilt
from tests.kit.page_support import BENCHMARK, document_of
from tests.kit.profile_support import MLP, traced
from tests.kit.support import bytes_of


def test_names_are_cut_beyond_a_thousand_characters() -> None:
    assert short("a" * 1000) == "a" * 1000
    assert short("a" * 1001) == "a" * 1000 + "… (1001 characters)"
    long, cut = "b" * 1002, "b" * 1000 + "… (1002 characters)"
    assert shortened({long: [long, [long]], "numbers": [1, 2.5], "none": []}) == {
        cut: [cut, [cut]], "numbers": [1, 2.5], "none": [],
    }  # fmt: skip


def test_a_long_trace_is_cut_and_counted() -> None:
    read = read_times(str(BENCHMARK))
    assert read.layers is not None
    functions = [Function("layer", "phase", f"{number}", self_ns=1000 - number) for number in range(501)]
    found = layer_times(read, replace(read.layers, runs=read.layers.runs[:1] * 101, functions=functions))
    assert (len(found["runs"]), found["run_count"]) == (100, 101)
    assert (len(found["functions"]), found["function_count"]) == (500, 501)
    assert found["functions"][-1]["name"] == "499"


def test_the_times_of_sources_that_no_operator_has() -> None:
    origins = Origins({3: "a/x", 5: "b/y"}, ({1: frozenset({5})},), "exact")
    trace = ReadTrace("folder/t.json", traced({0: 7, 1: 10}), None)
    assert trace.operators is not None
    with ct.open(MLP) as model:
        found = operator_times(model_graph(model), trace, trace.operators, origins, module_tree(origins))
    assert (found["name"], found["sources_ns"], found["modules_ns"], found["no_origin_ns"]) == (
        "t.json", [0, 10], [0, 10], 7
    )  # fmt: skip
    assert found["subgraphs"][0]["runs"] == [1, 1, None]
    assert found["subgraphs"][0]["median_ns"] == [7, 10, None]


def test_a_trace_of_another_model_is_named() -> None:
    trace = ReadTrace("folder/t.json", traced({0: 1}), None)
    assert trace.operators is not None
    with ct.open(bytes_of("circle/if_cond")) as model, pytest.raises(ct.InvalidInputError) as caught:
        operator_times(
            model_graph(model), trace, trace.operators, Origins({}, ({}, {}, {})), module_tree(Origins({}, ()))
        )
    assert caught.value.location == "folder/t.json"


def test_positions_of_operators() -> None:
    """Two readers of the input stay at the top; a reader of a constant is drawn above its own reader."""
    build = Build()
    graph = build.graph()
    given = graph.tensor("x", (2, 2))
    constant = graph.constant("c", np.ones((2, 2), np.float32))
    early = graph.compute("TANH", [given], "early")
    late = graph.compute("TANH", [graph.compute("TANH", [given], "a")], "b")
    both = graph.compute("ADD", [early, late], "both")
    graph.ends([given], [graph.compute("ADD", [both, graph.compute("TANH", [constant], "d")], "y")])
    (found,) = document_of(build.to_bytes())["subgraphs"]
    assert found["layouts"][0]["level"] == [0, 0, 1, 2, 2, 3]
    assert [size for size in found["tensors"]["constant_bytes"] if size != -1] == [16]


def test_tensors_without_a_buffer() -> None:
    build = Build()
    graph = build.graph()
    graph.tensor("x", (2,), buffer=9)
    graph.constant("c", np.ones(3, np.float32))
    (found,) = document_of(build.to_bytes())["subgraphs"]
    assert found["tensors"]["constant_bytes"] == [-1, 12]


def test_tensors_that_do_not_exist_join_no_operators() -> None:
    build = Build()
    graph = build.graph()
    given = graph.tensor("x", (2, 2))
    made = graph.compute("TANH", [given], "made")
    graph.compute("TANH", [graph.compute("TANH", [made], "middle")], "last")
    whole = document_of(build.to_bytes())["subgraphs"][0]["layouts"][0]["edges"]
    assert list(zip(whole["source"], whole["target"], whole["tensor"], strict=True)) == [(0, 1, 1), (1, 2, 2)]

    def lead_nowhere(model: Any) -> None:
        count = len(model.subgraphs[0].tensors)
        model.subgraphs[0].operators[1].outputs = [count]
        model.subgraphs[0].operators[2].inputs = [count + 5]

    broken = document_of(rebuilt(build.to_bytes(), lead_nowhere))["subgraphs"][0]["layouts"][0]["edges"]
    assert list(zip(broken["source"], broken["target"], broken["tensor"], strict=True)) == [(0, 1, 1)]


def test_cuts_are_shown_up_to_a_thousand() -> None:
    """A chain of operators on two devices by turns: each is a partition, and each tensor between two is a cut."""

    def cuts(count: int) -> tuple[int, int]:
        build = row(*["TANH"] * (count + 1))
        turns = ([number % 2 for number in range(count + 1)], list(range(count + 1)))
        found = document_of(annotated(build.to_bytes(), affinity(["a", "b"], turns)))["subgraphs"][0]["transfers"]
        return found["cut_count"], len(found["cuts"])

    assert cuts(2) == (2, 2)
    assert cuts(1001) == (1001, 1000)
