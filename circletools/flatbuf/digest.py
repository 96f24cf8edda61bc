"""What a table says, as a digest: equal for tables that say the same, however their files are laid out."""

from __future__ import annotations

from collections.abc import Callable, Container
from hashlib import blake2b
from struct import Struct

import numpy as np

from circletools.flatbuf.columns import Wire
from circletools.flatbuf.schema import Field, Schema

_U2, _I4, _U4 = Struct("<H"), Struct("<i"), Struct("<I")
DIGEST_BYTES = 16


def digest(*parts: bytes | memoryview) -> bytes:
    """Return BLAKE2b (16 bytes) of the parts, each with its length."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


class Digests:
    """Digests of the tables of a file that passed `walk`.

    Fields in `left_out` do not count; `instead` gives others by a function of their value, for what is a number of
    something that has no place here. A field that is written with the schema's default is as one that is absent.
    """

    def __init__(
        self,
        wire: Wire,
        schema: Schema,
        left_out: Container[tuple[str, str]],
        instead: Callable[[str, Field, bytes], bytes | None],
    ) -> None:
        self.schema: Schema
        self.memory: memoryview
        self.wire: Wire
        self.wire, self.memory, self.schema = wire, wire.memory, schema
        self.instead: Callable[[str, Field, bytes], bytes | None]
        self.left_out: Container[tuple[str, str]]
        self.left_out, self.instead = left_out, instead
        self.known: dict[tuple[str, int], bytes] = {}
        self.defaults: dict[tuple[str, int], bytes] = {
            (name, item.slot): np.array(item.default, item.dtype).tobytes()
            for name in schema.order
            for item in schema.tables[name].fields
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
        vtable = at - _I4.unpack_from(self.memory, at)[0]
        slots = _U2.unpack_from(self.memory, vtable)[0] // 2 - 2
        for item in self.schema.tables[name].fields:
            if item.slot >= slots or item.deprecated or (name, item.name) in self.left_out:
                continue
            offset = _U2.unpack_from(self.memory, vtable + 4 + 2 * item.slot)[0]
            if offset:
                value = self._value(name, item, at + offset, at, vtable)
                if value is not None:
                    found += (item.slot.to_bytes(2, "little"), value)
        return found

    def _value(self, name: str, item: Field, position: int, at: int, vtable: int) -> bytes | memoryview | None:
        """Return what a field says, None where that is the default."""
        if item.kind == "scalar":
            raw = bytes(self.memory[position : position + item.width])
            other = self.instead(name, item, raw)
            return other if other is not None else None if raw == self.defaults[name, item.slot] else raw
        target = position + _U4.unpack_from(self.memory, position)[0]
        if item.kind == "table":
            return self.table(str(item.target), target)
        if item.kind == "union":
            slot = _U2.unpack_from(self.memory, vtable + 4 + 2 * item.type_slot)[0]
            member = self.schema.unions[str(item.target)].get(self.memory[at + slot] if slot else 0)
            return None if member is None else self.table(member, target)
        count = _U4.unpack_from(self.memory, target)[0]
        if item.target is None:
            width = 1 if item.kind == "string" else item.dtype.itemsize
            data = self.memory[target + 4 : target + 4 + count * width]
            other = self.instead(name, item, bytes(data)) if len(data) <= 1 << 16 else None
            return data if other is None else other
        places = (target + 4 + 4 * index for index in range(count))
        return b"".join(
            self.table(str(item.target), place + _U4.unpack_from(self.memory, place)[0]) for place in places
        )
