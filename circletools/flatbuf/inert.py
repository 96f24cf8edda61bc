"""Fields outside the schema, which are copied if they cannot be references.

A field of at least four bytes could be a reference. It cannot be one if its bytes, read as an offset, lead outside
the file, to a misaligned position, into the middle of another object, or to bytes that form neither a table nor a
vector. A field that is not a reference does not depend on its position, so it can be copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from struct import Struct

import numpy as np

from circletools.errors import EditError
from circletools.flatbuf.columns import Positions, Wire, vectors_at
from circletools.flatbuf.layout import field_offsets
from circletools.flatbuf.schema import OFFSET, Schema, TableType
from circletools.flatbuf.verify import Reachable

_I4, _U2, _U4 = Struct("<i"), Struct("<H"), Struct("<I")
MOST_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Carried:
    """The bytes of a table from its first unknown field to the end of its last unknown field.

    `slots` maps each unknown field to its offset in these bytes, which start `phase` past a multiple of `alignment`.
    """

    data: bytes
    slots: tuple[tuple[int, int], ...]
    alignment: int
    phase: int


@dataclass(frozen=True, slots=True)
class _Form:
    """The fields of one vtable: (slot, offset, end) of unknown, (offset, end) of known ones; the table's size."""

    unknown: tuple[tuple[int, int, int], ...]
    known: tuple[tuple[int, int], ...]
    size: int

    @property
    def alignment(self) -> int:
        """The largest alignment that a field of these sizes can need."""
        longest = max(end - start for _, start, end in self.unknown)
        return min(MOST_ALIGNMENT, 1 << (longest.bit_length() - 1))


class Inert:
    """Finds unknown fields that cannot be references.

    The file must have passed `walk`, which returned `reachable`. Everything before `base` was written by an earlier
    edit; no unknown field refers to that part.
    """

    def __init__(self, wire: Wire, schema: Schema, reachable: Callable[[], Reachable], base: int = 0) -> None:
        """Store the file; nothing is read yet."""
        self._wire, self._memory, self._base = wire, wire.memory, base
        self._format, self._reachable = schema.format, reachable
        self._forms: dict[tuple[str, int], _Form] = {}
        self._charge = wire.budget.tally("fields of newer schemas")

    def carried(self, table_type: TableType, at: int) -> Carried:
        """Return the unknown fields of a table, which must have at least one; see `check`."""
        form = self.check(table_type, at)
        start, end = form.unknown[0][1], max(end for _, _, end in form.unknown)
        data = bytearray(self._memory[at + start : at + end])
        for first, last in form.known:
            if start < last <= end:
                # These bytes and those before them do not form a valid reference.
                data[first - start : last - start] = b"\xff" * (last - first)
        slots = tuple((slot, offset - start) for slot, offset, _ in form.unknown)
        return Carried(bytes(data), slots, form.alignment, (at + start) % form.alignment)

    def check(self, table_type: TableType, at: int) -> _Form:
        """Raise EditError if an unknown field of a table could be a reference."""
        vtable = at - _I4.unpack_from(self._memory, at)[0]
        form = self._forms.get((table_type.name, vtable))
        if form is None:
            form = self._forms[table_type.name, vtable] = self._form(table_type, at, vtable)
        self._charge(form.size + 4 * len(form.unknown))
        inside = at + form.size <= self._wire.limit
        if not inside or not all(self._proven(at + start, end - start) for _, start, end in form.unknown):
            raise unknown_field(table_type.name, at, self._format)
        return form

    def _form(self, table_type: TableType, at: int, vtable: int) -> _Form:
        offsets = field_offsets(self._memory, at)
        size = _U2.unpack_from(self._memory, vtable + 2)[0]
        starts = sorted({*offsets.values(), size})
        after = dict(pairwise(starts))
        unknown = sorted((offset, slot) for slot, offset in offsets.items() if slot not in table_type.by_slot)
        known = sorted(
            (offset, offset + table_type.by_slot[slot].width)
            for slot, offset in offsets.items()
            if slot in table_type.by_slot
        )
        marks = sorted([*known, *((offset, offset) for offset, _ in unknown)])
        apart = all(end <= start for (_, end), (start, _) in pairwise(marks)) and len(starts) > len(offsets)
        if not apart or not all(_U4.size <= offset < size for offset, _ in unknown):
            raise EditError(f"fields of a {table_type.name} overlap", hint="fix the exporter")
        return _Form(tuple((slot, offset, after[offset]) for offset, slot in unknown), tuple(known), size)

    def _proven(self, at: int, length: int) -> bool:
        """Return whether a field cannot be a reference."""
        if length < _U4.size or at % _U4.size:
            return True
        distance = _U4.unpack_from(self._memory, at)[0]
        target, limit = at + distance, self._wire.limit
        if not distance or target % _U4.size or target + _U4.size > limit or target < self._base:
            return True
        starts, ends = self._spans
        index = int(np.searchsorted(starts, target))
        if index and int(ends[index - 1]) > target:
            return True  # in the middle of an object
        if index < len(starts) and int(starts[index]) == target:
            return False
        room = int(starts[index]) if index < len(starts) else limit
        count = _U4.unpack_from(self._memory, target)[0]
        return target + _U4.size + count > room and not self._is_table(target, room)

    def _is_table(self, at: int, room: int) -> bool:
        vtable, limit = at - _I4.unpack_from(self._memory, at)[0], self._wire.limit
        if vtable < 0 or vtable % 2 or vtable + 4 > limit:
            return False
        length, size = (_U2.unpack_from(self._memory, vtable + here)[0] for here in (0, 2))
        return length >= 4 and not length % 2 and vtable + length <= limit and size >= 4 and at + size <= room

    @cached_property
    def _spans(self) -> tuple[Positions, Positions]:
        """The start positions of all objects in ascending order, and for each the largest end so far."""
        starts: list[Positions] = []
        ends: list[Positions] = []
        for tables in self._reachable().tables.values():
            size = self._wire.gather(tables.vtable + 2, np.dtype("<u2"))
            starts += [tables.at, tables.vtable - 1]  # no reference points to a vtable
            ends += [tables.at + size, tables.vtable + tables.vtable_bytes]
            for item in tables.type.fields:
                if item.kind in ("string", "vector") and not item.deprecated:
                    targets = tables.targets(item.name)
                    targets = np.unique(targets[targets != 0])
                    element = OFFSET if item.target else item.element
                    vectors = vectors_at(self._wire, targets, element)
                    starts.append(targets)
                    ends.append(vectors.start + vectors.count * element.itemsize + (item.kind == "string"))
        start, end = np.concatenate(starts), np.concatenate(ends)
        order = np.argsort(start, kind="stable")
        return start[order], np.maximum.accumulate(end[order])


def unknown_field(table: str, at: int, schema_format: str) -> EditError:
    """Return the error for an unknown field that could be a reference."""
    return EditError(
        f"{table} at byte {at} has a field that the {schema_format} schema does not know",
        hint="it could be a reference; a newer version of circletools may know the field",
    )
