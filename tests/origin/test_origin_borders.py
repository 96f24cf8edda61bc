"""Where rules of the room begin and end: defaults, the first tensor, layers of one operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.graph.build import graph_of
from circletools.origin.exporters.onnx_file import _steps
from circletools.origin.exporters.recording import Conversion, Recording
from circletools.origin.read import Origins
from tests.kit.build import Build, floats
from tests.kit.support import bytes_of


def test_what_was_recorded_is_written_for_people_too(tmp_path: Path) -> None:
    origins = Origins({0: "layer"}, ({0: frozenset({0})},))
    Recording([Conversion(bytes_of("circle/mlp"), origins)]).write(tmp_path / "origins.json")
    text = (tmp_path / "origins.json").read_text(encoding="utf-8")
    assert (text.startswith('{\n "schema_version": 1,\n "'), '"code": "FULLY_CONNECTED"' in text) == (True, True)


def test_operators_of_one_layer_of_keras_are_one_step() -> None:
    """Of the kind of the layer; a single one is of its own kind. Weights count from the first tensor on.

    Two scopes are no layer, nor is a function of TensorFlow, which each of several operators can come from.
    """
    build = Build()
    graph = build.graph()
    weights = graph.constant("w", floats(4, 8))
    x = graph.tensor("x", (4, 8))
    names = (
        "model/norm_1/Mul",
        "model/norm_1/Add",
        "model/dense/Tanh",
        "net/tf.math/Abs",
        "plain",
        "net/abs",
        "net/abs",
    )
    value = x
    for code, name in zip(("MUL", "ADD", "TANH", "ABS", "NEG", "COS", "SIN"), names, strict=True):
        inputs = [value, weights] if code == "MUL" else [value, value] if code == "ADD" else [value]
        value = graph.compute(code, inputs, name, (4, 8))
    graph.ends([x], [value])
    with ct.open(build.to_bytes()) as model:
        made, step_of = _steps(graph_of(model, 0))
    assert (made.kinds, step_of) == (["NORM", "TANH", "ABS", "NEG", "COS", "SIN"], [0, 0, 1, 2, 3, 4, 5])
    assert (made.feeding, made.ends) == ([[], [0], [1], [2], [3], [4]], frozenset({5}))
    assert [len([*one]) for one in made.weights] == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (range(8), 1),
        (range(7), 0),
        ([3] * 8, 0),
        ([3] * 7 + [4], 1),
        ([2] + [3] * 7, 1),
        ([1, 2, 2, 2, 2, 2, 2, 1], 1),
    ],
)
def test_few_or_equal_numbers_are_no_weights(values: Sequence[int], known: int) -> None:
    build = Build()
    graph = build.graph()
    x, data = graph.tensor("x", (1,)), np.array(list(values), "<f4")
    graph.ends([x], [graph.compute("ADD", [x, graph.constant("w", data)], "y", data.shape)])
    with ct.open(build.to_bytes()) as model:
        assert [len([*one]) for one in _steps(graph_of(model, 0))[0].weights] == [known]
