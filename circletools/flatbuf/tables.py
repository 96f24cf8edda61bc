"""New tables, and tables of a file opened as new ones: their fields can be changed before they are written.

Fields outside the schema are copied with a table if they cannot be references. A field of at least four bytes could
be one, unless its bytes, read as an offset, lead outside the file, to a misaligned position, or into the middle of
another object. A field that is not a reference does not depend on its position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from circletools.errors import EditError, ModelFormatError, UsageError
from circletools.flatbuf.columns import Positions, Wire, field_offsets, vectors_at
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType
from circletools.flatbuf.verify import Reachable

FileOffsets: TypeAlias = Mapping[tuple[str, str], Callable[[bytes, int], bytes | None]]
# The value of a field of a new table: an int is the position of an existing object, bytes are a raw scalar, a string
# or a vector of scalars, depending on the field; a list is a vector of tables, and a tuple is a vector of strings.
References: TypeAlias = "list[int | NewTable]"
Value: TypeAlias = "int | bytes | NewTable | References | tuple[bytes, ...]"
FieldValue: TypeAlias = "float | str | bytes | ArrayLike | NewTable | None"


_U4_BYTES = 4
_MOST_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Carried:
    """The bytes of a table from its first unknown field to the end of its last unknown field.

    `slots` maps unknown fields to offsets in these bytes, which start `phase` bytes past a multiple of `alignment`.
    """

    data: bytes
    slots: tuple[tuple[int, int], ...]
    alignment: int
    phase: int


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

    def update(self, changes: Mapping[str, Value | None]) -> None:
        """Set fields to encoded values; None removes a field. A default is not added where a field is absent."""
        for name, value in changes.items():
            item = self.type.by_name[name]
            if value is None:
                self.fields.pop(item.slot, None)
            elif (
                item.slot in self.fields
                or item.kind != "scalar"
                or value != np.array(item.default, item.dtype).tobytes()
            ):
                self.fields[item.slot] = value

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


class OldTables:
    """The tables of a file that has passed `walk`, which returns `reachable`.

    Without `reachable`, tables with unknown fields are refused. Everything before `base` was written by an earlier
    edit; no unknown field refers to that part.
    """

    def __init__(
        self, wire: Wire, schema: Schema, reachable: Callable[[], Reachable] | None = None, base: int = 0
    ) -> None:
        self.wire: Wire = wire
        self.schema: Schema = schema
        self.base: int = base
        self._reachable = reachable
        self._charge = wire.budget.tally("fields of newer schemas")

    def copy(self, type_name: str, at: int) -> NewTable:
        """Return a new table with the contents of the table at `at`, which refers to the same children.

        Raises EditError if an unknown field could be a reference, since it could not be carried over.
        """
        memory, table_type = self.wire.memory, self.schema.tables[type_name]
        copy, offsets = NewTable(table_type), field_offsets(memory, at)
        for slot, offset in offsets.items():
            item, position = table_type.by_slot.get(slot), at + offset
            if item is None:
                copy.carried = copy.carried or self._carried(table_type, at, offsets)
                continue
            if position + item.width > self.wire.limit:  # the walk does not check deprecated fields
                raise ModelFormatError(f"{type_name}.{item.name} lies outside the file", offset=position)
            raw = bytes(memory[position : position + item.width])
            copy.fields[slot] = raw if item.kind == "scalar" else position + int.from_bytes(raw, "little")
        return copy

    def _number(self, at: int, width: int = _U4_BYTES) -> int:
        return int.from_bytes(self.wire.memory[at : at + width], "little")

    def _carried(self, table_type: TableType, at: int, offsets: Mapping[int, int]) -> Carried:
        """Return the unknown fields of a table. Raises EditError if one of them could be a reference."""
        if self._reachable is None:
            raise self._unknown(table_type, at)
        size = self._number((at - self._number(at)) % 2**32 + 2, 2)
        self._charge(size + 4 * len(offsets))
        after = dict(pairwise(sorted({*offsets.values(), size})))
        unknown = sorted((offset, slot) for slot, offset in offsets.items() if slot not in table_type.by_slot)
        places = ((offset, table_type.by_slot.get(slot)) for slot, offset in offsets.items())
        known = sorted((offset, offset + item.width) for offset, item in places if item is not None)
        marks = sorted([*known, *((offset, offset) for offset, _ in unknown)])
        apart = all(end <= start for (_, end), (start, _) in pairwise(marks)) and len(after) >= len(offsets)
        if not apart or not all(_U4_BYTES <= offset < size for offset, _ in unknown):
            raise EditError(f"fields of {table_type.name} overlap", hint="fix the exporter")
        inside = at + size <= self.wire.limit
        if not (inside and all(self._is_number(at + start, after[start] - start) for start, _ in unknown)):
            raise self._unknown(table_type, at)
        start, end = unknown[0][0], max(after[offset] for offset, _ in unknown)
        data = bytearray(self.wire.memory[at + start : at + end])
        for first, last in known:
            if start < last <= end:
                # These bytes and those before them do not form a valid reference.
                data[first - start : last - start] = b"\xff" * (last - first)
        # The largest alignment that a field of these sizes can need.
        longest = max(after[offset] - offset for offset, _ in unknown)
        alignment = min(_MOST_ALIGNMENT, 1 << (longest.bit_length() - 1))
        slots = tuple((slot, offset - start) for offset, slot in unknown)
        return Carried(bytes(data), slots, alignment, (at + start) % alignment)

    def _unknown(self, table_type: TableType, at: int) -> EditError:
        return EditError(
            f"{table_type.name} at byte {at} has a field that the {self.schema.format} schema does not know",
            hint="it could be a reference; a newer version of circletools may know the field",
        )

    def _is_number(self, at: int, length: int) -> bool:
        """Return whether a field cannot be a reference."""
        if length < _U4_BYTES or at % _U4_BYTES or not self._number(at):
            return True
        target = at + self._number(at)
        if target % _U4_BYTES or target + _U4_BYTES > self.wire.limit or target < self.base:
            return True
        starts, ends = self._spans
        index = int(np.searchsorted(starts, target))
        return bool(index) and int(ends[index - 1]) > target  # in the middle of an object

    @cached_property
    def _spans(self) -> tuple[Positions, Positions]:
        """The start positions of all objects in ascending order, and for each the largest end so far."""
        assert self._reachable is not None
        reachable = self._reachable()
        starts: list[Positions] = []
        ends: list[Positions] = []
        for tables in reachable.tables.values():
            size = self.wire.gather(tables.vtable + 2, np.dtype("<u2"))
            starts += [tables.at, tables.vtable - 1]  # no reference points to a vtable
            ends += [tables.at + size, tables.vtable + tables.vtable_bytes]
            for item in tables.type.fields:
                if item.kind in ("string", "vector") and not item.deprecated:
                    targets = tables.targets(item.name)
                    targets = np.unique(targets[targets != 0])
                    element = OFFSET if item.target else item.element
                    vectors = vectors_at(self.wire, targets, element)
                    starts.append(targets)
                    ends.append(vectors.start + vectors.count * element.itemsize + (item.kind == "string"))
        start, end = np.concatenate(starts), np.concatenate(ends)
        order = np.argsort(start, kind="stable")
        return start[order], np.maximum.accumulate(end[order])

    def elements(self, at: int) -> list[int]:
        """Return the positions of the tables in the vector at `at`."""
        vectors = vectors_at(self.wire, np.array([at], np.int64), OFFSET)
        positions = vectors.element_positions()
        return list((positions + self.wire.gather(positions, OFFSET)).tolist())

    def span(self, at: int, item: Field) -> tuple[int, int]:
        """Return the start and end of the elements of a string or vector of scalars. Raises ModelFormatError."""
        start = at + OFFSET.itemsize
        end = start + int.from_bytes(self.wire.memory[at:start], "little") * item.element.itemsize
        if max(start, end) > self.wire.limit:  # the walk does not check deprecated fields
            raise ModelFormatError("a vector or string ends outside the file", offset=at)
        return start, end

    def data(self, value: Value, item: Field) -> bytes:
        """Return the bytes of a string or of a vector of scalars."""
        if isinstance(value, bytes):
            return value
        assert isinstance(value, int)
        return bytes(self.wire.memory[slice(*self.span(value, item))])

    def target(self, table: NewTable, item: Field) -> str:
        """Return the type of the tables that a field refers to. Raises EditError for an unknown union code."""
        if item.kind != "union":
            return str(item.target)
        code = table.fields.get(item.type_slot, b"\0")
        assert isinstance(code, bytes)
        return self.schema.member(table.type, item, code[0])


# --- layout ---------------------------------------------------------------------------------------------------


def align(position: int, alignment: int) -> int:
    """Return the first multiple of `alignment` at or after `position`."""
    return (position + alignment - 1) // alignment * alignment


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
