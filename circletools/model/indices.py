"""Every index that a model holds, in columns: what it points at, where it stands, in which subgraph.

schema/roles.json says which fields are indices. The walk goes down from the root by the table types that lead to
such fields, all tables of one level at once. A table that several others share comes once for each way to it, since
a tensor index means another tensor in another subgraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.roles import Kind, Role, load_roles, types_that_lead_to
from circletools.flatbuf.schema import Field, Schema
from circletools.model.model import Model

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Tables at the end of one way from the root.

    Row i is referred to by row `rows[i]` of `parent`, in `field`, there at `elements[i]` where that is a vector.
    `subgraphs` has the subgraph that each belongs to, None outside of them.
    """

    tables: Tables
    parent: Level | None
    field: str
    rows: Rows
    elements: Rows | None
    subgraphs: Rows | None

    def place(self, row: int) -> str:
        """Return the path of a table: `subgraphs[0].operators[1].builtin_options`."""
        if self.parent is None:
            return ""
        above = self.parent.place(int(self.rows[row]))
        here = self.field if self.elements is None else f"{self.field}[{self.elements[row]}]"
        return f"{above}.{here}" if above else here

    def way(self, row: int) -> list[tuple[str, Level, int]]:
        """Return the levels from the root down to this one, each with the field that leads there and the row."""
        above = [] if self.parent is None else self.parent.way(int(self.rows[row]))
        return [*above, (self.field, self, row)]

    def rows_of(self, name: str) -> Rows | None:
        """Return for each row that of the table of a type above it, or of itself; None where there is none."""
        if self.tables.type.name == name:
            return np.arange(len(self.tables))
        above = None if self.parent is None else self.parent.rows_of(name)
        return None if above is None else above[self.rows]


@dataclass(frozen=True, slots=True, eq=False)
class Indices:
    """One field of all tables of a level: the values one after the other, and the row in `level` of each."""

    role: Role
    level: Level
    field: Field
    values: NDArray[np.int64]
    rows: Rows

    @property
    def key(self) -> tuple[str, str]:
        """The table type and the field."""
        return self.level.tables.type.name, self.field.name

    @property
    def subgraphs(self) -> Rows | None:
        """The subgraph that each value belongs to, None outside of subgraphs."""
        return None if self.level.subgraphs is None else self.level.subgraphs[self.rows]

    def place(self, index: int) -> str:
        """Return the path of a value: `subgraphs[0].operators[1].inputs[2]`."""
        row = int(self.rows[index])
        path = f"{self.level.place(row)}.{self.field.name}".lstrip(".")
        if self.field.kind == "scalar":
            return path
        return f"{path}[{index - int(np.searchsorted(self.rows, row))}]"


def model_indices(model: Model, *kinds: Kind) -> Iterator[Indices]:
    """Yield the indices of these kinds, fields from the root down, by ascending slot.

    Raises ModelFormatError for a broken structure.
    """
    root = Level(model.root, None, "", np.zeros(1, np.int64), None, None)
    yield from _below(root, model.schema, frozenset(kinds))


def _below(level: Level, schema: Schema, kinds: frozenset[Kind]) -> Iterator[Indices]:
    roles, leading = load_roles(), types_that_lead_to(schema, kinds)
    for item in level.tables.type.fields:
        role = roles.get((level.tables.type.name, item.name))
        if role is not None and role.kind in kinds:
            yield _indices(level, item, role)
        elif not leading.isdisjoint(schema.targets(item)):
            for below in _children(level, item, schema, leading):
                if len(below.tables):
                    yield from _below(below, schema, kinds)


def _indices(level: Level, item: Field, role: Role) -> Indices:
    if item.kind == "scalar":
        values = level.tables.scalars(item.name).astype(np.int64)
        return Indices(role, level, item, values, np.arange(len(values)))
    vectors = level.tables.vectors(item.name)
    values = vectors.flat().astype(np.int64)
    return Indices(role, level, item, values, np.repeat(np.arange(len(vectors.count)), vectors.count))


def _children(level: Level, item: Field, schema: Schema, leading: frozenset[str]) -> Iterator[Level]:
    """Yield the tables that a field refers to; those of a union by their type."""
    tables = level.tables
    if item.kind == "vector":
        children, vectors = tables.children(item.name, schema)
        rows = np.repeat(np.arange(len(tables)), vectors.count)
        elements = np.arange(len(rows)) - np.repeat(vectors.splits()[:-1], vectors.count)
        yield Level(children, level, item.name, rows, elements, _subgraphs(level, children, rows, elements))
        return
    targets = tables.targets(item.name)
    present = np.flatnonzero(targets)
    if item.kind == "table":
        found = {str(item.target): present} if present.size else {}
    else:
        codes, members = tables.union_codes(item)[present], schema.unions[str(item.target)]
        named = {code: members.get(code) for code in np.unique(codes).tolist()}
        found = {name: present[codes == code] for code, name in named.items() if name is not None}
    for name, rows in found.items():
        if name in leading:
            children = Tables(tables.wire, schema.tables[name], targets[rows])
            owners = None if level.subgraphs is None else level.subgraphs[rows]
            yield Level(children, level, item.name, rows, None, owners)


def _subgraphs(level: Level, children: Tables, rows: Rows, elements: Rows) -> Rows | None:
    """Return the subgraph that each table belongs to: a SubGraph itself, and what a signature is about."""
    if children.type.name == "SubGraph":
        return elements
    if children.type.name == "SignatureDef":
        return children.scalars("subgraph_index").astype(np.int64)
    return None if level.subgraphs is None else level.subgraphs[rows]
