"""A reader of all that a file and a newer schema say, as flatc writes it in JSON: what is written, by name."""

from __future__ import annotations

import json
import struct
from typing import Any

from circletools.flatbuf.newer import STRING
from circletools.flatbuf.schema import Field, Schema, TableType
from circletools.model.model import open_model
from tests.kit.support import TESTDATA, find_field, target, u32

SCHEMA = (TESTDATA / "newer" / "newer.bfbs").read_bytes()
MODEL = (TESTDATA / "newer" / "newer.tflite").read_bytes()
CONTENT: dict[str, Any] = json.loads((TESTDATA / "newer" / "newer.json").read_text())
"""What flatc made the model of."""

_STRUCTS = {16: ("abcd", "<4f"), 8: ("xy", "<f4xd")}  # by alignment


def content(data: bytes) -> dict[str, Any]:
    """Return what is in a model of `newer.fbs`."""
    with open_model(data, schema=SCHEMA) as model:
        schema = model.schema.whole
        return _table(data, schema, schema.tables[schema.root], int(model.root.at[0]))


def _table(data: bytes, schema: Schema, table: TableType, at: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in table.fields:
        place = find_field(data, at, item.slot)
        if place:
            code = find_field(data, at, item.type_slot) if item.type_slot >= 0 else 0
            found[item.name] = _value(data, schema, item, place, code or 0)
    for item in table.fields:
        if item.type_slot >= 0 and item.name in found:
            name, members = f"{item.name}_type", schema.unions[str(item.target)]
            codes = found[name]
            found[name] = [members[one] for one in codes] if isinstance(codes, list) else members[codes]
    return found


def _value(data: bytes, schema: Schema, item: Field, place: int, code: int) -> Any:
    if item.kind == "scalar":
        return _scalar(data, item, place)
    at = target(data, place)
    if item.kind == "string":
        return _text(data, at)
    if item.kind in ("table", "union"):
        name = schema.unions[str(item.target)][data[code]] if item.kind == "union" else str(item.target)
        return _table(data, schema, schema.tables[name], at)
    count = u32(data, at)
    places = [at + 4 + index * item.element.itemsize for index in range(count)]
    if item.target is None:
        return [_scalar(data, item, one) for one in places]
    if item.target == STRING:
        return [_text(data, target(data, one)) for one in places]
    names = [item.target] * count
    if item.type_slot >= 0:
        codes = target(data, code)
        names = [schema.unions[item.target][one] for one in data[codes + 4 : codes + 4 + count]]
    return [
        _table(data, schema, schema.tables[name], target(data, one)) for name, one in zip(names, places, strict=True)
    ]


def _scalar(data: bytes, item: Field, place: int) -> Any:
    assert place % (item.align or item.element.itemsize) == 0
    if item.align:
        names, form = _STRUCTS[item.align]
        return dict(zip(names, struct.unpack_from(form, data, place), strict=True))
    code = {"f": "fd", "i": "bhiq", "u": "BHIQ"}[item.element.kind][
        item.element.itemsize.bit_length() - 1 - 2 * (item.element.kind == "f")
    ]
    return struct.unpack_from(f"<{code}", data, place)[0]


def _text(data: bytes, at: int) -> str:
    raw = data[at + 4 : at + 4 + u32(data, at)]
    assert data[at + 4 + len(raw)] == 0
    return raw.decode()
