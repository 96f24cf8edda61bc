"""All indices in a model, in columns: what they refer to, their paths and their subgraphs.

schema/roles.json lists the fields that are indices. The walk descends from the root through the table types that lead
to these fields, and reads all tables of one level at once. A shared table is visited once for each path to it, since
the same tensor index means different tensors in different subgraphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Field, Role, RoleKind, load_roles, types_below
from circletools.model.model import Model

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Level:
    """Tables at the end of one path of fields from the root: those that a field of the tables in `parent` refers to.

    For a vector field, `counts` holds the length of each vector; otherwise `chosen` holds the rows of `parent` with
    this field and a member of this type. `subgraphs` holds the subgraph of each table; it is None outside subgraphs.
    """

    tables: Tables
    parent: Level | None = None
    field: str = ""
    counts: Rows | None = None
    chosen: Rows | None = None
    subgraphs: Rows | None = None

    @cached_property
    def rows(self) -> Rows:
        """The row of `parent` that refers to each table."""
        if self.chosen is not None:
            return self.chosen
        counts = np.ones(1, np.int64) if self.counts is None else self.counts
        return np.repeat(np.arange(len(counts)), counts)

    def place(self, row: int) -> str:
        """Return the path of a table: `subgraphs[0].operators[1].builtin_options`."""
        if self.parent is None:
            return ""
        above, here = self.parent.place(int(self.rows[row])), self.field
        if self.counts is not None:
            here += f"[{row - int(np.searchsorted(self.rows, self.rows[row]))}]"
        return f"{above}.{here}" if above else here

    def way(self, row: int) -> list[tuple[str, Level, int]]:
        """Return the levels from the root down to this one, each with the field and the row that lead to it."""
        above = [] if self.parent is None else self.parent.way(int(self.rows[row]))
        return [*above, (self.field, self, row)]

    def rows_of(self, name: str) -> Rows | None:
        """Return each row's ancestor of type `name` (possibly itself), or None if no level above has this type."""
        if self.tables.type.name == name:
            return np.arange(len(self.tables))
        above = None if self.parent is None else self.parent.rows_of(name)
        return None if above is None else above[self.rows]


@dataclass(frozen=True, eq=False)
class Indices:
    """One field of all tables of a level: its values, concatenated, and for vectors the lengths."""

    role: Role
    level: Level
    field: Field
    values: Rows
    counts: Rows | None

    @property
    def key(self) -> tuple[str, str]:
        """The type of the table, and the field."""
        return self.level.tables.type.name, self.field.name

    @cached_property
    def rows(self) -> Rows:
        """The row in `level` of each value."""
        count = np.arange(len(self.level.tables))
        return count if self.counts is None else np.repeat(count, self.counts)

    @property
    def subgraphs(self) -> Rows | None:
        """The subgraph of each value; None outside subgraphs."""
        owners = self.level.subgraphs
        return owners if owners is None or self.counts is None else np.repeat(owners, self.counts)

    def place(self, index: int) -> str:
        """Return the path of a value: `subgraphs[0].operators[1].inputs[2]`."""
        row = int(self.rows[index])
        path = f"{self.level.place(row)}.{self.field.name}".lstrip(".")
        return path if self.counts is None else f"{path}[{index - int(np.searchsorted(self.rows, row))}]"


def model_indices(model: Model, *kinds: RoleKind, as_read: bool = False) -> Iterator[Indices]:
    """Check the structure, and return the indices of these kinds from the root down, by ascending slot.

    With `as_read`, the structure is checked only where indices are stored, once they are read. Raises
    ModelFormatError for a broken structure.
    """
    present = model.schema.tables if as_read else model.reachable.tables  # types without tables are skipped
    below = types_below(model.schema, frozenset(kinds))
    leading = frozenset(name for name, types in below.items() if not present.keys().isdisjoint(types))
    return _below(model, Level(model.root), kinds, leading)


def _below(model: Model, level: Level, kinds: Sequence[RoleKind], leading: frozenset[str]) -> Iterator[Indices]:
    roles = load_roles()
    for item in level.tables.type.fields:
        role = roles.get((level.tables.type.name, item.name))
        if role is not None and role.kind in kinds:
            yield _indices(level, item, role)
        elif not leading.isdisjoint(model.schema.targets(item)):
            for below in _children(model, level, item, leading):
                if len(below.tables):
                    yield from _below(model, below, kinds, leading)


def _indices(level: Level, item: Field, role: Role) -> Indices:
    if item.kind == "scalar":
        return Indices(role, level, item, level.tables.scalars(item.name).astype(np.int64), None)
    vectors = level.tables.vectors(item.name)
    return Indices(role, level, item, vectors.flat().astype(np.int64), vectors.count)


def _children(model: Model, level: Level, item: Field, leading: frozenset[str]) -> Iterator[Level]:
    """Yield the tables that a field refers to, grouped by type if it is a union."""
    tables, schema = level.tables, model.schema
    if item.kind == "vector":
        children, counts = _elements(model, level, item)
        yield Level(children, level, item.name, counts, None, _subgraphs(level, children, counts))
        return
    found = [tables.child(item.name, schema)[::-1]] if item.kind == "table" else tables.members(item.name, schema)
    for rows, children in found:
        if children.type.name in leading:
            owners = None if level.subgraphs is None else level.subgraphs[rows]
            yield Level(children, level, item.name, None, rows, owners)


def _elements(model: Model, level: Level, item: Field) -> tuple[Tables, Rows]:
    """Return the tables of a vector field, and their number in each row; tables already read are reused."""
    if level.tables is model.subgraph_tables and item.name in ("tensors", "operators"):
        columns = model.tensor_columns if item.name == "tensors" else model.operator_columns
        return columns.tables, np.diff(columns.splits)
    if level.tables is model.root and item.name == "subgraphs":
        return model.subgraph_tables, np.array([len(model.subgraph_tables)])
    children, vectors = level.tables.children(item.name, model.schema)
    return children, vectors.count


def _subgraphs(level: Level, children: Tables, counts: Rows) -> Rows | None:
    """Return each table's subgraph: for a SubGraph, its own index; for a signature, the subgraph it refers to."""
    if children.type.name == "SubGraph":
        return np.arange(len(children))
    if children.type.name == "SignatureDef":
        return children.scalars("subgraph_index").astype(np.int64)
    return None if level.subgraphs is None else np.repeat(level.subgraphs, counts)
