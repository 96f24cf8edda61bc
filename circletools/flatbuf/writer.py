"""Write flatbuffers from new tables and the objects of an old file that they refer to.

Like `flatbuffers.Builder`, this writes the file from its end to its start: a reference only points forward, so its
target is written first. A "place" is therefore a distance from the end. An object of the old file that is referred to
several times is copied once, and equal tables stay separate, since a runtime may keep state for each. The layout
depends on the contents alone; large vectors of scalars stay ranges of the old file.

Many old tables in a vector are written at once: those with the same fields as one array, short data as one piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby, repeat
from struct import Struct
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Positions, Tables, too_large, unknown_slots, vectors_at
from circletools.flatbuf.schema import OFFSET, Field, TableType
from circletools.flatbuf.tables import FileOffsets, NewTable, OldTables, align, place_fields, vtable_bytes

_I4, _U4 = Struct("<i"), Struct("<I")
DATA_ALIGNMENT = 16  # the alignment of byte vectors of at least this length (force_align in the schemas)
_STREAMED_BYTES = 1 << 16  # longer data is not copied into memory
_SMALL_BYTES = 64  # equal data up to this length is written once
_MANY = 32  # objects that are written together; writing fewer one by one is faster

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
    output; without `base`, they are copied. With `minimal`, equal data of any length is written once, and the output
    may have any length that is a multiple of 4, instead of 16.
    """

    def __init__(
        self,
        old: OldTables,
        file_offsets: FileOffsets | None = None,
        shift: int = 0,
        *,
        base: int | None = None,
        minimal: bool = False,
    ) -> None:
        self.old, self.shift, self.base, self.minimal = old, shift, base, minimal
        self.movers = {
            name: [(item, mover) for (owner, field), mover in (file_offsets or {}).items()
                   for item in [old.schema.tables[name].by_name.get(field)] if owner == name and item]
            for name in {owner for owner, _ in file_offsets or {}}
        }  # fmt: skip
        self.chunks: list[Chunk] = []  # from the last to the first
        self.size = 0  # of all chunks, in bytes
        self.alignment = OFFSET.itemsize  # the largest so far
        self.phase = 0  # the number of bytes from the end of the output to a multiple of this alignment
        self.tables = defaultdict[str, dict[int, int]](dict)  # type -> position, or negative id -> place
        self.vectors = defaultdict[tuple[str, int], dict[int, int]](dict)  # type or kind, width -> position -> place
        self.known = defaultdict[int, dict[bytes, int]](dict)  # alignment -> vector; negative -> digest -> place
        self.gaps: tuple[list[tuple[int, int]], ...] = ([], [], [], [])  # padding by words: its chunk and place
        self.vtables: dict[bytes, int] = {}
        self.layouts: dict[tuple[str, frozenset[int]], _Layout] = {}

    def write(self, root: NewTable, header: bytes = b"", alignment: int = DATA_ALIGNMENT) -> list[Chunk]:
        """Return the flatbuffer: root offset, identifier, `header`, padding to `alignment`, and objects.

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
        """Pad so that an object of `length` bytes in front of the output begins at a multiple of `alignment`.

        With `minimal`, the first object of a larger alignment moves the end of the output instead.
        """
        missing = -(self.size + self.phase + length) % alignment
        if alignment > self.alignment and self.minimal:
            self.phase += missing - missing % self.alignment
            self.alignment, missing = alignment, missing % self.alignment
        if missing:
            self.put(bytes(missing))
            room = (self.size - align(self.size - missing, 4)) // 4
            self.gaps[max(0, min(room, 3))].append((len(self.chunks) - 1, self.size))  # `fill` may use it

    def fill(self, vector: bytes) -> int | None:
        """Put a vector into padding and return its place, or None if it does not fit."""
        need = align(len(vector), 4) // 4
        fitting = next((gaps for gaps in self.gaps[need:] if gaps), None)
        if fitting is None:
            return None
        index, end = fitting.pop()
        padding = cast(bytes, self.chunks[index])
        place = align(end - len(padding), 4) + 4 * need
        self.chunks[index] = (bytes(end - place) + vector).ljust(len(padding), b"\0")
        return place

    def table(self, type_name: str, table: int | NewTable) -> int:
        """Return the place of a table, which is written if necessary."""
        if isinstance(table, int) and self.base is not None and table >= self.base:
            return self.base - table
        known, key = self.tables[type_name], table if isinstance(table, int) else -id(table)
        if key not in known:
            known[key] = self.inline(self.old.copy(type_name, table) if isinstance(table, int) else table)
        return known[key]

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
        vtable = self.vtable(layout.vtable)
        self.pad(layout.size, layout.alignment)
        here = self.size + layout.size
        _I4.pack_into(inline, 0, vtable - here)
        for offset, place in places:
            _U4.pack_into(inline, offset, here - offset - place)
        return self.put(inline)

    def vtable(self, vtable: bytes) -> int:
        """Return the place of a vtable, which is written if necessary."""
        if vtable not in self.vtables:
            self.pad(len(vtable), 2)
            self.vtables[vtable] = self.put(vtable)
        return self.vtables[vtable]

    def known_layout(self, table_type: TableType, slots: frozenset[int]) -> _Layout:
        """Return the layout of a table with known fields in these slots."""
        layout = self.layouts.get((table_type.name, slots))
        if layout is None:
            placed, size, alignment = place_fields([item for item in table_type.fields if item.slot in slots])
            vtable = vtable_bytes([(item.slot, offset) for item, offset in placed], size)
            placed.sort(key=lambda field: -field[0].slot)  # what later fields refer to comes later in the file
            layout = self.layouts[table_type.name, slots] = _Layout(placed, size, alignment, vtable, 0)
        return layout

    def layout(self, table: NewTable) -> _Layout:
        """Return the layout of a table: known fields with minimal padding, then the bytes of unknown fields."""
        layout, carried = self.known_layout(table.type, frozenset(table.fields)), table.carried
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
            self.ahead(item, value)
            return self.distances([self.element(one, item) for one in reversed(value)])
        if isinstance(value, bytes):
            return self.data(value, item)
        if self.base is not None and value >= self.base:
            return self.base - value
        if item.kind in ("table", "union"):
            return self.table(self.old.target(table, item), value)
        return self.old_vector(value, item)

    def old_vector(self, at: int, item: Field) -> int:
        """Return the place of a string or vector of the old file, which is written if necessary."""
        known = self.vectors[item.target or item.kind, item.dtype.itemsize]
        if at not in known and item.target is None:
            known[at] = self.old_data(at, item)
        elif at not in known:
            elements = self.old.elements(at)
            self.batch(str(item.target), elements)
            known[at] = self.distances([self.table(str(item.target), one) for one in reversed(elements)])
        return known[at]

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
        small = len(data) <= _SMALL_BYTES
        known, key = self.known[alignment if small else -alignment], vector if small else blake2b(vector).digest()
        place = known.get(key) if self.minimal or small else None
        if place is None and (alignment > OFFSET.itemsize or (place := self.fill(vector)) is None):
            self.pad(len(data), alignment)
            place = self.put(vector)
        known[key] = place
        return place

    def old_data(self, at: int, item: Field) -> int:
        """Copy a string or a vector of scalars of the old file."""
        memory, (start, end) = self.old.wire.memory, self.old.span(at, item)
        if end - start <= _STREAMED_BYTES:
            return self.data(bytes(memory[start:end]), item)
        alignment, nul = _alignment(item, end - start), b"\0" * (item.kind == "string")
        known, key = self.known[-alignment], blake2b(memory[at:end], key=nul).digest() if self.minimal else b""
        place = known.get(key) if self.minimal else None
        if place is None:
            self.pad(end - start + len(nul), alignment)
            self.put(nul)  # backward: the terminator, the data, then the count
            self.put((start, end))
            place = known[key] = self.put(bytes(memory[at:start]))
        return place

    def ahead(self, owner: Field, elements: Sequence[int | NewTable | bytes]) -> None:
        """Write those tables in a vector that are the old file's, and the objects to which its new tables refer."""
        if self.base is not None or owner.target is None or len(elements) < _MANY:
            return  # few objects of the old file are copied in front of it
        self.batch(owner.target, [one for one in elements if isinstance(one, int)])
        new = [one for one in elements if isinstance(one, NewTable)]
        for item in reversed(self.old.schema.tables[owner.target].fields):
            found = defaultdict[str, list[int]](list)
            for table in () if item.kind == "scalar" or item.deprecated else new:
                if isinstance(at := table.fields.get(item.slot), int):
                    found[self.old.target(table, item)].append(at)
            for name, positions in found.items():
                self.targets(item, name, positions)

    def batch(self, name: str, positions: Iterable[int]) -> None:
        """Write tables of the old file and what they refer to; tables with unusual fields are written one by one."""
        new = [at for at in dict.fromkeys(positions) if at not in self.tables[name]]
        if self.base is not None or len(new) < _MANY:
            for at in reversed(new):  # the last one first, since the file is written backward
                self.table(name, at)
            return
        tables = Tables(self.old.wire, self.old.schema.tables[name], np.array(new, np.int64))
        apart, slots = unknown_slots(tables), np.zeros(len(new), np.int64)
        moved = [item.slot for item, _ in self.movers.get(name, ())]
        for item in tables.type.fields:
            present = tables.slot_positions(item.slot) != 0
            slots |= present.astype(np.int64) << item.slot
            if item.deprecated or item.slot in moved:
                apart |= present
        for at in tables.at[apart][::-1].tolist():
            self.table(name, at)
        tables, slots = tables.take(~apart), slots[~apart]
        references = [item for item in reversed(tables.type.fields) if item.kind != "scalar"]
        places = {item.slot: self.column(tables, item) for item in references}
        for some in np.unique(slots).tolist():
            here, used = slots == some, frozenset(slot for slot in tables.type.by_slot if some >> slot & 1)
            columns = {slot: column[here] for slot, column in places.items()}
            self.rows(tables.take(here), self.known_layout(tables.type, used), columns)

    def column(self, tables: Tables, item: Field) -> Positions:
        """Write the objects that a field of tables of the old file refers to; return their places, or 0."""
        targets = tables.targets(item.name)
        places, union = np.zeros(len(tables), np.int64), item.kind == "union"
        codes = tables.union_codes(item) if union else np.zeros(len(tables), np.uint8)
        for code in np.unique(codes[targets != 0]).tolist():
            name = self.old.schema.member(tables.type, item, code) if union else str(item.target)
            here = (targets != 0) & (codes == code)
            places[here] = self.targets(item, name, targets[here].tolist())
        return places

    def targets(self, item: Field, name: str, positions: list[int]) -> list[int]:
        """Write the objects of the old file that one field of many tables refers to; return their places."""
        if item.kind in ("table", "union"):
            self.batch(name, positions)
            return [self.tables[name][at] for at in positions]
        known = self.vectors[item.target or item.kind, item.dtype.itemsize]
        new = np.array([at for at in dict.fromkeys(reversed(positions)) if at not in known], np.int64)
        if item.target is None:
            self.join(item, new, known)
        else:
            elements = vectors_at(self.old.wire, new, OFFSET).element_positions()
            self.batch(name, (elements + self.old.wire.gather(elements, OFFSET)).tolist())
        for at in new.tolist():
            if at not in known:
                self.old_vector(at, item)
        return [known[at] for at in positions]

    def join(self, item: Field, new: Positions, known: dict[int, int]) -> None:
        """Write short strings or vectors of scalars of the old file as one piece."""
        vectors, memory = vectors_at(self.old.wire, new, item.element), self.old.wire.memory
        sizes = vectors.count * item.element.itemsize + (item.kind == "string")
        short, places = sizes <= _SMALL_BYTES, self.known[OFFSET.itemsize]
        short &= np.array([_alignment(item, size) == 4 for size in range(_SMALL_BYTES + 1)])[sizes * short]
        pairs = zip(new[short].tolist(), sizes[short].tolist(), strict=True)
        some = {at: memory[at : at + 4 + size].tobytes() for at, size in pairs}
        fresh = [vector for vector in dict.fromkeys(some.values()) if vector not in places]
        places.update({vector: at for vector in fresh if (at := self.fill(vector)) is not None})
        fresh = [vector for vector in reversed(fresh) if vector not in places]
        widths = np.array([align(len(vector), 4) for vector in fresh], np.int64)
        self.pad(int(widths.sum()), OFFSET.itemsize)
        self.put(b"".join(map(bytes.ljust, fresh, widths.tolist(), repeat(b"\0"))))
        places.update(zip(fresh, (self.size - np.cumsum(widths) + widths).tolist(), strict=True))
        known.update(zip(some, map(places.__getitem__, some.values()), strict=True))

    def rows(self, tables: Tables, layout: _Layout, places: Mapping[int, Positions]) -> None:
        """Write tables of the old file that have this layout. `places` are the places that a field refers to."""
        vtable, stride = self.vtable(layout.vtable), align(layout.size, layout.alignment)
        self.pad(len(tables) * stride, layout.alignment)
        here = self.size + np.arange(len(tables), 0, -1, dtype=np.int64) * stride
        out = np.zeros((len(tables), stride), np.uint8)
        out[:, :4] = _raw(vtable - here, np.dtype("<i4"))
        for item, offset in layout.placed:
            scalar = item.kind == "scalar"
            values = tables.scalars(item.name) if scalar else here - offset - places[item.slot]
            out[:, offset : offset + item.width] = _raw(values, item.dtype if scalar else OFFSET)
        self.put(out.tobytes())
        self.tables[tables.type.name].update(zip(tables.at.tolist(), here.tolist(), strict=True))


def _raw(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """Return the bytes of numbers, one number in each row."""
    return np.ascontiguousarray(values, dtype).view(np.uint8).reshape(len(values), dtype.itemsize)


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


def data_alignment(length: int) -> int:
    """Return the alignment for a byte vector of `length` bytes: 16, or less for a shorter vector."""
    return next(alignment for alignment in (DATA_ALIGNMENT, 8, 4, 1) if length >= alignment or alignment == 1)
