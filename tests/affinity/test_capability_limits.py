"""The first and the last element that a comparison can use, and its messages about those out of range."""

from __future__ import annotations

import json
from ast import literal_eval
from pathlib import Path

import numpy as np

from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.table import refusals
from circletools.model.model import open_model
from tests.kit.build import Build, Table


def scales(*scale: float) -> Table:
    return Table("QuantizationParameters", scale=list(scale))


def padding() -> bytes:
    """Return PAD by a constant of 4 x 2 elements, with scales and no zero points; then smaller operators."""
    build = Build()
    graph = build.graph()
    given = graph.tensor("x", (1, 3, 5, 7), "INT8", quantization=scales(0.5))
    amounts = graph.constant("c", np.arange(10, 18, dtype=np.int16).reshape(4, 2))
    padded = graph.tensor("p", (1, 3, 5, 7), "INT8", quantization=scales(0.25, 0.125))
    graph.operator("PAD", [given, amounts], [padded])
    graph.operator("NEG", [graph.tensor("s", ())], [graph.tensor("e", (0, 4))])
    graph.operator("NEG", [graph.tensor("t", (3,), "INT32", data=bytes([7, 0, 0, 0, 9, 0, 0]))], [graph.tensor("f")])
    graph.operator("NEG", [graph.tensor("b", (2,), "BOOL", data=b"\0\1")], [graph.tensor("g")])
    graph.operator("NEG", [graph.tensor("w", (2,), "STRING", data=b"ab")], [graph.tensor("h")])
    graph.operator("MAX_POOL_2D", [graph.tensor("y")], [graph.tensor("z")], table="Pool2DOptions", stride_w=3)
    return build.to_bytes()


def text(where: str, operator: int = 0) -> str | None:
    """Return why an operator of `padding` is not taken, None where it is."""
    table = parse_capability(json.dumps({"operators": {"*": [{"where": [where]}]}}).encode(), "npu.json")
    with open_model(padding()) as model:
        refusal = refusals(table, model)[operator]
    return None if refusal is None else refusal.reason


ROWS = [literal_eval(row) for row in Path(__file__).with_name("elements.txt").read_text().splitlines()]


def test_the_elements_that_are_there_and_those_that_are_not() -> None:
    for operator, term, value in ROWS:
        if value is None:
            assert text(f"{term} >= 0", operator) == f"{term} has no value, but must be >= 0"
            assert text(f"0 < {term}", operator) == f"0 is 0, but must be < {term} (nan)"
            continue
        assert text(f"{term} == {float(value)}", operator) is None, term
        assert text(f"{term} > 999", operator) == f"{term} is {value}, but must be > 999"


def test_the_first_of_several_wrong_numbers_is_reported() -> None:
    for where, reason in (
        ("input1.value >= 10", None),
        ("input1.value <= 17", None),
        ("input1.value > 10", "input1.value is 10, but must be > 10"),
        ("input1.value < 17", "input1.value is 17, but must be < 17"),
        ("17 > input1.value", "17 is 17, but must be > input1.value (17)"),
    ):
        assert text(where) == reason
