"""Digests of tables: equal contents have equal digests, whatever the layout of the files."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct

import numpy as np

from circletools.flatbuf.columns import Positions, Tables, Wire, field_offsets
from circletools.flatbuf.schema import Field, Schema

_U4 = Struct("<I")
DIGEST_BYTES = 16


def digest(*parts: bytes | memoryview) -> bytes:
    """Return the 16-byte BLAKE2b hash of the parts, each preceded by its length."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


@dataclass(slots=True)
class Digests:
    """Computes digests of the tables of a file that has passed `walk`.

    Fields in `left_out` are ignored, and those in `unless_empty` are ignored if they are vectors with elements;
    `instead` holds functions that replace the values of other fields, such as indices of objects outside these
    tables. A field that contains the schema's default counts as absent.
    """

    wire: Wire
    schema: Schema
    left_out: Container[tuple[str, str]]
    instead: Callable[[str, Field, bytes], bytes | None]
    unless_empty: Container[tuple[str, str]] = ()
    memory: memoryview = field(init=False)
    known: dict[tuple[str, int], bytes] = field(init=False, default_factory=dict)
    defaults: dict[tuple[str, int], bytes] = field(init=False)

    def __post_init__(self) -> None:
        """Store the schema's defaults as bytes."""
        self.memory = self.wire.memory
        self.defaults = {
            (name, item.slot): np.array(item.default, item.dtype).tobytes()
            for name in self.schema.order
            for item in self.schema.tables[name].fields
            if item.kind == "scalar"
        }

    def table(self, name: str, at: int) -> bytes:
        """Return the digest of a table."""
        known = self.known.get((name, at))
        if known is None:
            known = self.known[name, at] = digest(*self._fields(name, at))
        return known

    def _fields(self, name: str, at: int) -> list[bytes | memoryview]:
        found: list[bytes | memoryview] = []
        offsets = field_offsets(self.memory, at)
        for item in self.schema.tables[name].fields:
            if item.slot in offsets and not item.deprecated and (name, item.name) not in self.left_out:
                value = self._value(name, item, at, offsets)
                if value is not None:
                    found += (item.slot.to_bytes(2, "little"), value)
        return found

    def _value(self, name: str, item: Field, at: int, offsets: Mapping[int, int]) -> bytes | memoryview | None:
        """Return the value of a field, or None if it is the default."""
        position = at + offsets[item.slot]
        if item.kind == "scalar":
            raw = bytes(self.memory[position : position + item.width])
            other = self.instead(name, item, raw)
            return other if other is not None else None if raw == self.defaults[name, item.slot] else raw
        target = position + _U4.unpack_from(self.memory, position)[0]
        if item.kind == "table":
            return self.table(str(item.target), target)
        if item.kind == "union":
            code = self.memory[at + offsets[item.type_slot]] if item.type_slot in offsets else 0
            member = self.schema.unions[str(item.target)].get(code)
            return None if member is None else self.table(member, target)
        count = _U4.unpack_from(self.memory, target)[0]
        if count and (name, item.name) in self.unless_empty:
            return None
        if item.target is None:
            data = self.memory[target + 4 : target + 4 + count * item.element.itemsize]
            other = self.instead(name, item, bytes(data))
            return data if other is None else other
        places = (target + 4 + 4 * index for index in range(count))
        return b"".join(
            self.table(str(item.target), place + _U4.unpack_from(self.memory, place)[0]) for place in places
        )


def equal_rows(tables: Tables, schema: Schema, rows: Positions, others: Positions) -> list[bool]:
    """Return whether the contents of each pair of tables are equal."""
    found = Digests(tables.wire, schema, (), lambda *_: None)
    first, second = ([found.table(tables.type.name, int(at)) for at in tables.at[one]] for one in (rows, others))
    return [one == other for one, other in zip(first, second, strict=True)]
