"""Write flatbuffers from new tables and the objects of an old file that they refer to.

Like `flatbuffers.Builder`, this writes the file from its end to its start: a reference only points forward, so its
target is written first. A "place" is therefore a distance from the end. An object of the old file that is referred to
several times is copied once, and equal tables stay separate, since a runtime may keep state for each. The layout
depends on the contents alone; large vectors of scalars stay ranges of the old file.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import groupby
from struct import Struct
from typing import NamedTuple, cast

import numpy as np

from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, too_large
from circletools.flatbuf.schema import OFFSET, Field
from circletools.flatbuf.tables import FileOffsets, NewTable, OldTables

_I4, _U4 = Struct("<i"), Struct("<I")
DATA_ALIGNMENT = 16  # for byte vectors of at least this length; the schemas declare force_align: 16
_STREAMED_BYTES = 1 << 16  # longer data is not copied into memory
_SMALL_BYTES = 64  # equal data up to this length is written once

Chunk = bytes | tuple[int, int]
"""Bytes, or a range (start, end) of the old file."""


class _Layout(NamedTuple):
    """The fields of a table with their offsets; its size, alignment and vtable; where unknown fields begin."""

    placed: list[tuple[Field, int]]
    size: int
    alignment: int
    vtable: bytes
    unknown: int


class Writer:
    """Writes one flatbuffer. Positions in the file (see `FileOffsets`) grow by `shift` bytes.

    Objects of the old file from `base` on are referred to where they are, since that part of the file will follow the
    output; without `base`, they are copied. With `merges`, equal data of any length is written once.
    """

    def __init__(
        self,
        old: OldTables,
        file_offsets: FileOffsets | None = None,
        shift: int = 0,
        *,
        base: int | None = None,
        merges: bool = False,
    ) -> None:
        self.old, self.shift, self.base, self.merges = old, shift, base, merges
        self.movers = {
            name: [(item, mover) for (owner, field), mover in (file_offsets or {}).items()
                   for item in [old.schema.tables[name].by_name.get(field)] if owner == name and item]
            for name in {owner for owner, _ in file_offsets or {}}
        }  # fmt: skip
        self.chunks: list[Chunk] = []  # from the last to the first
        self.size = 0  # of the chunks
        self.tables: dict[tuple[str, int], int] = {}  # (type, position or id of a new table) -> place
        self.vectors: dict[tuple[str, int, int], int] = {}  # (type or kind, width, old position) -> place
        self.known: dict[tuple[int, bytes], int] = {}  # (alignment, vector or its digest) -> place
        self.vtables: dict[bytes, int] = {}
        self.layouts: dict[tuple[str, frozenset[int]], _Layout] = {}

    def write(self, root: NewTable, header: bytes = b"", alignment: int = DATA_ALIGNMENT) -> list[Chunk]:
        """Return the flatbuffer: root offset, identifier, `header`, padding to a multiple of `alignment`, objects.

        Raises EditError if it would exceed 2 GiB, or an unknown field of a copied table could be a reference.
        """
        place = self.table(root.type.name, root)
        length = 2 * _U4.size + len(header)
        self.pad(length, alignment)
        self.put(_U4.pack(self.size + length - place) + self.old.schema.identifier + header)
        return _joined(self.chunks[::-1])

    def put(self, data: bytes | bytearray | tuple[int, int]) -> int:
        """Prepend these bytes; return their place."""
        self.chunks.append(data if isinstance(data, tuple) else bytes(data))
        self.size += data[1] - data[0] if isinstance(data, tuple) else len(data)
        if self.size > MAX_FLATBUFFER_BYTES:
            raise too_large()
        return self.size

    def pad(self, length: int, alignment: int) -> None:
        """Pad so that an object of `length` bytes in front of the output begins at a multiple of `alignment`."""
        missing = -(self.size + length) % alignment
        if missing:
            self.put(bytes(missing))

    def table(self, type_name: str, table: int | NewTable) -> int:
        """Return the place of a table, which is written if necessary."""
        if isinstance(table, int) and self.base is not None and table >= self.base:
            return self.base - table
        key = (type_name, table if isinstance(table, int) else -id(table))
        place = self.tables.get(key)
        if place is None:
            place = self.tables[key] = self.inline(
                self.old.copy(type_name, table) if isinstance(table, int) else table
            )
        return place

    def inline(self, table: NewTable) -> int:
        """Write what a table refers to, its vtable and the table itself; return its place."""
        for item, mover in self.movers.get(table.type.name, ()):
            value = table.fields.get(item.slot)
            moved = None if value is None else mover(self.old.data(value, item), self.shift)
            if moved is not None:
                table = NewTable(table.type, table.fields | {item.slot: moved}, table.carried)
        layout = self.layout(table)
        inline, places = bytearray(layout.size), []
        for item, offset in layout.placed:
            value = table.fields[item.slot]
            if item.kind != "scalar":
                places.append((offset, self.reference(table, item)))
            elif isinstance(value, bytes):
                inline[offset : offset + item.width] = value
        if table.carried is not None:
            inline[layout.unknown :] = table.carried.data
        vtable = self.vtables.get(layout.vtable)
        if vtable is None:
            self.pad(len(layout.vtable), 2)
            vtable = self.vtables[layout.vtable] = self.put(layout.vtable)
        self.pad(layout.size, layout.alignment)
        here = self.size + layout.size
        _I4.pack_into(inline, 0, vtable - here)
        for offset, place in places:
            _U4.pack_into(inline, offset, here - offset - place)
        return self.put(inline)

    def layout(self, table: NewTable) -> _Layout:
        """Return the layout of a table: known fields with minimal padding, then the bytes of unknown fields."""
        key, carried = (table.type.name, frozenset(table.fields)), table.carried
        layout = self.layouts.get(key)
        if layout is None:
            placed, size, alignment = place_fields([item for item in table.type.fields if item.slot in table.fields])
            vtable = vtable_bytes([(item.slot, offset) for item, offset in placed], size)
            placed.sort(key=lambda field: -field[0].slot)  # what later fields refer to comes later in the file
            layout = self.layouts[key] = _Layout(placed, size, alignment, vtable, 0)
        if carried is None:
            return layout
        start = layout.size + (carried.phase - layout.size) % carried.alignment
        slots = [(item.slot, offset) for item, offset in layout.placed]
        slots += [(slot, start + offset) for slot, offset in carried.slots]
        size = start + len(carried.data)
        return _Layout(
            layout.placed, size, max(layout.alignment, carried.alignment), vtable_bytes(slots, size), start
        )

    def reference(self, table: NewTable, item: Field) -> int:
        """Return the place of the target of a reference field, which is written if necessary."""
        value = table.fields[item.slot]
        if isinstance(value, NewTable):
            return self.table(value.type.name, value)
        if isinstance(value, list | tuple):
            return self.distances([self.element(one, item) for one in reversed(value)])
        if isinstance(value, bytes):
            return self.data(value, item)
        if self.base is not None and value >= self.base:
            return self.base - value
        if item.kind in ("table", "union"):
            return self.table(self.old.target(table, item), value)
        key = (item.target or item.kind, item.dtype.itemsize, value)
        place = self.vectors.get(key)
        if place is None:
            place = self.vectors[key] = (
                self.old_data(value, item)
                if item.target is None
                else self.distances([self.element(one, item) for one in reversed(self.old.elements(value))])
            )
        return place

    def element(self, value: int | NewTable | bytes, item: Field) -> int:
        """Return the place of a table or string in a vector."""
        if isinstance(value, bytes):
            return self.vector(value + b"\0", len(value), OFFSET.itemsize)
        return self.table(str(item.target), value)

    def distances(self, places: Sequence[int]) -> int:
        """Write a vector of references to these places, the last one first."""
        self.pad(4 * len(places), OFFSET.itemsize)
        first = self.size + 4 * len(places)
        distances = (first - 4 * index - place for index, place in enumerate(reversed(places)))
        return self.put(Struct(f"<I{len(places)}I").pack(len(places), *distances))

    def data(self, data: bytes, item: Field) -> int:
        """Write a string or a vector of scalars."""
        count = len(data) // item.element.itemsize
        return self.vector(data + b"\0" * (item.kind == "string"), count, _alignment(item, len(data)))

    def vector(self, data: bytes, count: int, alignment: int) -> int:
        """Write a count and data."""
        vector = _U4.pack(count) + data
        key = (alignment, vector) if len(data) <= _SMALL_BYTES else (-alignment, blake2b(vector).digest())
        place = self.known.get(key) if self.merges or len(data) <= _SMALL_BYTES else None
        if place is None:
            self.pad(len(data), alignment)
            place = self.known[key] = self.put(vector)
        return place

    def old_data(self, at: int, item: Field) -> int:
        """Copy a string or a vector of scalars of the old file."""
        memory, (start, end) = self.old.wire.memory, self.old.span(at, item)
        if end - start <= _STREAMED_BYTES:
            return self.data(bytes(memory[start:end]), item)
        alignment, nul = _alignment(item, end - start), b"\0" * (item.kind == "string")
        key = (-alignment, blake2b(memory[at:end], key=nul).digest() if self.merges else b"")
        place = self.known.get(key) if self.merges else None
        if place is None:
            self.pad(end - start + len(nul), alignment)
            self.put(nul)
            self.put((start, end))
            place = self.known[key] = self.put(bytes(memory[at:start]))
        return place


def _alignment(item: Field, length: int) -> int:
    width = item.element.itemsize
    return max(data_alignment(length) if width == 1 and item.kind != "string" else width, OFFSET.itemsize)


def _joined(chunks: list[Chunk]) -> list[Chunk]:
    """Join adjacent chunks of bytes."""
    result: list[Chunk] = []
    for is_range, group in groupby(chunks, lambda chunk: isinstance(chunk, tuple)):
        some = list(group)
        result += some if is_range else [b"".join(cast(list[bytes], some))]
    return result


# --- layout ---------------------------------------------------------------------------------------------------


def align(position: int, alignment: int) -> int:
    """Return the first multiple of `alignment` at or after `position`."""
    return (position + alignment - 1) // alignment * alignment


def data_alignment(length: int) -> int:
    """Return the alignment for a byte vector of `length` bytes: 16, or less for a shorter vector."""
    return next(alignment for alignment in (DATA_ALIGNMENT, 8, 4, 1) if length >= alignment or alignment == 1)


def place_fields(fields: Sequence[Field]) -> tuple[list[tuple[Field, int]], int, int]:
    """Place fields after a table's vtable offset with minimal padding.

    Return the fields with their offsets, and the size and alignment of the table.
    """
    order = sorted(fields, key=lambda item: (-item.width, item.slot))
    placed, end = [], 4
    while order:
        # Take the first field that needs no padding here, or else the widest one.
        item = next((item for item in order if end % item.width == 0), order[0])
        order.remove(item)
        end = align(end, item.width)
        placed.append((item, end))
        end += item.width
    return placed, end, max((4, *(item.width for item in fields)))


def vtable_bytes(placed: Sequence[tuple[int, int]], size: int) -> bytes:
    """Return the vtable of a table of `size` bytes with fields in these slots at these offsets."""
    slots = max((slot for slot, _ in placed), default=-1) + 1
    vtable = np.zeros(2 + slots, "<u2")
    vtable[:2] = 4 + 2 * slots, size
    for slot, offset in placed:
        vtable[2 + slot] = offset
    return vtable.tobytes()
