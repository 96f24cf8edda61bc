"""The two file formats as data: tables, fields, unions and enums from schema/*.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

from circletools.errors import EditError

SchemaName = Literal["circle", "tflite", "debug_metadata", "etdump", "tflite_metadata", "litertlm"]
Kind = Literal["scalar", "string", "table", "vector", "union"]

_NUMBERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
_DTYPES = {"bool": np.dtype("u1"), **{name: np.dtype(name).newbyteorder("<") for name in _NUMBERS}}
_NAMED_BY = {"vector": "element", "table": "type", "union": "union"}  # the kind of a field's value or target
OFFSET = np.dtype("<u4")
"""The encoding of a reference in a table or vector."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table.

    `dtype` is the type of the scalar, or of a vector's elements (`OFFSET` for references). `target` is the table
    type, the name of the union, or None. `type_slot` is the slot of a union's member code.
    """

    name: str
    slot: int
    kind: Kind
    dtype: np.dtype[Any]
    default: float = 0
    target: str | None = None
    type_slot: int = -1
    deprecated: bool = False

    @property
    def width(self) -> int:
        """The size in bytes of the field within its table, which is also its alignment in the file."""
        return self.dtype.itemsize if self.kind == "scalar" else OFFSET.itemsize

    @property
    def element(self) -> np.dtype[Any]:
        """The element type of a string or a vector."""
        return np.dtype("u1") if self.kind == "string" else self.dtype


@dataclass(frozen=True, slots=True)
class TableType:
    """A table type: its fields by ascending slot. `slots` is the number of slots in the schema."""

    name: str
    slots: int
    fields: tuple[Field, ...]
    by_name: Mapping[str, Field]
    by_slot: Mapping[int, Field]


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One file format. `order` lists the table types reachable from the root, topologically sorted."""

    format: str
    identifier: bytes
    root: str
    tables: Mapping[str, TableType]
    unions: Mapping[str, Mapping[int, str]]
    enums: Mapping[str, Mapping[int, str]]
    order: tuple[str, ...]

    def enum_value(self, enum: str, name: str) -> int:
        """Return the value of an enum's member. Raises KeyError."""
        return {known: value for value, known in self.enums[enum].items()}[name]

    def member(self, owner: TableType, field: Field, code: int) -> str:
        """Return the table type for a union's member code. Raises EditError for an unknown code."""
        member = self.unions[str(field.target)].get(code)
        if member is None:
            raise EditError(f"{owner.name}.{field.name} has the unknown union code {code}")
        return member

    def targets(self, field: Field) -> tuple[str, ...]:
        """Return the table types that a field can refer to."""
        if field.target is None:
            return ()
        return tuple(self.unions[field.target].values()) if field.kind == "union" else (field.target,)


def _field(description: Mapping[str, Any]) -> Field:
    kind: Any = description["kind"]
    of: str = description[_NAMED_BY.get(kind, "kind")]
    return Field(
        description["name"],
        description["slot"],
        "scalar" if kind in _DTYPES else kind,
        _DTYPES.get(of, OFFSET),
        description.get("default", 0),
        of if kind in _NAMED_BY and of not in _DTYPES else None,
        description.get("type_slot", -1),
        description.get("deprecated", False),
    )


def table_type(name: str, slots: int, fields: Sequence[Field]) -> TableType:
    """Return a table type with these fields, which must be in ascending slot order."""
    by_name, by_slot = {field.name: field for field in fields}, {field.slot: field for field in fields}
    return TableType(name, slots, tuple(fields), by_name, by_slot)


def _order(schema: Schema) -> tuple[str, ...]:
    """Sort the reachable types topologically; other modules rely on the fact that no type contains itself."""
    users: TopologicalSorter[str] = TopologicalSorter()
    pending, seen = [schema.root], {schema.root}
    while pending:
        name = pending.pop()
        users.add(name)
        for member in (member for field in schema.tables[name].fields for member in schema.targets(field)):
            users.add(member, name)
            if member not in seen:
                seen.add(member)
                pending.append(member)
    return tuple(users.static_order())


@cache
def schema_document(name: str) -> Mapping[str, Any]:
    """Return the contents of schema/<name>.json."""
    try:
        text = resources.files("circletools.schema").joinpath(f"{name}.json").read_text(encoding="utf-8")
    except ModuleNotFoundError:  # in a checkout, the folder is next to the package
        text = (Path(__file__).parents[2] / "schema" / f"{name}.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


@cache
def load_schema(format_name: SchemaName) -> Schema:
    """Load schema/<format_name>.json."""
    data = schema_document(format_name)
    tables = {
        name: table_type(name, description["slots"], [_field(field) for field in description["fields"]])
        for name, description in data["tables"].items()
    }
    unions = {name: {code: member for member, code in members.items()} for name, members in data["unions"].items()}
    schema = Schema(
        format=data["format"],
        identifier=data["file_identifier"].encode("ascii"),
        root=data["root"],
        tables=tables,
        unions=unions,
        enums={name: {value: key for key, value in members.items()} for name, members in data["enums"].items()},
        order=(),
    )
    return replace(schema, order=_order(schema))


def format_of(identifier: bytes) -> Literal["circle", "tflite"] | None:
    """Return the format whose files carry this four-byte identifier, or None."""
    # The schemas have identifiers too, but loading both costs more than reading a small model.
    if identifier == b"CIR0":
        return "circle"
    return "tflite" if identifier == b"TFL3" else None


# --- the targets of the schema's integers: tensors, buffers, subgraphs, ...; schema/roles.json has all fields -
# An integer field is a plain number or has a role. Code that checks, moves or compares indices uses the roles.


RoleKind = Literal[
    "tensor", "buffer", "operator_code", "subgraph", "external_buffer", "external_buffer_group", "debug_metadata",
    "file_offset", "tensor_type",
]  # fmt: skip
Key = tuple[str, str]
"""A table type and the name of one of its fields."""


@dataclass(frozen=True, slots=True)
class Role:
    """What an index field refers to; a value in `none` refers to nothing.

    A subgraph that is a `pattern` is not executed: runtimes recognize it by its operators.
    """

    kind: RoleKind
    none: tuple[int, ...]
    pattern: bool = False


@cache
def load_roles() -> Mapping[Key, Role]:
    """Return the role of each field that has one, by table type and field."""
    return {
        (table, field): Role(kind, tuple(description["none"]), description.get("pattern", False))
        for kind, role in schema_document("roles")["roles"].items()
        for key, description in role["fields"].items()
        for table, _, field in [key.partition(".")]
    }


def fields_with_role(table_type: TableType, *kinds: RoleKind) -> tuple[Field, ...]:
    """Return the fields of a table that refer to objects of one of these kinds, by ascending slot."""
    roles = load_roles()
    return tuple(
        item
        for item in table_type.fields
        if (role := roles.get((table_type.name, item.name))) is not None and role.kind in kinds
    )


def keys_with_role(*kinds: RoleKind) -> frozenset[Key]:
    """Return the fields of all tables that refer to objects of one of these kinds."""
    return frozenset(key for key, role in load_roles().items() if role.kind in kinds)


@cache
def types_below(schema: Schema, kinds: frozenset[RoleKind]) -> Mapping[str, frozenset[str]]:
    """For each table type, return the types with fields of these kinds that it reaches (possibly itself)."""
    below: dict[str, frozenset[str]] = {}
    for name in reversed(schema.order):  # a type comes before those that it refers to
        table_type = schema.tables[name]
        own = {name} if fields_with_role(table_type, *kinds) else set[str]()
        below[name] = frozenset(
            own.union(*(below[one] for item in table_type.fields for one in schema.targets(item)))
        )
    return below
