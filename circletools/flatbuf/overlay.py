"""A file with replaced parts: new tables refer to old tables, which stay where they are.

A changed table is opened, that is, copied with references to the same children. Each table above it, up to the root,
is opened too (path copying, as in a persistent tree). Everything else stays untouched where it is.

If the file has been edited before, it begins with a prefix (see `prefix`), which is not kept: `settle` copies the
live objects out of it, and drops objects that equal those of the original file. The output depends only on the
result, not on the edits that led to it; undoing all edits gives the original file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from circletools.errors import ModelFormatError, UsageError
from circletools.flatbuf.columns import Wire, vectors_at
from circletools.flatbuf.inert import Carried, Inert
from circletools.flatbuf.layout import field_offsets
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType
from circletools.flatbuf.verify import check_header
from circletools.wording import warn

FileOffsets: TypeAlias = Mapping[tuple[str, str], Callable[[bytes, int], bytes | None]]
# The value of a field of a new table: an int is the position of an existing object, bytes are a raw scalar, a string
# or a vector of scalars, depending on the field; a list is a vector of tables, and a tuple is a vector of strings.
References: TypeAlias = "list[int | NewTable]"
Value: TypeAlias = "int | bytes | NewTable | References | tuple[bytes, ...]"
FieldValue: TypeAlias = "float | str | bytes | ArrayLike | NewTable | None"


@dataclass(eq=False, slots=True)
class NewTable:
    """A table to be written: slot -> value. A field whose slot is missing here is absent in the file.

    `carried` holds the unknown fields.
    """

    type: TableType
    fields: dict[int, Value] = field(default_factory=dict)
    carried: Carried | None = None

    def __getitem__(self, name: str) -> Value | None:
        """Return the value of a field, or None if it is absent."""
        return self.fields.get(self.type.by_name[name].slot)

    def set(self, name: str, value: FieldValue) -> None:
        """Set a field to a number, text, numbers or a table, depending on its kind; None removes the field.

        Raises UsageError if the field cannot hold the number, or the text cannot be encoded.
        """
        item = self.type.by_name[name]
        if value is None:
            self.fields.pop(item.slot, None)
        elif isinstance(value, bytes | NewTable):
            self.fields[item.slot] = value
        else:
            try:
                self.fields[item.slot] = (
                    value.encode("utf-8", "surrogateescape") if isinstance(value, str) else _raw(value, item)
                )
            except (OverflowError, TypeError, UnicodeEncodeError) as error:
                raise UsageError(f"{self.type.name}.{name} cannot hold this: {error}") from error

    def share(self, name: str, other: NewTable) -> None:
        """Make a field refer to the same object as in `other`, or to none if `other` refers to none."""
        self.set(name, None)
        if (value := other[name]) is not None:
            self.fields[self.type.by_name[name].slot] = value


def _raw(value: ArrayLike, item: Field) -> bytes:
    """Return the encoded bytes of numbers. Raises OverflowError or TypeError if they do not fit."""
    given = np.asarray(value)
    if given.size and given.dtype.kind == "f" and item.dtype.kind != "f":
        raise TypeError("a whole number is needed")
    if given.dtype.kind in "US" or (item.kind == "vector" and not given.ndim):
        raise TypeError(f"{'a list of numbers' if item.kind == 'vector' else 'a number'} is needed")
    raw = given.astype(item.dtype)
    if item.dtype.kind in "iu" and (raw != given).any():
        raise OverflowError(f"out of the range of {item.dtype}")
    return raw.tobytes()


class Overlay:
    """A file with replaced parts. `root` is the root table, open for changes.

    `file_offsets` names the fields (table type, field name) that can hold a position in the *file* rather than a
    reference; its functions move the position in a field's bytes by a given distance, or return None if the field has
    none. In a NewTable these positions count from the start of the original file.

    `base` is where the original file starts. The file, and the original file in it, must both have passed `walk`.
    """

    def __init__(
        self, wire: Wire, schema: Schema, root: int, base: int, file_offsets: FileOffsets, inert: Inert
    ) -> None:
        self.unsaved: bool = False  # whether something was opened since the file was last written
        self.wire: Wire = wire
        self.schema: Schema = schema
        self.base: int = base
        self.file_offsets: FileOffsets = file_offsets
        self._inert = inert
        self.moves: bool = False  # whether an opened table contains a file position
        self._opened: dict[tuple[str, int], NewTable] = {}
        self._settled: dict[int, int | NewTable] = {}  # id of a table -> its settled form
        self.root: NewTable = self.open(schema.root, root)
        self.unsaved = False

    def abandon(self, *, is_meant: bool = False) -> None:
        """Warn about changes that were not written, unless that is intended."""
        was, self.unsaved = self.unsaved, False
        if was and not is_meant:
            warn("changes of an edit were not saved (write with ct.edit(model) as edit: …; edit.save(path))")

    def __del__(self) -> None:
        """Warn about changes that were not written."""
        self.abandon()

    def open(self, type_name: str, at: int) -> NewTable:
        """Return the existing table at `at` as a new one that refers to the same children.

        Opening the same table again returns the same object, so shared tables stay shared. Raises EditError if an
        unknown field could be a reference, since it could not be carried over.
        """
        self.unsaved = True
        known = self._opened.get((type_name, at))
        if known is None:
            known = self._opened[type_name, at] = self.copy(type_name, at)
        return known

    def copy(self, type_name: str, at: int) -> NewTable:
        """Return a new unshared table with the contents of the table at `at`; see `open`."""
        memory, table_type = self.wire.memory, self.schema.tables[type_name]
        offsets = field_offsets(memory, at)
        copy = NewTable(table_type)
        if not offsets.keys() <= table_type.by_slot.keys():
            copy.carried = self._inert.carried(table_type, at)
        for slot, offset in offsets.items():
            item, position = table_type.by_slot.get(slot), at + offset
            if item is None:
                continue
            if position + item.width > self.wire.limit:  # the walk does not check deprecated fields
                raise ModelFormatError(f"{type_name}.{item.name} lies outside the file", offset=position)
            raw = bytes(memory[position : position + item.width])
            copy.fields[slot] = raw if item.kind == "scalar" else position + int.from_bytes(raw, "little")
            mover = self.file_offsets.get((type_name, item.name))
            if mover is not None:
                data = raw if item.kind == "scalar" else self._data(copy.fields[slot], item)
                moved = mover(data, -self.base if at < self.base else 0)
                if moved is not None:
                    copy.fields[slot] = moved
                    self.moves = True
        return copy

    def references(self, table: NewTable, name: str) -> References:
        """Return a vector of tables of a new table, as a list that can be changed."""
        self.unsaved = True
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

    def own(self, references: References, type_name: str, index: int) -> NewTable:
        """Return an element as a separate table, open for changes: in a file, several elements can be one table."""
        table = references[index]
        if isinstance(table, int):
            table = references[index] = self.copy(type_name, table)
        return table

    def below(self, table: NewTable, name: str, type_name: str) -> NewTable | None:
        """Return the table that a field refers to, or None; a table in the file is copied."""
        known = table[name]
        assert known is None or isinstance(known, int | NewTable)
        return self.copy(type_name, known) if isinstance(known, int) else known

    def text(self, table: NewTable, name: str) -> bytes:
        """Return a string field of a new table; an absent one is empty."""
        value = table[name]
        return b"" if value is None else self._data(value, table.type.by_name[name])

    def settle(self) -> NewTable | None:
        """Return the root to write: live objects are copied out of the old prefix, and unchanged ones are dropped.

        Returns None if everything equals the original file, so no prefix is needed. The overlay is not changed.
        """
        original = check_header(self.wire, self.schema, self.base)
        self._settled = {}
        root = self._settle_table(self.root, self.schema.root, original)
        return root if isinstance(root, NewTable) else None

    def _settle_table(self, value: int | NewTable, type_name: str, original: int) -> int | NewTable:
        """Return a table of the original file, or a new one whose fields are settled.

        `original` is the table at the same path in the original file, or 0.
        """
        if isinstance(value, int):
            if value >= self.base:
                return value
            value = self.open(type_name, value)
        known = self._settled.get(id(value))
        if known is not None:
            return known
        before = self.copy(type_name, original) if original else NewTable(value.type)
        twin = before.fields
        fields = dict(value.fields)
        for item in value.type.fields:
            if item.kind == "scalar" or item.slot not in fields:
                continue
            there = twin.get(item.slot, 0)
            comparable = item.kind != "union" or twin.get(item.type_slot) == fields.get(item.type_slot)
            settled = self._settle_field(value, item, there if comparable and isinstance(there, int) else 0)
            if settled == [] and not there:
                del fields[item.slot]  # the vector is empty again
            else:
                fields[item.slot] = settled
        same = original and fields == twin and value.carried == before.carried
        result = original if same else NewTable(value.type, fields, value.carried)
        self._settled[id(value)] = result
        return result

    def _settle_field(self, owner: NewTable, item: Field, original: int) -> Value:
        value = owner.fields[item.slot]
        if isinstance(value, tuple) or (isinstance(value, int) and value >= self.base):
            return value
        if item.kind == "vector" and item.target is not None:
            references = self._load(value) if isinstance(value, int) else value
            assert isinstance(references, list)
            return self._settle_references(references, item.target, original)
        if item.kind in ("table", "union"):
            assert isinstance(value, int | NewTable)
            target = str(item.target)
            if item.kind == "union":
                code = cast(bytes, owner.fields.get(item.type_slot, b""))
                target = self.schema.member(owner.type, item, int.from_bytes(code, "little"))
            return self._settle_table(value, target, original)
        if isinstance(value, bytes) and (owner.type.name, item.name) in self.file_offsets:
            return value  # moved when the table is written
        data = self._data(value, item)
        return original if original and self._data(original, item) == data else data

    def _settle_references(self, references: References, target: str, original: int) -> int | References:
        twins = self._load(original) if original else []
        settled = [
            table
            if isinstance(table, int) and table >= self.base
            else self._settle_table(table, target, cast(int, twins[index]) if index < len(twins) else 0)
            for index, table in enumerate(references)
        ]
        return original if original and settled == twins else settled

    def _data(self, value: Value, item: Field) -> bytes:
        """Return the bytes of a string or of a vector of scalars."""
        if isinstance(value, bytes):
            return value
        assert isinstance(value, int)
        return bytes(vectors_at(self.wire, np.array([value], np.int64), item.element).row(0).tobytes())
