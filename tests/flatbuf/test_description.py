"""Tables as plain values: what is written in them, and of what is long its length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.description import described
from tests.kit.build import Packer, Raw, Table, schema_of
from tests.kit.objects import wire_of


def shown(root: Table, kind: str = "tflite") -> Any:
    packer = Packer(schema_of(kind))
    return shown_of(packer.finish(packer.write(root), schema_of(kind).identifier))


def shown_of(data: bytes) -> Any:
    wire, schema, at = wire_of(data)
    return described(Tables(wire, schema.tables["Model"], np.array([at, at], np.int64)), schema)


def test_only_what_is_written_is_reported() -> None:
    assert shown(Table("Model")) == [{}, {}]
    raw = Raw()
    assert shown_of(raw.finish(raw.table({0: ("u32", 0)}))) == [{"version": 0}] * 2
    values = shown(Table("Model", version=3, description="text", metadata_buffer=[1, 2], buffers=[Table("Buffer")]))
    assert values == [{"version": 3, "description": "text", "metadata_buffer": [1, 2], "buffers": {"count": 1}}] * 2
    assert type(values[0]["version"]) is int


@pytest.mark.parametrize(("count", "whole"), [(0, True), (16, True), (17, False)])
def test_long_vectors_are_a_count(count: int, whole: bool) -> None:
    expected = list(range(count)) if whole else {"count": count}
    assert shown(Table("Model", metadata_buffer=range(count)))[0] == {"metadata_buffer": expected}


@pytest.mark.parametrize(("count", "whole"), [(0, True), (1000, True), (1001, False)])
def test_long_texts_are_how_they_begin(count: int, whole: bool) -> None:
    text = "abc" * 400
    expected = text[:count] if whole else {"count": count, "begins": text[:1000]}
    assert shown(Table("Model", description=text[:count]))[0] == {"description": expected}


def test_tables_in_tables_and_members_of_unions() -> None:
    parameters = Table(
        "QuantizationParameters", scale=[0.5], details=Table("BlockwiseQuantization", scales=1, block_size=32)
    )
    packer = Packer(schema_of("tflite"))
    tensors = [Table("Tensor", name="a"), Table("Tensor", name="b", quantization=parameters)]
    root = Table("Model", subgraphs=[Table("SubGraph", tensors=tensors)])
    wire, schema, at = wire_of(packer.finish(packer.write(root), b"TFL3"))
    model = Tables(wire, schema.tables["Model"], np.array([at], np.int64))
    found = described(model.children("subgraphs", schema)[0].children("tensors", schema)[0], schema)
    details = {"type": "BlockwiseQuantization", "scales": 1, "block_size": 32}
    assert found == [{"name": "a"}, {"name": "b", "quantization": {"scale": [0.5], "details": details}}]


@pytest.mark.parametrize(("code", "name"), [(0, "NONE"), (250, "UNKNOWN:250")])
def test_unknown_members_have_their_code(code: int, name: str) -> None:
    raw = Raw()
    data = raw.finish(
        raw.table({2: raw.refs([raw.table({3: raw.refs([raw.table({3: ("u8", code), 4: raw.table()})])})])})
    )
    wire, schema, at = wire_of(data)
    model = Tables(wire, schema.tables["Model"], np.array([at], np.int64))
    operators = model.children("subgraphs", schema)[0].children("operators", schema)[0]
    assert described(operators, schema) == [{"builtin_options": {"type": name}}]
