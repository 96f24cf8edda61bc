"""Data outside the flatbuffer. It is located by positions in the *file*, which change in an edit.

    Buffer.offset, size                               large constants
    Operator.large_custom_options_offset, _size       large custom options
    `bytecode_offset`, `bytecode_size`                compiled NPU programs that LiteRT appends to the file: fields
                                                      of a FlexBuffers map in Operator.custom_options

By the schema's convention, positions 0 and 1 mean "none".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from circletools.errors import EditError
from circletools.model.model import Model

_BYTECODE_OFFSET, _BYTECODE_SIZE = "bytecode_offset", "bytecode_size"
_UNREADABLE = (ValueError, KeyError, IndexError, TypeError, OverflowError, struct.error)


@dataclass(frozen=True, slots=True)
class ExternalData:
    """The file ranges of one kind of data, for `rows` of the buffers or of the operators of all subgraphs."""

    kind: str
    rows: NDArray[np.int64]
    offsets: NDArray[np.uint64]
    sizes: NDArray[np.uint64]


def external_data(model: Model) -> Iterator[ExternalData]:
    """Yield the ranges of data outside a model's flatbuffer, by kind."""
    tables = model.operator_columns.tables
    of_buffers = model.buffers.offsets, model.buffers.sizes
    of_options = [tables.scalars(f"large_custom_options_{name}") for name in ("offset", "size")]
    for kind, (offsets, sizes) in (("Buffer", of_buffers), ("large_custom_options", of_options)):
        rows = np.flatnonzero(offsets > 1)
        if rows.size:
            yield ExternalData(kind, rows, offsets[rows], sizes[rows])
    options = tables.vectors("custom_options")
    rows = np.flatnonzero(options.count)
    _, first, which = np.unique(options.start[rows], return_index=True, return_inverse=True)
    distinct = options.take(rows[first])  # operators may share them
    places = [_bytecode(distinct.row(at).tobytes()) for at in range(len(first))]
    named = [(row, places[at]) for row, at in zip(rows.tolist(), which.tolist(), strict=True)]
    programs = [(row, *place) for row, place in named if place is not None]
    if programs:
        columns = np.array(programs, np.uint64).T
        yield ExternalData("bytecode", columns[0].astype(np.int64), columns[1], columns[2])


def external_ranges(model: Model) -> dict[tuple[str, int], tuple[int, int]]:
    """Return where each piece of external data starts and ends in the file, by kind and row."""
    return {
        (data.kind, row): (start, start + size)
        for data in external_data(model)
        for row, start, size in zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True)
    }


def _bytecode(options: bytes) -> tuple[int, int] | None:
    """Return the offset and size of a compiled program, or None if the options contain none."""
    if _BYTECODE_OFFSET.encode() not in options:
        return None
    try:
        fields = flexbuffers.GetRoot(options).AsMap
        offset, size = (int(fields[name].AsInt) for name in (_BYTECODE_OFFSET, _BYTECODE_SIZE))
    except _UNREADABLE:
        return None
    return (offset, size) if offset > 1 and size >= 0 and offset + size < 1 << 63 else None


def _move_position(raw: bytes, distance: int) -> bytes:
    position = int.from_bytes(raw, "little")
    return raw if position <= 1 else ((position + distance) % 2**64).to_bytes(8, "little")


def _move_bytecode(options: bytes, distance: int) -> bytes | None:
    place = _bytecode(options)
    if place is None:
        return None
    moved = bytearray(options)
    # LiteRT stores the position in eight bytes, so that it can be filled in once the layout is known.
    fields: Any = flexbuffers.GetRoot(moved).AsMap
    if not fields[_BYTECODE_OFFSET].MutateInt(place[0] + distance):
        raise EditError("the custom options have too little room for the new offset of the compiled program")
    return bytes(moved)


FILE_OFFSETS: Mapping[tuple[str, str], Callable[[bytes, int], bytes | None]] = {
    ("Buffer", "offset"): _move_position,
    ("Operator", "large_custom_options_offset"): _move_position,
    ("Operator", "custom_options"): _move_bytecode,
}
"""By table type and field: a function that moves the position in its bytes, or returns None if there is none."""


def buffer_sizes(model: Model) -> NDArray[np.int64]:
    """Return the size of each buffer's data, inside or outside the flatbuffer, or -1 if it has none."""
    sizes: NDArray[np.int64] = model.buffers.data.count.copy()
    sizes[sizes == 0] = -1
    for data in external_data(model):
        if data.kind == "Buffer":
            sizes[data.rows] = np.minimum(data.sizes, 2**53).astype(np.int64)
    return sizes
