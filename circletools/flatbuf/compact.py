"""Write a minimal flatbuffer: only reachable objects, with equal values written once.

Like the walk in `verify`, this works on all tables of one type at once. Tables with the same fields share a vtable
and are adjacent, so one assignment writes a field in all of them. The order makes every reference point forward:
header, vtables, then for each type (before those it refers to) its tables and their vectors of references, and
finally strings and vectors of scalars. Within these groups, objects are in the order in which a walk from the root
reaches them, so the result does not depend on the layout of the old file:

    [root offset, identifier][vtables]([tables of a type][their vectors of references])*[strings, vectors]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import (
    MAX_FLATBUFFER_BYTES,
    Mask,
    Positions,
    Tables,
    Wire,
    too_large,
    unknown_slots,
    vectors_at,
)
from circletools.flatbuf.layout import DATA_ALIGNMENT, align, data_alignment, place_fields, vtable_bytes
from circletools.flatbuf.overlay import FileOffsets
from circletools.flatbuf.schema import OFFSET, Field, Schema
from circletools.flatbuf.verify import Reachable

_HEADER_BYTES = 8
_COUNT_BYTES = 4
_STREAMED_BYTES = 1 << 16  # longer data is kept as a range of the file and not read into memory

Chunk = bytes | tuple[int, int]
"""Bytes, or a range (start, end) of the old file."""


def compact(
    wire: Wire, schema: Schema, reachable: Reachable, file_offsets: FileOffsets, moved: int
) -> Iterator[Chunk]:
    """Yield the chunks of the minimal flatbuffer. Positions in the file (see `Overlay`) grow by `moved` bytes.

    All fields must be in the schema (`is_known`). Raises EditError if the result would exceed 2 GiB.
    """
    return _Compaction(wire, schema, reachable, file_offsets, moved).chunks()


def is_known(schema: Schema, reachable: Reachable) -> bool:
    """Return whether all fields and union members of the tables are in the schema."""
    return not any(unknown_in(schema, tables) for tables in reachable.tables.values())


def unknown_in(schema: Schema, tables: Tables) -> str:
    """Return "field" for a field outside the schema, or the name of a union field with an unknown member, or ""."""
    found = ["field"] if unknown_slots(tables).any() else []
    for item in (item for item in tables.type.fields if item.kind == "union"):
        codes = np.unique(tables.union_codes(item)[tables.has(item.name)]).tolist()
        found += [item.name for code in codes if code not in schema.unions[str(item.target)]]
    return found[0] if found else ""


@dataclass(slots=True)
class _Group:
    """Tables of one type with the same fields: their `rows` in the type's tables; the first one's new position."""

    rows: NDArray[np.int64]
    fields: list[tuple[Field, int]]  # each field with its offset in the table
    size: int
    alignment: int
    start: int = 0

    @property
    def stride(self) -> int:
        return align(self.size, self.alignment)


@dataclass(slots=True)
class _Leaf:
    """A string or vector of scalars: its element count, and its bytes, either in the old file or as `data`."""

    count: int
    start: int
    length: int
    alignment: int  # the position of the first element
    text: bool
    data: bytes | None = None

    @property
    def size(self) -> int:
        return _COUNT_BYTES + self.length + self.text


class _Compaction:
    def __init__(
        self, wire: Wire, schema: Schema, reachable: Reachable, file_offsets: FileOffsets, moved: int
    ) -> None:
        self.wire, self.schema, self.tables = wire, schema, reachable.tables
        self.file_offsets, self.moved = file_offsets, moved
        self.vtables: dict[bytes, int] = {}
        self.groups: dict[str, list[_Group]] = {}
        self.met: defaultdict[str, list[NDArray[np.int64]]] = defaultdict(
            list
        )  # type -> rows in the order of the walk
        self.new_at: dict[str, Positions] = {}  # type -> new position of each table
        self.vectors: dict[tuple[str, str], tuple[Positions, Positions]] = {}  # (type, field) -> old, new positions
        self.leaves: dict[tuple[str, str], tuple[Positions, NDArray[np.int64]]] = {}  # -> old positions, leaf index
        self.known: dict[tuple[bool, int, int, int, bytes], int] = {}  # contents of a leaf -> its index
        self.leaf_list: list[_Leaf] = []
        self.leaf_at: list[int] = []

    def chunks(self) -> Iterator[Chunk]:
        self.met[self.schema.root].append(np.zeros(1, np.int64))
        for name in self.schema.order:
            if name in self.tables:
                self.arrange(self.tables[name], _first_met(np.concatenate(self.met[name])))
        end = self.place_structure()
        order = self.place_leaves(end)
        if order and self.leaf_at[order[-1]] + self.leaf_list[order[-1]].size > MAX_FLATBUFFER_BYTES:
            raise too_large()  # misaligned data is now aligned
        out = np.zeros(end, np.uint8)
        self.write_structure(out)
        yield out.tobytes()
        yield from self.write_leaves(end, order)

    def arrange(self, tables: Tables, order: NDArray[np.int64]) -> None:
        """Group the tables of a type and follow their references in the order of the walk."""
        name = tables.type.name
        self.groups[name] = list(self.group(tables, order))
        ordered = tables.take(order)
        for item in tables.type.fields:
            if item.kind == "scalar":
                continue
            targets = ordered.targets(item.name)
            if item.kind in ("table", "union"):
                for member, here in self.members(ordered, item, targets):
                    self.met[member].append(np.searchsorted(self.tables[member].at, targets[here]))
                continue
            met = _first_met(targets[targets != 0])
            if item.kind == "vector" and item.target is not None:
                elements = vectors_at(self.wire, met, OFFSET).element_positions()
                self.vectors[name, item.name] = (met, np.zeros(len(met), np.int64))
                if len(elements):
                    at = elements + self.wire.gather(elements, OFFSET)
                    self.met[item.target].append(np.searchsorted(self.tables[item.target].at, at))
            else:
                self.collect_leaves(name, item, met)

    def members(self, tables: Tables, item: Field, targets: Positions) -> Iterator[tuple[str, Mask]]:
        """Yield the table types that a reference field refers to, each with the rows of the referring tables."""
        present = targets != 0
        codes = np.zeros(len(tables), np.uint8) if item.kind == "table" else tables.union_codes(item)
        for code in np.unique(codes[present]).tolist():
            member = str(item.target) if item.kind == "table" else self.schema.member(tables.type, item, code)
            yield member, present & (codes == code)

    def group(self, tables: Tables, order: NDArray[np.int64]) -> Iterator[_Group]:
        """Split the tables of a type into groups with the same set of fields."""
        present = np.zeros(len(tables), np.int64)
        for item in tables.type.fields:
            present |= (tables.slot_positions(item.slot) != 0).astype(np.int64) << item.slot
        for mask in np.unique(present).tolist():
            fields = [item for item in tables.type.fields if mask >> item.slot & 1]
            group = _Group(order[present[order] == mask], *place_fields(fields))
            self.vtables.setdefault(_vtable(group), 0)
            yield group

    def place_structure(self) -> int:
        """Place every vtable, table and vector of references; return the end position."""
        at = _HEADER_BYTES
        for vtable in self.vtables:
            self.vtables[vtable] = at
            at += len(vtable)
        for name in self.groups:
            self.new_at[name] = np.zeros(len(self.tables[name]), np.int64)
            for group in self.groups[name]:
                group.start = at = align(at, group.alignment)
                self.new_at[name][group.rows] = at + np.arange(len(group.rows)) * group.stride
                at += len(group.rows) * group.stride
            for (owner, _), (old, new) in self.vectors.items():
                if owner == name:
                    at = align(at, OFFSET.itemsize)
                    bytes_each = _COUNT_BYTES + vectors_at(self.wire, old, OFFSET).count * OFFSET.itemsize
                    new[:] = at + np.cumsum(bytes_each) - bytes_each
                    at += int(bytes_each.sum())
        return align(at, OFFSET.itemsize)

    def collect_leaves(self, name: str, item: Field, met: Positions) -> None:
        """Collect a field's strings or vectors of scalars; equal contents are collected once."""
        text, width = item.kind == "string", item.element.itemsize
        mover = self.file_offsets.get((name, item.name))
        vectors = vectors_at(self.wire, met, item.element, f"{name}.{item.name}")
        indices = []
        for start, count in zip(vectors.start.tolist(), vectors.count.tolist(), strict=True):
            length = count * width
            alignment = data_alignment(count) if width == 1 and not text else width
            moved = None if mover is None else mover(bytes(self.wire.memory[start : start + length]), self.moved)
            leaf = _Leaf(count, start, length, alignment, text, moved)
            key = (text, width, alignment, length, self.digest(start, length) if moved is None else moved)
            indices.append(self.known.setdefault(key, len(self.leaf_list)))
            if indices[-1] == len(self.leaf_list):
                self.leaf_list.append(leaf)
        self.leaves[name, item.name] = (met, np.array(indices, np.int64))

    def digest(self, start: int, length: int) -> bytes:
        data = self.wire.memory[start : start + length]
        return bytes(data) if length <= blake2b.MAX_DIGEST_SIZE else blake2b(data).digest()

    def place_leaves(self, at: int) -> list[int]:
        """Place every leaf, small ones in the padding in front of aligned ones. Return the order of the leaves."""
        fillers: defaultdict[int, list[int]] = defaultdict(list)
        aligned, plain = [], []
        for index, leaf in enumerate(self.leaf_list):
            if leaf.alignment > OFFSET.itemsize:
                aligned.append(index)
            elif align(leaf.size, 4) < DATA_ALIGNMENT:
                fillers[align(leaf.size, 4)].append(index)
            else:
                plain.append(index)
        aligned.sort(key=lambda index: -self.leaf_list[index].alignment)
        self.leaf_at = [0] * len(self.leaf_list)
        order: list[int] = []

        def put(index: int, position: int) -> int:
            self.leaf_at[index] = position
            order.append(index)
            return position + self.leaf_list[index].size

        for index in aligned:
            at = align(at, OFFSET.itemsize)
            target = align(at + _COUNT_BYTES, self.leaf_list[index].alignment) - _COUNT_BYTES
            for size in (12, 8, 4):
                while target - at >= size and fillers[size]:
                    at = align(put(fillers[size].pop(), at), OFFSET.itemsize)
            at = put(index, target)
        for index in (*plain, *(index for pool in fillers.values() for index in pool)):
            at = put(index, align(at, OFFSET.itemsize))
        return order

    def write_structure(self, out: NDArray[np.uint8]) -> None:
        root = int(self.new_at[self.schema.root][0])
        out[:_HEADER_BYTES] = np.frombuffer(root.to_bytes(4, "little") + self.schema.identifier, np.uint8)
        for vtable, at in self.vtables.items():
            out[at : at + len(vtable)] = np.frombuffer(vtable, np.uint8)
        for name, groups in self.groups.items():
            for group in groups:
                self.write_group(out, self.tables[name].take(group.rows), group)
        for (name, field), (old, new) in self.vectors.items():
            target = str(self.schema.tables[name].by_name[field].target)
            vectors = vectors_at(self.wire, old, OFFSET)
            _store(out, new, vectors.count, OFFSET)
            elements = vectors.element_positions()
            places = np.repeat(new + _COUNT_BYTES - vectors.start, vectors.count) + elements
            moved = self.moved_tables(target, elements + self.wire.gather(elements, OFFSET))
            _store(out, places, moved - places, OFFSET)

    def write_group(self, out: NDArray[np.uint8], tables: Tables, group: _Group) -> None:
        at = group.start + np.arange(len(group.rows), dtype=np.int64) * group.stride
        _store(out, at, at - self.vtables[_vtable(group)], np.dtype("<i4"))
        for item, offset in group.fields:
            if item.kind == "scalar":
                values = tables.scalars(item.name)
                mover = self.file_offsets.get((tables.type.name, item.name))
                if mover is not None:
                    values = self.moved_values(values, mover)
                _store(out, at + offset, values, item.dtype)
            else:
                _store(out, at + offset, self.moved_targets(tables, item) - at - offset, OFFSET)

    def moved_values(self, values: NDArray[Any], mover: Callable[[bytes, int], bytes | None]) -> NDArray[Any]:
        moved = values.copy()
        for row in np.flatnonzero(values).tolist():
            raw = mover(values[row].tobytes(), self.moved)
            if raw is not None:
                moved[row] = np.frombuffer(raw, values.dtype)[0]
        return moved

    def moved_tables(self, name: str, old: Positions) -> Positions:
        """Return the new positions of tables."""
        if not len(old):  # an empty vector: there may be no table of this type
            return old
        return self.new_at[name][np.searchsorted(self.tables[name].at, old)]

    def moved_targets(self, tables: Tables, item: Field) -> Positions:
        """Return the new positions of the targets of a reference field; all the tables must have it."""
        old, key = tables.targets(item.name), (tables.type.name, item.name)
        if key in self.leaves:
            return np.array(self.leaf_at, np.int64)[_looked_up(*self.leaves[key], old)]
        if key in self.vectors:
            return _looked_up(*self.vectors[key], old)
        new = np.zeros(len(old), np.int64)
        for member, here in self.members(tables, item, old):
            new[here] = self.moved_tables(member, old[here])
        return new

    def write_leaves(self, at: int, order: list[int]) -> Iterator[Chunk]:
        buffer = bytearray()
        for index in order:
            leaf = self.leaf_list[index]
            buffer += bytes(self.leaf_at[index] - at) + leaf.count.to_bytes(_COUNT_BYTES, "little")
            end = leaf.start + leaf.length
            if leaf.data is not None:
                buffer += leaf.data
            elif leaf.length > _STREAMED_BYTES:
                yield bytes(buffer)
                yield (leaf.start, end)
                buffer = bytearray()
            else:
                buffer += self.wire.memory[leaf.start : end]
            buffer += bytes(leaf.text)
            at = self.leaf_at[index] + leaf.size
        yield bytes(buffer)


def _first_met(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct values in the order of their first appearance."""
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]


def _looked_up(keys: Positions, values: NDArray[np.int64], wanted: Positions) -> NDArray[np.int64]:
    """Return the value of each `wanted` key."""
    order = np.argsort(keys)
    return values[order][np.searchsorted(keys[order], wanted)]


def _vtable(group: _Group) -> bytes:
    return vtable_bytes(group.fields, group.size)


def _store(out: NDArray[np.uint8], at: Positions, values: NDArray[Any], dtype: np.dtype[Any]) -> None:
    if len(at):
        width = dtype.itemsize
        every_byte: NDArray[Any] = np.ndarray((len(out) - width + 1,), dtype, out.data, 0, (1,))
        every_byte[at] = values.astype(dtype)
