"""Multiply-accumulates and parameters of single operators, beside the loops that compute them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

import circletools as ct
from circletools.cost.cost import cost
from tests.kit.build import Build, Code, floats, quantization, row
from tests.kit.origin_support import embedded, origins

Shape = tuple[int, ...]


def one(
    code: str | Code, inputs: Sequence[Shape | None], output: Shape, constants: Sequence[int] = (), **options: Any
) -> bytes:
    """Return a model of one operator; `constants` are the slots of its weights."""
    build = Build()
    graph = build.graph()
    slots = [
        -1
        if shape is None
        else graph.constant(f"c{at}", floats(*shape))
        if at in constants
        else graph.tensor(f"x{at}", shape)
        for at, shape in enumerate(inputs)
    ]
    y = graph.tensor("y", output)
    graph.operator(code, slots, [y], **options)
    graph.ends([slot for at, slot in enumerate(slots) if at not in constants and slot >= 0], [y])
    return build.to_bytes()


LSTM_INPUTS: list[Shape | None] = [(2, 5, 3), *[(4, 3)] * 4, *[(4, 6)] * 4, *[None] * 3, *[(4,)] * 4]
LSTM_INPUTS += [(6, 4), None, (2, 6), (2, 4)]


@pytest.mark.parametrize(
    ("code", "inputs", "output", "options", "expected"),
    [
        ("CONV_2D", [(1, 8, 8, 3), (5, 3, 3, 3), (5,)], (1, 6, 6, 5), {}, 6 * 6 * 5 * 3 * 3 * 3),
        ("CONV_2D", [(1, 8, 8, 6), (4, 3, 3, 2), (4,)], (1, 6, 6, 4), {}, 6 * 6 * 4 * 3 * 3 * 2),  # three groups
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 3), (1, 3, 3, 6), (6,)], (1, 6, 6, 6), {}, 6 * 6 * 6 * 9),
        ("TRANSPOSE_CONV", [(4,), (5, 3, 3, 2), (1, 4, 4, 2)], (1, 8, 8, 5), {}, 4 * 4 * 2 * 5 * 9),
        ("CONV_3D", [(1, 4, 4, 4, 2), (2, 2, 2, 2, 3)], (1, 3, 3, 3, 3), {}, 27 * 3 * 8 * 2),
        ("FULLY_CONNECTED", [(7, 12), (5, 12), (5,)], (7, 5), {}, 7 * 5 * 12),
        ("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), {}, 2 * 3 * 5 * 4),
        ("BATCH_MATMUL", [(2, 4, 3), (2, 4, 5)], (2, 3, 5), {"adj_x": 1}, 2 * 3 * 5 * 4),
        ("SVDF", [(2, 3), (8, 3), (8, 5), None, (2, 40)], (2, 8), {}, 2 * (8 * 3 + 8 * 5)),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", LSTM_INPUTS, (2, 5, 6), {}, 10 * (4 * 12 + 4 * 24 + 24)),
        ("AVERAGE_POOL_2D", [(1, 8, 8, 3)], (1, 4, 4, 3), {}, 0),
        (Code("CUSTOM", 1, "mine"), [(4,)], (4,), {}, None),
    ],
)
def test_products_are_those_of_the_loops(
    code: str | Code, inputs: list[Shape | None], output: Shape, options: dict[str, Any], expected: int | None
) -> None:
    with ct.open(one(code, inputs, output, **options)) as model:
        found = cost(model)
    assert (found.total.macs, found.total.unknown) == (expected or 0, int(expected is None))


def test_an_open_dimension_counts_as_one_and_one_row_has_no_origin() -> None:
    build = Build()
    graph = build.graph()
    x, y = (graph.tensor(name, (9, size), shape_signature=[-1, size]) for name, size in (("x", 4), ("y", 3)))
    graph.operator("FULLY_CONNECTED", [x, graph.constant("w", floats(3, 4)), -1], [y])
    graph.ends([x], [y])
    with ct.open(build.to_bytes()) as model:
        assert [(row.name, row.macs) for row in cost(model, "source").rows] == [("(no origin)", 12)]


def test_constants_count_once_and_axes_are_no_parameters() -> None:
    build = Build()
    graph = build.graph()
    x, y, z, out = (graph.tensor(name, (4, 4)) for name in ("x", "y", "z", "out"))
    w = graph.tensor("w", (4, 4), "INT8", data=bytes(16), quantization=quantization([0.5]))
    shape = graph.tensor("shape", (2,), "INT32", data=bytes(8))
    graph.operator("FULLY_CONNECTED", [x, w, -1], [y])
    graph.operator("FULLY_CONNECTED", [y, w, -1], [z])
    graph.operator("RESHAPE", [z, shape], [out])
    graph.ends([x], [out])
    with ct.open(build.to_bytes()) as model:
        found = cost(model, by="operator")
    assert [(row.parameters, row.weight_bytes) for row in found.rows] == [(16, 16), (0, 0), (0, 8)]
    assert (found.total.parameters, found.total.weight_bytes, found.total.macs) == (16, 24, 128)
    assert [(row.read_bytes, row.written_bytes) for row in found.rows] == [(64, 64)] * 3


def test_hostile_models_are_no_error_and_take_little_memory() -> None:
    huge = (2**31 - 1,) * 3
    with ct.open(one("FULLY_CONNECTED", [huge, huge[1:], None], huge)) as model:
        assert cost(model).total.unknown == 1
    given = origins({at: f"net.{at}" for at in range(400)}, {at: {*range(400)} for at in range(100)})
    tracemalloc.start()
    with ct.open(embedded(row(*["ABS"] * 100).to_bytes(), given)) as model:
        assert len(cost(model, "source").rows) == 400
        assert tracemalloc.get_traced_memory()[1] < 300 * 40_000
    tracemalloc.stop()


def test_costs_add_up_by_source_and_by_module_instance() -> None:
    build = Build()
    graph = build.graph()
    x, y, z = (graph.tensor(name, (1, 4)) for name in ("x", "y", "z"))
    graph.operator("FULLY_CONNECTED", [x, graph.constant("a", floats(4, 4)), -1], [y])
    graph.operator("FULLY_CONNECTED", [y, graph.constant("b", floats(4, 4)), -1], [z])
    graph.ends([x], [z])
    given = origins({0: "net.up::linear", 1: "net.down::linear"}, {0: {0}, 1: {0, 1}})
    with ct.open(embedded(build.to_bytes(), given)) as model:
        found = {by: [(row.name, row.macs) for row in cost(model, by).rows] for by in ("source", "module")}
        assert cost(model).total.macs == 32
    assert found["source"] == [("net.up::linear", 24), ("net.down::linear", 8)]
    assert found["module"] == [("net", 32), ("net.up", 24), ("net.down", 8)]
