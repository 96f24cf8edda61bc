"""Walk all reachable objects by the schema, and check them as the official C++ verifier does.

The walk keeps a worklist: table type -> positions. The schema's types form a DAG; a type is processed before those it
refers to, so each table is visited once, however often it is shared. The official verifier visits a table once per
reference, and gives up after a certain number of visits; the walk counts visits as weights, so the verdicts agree.

Rules: flatbuffers/include/flatbuffers/verifier.h, version 2.0.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Mask, Positions, Tables, Vectors, Wire, places_in_rows, vectors_at
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType

MAX_TABLES = 1_000_000  # the default limits of the official verifier, and thus of LiteRT
_HEADER_BYTES = 8
_I4 = np.dtype("<i4")
_U2 = np.dtype("<u2")


_Place = tuple[str, Positions | None, str]
"""A table type, the rows of its tables (None: all), and a field."""


class _Edges(NamedTuple):
    """References to tables of one type: their targets, their numbers of visits, and where the references are."""

    at: Positions
    visits: NDArray[np.float64]
    parent: str
    parent_rows: NDArray[np.int64]
    field: str
    elements: NDArray[np.int64] | None  # the index in the vector, if the reference is in a vector


@dataclass(frozen=True, slots=True)
class Reachable:
    """The result of the walk: the distinct tables by type, and the end of the last reachable object.

    `visits` counts tables as the official verifier does, once per reference; `places` counts them by type.
    `described` holds the total bytes of tables with their vtables, by type, and of strings and vectors, by type and
    field (`Tensor.name`), as if none were shared.
    """

    tables: Mapping[str, Tables]
    visits: int
    end: int
    places: Mapping[str, float]
    described: Mapping[str, float]


def check_header(wire: Wire, schema: Schema, start: int = 0) -> int:
    """Check the root offset and identifier of a flatbuffer at `start`; return the root table's position."""
    if wire.limit - start < _HEADER_BYTES:
        raise ModelFormatError("the file is shorter than a flatbuffer's header", offset=start)
    if bytes(wire.memory[start + 4 : start + 8]) != schema.identifier:
        raise ModelFormatError(f"the file identifier is not {schema.identifier.decode()}", offset=start + 4)
    offset = wire.one(start, OFFSET)
    if offset == 0 or start + offset >= wire.limit:
        hint = _truncated(np.array([offset + 1]), wire.limit - start)
        raise ModelFormatError("the root offset points outside the file", offset=start, hint=hint)
    return start + offset


def walk(wire: Wire, schema: Schema) -> Reachable:
    """Check the structure of the whole flatbuffer; return the reachable objects.

    Raises ModelFormatError with the path of the first broken object: `subgraphs[0].tensors[5].name`.
    """
    root = np.array([check_header(wire, schema)], np.int64)
    return _Walk(wire, schema).run(root)


def _truncated(ends: Positions, size: int) -> str | None:
    """Return a hint about the original size if an object ends outside the file but below the 2 GiB limit."""
    needed = int(ends.max())
    return f"the file may be truncated: {size:,} of at least {needed:,} bytes" if size < needed < 1 << 31 else None


class _Walk:
    """The state of one walk."""

    def __init__(self, wire: Wire, schema: Schema) -> None:
        self.wire, self.schema = wire, schema
        self.pending: dict[str, list[_Edges]] = {}
        self.edges: dict[str, tuple[list[_Edges], NDArray[np.int64]]] = {}  # type -> (edges, first edge of each row)
        self.tables: dict[str, Tables] = {}
        self.visits = 0.0
        self.described: dict[str, float] = {}
        self.places: dict[str, float] = {}
        self.end = _HEADER_BYTES

    def run(self, root: Positions) -> Reachable:
        ones = np.ones(1)
        self.pending[self.schema.root] = [_Edges(root, ones, "", np.zeros(1, np.int64), "", None)]
        for name in self.schema.order:
            if name in self.pending:
                self.visit(self.schema.tables[name], self.pending.pop(name))
        return Reachable(self.tables, int(self.visits), self.end, self.places, self.described)

    def visit(self, table_type: TableType, edges: list[_Edges]) -> None:
        """Check all tables of one type and queue their targets."""
        referred = np.concatenate([edge.at for edge in edges])
        at, first, visits = _distinct(referred, np.concatenate([edge.visits for edge in edges]))
        self.edges[table_type.name] = (edges, first)
        self.places[table_type.name] = float(visits.sum())
        self.visits += self.places[table_type.name]
        tables = self.start(table_type, at)
        sizes_at = np.where(tables.vtable_bytes >= 4, tables.vtable + 2, 0)  # a shorter vtable gives no size
        inline = self.wire.gather_present(sizes_at, _U2).astype(np.int64)
        self.described[table_type.name] = float((tables.vtable_bytes + inline) @ visits)
        self.reach(np.minimum(at + inline, self.wire.limit))
        self.tables[table_type.name] = tables
        for field in table_type.fields:
            if not field.deprecated:
                self.check_field(tables, field, visits)

    def start(self, table_type: TableType, at: Positions) -> Tables:
        """Check the start of each table and its vtable, then read the vtables."""
        name, limit = table_type.name, self.wire.limit
        good = (at & 3 == 0) & (at <= limit - 4)
        self.require(good, (name, None, ""), at, "a table is misaligned or outside the file", at + 4)
        vtable = at - self.wire.gather(at, _I4)
        good = (vtable & 1 == 0) & (vtable >= 0) & (vtable <= limit - 2)
        self.require(good, (name, None, ""), vtable, "a vtable is misaligned or outside the file", vtable + 2)
        size = self.wire.gather(vtable, _U2).astype(np.int64)
        good = (size & 1 == 0) & (vtable + size <= limit)
        self.require(good, (name, None, ""), vtable, "a vtable's size is odd or too large")
        self.reach(at + 4)
        self.reach(vtable + np.maximum(size, 2))
        return Tables(self.wire, table_type, at)

    def check_field(self, tables: Tables, field: Field, visits: NDArray[np.float64]) -> None:
        positions = tables.slot_positions(field.slot)
        rows = np.flatnonzero(positions)
        if not rows.size:
            return
        positions, width, owner = positions[rows], field.width, tables.type.name
        good = (positions & (width - 1) == 0) & (positions <= self.wire.limit - width)
        place = (owner, rows, field.name)
        self.require(good, place, positions, "a field is misaligned or outside the file", positions + width)
        self.reach(positions + width)
        if field.kind == "scalar":
            return
        offsets = self.wire.gather(positions, OFFSET).astype(np.int64)
        targets = positions + offsets
        good = (offsets > 0) & (targets < self.wire.limit)
        self.require(good, place, positions, "a reference points outside the file", targets + 1)
        edges = _Edges(targets, visits[rows], owner, rows, field.name, None)
        if field.kind == "table":
            self.queue(str(field.target), edges)
        elif field.kind == "union":
            self.queue_union(tables, field, edges)
        else:
            vectors = self.check_vectors(place, field, targets)
            self.described[f"{owner}.{field.name}"] = float(vectors.count @ visits[rows]) * field.element.itemsize
            if field.target is not None:
                self.queue_elements(field, edges)

    def queue(self, target: str, edges: _Edges) -> None:
        self.pending.setdefault(target, []).append(edges)

    def queue_union(self, tables: Tables, field: Field, edges: _Edges) -> None:
        """Queue each member of a union by its code; unknown codes are ignored, as in the official verifier."""
        rows = edges.parent_rows
        codes = tables.union_codes(field)[rows]
        members = self.schema.unions[str(field.target)]
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            if code in members:
                here = codes == code
                some = edges._replace(at=edges.at[here], visits=edges.visits[here], parent_rows=rows[here])
                self.queue(members[code], some)

    def check_vectors(self, place: _Place, field: Field, targets: Positions) -> Vectors:
        """Check the headers and ends of the vectors at `targets`, and the NUL after strings."""
        limit = self.wire.limit
        good = (targets & 3 == 0) & (targets <= limit - 4)
        self.require(good, place, targets, "a vector is misaligned or outside the file", targets + 4)
        counts = self.wire.gather(targets, OFFSET).astype(np.int64)
        vectors = Vectors(self.wire, field.element, targets + 4, counts)
        ends = vectors.start + vectors.count * field.element.itemsize
        self.require(ends <= limit, place, targets, "a vector ends outside the file", ends)
        self.reach(ends)
        if field.kind == "string":
            self.require(ends < limit, place, ends, "a string ends outside the file", ends + 1)
            nul = self.wire.gather(ends, np.dtype("u1")) == 0
            self.require(nul, place, ends, "a string has no NUL after it")
            self.reach(ends + 1)
        return vectors

    def queue_elements(self, field: Field, edges: _Edges) -> None:
        """Queue the tables in vectors; each distinct vector counts once, with the sum of its visits."""
        at, first, weights = _distinct(edges.at, edges.visits)
        vectors = vectors_at(self.wire, at, OFFSET)
        total = int(vectors.count.sum())
        if not total:
            return
        if total * OFFSET.itemsize > max(self.wire.size, OFFSET.itemsize * MAX_TABLES):
            raise ModelFormatError(f"vectors overlap: {total} elements do not fit in the file", location=field.name)
        positions = vectors.element_positions()
        # Unlike the offset in a field, the offset in an element is not checked, only the table at its target.
        at_elements = positions + self.wire.gather(positions, OFFSET)
        visits, parents = np.repeat(weights, vectors.count), np.repeat(edges.parent_rows[first], vectors.count)
        elements = places_in_rows(vectors.count)
        self.queue(str(field.target), _Edges(at_elements, visits, edges.parent, parents, field.name, elements))

    def reach(self, ends: Positions) -> None:
        if ends.size:
            self.end = max(self.end, int(ends.max()))

    def require(
        self, good: Mask, place: _Place, where: Positions, message: str, ends: Positions | None = None
    ) -> None:
        """Raise ModelFormatError for the first row in which `good` is false; objects end at `ends`."""
        if good.all():
            return
        index, (owner, rows, field) = int(np.argmin(good)), place
        path = self.path(owner, index if rows is None else int(rows[index]))
        location = ".".join(part for part in (path, field) if part) or None
        hint = None if ends is None else _truncated(ends, self.wire.limit)
        raise ModelFormatError(message, offset=int(where[index]), location=location, hint=hint)

    def path(self, owner: str, row: int) -> str:
        """Return the first path from the root to this table."""
        parts: list[str] = []
        while owner:
            edges, first = self.edges[owner]
            index = int(first[row])
            for edge in edges:
                if index < len(edge.at):
                    break
                index -= len(edge.at)
            if edge.field:
                parts.append(edge.field if edge.elements is None else f"{edge.field}[{edge.elements[index]}]")
            owner, row = edge.parent, int(edge.parent_rows[index])
        return ".".join(reversed(parts))


def _distinct(at: Positions, visits: NDArray[np.float64]) -> tuple[Positions, NDArray[np.int64], NDArray[np.float64]]:
    """Return the distinct positions in ascending order, with the first row and the sum of visits of each."""
    steps = np.diff(at)
    if (steps > 0).all():
        return at, np.arange(len(at)), visits
    if (steps < 0).all():  # the usual order: a builder writes a file from its end
        return at[::-1], np.arange(len(at))[::-1], visits[::-1]
    distinct, first, inverse = np.unique(at, return_index=True, return_inverse=True)
    return distinct, first, np.bincount(inverse, visits, len(distinct)).astype(np.float64)
