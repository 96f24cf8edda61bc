"""The targets of the schema's integers: tensors, buffers, subgraphs, ...; schema/roles.json has all fields.

An integer is a plain number, or has a role. Code that checks, moves or compares indices looks up the fields here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from circletools.flatbuf.schema import Field, Schema, TableType, schema_document

Kind = Literal[
    "tensor", "buffer", "operator_code", "subgraph", "external_buffer", "external_buffer_group", "debug_metadata",
    "file_offset", "tensor_type",
]  # fmt: skip
Key = tuple[str, str]
"""A table type and the name of one of its fields."""


@dataclass(frozen=True, slots=True)
class Role:
    """The target of a field; a value in `none` refers to nothing.

    A subgraph that is a `pattern` is not executed: runtimes recognise it by its operators.
    """

    kind: Kind
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


def fields_with_role(table_type: TableType, *kinds: Kind) -> tuple[Field, ...]:
    """Return the fields of a table that refer to objects of one of these kinds, by ascending slot."""
    roles = load_roles()
    return tuple(
        item
        for item in table_type.fields
        if (role := roles.get((table_type.name, item.name))) is not None and role.kind in kinds
    )


def keys_with_role(*kinds: Kind) -> frozenset[Key]:
    """Return the fields of all tables that refer to objects of one of these kinds."""
    return frozenset(key for key, role in load_roles().items() if role.kind in kinds)


@cache
def types_below(schema: Schema, kinds: frozenset[Kind]) -> Mapping[str, frozenset[str]]:
    """Return for each table type the types reachable from it (including itself) that have fields with such a role."""
    below: dict[str, frozenset[str]] = {}
    for name in reversed(schema.order):  # users come before what they use
        table_type = schema.tables[name]
        own = {name} if fields_with_role(table_type, *kinds) else set[str]()
        below[name] = frozenset(
            own.union(*(below[one] for item in table_type.fields for one in schema.targets(item)))
        )
    return below
