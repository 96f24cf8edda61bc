"""Comparisons of a capability table: what they look at, and what they say of models."""

from __future__ import annotations

import json
import operator
from ast import literal_eval
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.affinity.capability.comparison import parse_comparison
from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.table import why_not
from circletools.errors import InvalidInputError
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import Build, quantization


def table_of(*where: str) -> Any:
    return parse_capability(json.dumps({"operators": {"*": [{"where": list(where)}]}}).encode(), "npu.json")


def pool_and_pad() -> bytes:
    build = Build()
    graph = build.graph()
    source = graph.tensor("x", [1, 9, 8, 4], "INT8", quantization=quantization([0.5], [3]))
    pooled = graph.tensor("p", [1, 3, 2, 4], "INT8", quantization=quantization([0.25], [3]))
    graph.operator("MAX_POOL_2D", [source], [pooled], table="Pool2DOptions", stride_w=3, filter_width=2)
    amounts = graph.constant("c", np.array([[0, 0], [1, 2], [0, -1], [0, 0]], np.int32))
    padded = graph.tensor("q", [1, 6, 1, 4], "INT8", quantization=quantization([0.25, 0.5], [0, 0]))
    graph.operator("PAD", [pooled, amounts], [padded])
    graph.operator("CONCATENATION", [source, -1, pooled], [graph.tensor("r", [1])], table=None)
    graph.ends([source], [padded])
    return build.to_bytes()


EXPECTED = Path(__file__).with_name("comparisons.txt").read_text().splitlines()


def test_text_of_a_comparison() -> None:
    for where, fits in map(literal_eval, EXPECTED):
        with open_model(pool_and_pad()) as model:
            reasons = why_not(table_of(where), graph_of(model, 0))
        assert [reason is None for reason in reasons] == fits


def test_axes_are_counted_from_the_last_dimension_of_the_first_input() -> None:
    """Each counts; there are none where some are negative and others are not."""
    build = Build()
    graph = build.graph()
    cases = [
        (rank, axes) for rank in (1, 3, 4) for axes in ([0], [-1], [rank - 1], [0, rank - 1], [-1, -rank], [-1, 0])
    ]
    for at, (rank, axes) in enumerate(cases):
        given = [graph.tensor(f"x{at}", [2] * rank), graph.constant(f"c{at}", np.array(axes, np.int32))]
        graph.operator("MEAN", given, [graph.tensor(f"y{at}")])
    for text, compare in (("<= -2", operator.le), (">= -2", operator.ge), ("== -3", operator.eq)):
        with open_model(build.to_bytes()) as model:
            fits = [reason is None for reason in why_not(table_of(f"input1.axis {text}"), graph_of(model, 0))]
        assert fits == [
            len({axis < 0 for axis in axes}) == 1
            and all(compare(axis if axis < 0 else axis - rank, int(text[3:])) for axis in axes)
            for rank, axes in cases
        ]


SEVERAL = {"options": {"stride_w": [1]}}, {"where": ["stride_w == 2 * input0.dim0"]}


def test_the_reason_has_both_sides() -> None:
    with open_model(pool_and_pad()) as model:
        both = why_not(table_of("stride_w <= filter_width", "input0.dim0 == 2"), graph_of(model, 0))
        missing = why_not(table_of("input1.value0 == 0"), graph_of(model, 0))
        rule = {"operators": ["*"], "needs": [*SEVERAL, {"max_inputs": 0}], "reason": "1 OR 2"}
        several = parse_capability(json.dumps({"operators": {}, "rules": [rule]}).encode(), "npu.json")
        assert str(why_not(several, graph_of(model, 0))[0]) == "1 OR 2: here stride_w is 3; input0.dim0 is 1"
        shapes = why_not(table_of("input0.shape == output0.shape"), graph_of(model, 0))
    assert str(both[0]) == "stride_w is 3, but must be <= filter_width (2); input0.dim0 is 1, but must be == 2"
    assert str(shapes[0]) == "input0.shape is [1, 9, 8, 4], but must be == output0.shape ([1, 3, 2, 4])"
    assert str(missing[0]) == "input1.value0 has no value, but must be == 0"


NONE_AT_ALL: list[tuple[str, str]] = [
    ("stride_w", "two sides"),
    ("stride_w = 2", "two sides"),
    ("stride_w <", "two sides"),
    ("Stride <= 2", "not a number, an option or"),
    ("input0.color == 2", "is not a number"),
    ("input0.dim == 2", "must name a dimension"),
    ("inputs.scale == outputs.scale", "two terms that can each have several numbers"),
    ("1 / 0 == 2", "divides by 0"),
    ("0^-1 == 2", "divides by 0"),
    ("1 + 1 == 2", "is not a number"),
]


def test_invalid_comparisons() -> None:
    for text, message in NONE_AT_ALL:
        with pytest.raises(ValueError, match=message):
            parse_comparison(text)
        with pytest.raises(InvalidInputError, match=message) as caught:
            table_of(text)
        assert "operators.*[0].where[0]" in str(caught.value.location)


def test_an_option_that_no_operator_has() -> None:
    with pytest.raises(InvalidInputError, match=r"no operator has an option 'stride_v'.*did you mean 'stride_"):
        table_of("stride_v < 2")
    with pytest.raises(InvalidInputError, match="no operator has an option 'input0'"):
        table_of("input0 == 2")
