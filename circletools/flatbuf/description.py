"""Tables as plain values, for people and for JSON: the fields present, and only the length of long vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import OBJECT_BYTES, Tables, Vectors
from circletools.flatbuf.schema import Field, Schema

Leaf = Callable[[Tables, Field], list[Any]]
SHOWN_ELEMENTS = 16
"""Only the length of longer vectors is given."""

_SHOWN_CHARACTERS = 1000


def described(tables: Tables, schema: Schema, leaf: Leaf | None = None) -> list[dict[str, Any]]:
    """Return each table as a dict of its present fields.

    Without `leaf`, a union member gets a `type` entry, and long vectors and vectors of tables are replaced by their
    `count`. With `leaf`, union codes are ordinary fields, and `leaf` converts scalars, strings and vectors. Raises
    ModelFormatError if tables are shared more often than the size of the file justifies.
    """
    repeated = len(tables) - len(np.unique(tables.at))
    tables.wire.budget.charge(f"the {tables.type.name} tables that are shown", OBJECT_BYTES * repeated)
    values: list[dict[str, Any]] = [{} for _ in range(len(tables))]
    codes = {item.type_slot for item in tables.type.fields if item.kind == "union" and leaf is None}
    for item in tables.type.fields:
        rows = np.flatnonzero(tables.has(item.name))
        if rows.size and item.slot not in codes:
            for row, value in zip(rows.tolist(), _column(tables.take(rows), item, schema, leaf), strict=True):
                values[row][item.name] = value
    return values


def _column(tables: Tables, item: Field, schema: Schema, leaf: Leaf | None) -> list[Any]:
    if item.kind == "table":
        return list(described(tables.child(item.name, schema)[0], schema, leaf))
    if item.kind == "union":
        return _union(tables, item, schema, leaf)
    if leaf is not None:
        return leaf(tables, item)
    if item.kind == "scalar":
        return list(tables.scalars(item.name).tolist())
    vectors = tables.vectors(item.name)
    if item.kind == "vector" and item.target is not None:
        return [{"count": count} for count in vectors.count.tolist()]
    return [shortened(vectors, row, item) for row in range(len(tables))]


def _union(tables: Tables, item: Field, schema: Schema, leaf: Leaf | None) -> list[Any]:
    kinds, names = union_members(tables, item, schema)
    values: list[Any] = [{"type": names[kind]} if leaf is None else {} for kind in kinds]
    for rows, members in tables.members(item.name, schema):
        for row, member in zip(rows.tolist(), described(members, schema, leaf), strict=True):
            values[row] |= member
    return values


def union_members(tables: Tables, item: Field, schema: Schema) -> tuple[NDArray[np.int64], list[str]]:
    """Return the member code of a union field for each table, and the members' names; unknown codes count as members.

    A table field is treated as a union with one member.
    """
    if item.kind == "table":
        return np.zeros(len(tables), np.int64), [str(item.target)]
    if item.name not in tables.type.by_name:
        return np.zeros(len(tables), np.int64), ["NONE"]
    codes, kinds = np.unique(tables.union_codes(tables.field(item.name)), return_inverse=True)
    members = schema.unions[str(item.target)]
    names = [members.get(code, f"UNKNOWN:{code}") if code else "NONE" for code in codes.tolist()]
    return kinds.astype(np.int64), names


def shortened(vectors: Vectors, row: int, item: Field) -> Any:
    """Return a string or a vector of numbers; for a long vector, only its `count`."""
    count = int(vectors.count[row])
    if item.kind == "string":
        raw = vectors.row(row)[:_SHOWN_CHARACTERS].tobytes().decode("utf-8", "surrogateescape")
        return raw if count <= _SHOWN_CHARACTERS else {"count": count, "begins": raw}
    return vectors.row(row).tolist() if count <= SHOWN_ELEMENTS else {"count": count}
