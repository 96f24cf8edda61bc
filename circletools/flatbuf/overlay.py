"""The writer: new objects in front, the old file behind, byte for byte.

A FlatBuffers reference only points forward, so a changed object and its ancestors up to the root are written
anew *before* the old file, and refer into it for all that stays (path copying, as in a persistent tree):

    [prefix: root offset, identifier, marker, new objects][the old file]

`flatbuffers.Builder` counts offsets from the end of what it has built. The old file follows that end, so an
object at position p of it simply has the offset -p.

The marker tells how long the prefix is. When such a file is edited again, its prefix is not kept: what is
alive in it is written into the new prefix, and what equals the old file's own object gives way to that. The
bytes therefore depend on the result alone, not on the edits that led there; undoing all gives the old file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, TypeAlias, cast

import flatbuffers
import numpy as np
from numpy.typing import ArrayLike

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Tables, Wire, vectors_at
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType
from circletools.flatbuf.verify import check_header

_I4, _U2 = Struct("<i"), Struct("<H")

MARKER = b"CIRTOOL1"
"""Stands at byte 8 of a file with a prefix, followed by the prefix's length (u64)."""

_MARKER_BYTES = 16
_LARGE_FILE_BYTES = 16 << 20
_SMALL_ALIGNMENT, _LARGE_ALIGNMENT = 64, 4096  # of the prefix's length; see `_alignment`
_DATA_ALIGNMENT = 16  # of byte vectors: the schemas say force_align: 16, which the Python generator ignores

# What a field of a new table can hold. An int is always the position of an existing object; bytes are a raw
# scalar, a string or a vector of scalars, according to the field; a list is a vector of tables.
FileOffsets: TypeAlias = "Mapping[tuple[str, str], Callable[[bytes, int], bytes | None]]"
References: TypeAlias = "list[int | NewTable]"
Value: TypeAlias = "int | bytes | NewTable | References"


@dataclass(eq=False, slots=True)
class NewTable:
    """A table to be written: slot -> value. A slot that is missing is absent in the file."""

    type: TableType
    fields: dict[int, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value | None:
        """Return the value of a field, None where it is absent."""
        return self.fields.get(self.type.by_name[name].slot)

    def set(self, name: str, value: float | str | bytes | ArrayLike | NewTable | None) -> None:
        """Set a field to a number, text, numbers or a table, according to its kind; None removes it."""
        item = self.type.by_name[name]
        if value is None:
            self.fields.pop(item.slot, None)
        elif isinstance(value, bytes | NewTable):
            self.fields[item.slot] = value
        elif isinstance(value, str):
            self.fields[item.slot] = value.encode("utf-8", "surrogateescape")
        else:
            self.fields[item.slot] = np.asarray(value, item.dtype).tobytes()

    def share(self, name: str, other: NewTable) -> None:
        """Refer to the same object as `other` does, or to none where it has none."""
        self.set(name, None)
        if (value := other[name]) is not None:
            self.fields[self.type.by_name[name].slot] = value


def find_base(wire: Wire, schema: Schema) -> int:
    """Return the length of the prefix that an earlier edit wrote in front of the original file, or 0."""
    head = bytes(wire.memory[8 : 8 + _MARKER_BYTES])
    base = int.from_bytes(head[8:], "little")
    if head[:8] != MARKER or base % _SMALL_ALIGNMENT or not 0 < base < wire.limit:
        return 0
    try:
        check_header(wire, schema, base)
    except ModelFormatError:
        return 0
    return base


class Overlay:
    """A file together with what replaces parts of it. `root` is the root table, open for changes.

    `file_offsets` names the fields (table type, field name) that can hold a position in the *file*, no reference:
    its functions move the position in a field's bytes by a distance, or return None where there is none. In a
    NewTable such positions count from the start of the original file. The file must have passed `walk`.
    """

    def __init__(self, wire: Wire, schema: Schema, root: int, base: int, file_offsets: FileOffsets) -> None:
        self.wire, self.schema, self.base, self.file_offsets = wire, schema, base, file_offsets
        self._opened: dict[tuple[str, int], NewTable] = {}
        self.root = self.open(schema.root, root)

    def open(self, type_name: str, at: int) -> NewTable:
        """Return the existing table at `at` as a new one that refers to the same children.

        The same table gives the same object, so that what is shared stays shared. Raises EditError for a table
        with a field that the schema does not know: it could not be carried.
        """
        known = self._opened.get((type_name, at))
        if known is None:
            known = self._opened[type_name, at] = self._copy(type_name, at)
        return known

    def _copy(self, type_name: str, at: int) -> NewTable:
        memory, table_type = self.wire.memory, self.schema.tables[type_name]
        known = {item.slot: item for item in table_type.fields}
        copy = NewTable(table_type)
        vtable = at - _I4.unpack_from(memory, at)[0]
        for slot in range((_U2.unpack_from(memory, vtable)[0] - 4) // 2):
            entry = _U2.unpack_from(memory, vtable + 4 + 2 * slot)[0]
            if not entry:
                continue
            item, position = known.get(slot), at + entry
            if item is None:
                raise EditError(
                    f"{type_name} at byte {at} has a field that the {self.schema.format} schema does not know",
                    hint="the file was written with a newer schema; rewriting this table would lose the field",
                )
            width = item.dtype.itemsize
            if position + width > self.wire.limit:  # the walk does not check deprecated fields
                raise ModelFormatError(f"{type_name}.{item.name} lies outside the file", offset=position)
            raw = bytes(memory[position : position + width])
            if item.kind != "scalar":
                copy.fields[slot] = position + int.from_bytes(raw, "little")
            else:
                copy.fields[slot] = raw
            mover = self.file_offsets.get((type_name, item.name))
            if mover is not None:
                data = raw if item.kind == "scalar" else self._data(copy.fields[slot], item)
                moved = mover(data, -self.base if at < self.base else 0)
                copy.fields[slot] = copy.fields[slot] if moved is None else moved
        return copy

    def references(self, table: NewTable, name: str) -> References:
        """Return a vector of tables of a new table, as a list that can be changed."""
        item = table.type.by_name[name]
        value = table.fields.get(item.slot, 0)
        if not isinstance(value, list):
            assert isinstance(value, int)
            value = table.fields[item.slot] = self._load(value)
        return value

    def _load(self, at: int) -> References:
        vectors = vectors_at(self.wire, np.array([at], np.int64), OFFSET)
        positions = vectors.element_positions()
        return list((positions + self.wire.gather(positions, OFFSET)).tolist())

    def element(self, references: References, type_name: str, index: int) -> NewTable:
        """Return an element of a vector of tables, open for changes."""
        table = references[index]
        if isinstance(table, int):
            table = references[index] = self.open(type_name, table)
        return table

    def text(self, table: NewTable, name: str) -> bytes:
        """Return a string field of a new table; absent is empty."""
        value = table[name]
        return b"" if value is None else self._data(value, table.type.by_name[name])

    def settle(self) -> bool:
        """Bring everything that is alive out of the old prefix, and let go of what equals the original.

        Returns False when all equals the original file, so that no prefix is needed.
        """
        original = check_header(self.wire, self.schema, self.base)
        return isinstance(self._settle_table(self.root, self.schema.root, original), NewTable)

    def _settle_table(self, value: int | NewTable, type_name: str, original: int) -> int | NewTable:
        """Return a table of the original file, or a new one whose fields are settled.

        `original` is the table that stood in its place in the original file, 0 if none did.
        """
        if isinstance(value, int):
            if value >= self.base:
                return value
            value = self.open(type_name, value)
        twin = self._copy(type_name, original).fields if original else {}
        for item in value.type.fields:
            if item.kind != "scalar" and item.slot in value.fields:
                there = twin.get(item.slot, 0)
                comparable = item.kind != "union" or twin.get(item.type_slot) == value.fields.get(item.type_slot)
                value.fields[item.slot] = self._settle_field(
                    value, item, there if comparable and isinstance(there, int) else 0
                )
        return original if original and value.fields == twin else value

    def _settle_field(self, owner: NewTable, item: Field, original: int) -> Value:
        value = owner.fields[item.slot]
        if isinstance(value, int) and value >= self.base:
            return value
        if item.kind == "vector" and item.target is not None:
            references = self._load(value) if isinstance(value, int) else value
            assert isinstance(references, list)
            twins = self._load(original) if original else []
            return self._settle_references(references, item.target, original, twins)
        if item.kind in ("table", "union"):
            assert isinstance(value, int | NewTable)
            target = self._union_member(owner, item) if item.kind == "union" else str(item.target)
            return self._settle_table(value, target, original)
        if isinstance(value, bytes) and (owner.type.name, item.name) in self.file_offsets:
            return value  # to be moved when it is written
        data = self._data(value, item)
        return original if original and self._data(original, item) == data else data

    def _settle_references(
        self, references: References, target: str, original: int, twins: References
    ) -> int | References:
        settled = [
            table
            if isinstance(table, int) and table >= self.base
            else self._settle_table(table, target, cast(int, twins[index]) if index < len(twins) else 0)
            for index, table in enumerate(references)
        ]
        return original if original and settled == twins else settled

    def _union_member(self, owner: NewTable, item: Field) -> str:
        code = int.from_bytes(cast(bytes, owner.fields.get(item.type_slot, b"")), "little")
        member = self.schema.unions[str(item.target)].get(code)
        if member is None:
            raise EditError(f"{owner.type.name}.{item.name} has the unknown union code {code}")
        return member

    def _data(self, value: Value, item: Field) -> bytes:
        """Return the bytes of a string or of a vector of scalars."""
        if isinstance(value, bytes):
            return value
        dtype = np.dtype("u1") if item.kind == "string" else item.dtype
        return bytes(vectors_at(self.wire, np.array([value], np.int64), dtype).row(0).tobytes())

    def prefix(self, end: int, *, tail_bytes: int) -> bytes:
        """Return the bytes to put in front of the old file (call `settle` first).

        `end` is where the last FlatBuffers object of the old file ends, `tail_bytes` the old file's size.
        Raises EditError when the flatbuffer would reach 2 GiB.
        """
        alignment = _LARGE_ALIGNMENT if tail_bytes >= _LARGE_FILE_BYTES else _SMALL_ALIGNMENT
        # File offsets have a fixed width: a first pass tells how far the prefix moves the old file.
        length = len(_Writer(self, 0, alignment).write()) if self.file_offsets else 0
        prefix = _Writer(self, length, alignment).write()
        if len(prefix) + end - self.base > MAX_FLATBUFFER_BYTES:
            raise EditError(
                "the flatbuffer would grow past 2 GiB, the most that the format can address",
                hint="keep the data of large buffers outside the flatbuffer (external buffers)",
            )
        return prefix


class _Writer:
    """Writes a settled overlay; children first, by ascending slot, so that equal trees give equal bytes."""

    def __init__(self, overlay: Overlay, shift: int, alignment: int) -> None:
        self.overlay, self.shift, self.alignment = overlay, shift, alignment
        self.builder = flatbuffers.Builder(1024)
        self.written: dict[int, int] = {}  # id of a new table -> its offset from the end

    def write(self) -> bytes:
        root = self.table(self.overlay.root)
        builder = self.builder
        builder.Prep(self.alignment, _MARKER_BYTES + 8)
        length = builder.Offset() + _MARKER_BYTES + 8
        builder.PrependUint64(length)
        builder.PrependUint64(int.from_bytes(MARKER, "little"))
        builder.Finish(root, self.overlay.schema.identifier)
        output = bytes(builder.Output())
        assert len(output) == length
        return output

    def offset(self, position: int) -> int:
        """Return the Builder's offset of an object of the old file."""
        return self.overlay.base - position

    def table(self, table: NewTable) -> int:
        known = self.written.get(id(table))
        if known is not None:
            return known
        fields = table.type.fields
        references = {
            item.slot: self.reference(table, item)
            for item in fields
            if item.kind != "scalar" and item.slot in table.fields
        }
        builder = self.builder
        builder.StartObject(table.type.slots)
        # Widest first: the least padding inside the table.
        for item in sorted(
            fields, key=lambda item: (-item.dtype.itemsize if item.kind == "scalar" else -4, item.slot)
        ):
            if item.slot in references:
                builder.PrependUOffsetTRelative(references[item.slot])
                builder.Slot(item.slot)
            elif item.slot in table.fields:
                raw = self.moved(table, item)
                builder.Prep(len(raw), 0)
                self.place(raw)
                builder.Slot(item.slot)
        at: int = builder.EndObject()
        self.written[id(table)] = at
        return at

    def place(self, raw: bytes) -> None:
        """Put bytes in front; `Prep` has made the room."""
        head = self.builder.Head() - len(raw)
        self.builder.head = head
        self.builder.Bytes[head : head + len(raw)] = raw

    def moved(self, table: NewTable, item: Field) -> bytes:
        """Return the bytes of a field, with a position in the file moved to where it will be."""
        raw = cast(bytes, table.fields[item.slot])
        mover = self.overlay.file_offsets.get((table.type.name, item.name))
        moved = None if mover is None else mover(raw, self.shift)
        return raw if moved is None else moved

    def reference(self, table: NewTable, item: Field) -> int:
        value = table.fields[item.slot]
        if isinstance(value, int):
            return self.offset(value)
        if isinstance(value, NewTable):
            return self.table(value)
        if isinstance(value, list):
            return self.references(value)
        if item.kind == "string":
            return int(self.builder.CreateString(value))
        value = self.moved(table, item)
        width = item.dtype.itemsize
        self.builder.StartVector(width, len(value) // width, _DATA_ALIGNMENT if width == 1 else width)
        self.place(value)
        return int(self.builder.EndVector())

    def references(self, references: References) -> int:
        count, base = len(references), self.overlay.base
        targets = np.fromiter(
            (base - table if isinstance(table, int) else self.table(table) for table in references),
            np.int64,
            count,
        )
        self.builder.StartVector(OFFSET.itemsize, count, OFFSET.itemsize)
        first = self.builder.Offset() + OFFSET.itemsize * count
        here = first - OFFSET.itemsize * np.arange(count, dtype=np.int64)
        self.place((here - targets).astype(OFFSET).tobytes())
        return int(self.builder.EndVector())


def unknown_slots(tables: Tables) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Say for each table whether it has a field beyond those that the schema knows."""
    unknown = np.zeros(len(tables), np.bool_)
    most = int(tables.vtable_bytes.max(initial=0))
    for slot in range(tables.type.slots, (most - 4) // 2):
        unknown |= tables.slot_positions(slot) != 0
    return unknown
