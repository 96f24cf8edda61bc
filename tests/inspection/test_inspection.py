"""What is in a model, also where an index in it leads nowhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from circletools.errors import UsageError
from circletools.inspection import ExternalSummary, Inspection, MetadataSummary, TensorSummary, inspect_model
from circletools.model.model import open_model
from circletools.render.inspection import inspection_json, inspection_text
from tests.kit.build import Build, Table, quantization
from tests.kit.origin_support import rebuilt
from tests.kit.support import bytes_of, noted


def inspected(data: bytes) -> Inspection:
    with open_model(data) as model:
        return inspect_model(model)


def changed(name: str, change: Callable[[Any], object]) -> Inspection:
    return inspected(rebuilt(bytes_of(name), change))


NOWHERE = "(does not exist)"


def test_a_small_model() -> None:
    data = bytes_of("circle/mlp")
    found = inspected(data)
    assert (found.format, found.file_bytes, found.flatbuffer_bytes) == ("circle", len(data), len(data))
    assert (found.prefix_bytes, found.trailing_bytes, found.associated_files, found.external) == (0, 0, (), ())
    assert found.operators == {"FULLY_CONNECTED": 2, "SOFTMAX": 1}
    (graph,) = found.subgraphs
    assert (graph.index, graph.tensors, graph.operator_count, graph.operators) == (0, 8, 3, found.operators)


def test_tensors_that_do_not_exist() -> None:
    def change(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.inputs, graph.outputs = [0, 7, 8], [-1, 1]

    (graph,) = changed("circle/mlp", change).subgraphs
    first, last, beyond = graph.inputs
    assert (first.tensor, last.tensor, beyond) == (0, 7, TensorSummary(8, NOWHERE, "", ()))
    assert NOWHERE not in (first.name, last.name)
    assert graph.outputs[0] == TensorSummary(-1, NOWHERE, "", ())
    assert graph.outputs[1].name != NOWHERE


def test_open_dimensions_are_shown_as_such() -> None:
    graph = inspected(bytes_of("circle/dynamic_batch")).subgraphs[0]
    assert [tensor.shape for tensor in graph.inputs] == [(-1, 16)]


def test_codes_that_do_not_exist() -> None:
    def change(model: Any) -> None:
        for operator, code in zip(model.subgraphs[0].operators, (len(model.operatorCodes), 99, 1), strict=True):
            operator.opcodeIndex = code

    found = changed("circle/mlp", change)
    assert found.operators == found.subgraphs[0].operators == {"SOFTMAX": 1, "UNKNOWN:2": 1, "UNKNOWN:99": 1}


def test_operators_are_listed_by_their_number() -> None:
    def change(model: Any) -> None:
        for operator in model.subgraphs[0].operators:
            operator.opcodeIndex = 1
        model.subgraphs[0].operators[2].opcodeIndex = 0

    assert list(changed("circle/mlp", change).operators.items()) == [("SOFTMAX", 2), ("FULLY_CONNECTED", 1)]


def test_buffers_of_metadata() -> None:
    found = inspected(noted(bytes_of("circle/mlp")))
    count = found.buffers.count
    assert MetadataSummary("note", count - 1, len(b"a value")) in found.metadata

    def change(model: Any) -> None:
        for entry, buffer in zip(model.metadata, range(count - 1, count + 2), strict=False):
            entry.buffer = buffer

    named = rebuilt(noted(noted(noted(bytes_of("circle/mlp"), "a"), "b"), "c"), lambda _: None)
    count = inspected(named).buffers.count
    sizes = [entry.bytes for entry in inspected(rebuilt(named, change)).metadata]
    assert [size is None for size in sizes[:3]] == [False, True, True]


def test_data_behind_the_flatbuffer() -> None:
    data = bytes_of("tflite/cnn_external")
    found = inspected(data)
    assert found.external == (ExternalSummary("Buffer", 6, 4200),)
    assert found.trailing_bytes == 40
    assert inspected(data + bytes(7)).trailing_bytes == 47
    assert inspected(data[:-41]).trailing_bytes == 0  # and of the last buffer a byte is missing


def test_a_tail_that_is_an_archive() -> None:
    found = inspected(bytes_of("tflite/zip_tail"))
    assert (found.trailing_bytes, found.associated_files) == (133, ("labels.txt",))
    assert inspected(bytes_of("circle/mlp") + bytes(5)).associated_files == ()
    assert inspected(bytes_of("circle/mlp") + bytes(5)).trailing_bytes == 5


def two_graphs() -> bytes:
    build = Build()
    for name in ("main", "other"):
        graph = build.graph(name)
        x, w = graph.tensor("x", quantization=quantization([0.5], [3])), graph.tensor("w", (2,), data=bytes(8))
        y = graph.tensor("y", (1, 2), shape_signature=[-1, 2], quantization=quantization([0.25], [-3]))
        graph.tensor("z", is_variable=True, quantization=quantization([0.5]))
        graph.tensor("c", quantization=quantization([0.5, math.inf], axis=1))
        graph.tensor("o", quantization=Table("QuantizationParameters", scale=[2.0]))
        graph.tensor("p", quantization=quantization([2.0], [1]))
        graph.tensor("n", quantization=Table("QuantizationParameters", scale=[2.0], zero_point=[1, 2]))
        graph.tensor("r", quantization=Table("QuantizationParameters", min=[0.0]))
        graph.operator("RESHAPE", [x, w], [y], table="ReshapeOptions", new_shape=[1, 2])
        graph.operator("ADD", [y, -1], [x])
    return build.to_bytes()


def test_rows_are_those_of_the_model() -> None:
    with open_model(two_graphs()) as model:
        found = inspect_model(model, operators=True, tensors=True)
        graphs = list(model.subgraphs)
        assert list(found.operator_rows or ()) == [row for graph in graphs for row in graph.operators.to_rows()]
        assert list(found.tensor_rows or ()) == [row for graph in graphs for row in graph.tensors.to_rows()]
        one = inspect_model(model, operators=True, subgraph=1)
        assert (list(one.operator_rows or ()), one.tensor_rows) == (graphs[1].operators.to_rows(), None)
        assert len(one.subgraphs) == 2
        for number in (-1, 2):
            with pytest.raises(UsageError, match=f"no subgraph {number}"):
                inspect_model(model, subgraph=number)


def test_rows_as_json() -> None:
    with open_model(two_graphs()) as model:
        plain = inspection_json(inspect_model(model))
        document = inspection_json(inspect_model(model, tensors=True, operators=True, subgraph=0))
        some = inspection_json(inspect_model(model, operators=True))
    assert {"operator_rows", "tensor_rows"}.isdisjoint(plain)
    assert list(document) == [*plain, "operator_rows", "tensor_rows"]
    assert list(some) == [*plain, "operator_rows"]
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["tensor_rows"][4]["quantization"] == {"scale": [0.5, "inf"], "zero_point": [0, 0], "axis": 1}
    assert document["operator_rows"][0]["options"] == {"new_shape": [1, 2]}
    assert [row["subgraph"] for row in some["operator_rows"]] == [0, 0, 1, 1]


def test_rows_as_text() -> None:
    with open_model(two_graphs()) as model:
        lines = list(inspection_text(inspect_model(model, tensors=True, operators=True, subgraph=1)))
        both = list(inspection_text(inspect_model(model, operators=True)))
        assert next(inspection_text(inspect_model(model, tensors=True))) == "tensors of subgraph 0"
    assert lines == [
        "operators of subgraph 1",
        "  operator  code     version  inputs  outputs  options",
        "         0  RESHAPE        1     0,1        2  new_shape=[1,2]",
        "         1  ADD            1    2,-1        0  fused_activation_function=NONE pot_scale_int16=True",
        "tensors of subgraph 1",
        "  tensor  type     shape   kind      producer  consumers  quantization      name",
        "       0  FLOAT32  [2,2]   computed         1          0  0.5 * (q - 3)     x",
        "       1  FLOAT32  [2]     constant                    0                    w",
        "       2  FLOAT32  [-1,2]  computed         0          1  0.25 * (q + 3)    y",
        "       3  FLOAT32  [2,2]   variable                       0.5 * q           z",
        "       4  FLOAT32  [2,2]   computed                       2 scales, axis 1  c",
        "       5  FLOAT32  [2,2]   computed                       2 * q             o",
        "       6  FLOAT32  [2,2]   computed                       2 * (q - 1)       p",
        "       7  FLOAT32  [2,2]   computed                       1 scales, axis 0  n",
        "       8  FLOAT32  [2,2]   computed                       range only        r",
    ]
    assert [line for line in both if line[0] != " "] == ["operators of subgraph 0", "operators of subgraph 1"]
