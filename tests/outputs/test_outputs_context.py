"""Copies behind other operators, where runtimes are stricter than with the copy alone.

Each of these models is one that TICO writes for a module with `return y, y` or `return y, x`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.kit.build import Build, Graph, floats
from tests.kit.oracles import run_onert
from tests.kit.outputs_support import fixed, outcomes
from tests.kit.presence import need


def linear(graph: Graph, shape: tuple[int, ...]) -> int:
    """Return the result of a FULLY_CONNECTED that keeps the leading dimensions."""
    x, weights = graph.tensor("x", shape), graph.constant("weights", floats(5, shape[-1]))
    graph.table.inputs = [x]
    y = graph.tensor("y", (*shape[:-1], 5))
    graph.operator("FULLY_CONNECTED", [x, weights, -1], [y], keep_num_dims=True)
    return y


def head(graph: Graph) -> int:
    """Return what is computed element by element from such a result."""
    return graph.compute("TANH", [linear(graph, (1, 6, 4))], "z", (1, 6, 5))


def total(graph: Graph) -> int:
    """Return the scalar that sums up a matrix."""
    x, axes = graph.tensor("x", (2, 3)), graph.constant("axes", np.array([0, 1], np.int32))
    graph.table.inputs = [x]
    y = graph.tensor("y", ())
    graph.operator("SUM", [x, axes], [y], table="ReducerOptions", keep_dims=False)
    return y


def cast(graph: Graph) -> int:
    """Return an image as numbers from 0 to 1."""
    x, top = graph.tensor("x", (1, 2, 2, 3), "UINT8"), graph.constant("top", np.array([255], np.float32))
    graph.table.inputs = [x]
    y = graph.compute("CAST", [x], "y", (1, 2, 2, 3))
    return graph.compute("DIV", [y, top], "scaled", (1, 2, 2, 3))


@pytest.mark.parametrize("kind", ["circle", "tflite"])
@pytest.mark.parametrize("with_input", [False, True])
@pytest.mark.parametrize(
    "compute",
    [
        *(pytest.param(lambda graph, s=shape: linear(graph, s), id=f"linear{len(shape)}") for shape in
          ((3, 4), (1, 6, 4), (2, 3, 2, 4), (1, 2, 1, 3, 4))),
        head, total, cast,
    ],
)  # fmt: skip
def test_models_that_ran_still_run(
    compute: Callable[[Graph], int], with_input: bool, kind: str, tmp_path: Path
) -> None:
    build = Build()
    graph = build.graph()
    y = compute(graph)
    graph.ends(graph.table.inputs, [y, graph.table.inputs[0], y] if with_input else [y, y])
    data = build.to_bytes(kind)
    was, now = outcomes(data, tmp_path, kind, "was"), outcomes(fixed(data), tmp_path, kind, "now")
    assert {outcome.stage for outcome in was.values()} == {"ok"}
    for runtime, outcome in was.items():  # without shapes: onert reports another one for the result of linear layers
        assert [output[-1] for output in now[runtime].outputs] == [output[-1] for output in outcome.outputs]


@pytest.mark.parametrize("compute", [head, cast])
def test_a_transposition_is_refused_there(compute: Callable[[Graph], int], tmp_path: Path) -> None:
    need("onert")
    build = Build()
    graph = build.graph()
    y = compute(graph)
    graph.ends(graph.table.inputs, [y, y, graph.table.inputs[0]])
    (tmp_path / "model.circle").write_bytes(fixed(build.to_bytes("circle"), copy_operator="transpose"))
    assert run_onert(tmp_path / "model.circle").stage in ("load", "prepare")
