"""The views of a model show what another reader sees; what is not a model is refused."""

from __future__ import annotations

import inspect
import io
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import circletools
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, InvalidInputError, ModelFormatError
from circletools.flatbuf.schema import load_schema
from circletools.model.model import Model, open_model
from circletools.model.rows import Subgraph
from tests.kit.support import (
    ENDINGS,
    bytes_of,
    field_at,
    locate,
    packed,
    path_of,
    put,
    put_u32,
    read,
    read_everything,
    title,
    unpacked,
)


def name_of(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "surrogateescape")


def code_of(table: dict[str, Any], *, circle: bool) -> int:
    old, new = int(table["deprecatedBuiltinCode"]), int(table["builtinCode"])
    if circle and min(old, new) < 0:
        return min(old, new)
    return max(old, new)


def names_of_enum(model: Model, enum: str) -> dict[int, str]:
    return dict(load_schema(model.format).enums[enum])


# --- the views of every model -------------------------------------------------------------------------------


Tables = list[dict[str, Any]]


def check_codes(model: Model, expected: Tables) -> None:
    names, circle = names_of_enum(model, "BuiltinOperator"), model.format == "circle"
    assert [(code.index, code.code, code.custom_code, code.version) for code in model.operator_codes] == [
        (index, code_of(table, circle=circle), name_of(table["customCode"]), table["version"])
        for index, table in enumerate(expected)
    ]
    for code in model.operator_codes:
        name = names[code.code]
        assert code.name == (f"CUSTOM:{code.custom_code}" if name == "CUSTOM" else name)


def check_subgraph(model: Model, subgraph: Subgraph, table: dict[str, Any]) -> None:
    types, tensors, operators = names_of_enum(model, "TensorType"), table["tensors"] or [], table["operators"] or []
    assert subgraph.name == name_of(table["name"])
    assert tuple(subgraph.inputs.tolist()) == (table["inputs"] or ())
    assert tuple(subgraph.outputs.tolist()) == (table["outputs"] or ())
    assert [
        (t.subgraph, t.index, t.name, t.type, t.shape, t.shape_signature, t.buffer, t.is_variable)
        for t in subgraph.tensors
    ] == [
        (
            subgraph.index, index, name_of(t["name"]), types[t["type"]], t["shape"] or (), t["shapeSignature"],
            t["buffer"], bool(t["isVariable"]),
        )
        for index, t in enumerate(tensors)
    ]  # fmt: skip
    assert [(o.subgraph, o.index, o.code.index, o.inputs, o.outputs) for o in subgraph.operators] == [
        (subgraph.index, index, o["opcodeIndex"], o["inputs"] or (), o["outputs"] or ())
        for index, o in enumerate(operators)
    ]
    assert subgraph.code_indices() == [o["opcodeIndex"] for o in operators]
    names = [tensor["name"] or b"" for tensor in tensors]
    assert model.output_names(subgraph.index) == [
        tuple(names[tensor] if tensor >= 0 else b"" for tensor in operator["outputs"] or ()) for operator in operators
    ]


def check_columns(model: Model, expected: Tables) -> None:
    tensors = [tensor for subgraph in expected for tensor in subgraph["tensors"] or ()]
    operators = [operator for subgraph in expected for operator in subgraph["operators"] or ()]
    columns, rows = model.tensor_columns, model.operator_columns
    assert columns.names == [tensor["name"] or b"" for tensor in tensors]
    assert columns.buffers.tolist() == [tensor["buffer"] for tensor in tensors]
    assert columns.types.tolist() == [tensor["type"] for tensor in tensors]
    assert [end - start for start, end in pairwise(columns.splits.tolist())] == [
        len(subgraph["tensors"] or ()) for subgraph in expected
    ]
    assert rows.code_indices.tolist() == [operator["opcodeIndex"] for operator in operators]
    assert rows.first_outputs.tolist() == [(operator["outputs"] or (-1,))[0] for operator in operators]
    assert rows.inputs.flat().tolist() == [index for operator in operators for index in operator["inputs"] or ()]


def check_buffers(model: Model, expected: Tables) -> None:
    assert len(model.buffers) == len(expected)
    for buffer, table in zip(model.buffers, expected, strict=True):
        external = isinstance(table["offset"], bytes)
        assert buffer.external == external
        assert bytes(buffer.data) == (table["offset"] if external else table["data"] or b"")


def check_metadata(model: Model, entries: Tables, buffers: Tables) -> None:
    assert [(entry.index, entry.name, entry.buffer) for entry in model.metadata] == [
        (index, name_of(entry["name"]), entry["buffer"]) for index, entry in enumerate(entries)
    ]
    values = {name_of(entry["name"]): buffers[entry["buffer"]]["data"] or b"" for entry in entries}
    assert {name: bytes(model.metadata_value(name) or b"") for name in values} == values
    assert model.metadata_value("no such entry") is None


def check_signatures(model: Model, expected: Tables) -> None:
    def maps(entries: Tables | None) -> tuple[tuple[str, int], ...]:
        return tuple((name_of(entry["name"]), entry["tensorIndex"]) for entry in entries or ())

    assert [(s.index, s.key, s.subgraph, s.inputs, s.outputs) for s in model.signatures] == [
        (index, name_of(s["signatureKey"]), s["subgraphIndex"], maps(s["inputs"]), maps(s["outputs"]))
        for index, s in enumerate(expected)
    ]


def test_every_view_is_what_another_reader_sees(any_model: Path) -> None:
    data = any_model.read_bytes()
    expected = read(data)
    subgraphs: Tables = expected["subgraphs"] or []
    with open_model(any_model) as model:
        assert model.format == ENDINGS[data[4:8]]
        assert model.version == expected["version"]
        assert model.description == name_of(expected["description"])
        check_codes(model, expected["operatorCodes"] or [])
        for subgraph, table in zip(model.subgraphs, subgraphs, strict=True):
            check_subgraph(model, subgraph, table)
        check_columns(model, subgraphs)
        check_buffers(model, expected["buffers"] or [])
        check_metadata(model, expected["metadata"] or [], expected["buffers"] or [])
        check_signatures(model, expected["signatureDefs"] or [])
        read_everything(model)


# --- what the models must show, so that the above means something -------------------------------------------


def test_the_test_models_have_what_the_views_show() -> None:
    with open_model(path_of("tflite/custom_op")) as model:
        assert "CUSTOM:AudioSpectrogram" in [code.name for code in model.operator_codes]
    with open_model(path_of("tflite/composite")) as model:
        assert [code.code for code in model.operator_codes if code.name == "STABLEHLO_COMPOSITE"] == [206]
    with open_model(path_of("circle/rms_norm")) as model:
        assert (-6, "RMS_NORM") in [(code.code, code.name) for code in model.operator_codes]
    with open_model(path_of("tflite/variable_tensor")) as model:
        assert [tensor.name for tensor in model.subgraphs[0].tensors if tensor.is_variable] == ["state"]
    with open_model(path_of("tflite/dynamic_shape")) as model:
        assert any(tensor.shape_signature == (-1, -1, 4) for tensor in model.subgraphs[0].tensors)
    with open_model(path_of("circle/mlp_external")) as model:
        assert sum(buffer.external for buffer in model.buffers) == 4
    with open_model(path_of("circle/two_signatures")) as model:
        assert [signature.subgraph for signature in model.signatures] == [1, 0]
        assert -1 in model.subgraphs[0].operators[0].inputs


@pytest.mark.parametrize(
    ("identifier", "old", "new", "code", "name"),
    [
        (b"TFL3", 0, 0, 0, "ADD"),
        (b"TFL3", 9, 0, 9, "FULLY_CONNECTED"),  # an old file, which lacks the new field
        (b"TFL3", 127, 206, 206, "STABLEHLO_COMPOSITE"),
        (b"TFL3", 0, 127, 127, "PLACEHOLDER_FOR_GREATER_OP_CODES"),
        (b"TFL3", 3, 9, 9, "FULLY_CONNECTED"),
        (b"TFL3", 127, 9999, 9999, "UNKNOWN:9999"),
        (b"CIR0", -2, -2, -2, "INSTANCE_NORM"),
        (b"CIR0", -2, 0, -2, "INSTANCE_NORM"),
        (b"CIR0", 0, -9, -9, "ATTENTION"),
        (b"CIR0", 127, 150, 150, "GELU"),
    ],
)
def test_an_operator_code_is_read_from_two_fields(
    identifier: bytes, old: int, new: int, code: int, name: str
) -> None:
    data = bytes_of("circle/mlp" if identifier == b"CIR0" else "tflite/scalar")
    changed = unpacked(data)
    changed.operatorCodes[0].deprecatedBuiltinCode, changed.operatorCodes[0].builtinCode = old, new
    with open_model(packed(changed, identifier)) as model:
        found = model.operator_codes[0]
        known = load_schema(model.format).enums["BuiltinOperator"].get(code)
        assert (found.code, found.name) == (code, name)
        assert name == known or name.startswith("UNKNOWN")


def test_an_unknown_tensor_type_keeps_its_number() -> None:
    changed = unpacked(bytes_of("circle/mlp"))
    changed.subgraphs[0].tensors[0].type = 99
    with open_model(packed(changed, b"CIR0")) as model:
        assert model.subgraphs[0].tensors[0].type == "UNKNOWN:99"


def test_names_that_are_no_text_are_shown_without_loss() -> None:
    changed = unpacked(bytes_of("circle/mlp"))
    changed.subgraphs[0].tensors[0].name = b"\xff\xfe"
    with open_model(packed(changed, b"CIR0")) as model:
        name = model.subgraphs[0].tensors[0].name
        assert name.encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_the_last_of_several_entries_with_one_name_counts() -> None:
    changed = unpacked(bytes_of("tflite/if_cond"))
    for entry in changed.metadata:
        entry.name = "same"
    data = packed(changed, b"TFL3")
    last = read(data)["metadata"][-1]["buffer"]
    with open_model(data) as model:
        assert bytes(model.metadata_value("same") or b"") == read(data)["buffers"][last]["data"]


def test_rows_are_sequences() -> None:
    with open_model(path_of("circle/transformer_block")) as model:
        operators = model.subgraphs[0].operators
        assert len(operators) == 41
        assert operators[-1].index == 40
        assert [operator.index for operator in operators[1:10:3]] == [1, 4, 7]
        assert [operator.index for operator in operators] == list(range(41))
        for index in (41, -42):
            with pytest.raises(IndexError):
                operators[index]


# --- opening ------------------------------------------------------------------------------------------------


def test_a_model_opens_from_whatever_holds_its_bytes(own_model: Path) -> None:
    data = own_model.read_bytes()
    with own_model.open("rb") as file:
        sources: list[Any] = [
            own_model,
            str(own_model),
            data,
            bytearray(data),
            memoryview(data),
            io.BytesIO(data),
            file,
        ]
        seen = []
        for source in sources:
            with open_model(source) as model:
                assert bytes(model.source.octets) == data
                seen.append([list(subgraph.tensors) for subgraph in model.subgraphs])
    assert all(one == seen[0] for one in seen)


def test_the_package_offers_it_too() -> None:
    assert inspect.unwrap(circletools.open_model) is open_model
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(circletools, "no_such_name")  # noqa: B009


def test_views_outlive_the_model() -> None:
    with open_model(path_of("circle/mlp")) as model:
        data = model.buffers[1].data
        expected = bytes(data)
        names = model.tensor_columns.names
    assert bytes(data) == expected
    assert names


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "no.circle"
    with pytest.raises(InvalidInputError, match="No such file") as caught:
        open_model(missing)
    assert caught.value.location == str(missing)


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="directory"):
        open_model(tmp_path)


def test_a_name_that_no_file_can_have_is_reported() -> None:
    with pytest.raises(InvalidInputError):
        open_model("a\0b")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"C", b"CIR0", b"\x10\0\0\0CIR", b"\x08\0\0\0CIR0", b"\x1f\x8b\x08\0" * 9, b"PK\3\4" * 9, bytes(64),
        b"\x08\x00\x00\x00ONNX" * 9, b"\x10\0\0\0TFL2" + bytes(64), b"{" * 20, b"0RIC" * 9,
    ],
)  # fmt: skip
def test_something_else_is_no_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    path.write_bytes(content)
    for source in (content, path):
        with pytest.raises(ModelFormatError) as caught:
            open_model(source)
        if content[4:8] not in ENDINGS:
            assert caught.value.location == (str(path) if source is path else "<bytes>")
            assert re.search("neither a TFLite nor a Circle model|, not a TFLite or Circle model", str(caught.value))


def test_a_refused_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    path.write_bytes(bytes(100))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        with pytest.raises(ModelFormatError):
            open_model(path)
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after <= before


# --- what turns out broken ----------------------------------------------------------------------------------


def test_an_operator_code_out_of_range_is_reported_on_access() -> None:
    data = bytes_of("tflite/cnn")
    operator = locate(data, "subgraphs", 0, "operators", 1)
    with open_model(put_u32(data, field_at(data, operator, 0), 77)) as model:
        _ = model.subgraphs[0].operators[0]
        with pytest.raises(ModelFormatError) as caught:
            _ = model.subgraphs[0].operators[1]
    assert caught.value.location == "subgraphs[0].operators[1]"


def test_an_external_buffer_outside_the_file_is_reported_on_access() -> None:
    data = bytes_of("circle/mlp_external")
    at = field_at(data, locate(data, "buffers", 1), 1)
    data = put(data, at, (2**64 - 1).to_bytes(8, "little"))
    with open_model(data) as model, pytest.raises(ModelFormatError) as caught:
        _ = model.buffers[1]
    assert caught.value.location == "buffers[1]"


def test_the_value_of_an_entry_without_buffer_is_reported() -> None:
    changed = unpacked(bytes_of("tflite/if_cond"))
    changed.metadata[0].buffer = 99
    name = name_of(changed.metadata[0].name)
    with open_model(packed(changed, b"TFL3")) as model:
        with pytest.raises(ModelFormatError) as caught:
            model.metadata_value(name)
        assert caught.value.location == "metadata[0].buffer"
        with pytest.raises(EditError):
            ModelEdit(model)


@pytest.mark.parametrize("beyond", [0, 5])
def test_a_buffer_out_of_range_is_refused_before_an_edit(beyond: int) -> None:
    changed = unpacked(bytes_of("tflite/cnn"))
    changed.subgraphs[0].tensors[3].buffer = len(changed.buffers) + beyond
    with open_model(packed(changed, b"TFL3")) as model, pytest.raises(EditError) as caught:
        ModelEdit(model)
    assert caught.value.location == "subgraphs[0].tensors[3].buffer"
    assert "could make this reference valid" in str(caught.value)


def test_titles_are_distinct() -> None:
    assert title(path_of("circle/mlp")) == "circle/mlp"
