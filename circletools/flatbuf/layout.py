"""The layout of a table: its vtable and the offsets of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, unpack_from

import numpy as np

from circletools.flatbuf.schema import Field

_I4, _U2 = Struct("<i"), Struct("<H")
DATA_ALIGNMENT = 16  # for byte vectors of at least this length; the schemas declare force_align: 16


def align(position: int, alignment: int) -> int:
    """Return the first multiple of `alignment` at or after `position`."""
    return (position + alignment - 1) // alignment * alignment


def data_alignment(length: int) -> int:
    """Return the alignment for a byte vector of `length` bytes: 16, or less for a shorter vector."""
    return next(alignment for alignment in (DATA_ALIGNMENT, 8, 4, 1) if length >= alignment or alignment == 1)


def field_offsets(memory: memoryview, at: int) -> dict[int, int]:
    """Return the offsets of the fields of the table at `at`, by slot; the whole vtable must lie in the file."""
    vtable = at - _I4.unpack_from(memory, at)[0]
    slots = _U2.unpack_from(memory, vtable)[0] // 2 - 2
    entries = unpack_from(f"<{slots}H", memory, vtable + 4) if slots > 0 else ()
    return {slot: offset for slot, offset in enumerate(entries) if offset}


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
