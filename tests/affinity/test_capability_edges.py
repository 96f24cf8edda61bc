"""Edges of what tables look at: an input that is left out, and the largest number that is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.form import Rule
from circletools.affinity.capability.table import refused_by, why_not
from circletools.affinity.capability.traits import OperatorTraits, SubgraphTraits
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import Build


def reasons(data: bytes, **form: object) -> list[str | None]:
    table = parse_capability(json.dumps({"operators": {"*": [form]}}).encode(), "npu.json")
    with open_model(data) as model:
        return [None if one is None else one.reason for one in why_not(table, graph_of(model, 0))]


def test_an_input_that_is_left_out_has_no_value() -> None:
    """It is not the last tensor, a constant."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    constant = graph.constant("c", np.array([7], np.int32))
    graph.operator("CONCATENATION", [x, -1], [y])
    graph.operator("CONCATENATION", [x, constant], [graph.tensor("z")])
    graph.table.tensors[constant], graph.table.tensors[-1] = graph.table.tensors[-1], graph.table.tensors[constant]
    last = len(graph.table.tensors) - 1
    graph.table.operators[1].inputs, graph.table.operators[1].outputs = [x, last], [constant]
    graph.ends([x], [y])
    assert reasons(build.to_bytes(), where=["input1.value == 7"]) == [
        "input1.value has no value, but must be == 7",
        None,
    ]


def test_the_first_tensor_may_be_a_constant() -> None:
    build = Build()
    graph = build.graph()
    constant = graph.constant("c", np.array([7], np.int32))
    x = graph.tensor("x")
    graph.operator("CONCATENATION", [x, constant], [graph.tensor("y")])
    graph.ends([x], [constant + 2])
    assert reasons(build.to_bytes(), where=["input1.value == 7"]) == [None]
    assert reasons(build.to_bytes(), where=["input1.value == 8"]) == ["input1.value is 7, but must be == 8"]


@pytest.mark.parametrize(("width", "shown"), [(2**31 - 1, "2.14748e+09"), (3, "3")])
def test_numbers_are_shown_where_they_are_numbers(width: int, shown: str) -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.operator("MAX_POOL_2D", [x], [y], "Pool2DOptions", filter_width=width)
    graph.ends([x], [y])
    (said,) = reasons(build.to_bytes(), options={"filter_width": [2]})
    assert said == f"filter_width is {shown}, not 2"


def test_a_subgraph_without_tensors_has_nothing_to_refuse() -> None:
    build = Build()
    build.graph().ends([], [])
    with open_model(build.to_bytes()) as model:
        traits = SubgraphTraits(graph_of(model, 0), {})
        assert (len(traits), traits.with_codes(None)) == (0, [])
    assert reasons(build.to_bytes(), types=["FLOAT32"]) == []
    graph = build.graph()
    graph.operator("ABS", [-1], [-1])
    with open_model(build.to_bytes()) as model:
        table = parse_capability(b'{"operators": {"*": [{"max_rank": 4}]}}', "npu.json")
        assert why_not(table, graph_of(model, 1)) == [None]


@pytest.mark.parametrize(
    ("codes", "code", "concerned"),
    [
        ({"ADD"}, "ADD", True),
        ({"ADD"}, "SUB", False),
        ({"*"}, "ADD", True),
        ({"*"}, "NEG", False),
        ({"CUSTOM:*"}, "CUSTOM:own", True),
        ({"CUSTOM:*"}, "ADD", False),
        ({"CUSTOM:own"}, "CUSTOM:other", False),
    ],
)
def test_which_codes_a_rule_concerns(codes: set[str], code: str, *, concerned: bool) -> None:
    rule = Rule(frozenset(codes), frozenset({"NEG"}), None, (), "", "", known=True, wrong=False)
    assert rule.concerns(code) is concerned
    refusal = refused_by(replace(rule, known=False), OperatorTraits(code, 1, (), (), {}))
    assert (refusal is not None) is concerned
    assert refusal is None or not refusal.measured
