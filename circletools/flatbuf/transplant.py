"""A flatbuffer made of some objects of another: what a tree of tables names is copied, and nothing else.

A tree is made of `Altered` tables. Each stands for a table of the old file (or for none) with some fields replaced;
all other fields are carried, with all that they refer to. An object that is named twice is copied once.

The file is written from its end to its start, as `flatbuffers.Builder` does: a reference only points forward, so what
is referred to is written first. Places are therefore distances from the end. The inline bytes of a table are taken as
they are, and the references in them set anew; large vectors of scalars stay ranges of the old file.
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
from circletools.flatbuf.layout import data_alignment, place_fields, vtable_bytes
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType

_U2, _I4, _U4 = Struct("<H"), Struct("<i"), Struct("<I")
_HEADER_BYTES, _LARGEST_ALIGNMENT = 8, 16
_STREAMED_BYTES = 1 << 16  # longer data is not copied through memory
_SMALL_BYTES = 64  # equal data up to this is written once


@dataclass(eq=False, slots=True)
class Altered:
    """The table of the old file at `at` (0: none) with fields, by slot, replaced; None leaves a field out.

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
    """How tables with one vtable look: their own vtable, inline size, alignment, and where their fields are."""

    vtable: bytes
    size: int
    alignment: int
    placed: Sequence[tuple[Field, int]]  # with the field's offset in the table, ascending


def transplant(wire: Wire, schema: Schema, root: Altered) -> list[Chunk]:
    """Return the flatbuffer with this root table; its length is a multiple of 16.

    The old file must have passed `walk`. Raises EditError when a table that is carried has a field that the schema
    does not know, or when the flatbuffer would reach 2 GiB.
    """
    return _Writer(wire, schema).write(root)


class _Writer:
    def __init__(self, wire: Wire, schema: Schema) -> None:
        self.wire, self.memory, self.schema = wire, wire.memory, schema
        self.chunks: list[Chunk] = []  # the last of the file comes first
        self.size = 0  # of the chunks
        self.data_bytes = 0
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
        """Put bytes in front; return their place."""
        self.chunks.append(bytes(data))
        self.size += len(data)
        return self.size

    def pad(self, length: int, alignment: int, phase: int = 0) -> None:
        """Make room so that `length` bytes in front of it start at `phase` past a multiple of `alignment`."""
        missing = -(self.size + length + phase) % alignment
        if missing:
            self.put(bytes(missing))

    # ------------------------------------------------------------------ tables

    def table(self, table_type: TableType, at: int) -> int:
        """Copy a table with all that it refers to; return its place."""
        known = self.known.get((table_type.name, at))
        if known is None:
            known = self.known[table_type.name, at] = self.carried(table_type, at, {})
        return known

    def altered(self, table: Altered) -> int:
        """Write an altered table; return its place."""
        if table.at:
            return self.carried(table.type, table.at, table.fields)
        return self.fresh(table.type, table.fields)

    def carried(self, table_type: TableType, at: int, changes: Mapping[int, Value]) -> int:
        """Write a table of the old file: in its old form, unless the changes give it other fields."""
        form = self.form(table_type, at)
        fields: dict[int, Value] = {}
        for item, offset in form.placed:
            raw = bytes(self.memory[at + offset : at + offset + item.width])
            fields[item.slot] = raw if item.kind == "scalar" else at + offset + int.from_bytes(raw, "little")
        for slot, value in changes.items():
            if slot in fields or not (value is None or _is_default(table_type.by_slot[slot], value)):
                fields[slot] = value
        if len(fields) == len(form.placed) and None not in fields.values():
            return self.inline(table_type, form, fields, at)
        return self.fresh(table_type, fields)

    def fresh(self, table_type: TableType, fields: Mapping[int, Value]) -> int:
        """Write a table in a new form."""
        placed, size, alignment = place_fields([i for i in table_type.fields if fields.get(i.slot) is not None])
        return self.inline(table_type, _Form(vtable_bytes(placed, size), size, alignment, placed), fields, 0)

    def inline(self, table_type: TableType, form: _Form, fields: Mapping[int, Value], at: int) -> int:
        """Write a table behind its vtable; what is between its fields is taken from `at`, if it stood there."""
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
        """Return the form of a table of the old file."""
        vtable = at - _I4.unpack_from(self.memory, at)[0]
        raw = bytes(self.memory[vtable : vtable + _U2.unpack_from(self.memory, vtable)[0]])
        form = self.forms.get((table_type.name, raw))
        if form is None:
            form = self.forms[table_type.name, raw] = _form(table_type, raw, self.schema.format)
        if at + form.size > self.wire.limit:  # the walk does not check deprecated fields
            raise ModelFormatError(f"a {table_type.name} ends outside the file", offset=at)
        return form

    # ------------------------------------------------------------------ what tables refer to

    def reference(self, owner: TableType, item: Field, fields: Mapping[int, Value]) -> int:
        """Write what a reference field of a table with these fields refers to; return its place."""
        value = fields[item.slot]
        if item.kind == "union" and isinstance(value, int):
            code = cast(bytes, fields.get(item.type_slot) or b"\0")[0]
            return self.table(self.schema.tables[self.schema.member(owner, item, code)], value)
        return self.value(item, value)

    def value(self, item: Field, value: Value) -> int:
        """Write what a reference field refers to; return its place."""
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

    def elements(self, at: int) -> References:
        """Return the positions of the tables of a vector."""
        count = _U4.unpack_from(self.memory, at)[0]
        offsets = Struct(f"<{count}I").unpack_from(self.memory, at + 4)
        return [at + 4 + 4 * index + offset for index, offset in enumerate(offsets)]

    def references(self, item: Field, tables: References) -> int:
        table_type = self.schema.tables[str(item.target)]
        places = [
            self.table(table_type, table) if isinstance(table, int) else self.altered(table)
            for table in reversed(tables)
        ][::-1]
        self.pad(4 * len(places), OFFSET.itemsize)
        here = self.size + 4 * len(places)
        distances = (here - 4 * index - place for index, place in enumerate(places))
        self.put(Struct(f"<I{len(places)}I").pack(len(places), *distances))
        return self.size

    def old_data(self, item: Field, at: int) -> int:
        """Copy a string or a vector of scalars."""
        length = 0 if at + 4 > self.wire.limit else _U4.unpack_from(self.memory, at)[0] * item.element.itemsize
        end = at + 4 + length
        if end > self.wire.limit:  # the walk does not check deprecated fields
            raise ModelFormatError("a vector or string ends outside the file", offset=at)
        self.data_bytes += length
        self.wire.budget.charge("vectors to be written", self.data_bytes)
        if length <= _STREAMED_BYTES:
            return self.data(item, bytes(self.memory[at + 4 : end]))
        self.pad(length + (item.kind == "string"), self.alignment(item, length))
        if item.kind == "string":
            self.put(b"\0")
        self.chunks.append((at + 4, end))
        self.size += length
        return self.put(bytes(self.memory[at : at + 4]))

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


def _form(table_type: TableType, vtable: bytes, schema_format: str) -> _Form:
    """Read a vtable. Raises EditError for fields that the schema does not know, or that lie over each other."""
    placed: list[tuple[Field, int]] = []
    for slot in range(len(vtable) // 2 - 2):
        offset = _U2.unpack_from(vtable, 4 + 2 * slot)[0]
        if offset and slot not in table_type.by_slot:
            raise EditError(
                f"a table {table_type.name} has a field that the {schema_format} schema does not know",
                hint="the file was written with a newer schema; copying the table would lose the field",
            )
        if offset:
            placed.append((table_type.by_slot[slot], offset))
    placed.sort(key=lambda field: field[1])
    end = _I4.size
    for item, offset in placed:
        if offset < end:
            raise EditError(f"{table_type.name}.{item.name} lies over another field", hint="mend the writer")
        end = offset + item.width
    alignment = max((item.width for item, _ in placed), default=4)
    return _Form(vtable_bytes(placed, end), end, max(alignment, 4), placed)


def _joined(chunks: list[Chunk]) -> list[Chunk]:
    """Join bytes that stand side by side."""
    result: list[Chunk] = []
    pending: list[bytes] = []
    for chunk in chunks:
        if isinstance(chunk, bytes):
            pending.append(chunk)
        else:
            result += (b"".join(pending), chunk)
            pending = []
    return [*result, b"".join(pending)]
