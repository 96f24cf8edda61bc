"""Files of single tables, and where the objects of a file lie: each that is reached, once."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from circletools.flatbuf.columns import Wire
from circletools.flatbuf.schema import Field, Schema, load_schema
from tests.kit.build import Packer, Table


def file_of(root: Table, kind: str = "tflite", unknown: Mapping[str, tuple[int, bytes]] | None = None) -> bytes:
    """Return the file with this root table; `unknown` as of `Packer`."""
    packer = Packer(load_schema("circle" if kind == "circle" else "tflite"), unknown)
    return packer.finish(packer.write(root), packer.schema.identifier)


class Object(NamedTuple):
    """One object. `alignment` is what its start needs, or that of its first element at `start` + 4."""

    start: int
    end: int
    kind: str
    alignment: int


def schema_of_file(data: bytes) -> Schema:
    """Return the schema of a file."""
    return load_schema("circle" if data[4:8] == b"CIR0" else "tflite")


def wire_of(data: bytes) -> tuple[Wire, Schema, int]:
    """Return a file as the engine takes it, its schema and its root table."""
    return Wire(data), schema_of_file(data), struct.unpack_from("<I", data)[0]


def objects(data: bytes) -> list[Object]:
    """Return all objects of a file by position, those of the kinds `vtable`, `string`, `bytes`, or a type's name."""
    schema, found = schema_of_file(data), set[Object]()
    pending, seen = [(schema.root, struct.unpack_from("<I", data)[0])], set[tuple[str, int]]()
    while pending:
        name, at = pending.pop()
        if (name, at) in seen:
            continue
        seen.add((name, at))
        vtable = at - struct.unpack_from("<i", data, at)[0]
        length, size = struct.unpack_from("<HH", data, vtable)
        found.add(Object(vtable, vtable + length, "vtable", 2))
        for item in schema.tables[name].fields:
            offset = (
                struct.unpack_from("<H", data, vtable + 4 + 2 * item.slot)[0] if 4 + 2 * item.slot < length else 0
            )
            if not offset:
                continue
            assert (at + offset) % item.width == 0
            if item.kind != "scalar":
                target = at + offset + struct.unpack_from("<I", data, at + offset)[0]
                found |= _leaf(data, item, target)
                pending += _tables(data, schema, item, target, vtable, at)
        found.add(Object(at, at + size, name, 4))
    return sorted(found)


def _leaf(data: bytes, item: Field, at: int) -> set[Object]:
    count = struct.unpack_from("<I", data, at)[0]
    if item.kind == "string":
        return {Object(at, at + 5 + count, "string", 1)}
    if item.kind == "vector":
        width = item.dtype.itemsize
        wanted = next((one for one in (16, 8, 4) if count >= one), 1) if width == 1 else width
        return {Object(at, at + 4 + count * width, "bytes" if width == 1 else "vector", wanted)}
    return set()


def _tables(data: bytes, schema: Schema, item: Field, target: int, vtable: int, at: int) -> list[tuple[str, int]]:
    if item.kind == "table":
        return [(str(item.target), target)]
    if item.kind == "union":
        code = data[at + struct.unpack_from("<H", data, vtable + 4 + 2 * item.type_slot)[0]]
        return [(schema.unions[str(item.target)][code], target)]
    if item.target is None:
        return []
    places = range(target + 4, target + 4 + 4 * struct.unpack_from("<I", data, target)[0], 4)
    return [(item.target, place + struct.unpack_from("<I", data, place)[0]) for place in places]
