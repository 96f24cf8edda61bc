"""Write a flatbuffer with only those objects of another one that a tree of tables refers to.

The tree consists of `Altered` tables. Each represents a table of the old file (or none) with some fields replaced;
all other fields are copied, with everything they refer to. An object referred to several times is copied once.

Like `flatbuffers.Builder`, this writes the file from its end to its start: a reference only points forward, so its
target is written first. A "place" is therefore a distance from the end. The inline bytes of a table are copied, and
the references in them are updated; large vectors of scalars stay ranges of the old file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias, cast

import numpy as np

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Wire, too_large
from circletools.flatbuf.compact import Chunk
from circletools.flatbuf.inert import MOST_ALIGNMENT, Inert, unknown_field
from circletools.flatbuf.layout import data_alignment, place_fields, vtable_bytes
from circletools.flatbuf.overlay import FileOffsets
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType

_U2, _I4, _U4 = Struct("<H"), Struct("<i"), Struct("<I")
_HEADER_BYTES, _LARGEST_ALIGNMENT = 8, 16
_MAX_DEPTH = 128
_STREAMED_BYTES = 1 << 16  # longer data is not copied into memory
_SMALL_BYTES = 64  # equal data up to this length is written once


@dataclass(eq=False, slots=True)
class Altered:
    """The table of the old file at `at` (0: none) with the fields in these slots replaced; None removes a field.

    A value is the position of an object of the old file, the bytes of a scalar, a string or a vector of scalars, a
    table, or the tables of a vector.
    """

    type: TableType
    at: int
    fields: Mapping[int, Value]


References: TypeAlias = "list[int | Altered]"
Value: TypeAlias = "int | bytes | Altered | References | None"


@dataclass(frozen=True, slots=True)
class _Form:
    """The layout of tables with the same vtable: the vtable, inline size, alignment and field offsets."""

    vtable: bytes
    size: int
    alignment: int
    placed: Sequence[tuple[Field, int]]  # each with its offset in the table, ascending
    unknown: bool = False  # whether the table has fields outside the schema


@dataclass(frozen=True, slots=True)
class Keep:
    """The policy for copies in which indices stay the same: unknown fields are kept, and file positions are moved."""

    inert: Inert
    file_offsets: FileOffsets
    moved: int


def transplant(wire: Wire, schema: Schema, root: Altered, keep: Keep | None = None) -> list[Chunk]:
    """Return the flatbuffer with this root table; its length is a multiple of 16.

    The old file must have passed `walk`. Raises EditError if an unknown field of a copied table could be a reference
    or (without `keep`) an index, or if the flatbuffer would reach 2 GiB.
    """
    return _Writer(wire, schema, keep).write(root)


def end_of(wire: Wire, schema: Schema, root: Altered, keep: Keep) -> int:
    """Return the end of the last object, including objects that the walk does not follow; see `transplant`."""
    writer = _Writer(wire, schema, keep)
    writer.write(root)
    return writer.end


class _Writer:
    def __init__(self, wire: Wire, schema: Schema, keep: Keep | None) -> None:
        self.wire, self.memory, self.schema, self.keep = wire, wire.memory, schema, keep
        self.depth = self.end = 0
        self.chunks: list[Chunk] = []  # from the last to the first
        self.size = 0  # of the chunks
        self.known: dict[tuple[str, int], int] = {}  # (type of a table, old position) -> place
        self.vectors: dict[tuple[str, int, int], int] = {}  # (type or kind, width, old position) -> place
        self.small: dict[tuple[int, bytes], int] = {}  # (alignment, vector) -> place
        self.vtables: dict[bytes, int] = {}
        self.forms: dict[tuple[str, bytes], _Form] = {}

    def write(self, root: Altered) -> list[Chunk]:
        place = self.altered(root)
        self.pad(_HEADER_BYTES, _LARGEST_ALIGNMENT)
        header = _U4.pack(self.size + _HEADER_BYTES - place) + self.schema.identifier
        self.put(header)
        if self.size > MAX_FLATBUFFER_BYTES:
            raise too_large()
        return _joined(self.chunks[::-1])

    # ------------------------------------------------------------------ bytes, last first

    def put(self, data: bytes | bytearray) -> int:
        """Prepend these bytes; return their place."""
        self.chunks.append(bytes(data))
        self.size += len(data)
        return self.size

    def pad(self, length: int, alignment: int, phase: int = 0) -> None:
        """Pad so that `length` bytes in front of the output begin `phase` bytes past a multiple of `alignment`."""
        missing = -(self.size + length + phase) % alignment
        if missing:
            self.put(bytes(missing))

    # ------------------------------------------------------------------ tables

    def table(self, table_type: TableType, at: int) -> int:
        """Copy a table and everything that it refers to; return its place."""
        known = self.known.get((table_type.name, at))
        if known is None:
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise ModelFormatError(f"tables are nested more than {_MAX_DEPTH} deep", offset=at)
            known = self.known[table_type.name, at] = self.carried(table_type, at, {})
            self.depth -= 1
        return known

    def altered(self, table: Altered) -> int:
        """Write an altered table; return its place."""
        table_type = self.schema.tables[table.type.name]
        if table.at:
            return self.carried(table_type, table.at, table.fields)
        return self.fresh(table_type, table.fields)

    def carried(self, table_type: TableType, at: int, changes: Mapping[int, Value]) -> int:
        """Write a table of the old file in its old layout, unless the changes add or remove fields."""
        form = self.form(table_type, at)
        fields: dict[int, Value] = {}
        if form.unknown and self.keep:
            self.keep.inert.check(table_type, at)
        for item, offset in form.placed:
            raw = bytes(self.memory[at + offset : at + offset + item.width])
            fields[item.slot] = raw if item.kind == "scalar" else self.target(at + offset, raw)
            mover = self.keep and self.keep.file_offsets.get((table_type.name, item.name))
            if mover and self.keep:
                value = fields[item.slot]
                moved = mover(
                    value if isinstance(value, bytes) else self.bytes_of(item, cast(int, value)), self.keep.moved
                )
                fields[item.slot] = value if moved is None else moved
        for slot, value in changes.items():
            if slot in fields or not (value is None or _is_default(table_type.by_slot[slot], value)):
                fields[slot] = value
        if len(fields) == len(form.placed) and None not in fields.values():
            return self.inline(table_type, form, fields, at)
        return self.fresh(table_type, fields)

    def target(self, position: int, raw: bytes) -> int:
        """Return the target of a reference."""
        distance = int.from_bytes(raw, "little")
        if not distance or position + distance > self.wire.limit - 4:
            raise ModelFormatError("a reference leads outside the file", offset=position)
        return position + distance

    def fresh(self, table_type: TableType, fields: Mapping[int, Value]) -> int:
        """Write a table with a new layout."""
        placed, size, alignment = place_fields([i for i in table_type.fields if fields.get(i.slot) is not None])
        return self.inline(table_type, _Form(vtable_bytes(placed, size), size, alignment, placed), fields, 0)

    def inline(self, table_type: TableType, form: _Form, fields: Mapping[int, Value], at: int) -> int:
        """Write a table after its vtable; bytes between fields are copied from the old table at `at`, if any."""
        inline = bytearray(self.memory[at : at + form.size] if at else form.size)
        places = []
        for item, offset in form.placed:
            if item.kind == "scalar":
                inline[offset : offset + item.width] = cast(bytes, fields[item.slot])
            else:
                places.append((offset, self.reference(table_type, item, fields)))
        vtable = self.vtables.get(form.vtable)
        if vtable is None:
            self.pad(len(form.vtable), 2)
            vtable = self.vtables[form.vtable] = self.put(form.vtable)
        self.pad(form.size, form.alignment, at)
        here = self.size + form.size
        _I4.pack_into(inline, 0, vtable - here)
        for offset, place in places:
            _U4.pack_into(inline, offset, here - offset - place)
        return self.put(inline)

    def form(self, table_type: TableType, at: int) -> _Form:
        """Return the layout of a table of the old file."""
        limit = self.wire.limit
        vtable = at - _I4.unpack_from(self.memory, at)[0] if at % 4 == 0 and at + 4 <= limit else -1
        length = _U2.unpack_from(self.memory, vtable)[0] if _HEADER_BYTES <= vtable <= limit - 4 else None
        if length is None or vtable + length > limit:
            raise ModelFormatError(f"a {table_type.name} or its vtable ends outside the file", offset=at)
        raw = bytes(self.memory[vtable : vtable + length])
        form = self.forms.get((table_type.name, raw))
        if form is None:
            form = self.forms[table_type.name, raw] = _form(table_type, raw)
        if form.unknown and not self.keep:
            raise unknown_field(table_type.name, at, self.schema.format)
        self.end = max(self.end, at + form.size, vtable + length)
        if at + form.size > limit:  # the walk does not check deprecated fields
            raise ModelFormatError(f"a {table_type.name} ends outside the file", offset=at)
        return form

    # ------------------------------------------------------------------ what tables refer to

    def reference(self, owner: TableType, item: Field, fields: Mapping[int, Value]) -> int:
        """Write the target of a reference field of a table with these fields; return its place."""
        value = fields[item.slot]
        if item.target not in self.schema.unions or not isinstance(value, int):
            return self.value(item, value)
        codes = fields.get(item.type_slot)
        return self.member(owner, item, cast(bytes, codes or b"\0")[0], value)

    def member(self, owner: TableType, item: Field, code: int, at: int) -> int:
        """Write the member of a union; return its place."""
        name = self.schema.member(owner, item, code)
        return self.table(self.schema.tables[name], at)

    def value(self, item: Field, value: Value) -> int:
        """Write the target of a reference field; return its place."""
        if isinstance(value, Altered):
            return self.altered(value)
        if isinstance(value, list):
            return self.references(item, value)
        if isinstance(value, bytes):
            return self.data(item, value)
        assert value is not None
        if item.kind == "table":
            return self.table(self.schema.tables[str(item.target)], value)
        key = (item.target or item.kind, item.dtype.itemsize, value)
        known = self.vectors.get(key)
        if known is None:
            known = self.vectors[key] = (
                self.old_data(item, value) if item.target is None else self.references(item, self.elements(value))
            )
        return known

    def bytes_of(self, item: Field, at: int) -> bytes:
        """Return the bytes of a string or a vector of scalars."""
        start, end = self.span(at, item.element.itemsize)
        return bytes(self.memory[start:end])

    def span(self, at: int, width: int) -> tuple[int, int]:
        """Return the start and end of a vector's elements, after checking them: the walk skips deprecated fields."""
        length = 0 if at + 4 > self.wire.limit else _U4.unpack_from(self.memory, at)[0] * width
        if at + 4 + length > self.wire.limit:
            raise ModelFormatError("a vector or string ends outside the file", offset=at)
        self.end = max(self.end, at + 4 + length)
        return at + 4, at + 4 + length

    def elements(self, at: int) -> list[int]:
        """Return the positions of the tables of a vector."""
        start, end = self.span(at, OFFSET.itemsize)
        offsets = Struct(f"<{(end - start) // 4}I").unpack_from(self.memory, start)
        return [start + 4 * index + offset for index, offset in enumerate(offsets)]

    def references(self, item: Field, tables: Sequence[int | Altered]) -> int:
        table_type = self.schema.tables[str(item.target)]
        return self.distances(
            [
                self.table(table_type, table) if isinstance(table, int) else self.altered(table)
                for table in reversed(tables)
            ][::-1]
        )

    def distances(self, places: Sequence[int]) -> int:
        """Write a vector of references to these places."""
        self.pad(4 * len(places), OFFSET.itemsize)
        here = self.size + 4 * len(places)
        distances = (here - 4 * index - place for index, place in enumerate(places))
        self.put(Struct(f"<I{len(places)}I").pack(len(places), *distances))
        return self.size

    def old_data(self, item: Field, at: int) -> int:
        """Copy a string or a vector of scalars."""
        start, end = self.span(at, item.element.itemsize)
        self.end = max(self.end, end + (item.kind == "string"))
        length = end - start
        if length <= _STREAMED_BYTES:
            return self.data(item, bytes(self.memory[start:end]))
        self.pad(length + (item.kind == "string"), self.alignment(item, length))
        if item.kind == "string":
            self.put(b"\0")
        self.chunks.append((start, end))
        self.size += length
        return self.put(bytes(self.memory[at:start]))

    def data(self, item: Field, data: bytes) -> int:
        """Write a string or a vector of scalars."""
        alignment, width = self.alignment(item, len(data)), item.element.itemsize
        if item.kind == "string":
            data, count = data + b"\0", len(data)
        else:
            count = len(data) // width
        vector = _U4.pack(count) + data
        known = self.small.get((alignment, vector)) if len(data) <= _SMALL_BYTES else None
        if known is None:
            self.pad(len(data), alignment)
            known = self.put(vector)
            if len(data) <= _SMALL_BYTES:
                self.small[alignment, vector] = known
        return known

    @staticmethod
    def alignment(item: Field, length: int) -> int:
        width = item.element.itemsize
        return max(data_alignment(length) if width == 1 and item.kind != "string" else width, OFFSET.itemsize)


def _is_default(item: Field, value: Value) -> bool:
    return item.kind == "scalar" and value == np.array(item.default, item.dtype).tobytes()


def _form(table_type: TableType, vtable: bytes) -> _Form:
    """Read a vtable. Raises EditError if fields overlap."""
    placed: list[tuple[Field, int]] = []
    unknown: list[int] = []
    for slot in range(len(vtable) // 2 - 2):
        offset = _U2.unpack_from(vtable, 4 + 2 * slot)[0]
        if offset and slot not in table_type.by_slot:
            unknown.append(offset)
        elif offset:
            placed.append((table_type.by_slot[slot], offset))
    placed.sort(key=lambda field: field[1])
    end = _I4.size
    for item, offset in placed:
        if offset < end:
            raise EditError(f"{table_type.name}.{item.name} overlaps another field", hint="fix the exporter")
        end = offset + item.width
    alignment = max((item.width for item, _ in placed), default=4)
    if unknown:  # the table is unchanged
        return _Form(vtable, _U2.unpack_from(vtable, 2)[0], max(alignment, MOST_ALIGNMENT), placed, True)
    return _Form(vtable_bytes(placed, end), end, max(alignment, 4), placed)


def _joined(chunks: list[Chunk]) -> list[Chunk]:
    """Join adjacent chunks of bytes."""
    result: list[Chunk] = []
    pending: list[bytes] = []
    for chunk in chunks:
        if isinstance(chunk, bytes):
            pending.append(chunk)
        else:
            result += (b"".join(pending), chunk)
            pending = []
    return [*result, b"".join(pending)]
