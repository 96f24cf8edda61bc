"""Operators and tensors: options, enums, quantization, users, rows, and their display."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import ModelFormatError
from circletools.model.model import Model, open_model
from circletools.model.options import OPTION_ENUMS, OPTION_FIELDS, enum_of
from circletools.model.views import Operator, OperatorCode, Quantization, Tensor
from tests.kit.build import Build, Table, quantization
from tests.kit.support import path_of, published_names, unpacked


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def numbers(value: Any) -> tuple[Any, ...]:
    return () if value is None else tuple(value.tolist() if hasattr(value, "tolist") else value)


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return list(numbers(value)) if hasattr(value, "__len__") else value


ENUMS = {"Padding": "padding", "ActivationFunctionType": "fused_activation_function"}
ENUMS |= {"FullyConnectedOptionsWeightsFormat": "weights_format", "LSTMKernelType": "kernel_type"}


def test_options_equal_the_object_api(own_model: Path) -> None:
    known = unpacked(own_model.read_bytes())
    members = {field: published_names(enum) for enum, field in ENUMS.items()}
    types = published_names("TensorType")
    with open_model(own_model) as model:
        for graph, theirs in zip(model.subgraphs, known.subgraphs, strict=True):
            for operator, other in zip(graph.operators, theirs.operators or (), strict=True):
                first, second = other.builtinOptions, getattr(other, "builtinOptions2", None)
                expected = {
                    snake(name): value for part in (first, second) if part for name, value in vars(part).items()
                }
                assert set(operator.options) <= set(expected)
                assert len(operator.options) >= len(expected) - 1
                for name, value in operator.options.items():
                    if isinstance(value, str) and not isinstance(expected[name], bytes | str):
                        assert value == members.get(name, types)[expected[name]]
                        assert name in members or "type" in name
                    else:
                        assert value == (plain(expected[name]) if expected[name] is not None else plain(()) or value)


def test_quantization_equals_the_object_api(own_model: Path) -> None:
    known = unpacked(own_model.read_bytes())
    with open_model(own_model) as model:
        for graph, theirs in zip(model.subgraphs, known.subgraphs, strict=True):
            for tensor, other in zip(graph.tensors, theirs.tensors, strict=True):
                text, found = other.quantization, tensor.quantization
                if not found:
                    assert text is None or (text.scale is None and text.min is None and text.details is None)
                    continue
                assert (found.scale, found.zero_point) == (numbers(text.scale), numbers(text.zeroPoint))
                assert (found.minimum, found.maximum) == (numbers(text.min), numbers(text.max))
                assert found.axis == text.quantizedDimension
                assert found.kind == ("" if text.details is None else type(text.details).__name__.removesuffix("T"))


def graph_of(build: Build) -> Model:
    return open_model(build.to_bytes())


def test_options_of_each_kind() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.operator("CAST", [x], [x], in_data_type=9, out_data_type=99)
    graph.operator("CALL_ONCE", [x], [x], init_subgraph_index=3)
    graph.operator("VAR_HANDLE", [], [x], container="c", shared_name=b"\xff")
    graph.operator("RESHAPE", [x], [x], table="ReshapeOptions", new_shape=[2, -1])
    graph.operator("REDUCE_MAX", [x], [x], table="ReducerOptions", keep_dims=True)
    graph.operator("STABLEHLO_SCATTER", [x], [x], index_vector_dim=2, unique_indices=True)
    graph.operator("ADD", [x], [x], table=None)
    graph.operator("CONV_2D", [x], [x], padding=1, stride_w=2, fused_activation_function=3)
    with graph_of(build) as model:
        found = [operator.options for operator in model.subgraphs[0].operators]
    assert found[:5] == [
        {"in_data_type": "INT8", "out_data_type": 99},
        {"init_subgraph_index": 3},
        {"container": "c", "shared_name": "\udcff"},
        {"new_shape": [2, -1]},
        {"keep_dims": True},
    ]
    assert (found[5]["index_vector_dim"], found[5]["unique_indices"]) == (2, True)
    assert found[6] == {}
    assert (found[7]["padding"], found[7]["stride_w"]) == ("VALID", 2)
    assert found[7]["fused_activation_function"] == "RELU6"
    assert (found[7]["dilation_w_factor"], found[7]["quantized_bias_type"]) == (1, "FLOAT32")
    assert OPTION_FIELDS == ("builtin_options", "builtin_options_2")


def test_unknown_options_are_none() -> None:
    build = Build()
    graph = build.graph()
    graph.operator("ADD", [], [], table="AddOptions")
    data = bytearray(build.to_bytes())
    known = unpacked(bytes(data))
    at = known.subgraphs[0].operators[0].builtinOptionsType
    graph.operator("MUL", [], [])
    with open_model(bytes(data)) as model:
        field = model.operator_columns.tables
        place = int(field.slot_positions(field.field("builtin_options").type_slot)[0])
    assert data[place] == at
    data[place] = 255
    with open_model(bytes(data)) as model:
        assert model.subgraphs[0].operators[0].options == {}


def test_quantization_as_values() -> None:
    build = Build()
    graph = build.graph()
    graph.tensor("per tensor", quantization=quantization([0.5], [-3]))
    graph.tensor("per channel", quantization=quantization([0.5, 0.25], axis=1))
    graph.tensor("range", quantization=Table("QuantizationParameters", min=[-1.0], max=[2.0]))
    graph.tensor("empty", quantization=Table("QuantizationParameters"))
    graph.tensor("none")
    details = Table("BlockwiseQuantization", scales=3, zero_points=-1, block_size=32)
    graph.tensor("blocks", quantization=Table("QuantizationParameters", details=details))
    with graph_of(build) as model:
        tensors = model.subgraphs[0].tensors
        found = [tensor.quantization for tensor in tensors]
        rows = [tensor.to_row()["quantization"] for tensor in tensors]
    fields = {"scales": 3, "zero_points": -1, "block_size": 32, "block_shape": []}
    assert found == [
        Quantization((0.5,), (-3,), 0),
        Quantization((0.5, 0.25), (0, 0), 1),
        Quantization((), (), 0, (-1.0,), (2.0,)),
        Quantization((), (), 0),
        Quantization((), (), 0),
        Quantization((), (), 0, kind="BlockwiseQuantization", details=fields),
    ]
    assert rows[0] == {"scale": (0.5,), "zero_point": (-3,), "axis": 0}
    assert rows[2] == {"scale": (), "zero_point": (), "axis": 0, "minimum": (-1.0,), "maximum": (2.0,)}
    assert rows[5] == {"scale": (), "zero_point": (), "axis": 0, "kind": "BlockwiseQuantization", "details": fields}
    assert rows[3] is rows[4] is None


def net() -> Build:
    build = Build("a net")
    build.graph("first")
    graph = build.graph("<main>")
    x, y, z = (graph.tensor(name) for name in ("x", "y", "z"))
    graph.tensor("open", (1, 3), shape_signature=[-1, 3])
    graph.operator("ADD", [x, x], [y])
    graph.operator("MUL", [y, -1, 77], [z])
    graph.operator("SUB", [x, y], [z])
    graph.ends([x], [z])
    return build


def test_producers_and_consumers() -> None:
    with graph_of(net()) as model:
        x, y, z, other = model.subgraphs[1].tensors
        assert [one.producer and one.producer.index for one in (x, y, z, other)] == [None, 0, 2, None]
        assert [[operator.index for operator in one.consumers] for one in (x, y, z, other)] == [
            [0, 2],
            [1, 2],
            [],
            [],
        ]
        assert y.producer == model.subgraphs[1].operators[0]


def test_reprs() -> None:
    with graph_of(net()) as model:
        graph = model.subgraphs[1]
        assert repr(graph) == "<Subgraph 1 '<main>': 3 operators, 4 tensors>"
        assert repr(graph.operators[1]) == "<Operator 1 MUL [1, -1, 77] -> [2]>"
        assert repr(graph.tensors[3]) == "<Tensor 3 'open' FLOAT32[-1,3]>"
        assert repr(model.subgraphs) == (
            "<2 items: <Subgraph 0 'first': 0 operators, 0 tensors>, <Subgraph 1 '<main>': 3 operators, 4 tensors>>"
        )
    path = path_of("circle/mlp")
    with open_model(path) as model:
        assert repr(model) == f"<Model {str(path)!r} circle, {path.stat().st_size} bytes>"
        shown = repr(model.subgraphs[0].tensors)
        assert shown.count("<Tensor") == 5
        assert shown.endswith(", …>")
        assert "…" not in repr(model.subgraphs[0].operators)
    build = Build()
    five = build.graph()
    for name in "abcde":
        five.tensor(name)
    with graph_of(build) as model:
        assert "…" not in repr(model.subgraphs[0].tensors)


def test_rows() -> None:
    with graph_of(net()) as model:
        graph = model.subgraphs[1]
        assert model.subgraphs.to_rows()[1] == {
            "index": 1, "name": "<main>", "operators": 3, "tensors": 4, "inputs": [0], "outputs": [2]
        }  # fmt: skip
        assert graph.operators.to_rows()[1] == {
            "subgraph": 1,
            "index": 1,
            "code": "MUL",
            "version": 1,
            "inputs": [1, -1, 77],
            "outputs": [2],
            "options": {"fused_activation_function": "NONE"},
        }
        assert graph.tensors.to_rows()[3] == {
            "subgraph": 1,
            "index": 3,
            "name": "open",
            "type": "FLOAT32",
            "shape": [-1, 3],
            "buffer": 0,
            "is_constant": False,
            "is_variable": False,
            "quantization": None,
            "producer": None,
            "consumers": [],
        }
        row = graph.tensors.to_rows()[1]
        assert (row["producer"], row["consumers"]) == (0, [1, 2])
        assert model.buffers.to_rows() == [{"index": 0, "bytes": 0, "external": False}]


def test_html() -> None:
    with graph_of(net()) as model:
        page = model._repr_html_()
        assert page.startswith("<p>&lt;Model ")
        assert page.count("<tr>") == 3
        assert "<th>index</th><th>name</th>" in page
        assert "<td>&lt;main&gt;</td><td>3</td>" in page
        page = model.subgraphs[1]._repr_html_()
        assert page.startswith("<p>&lt;Subgraph 1 ")
        assert (page.count("<tr>"), page.count("<td>MUL</td>"), page.count("more row")) == (4, 1, 0)
        assert model.subgraphs[0]._repr_html_().endswith("<table></table>")
    build = Build()
    graph = build.graph()
    for number in range(202):
        graph.tensor(f"t{number}")
    with graph_of(build) as model:
        page = model.subgraphs[0].tensors._repr_html_()
    assert page.count("<tr>") == 201
    assert page.endswith("</table><p>2 more rows</p>")
    assert "None" not in page


def test_views_are_values() -> None:
    code = OperatorCode(0, 0, "", 1, "ADD")
    operator, tensor = Operator(0, 0, code, (0, 0), (1,)), Tensor(0, 1, "y", "FLOAT32", (2, 2), None, 0, False)
    build = Build()
    graph = build.graph()
    graph.operator("ADD", [graph.tensor("x")] * 2, [graph.tensor("y")])
    with graph_of(build) as model:
        known = model.subgraphs[0]
        for view, alike in ((known.operators[0], operator), (known.tensors[1], tensor)):
            assert view == alike
            assert hash(view) == hash(alike)
            assert dataclasses.asdict(view) == dataclasses.asdict(alike)
            assert pickle.loads(pickle.dumps(view)) == copy.deepcopy(view) == alike  # noqa: S301
    with pytest.raises(AttributeError):
        tensor.numpy()


def test_the_edges_of_what_is_there() -> None:
    build = Build()
    graph = build.graph()
    graph.operator("ADD", [], []).opcode_index = 1
    graph.tensor("one byte", (1,), "INT8", data=b"\7")
    graph.tensor("none outside", buffer=build.buffer(offset=64, size=0))
    graph.tensor("one outside", (1,), "INT8", buffer=build.buffer(offset=64, size=1))
    with graph_of(build) as model:
        assert [tensor.is_constant for tensor in model.subgraphs[0].tensors] == [True, False, True]
        with pytest.raises(ModelFormatError, match="operator code 1 does not exist"):
            model.subgraphs[0].operators[0]


OPTIONS = "subgraphs[0].operators[2].builtin_options"


@pytest.mark.parametrize(
    ("path", "enum"),
    [
        ("subgraphs[0].tensors[1].type", "TensorType"),
        ("subgraphs[0].tensors[1].variant_tensors[0].type", "TensorType"),
        (f"{OPTIONS}.in_data_type", "TensorType"),
        (f"{OPTIONS}.type", ""),  # LSHProjectionOptions
        (f"{OPTIONS}.padding", "Padding"),
        (f"{OPTIONS}.stride_w", ""),
        ("subgraphs[0].tensors[1].buffer", ""),
        ("type", ""),
        ("", ""),
    ],
)
def test_the_enum_of_a_path(path: str, enum: str) -> None:
    assert enum_of(path) == enum
    assert len(OPTION_ENUMS) == 4
