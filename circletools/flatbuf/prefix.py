"""The prefix: new objects in front of the old file, which follows byte for byte.

A FlatBuffers reference only points forward, so new objects are written *before* the old file:

    [root offset, identifier, marker, new objects][the old file]

`flatbuffers.Builder` counts offsets back from the end of its output. The old file begins there, so an object at its
position p has the offset -p. The length of the prefix is a multiple of 64, so everything in the old file keeps its
alignment. For a large file it is a multiple of 4096, so a copy-on-write file system can share blocks; for a huge
file, a multiple of 1 MiB, because a page cache with large folios copies a third faster between equally aligned
positions (measured on ext4: 0.30 s per GiB instead of 0.43 s). If such a multiple would exceed 2 GiB, the next
smaller one is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import flatbuffers
import numpy as np
from flatbuffers.builder import BuilderSizeError

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Wire, too_large
from circletools.flatbuf.overlay import NewTable, Overlay
from circletools.flatbuf.schema import OFFSET, Field, Schema
from circletools.flatbuf.verify import check_header

MARKER = b"CIRTOOL1"
"""The marker at byte 8 of a file with a prefix, followed by the prefix's length (u64)."""

_HEADER_BYTES, _MARKER_BYTES = 8, 16
_LEAST_ALIGNMENT = 64
_ALIGNMENTS = ((512 << 20, 1 << 20), (16 << 20, 4096), (0, _LEAST_ALIGNMENT))  # (least old size, multiple)
_DATA_ALIGNMENT = 16  # for byte vectors: the schemas declare force_align: 16, which the Python generator ignores


def find_base(wire: Wire, schema: Schema) -> int:
    """Return the length of the prefix that an earlier edit wrote in front of the original file, or 0."""
    head = bytes(wire.memory[8 : 8 + _MARKER_BYTES])
    base = int.from_bytes(head[8:], "little")
    if head[:8] != MARKER or base % _LEAST_ALIGNMENT or not 0 < base < wire.limit:
        return 0
    try:
        check_header(wire, schema, base)
    except ModelFormatError:
        return 0
    return base


def write_prefix(overlay: Overlay, root: NewTable, end: int) -> bytes:
    """Return the bytes to put in front of the old file.

    `root` is the result of `overlay.settle`, `end` the end of the last FlatBuffers object in the old file. Raises
    EditError if the flatbuffer would reach 2 GiB.
    """
    old_bytes = overlay.wire.size - overlay.base
    for least, alignment in _ALIGNMENTS:
        if old_bytes >= least:
            prefix = _written(overlay, root, alignment)
            if len(prefix) + end - overlay.base <= MAX_FLATBUFFER_BYTES:
                return prefix
    raise too_large()


def _written(overlay: Overlay, root: NewTable, alignment: int) -> bytes:
    try:
        prefix = _Writer(overlay, 0, alignment).write(root)
        if overlay.moves:
            # The length of the prefix is not known earlier. Positions in the file have a fixed width.
            prefix = _Writer(overlay, len(prefix), alignment).write(root)
    except BuilderSizeError as error:
        raise too_large() from error
    return prefix


class _Writer:
    """Writes a settled overlay, children first and slots in ascending order, so equal trees give equal bytes."""

    def __init__(self, overlay: Overlay, shift: int, alignment: int) -> None:
        self.overlay, self.shift, self.alignment = overlay, shift, alignment
        self.builder = flatbuffers.Builder(1024)
        self.written: dict[int, int] = {}  # id of a new table -> its offset from the end

    def write(self, table: NewTable) -> bytes:
        root = self.table(table)
        builder = self.builder
        # builder.Prep would write the padding byte by byte.
        padding = -(builder.Offset() + _MARKER_BYTES + _HEADER_BYTES) % self.alignment
        builder.Prep(1, padding)
        self.place(bytes(padding))
        length = builder.Offset() + _MARKER_BYTES + _HEADER_BYTES
        builder.PrependUint64(length)
        builder.PrependUint64(int.from_bytes(MARKER, "little"))
        builder.Finish(root, self.overlay.schema.identifier)
        output = bytes(builder.Output())
        assert len(output) == length
        return output

    def table(self, table: NewTable) -> int:
        known = self.written.get(id(table))
        if known is not None:
            return known
        references = {
            item.slot: self.reference(table, item)
            for item in table.type.fields
            if item.kind != "scalar" and item.slot in table.fields
        }
        builder = self.builder
        self.start(table)
        for item in table.type.widest_first:
            if item.slot in references:
                builder.PrependUOffsetTRelative(references[item.slot])
                builder.Slot(item.slot)
            elif item.slot in table.fields:
                raw = self.moved(table, item)
                builder.Prep(item.width, len(raw))
                self.place(raw)
                builder.Slot(item.slot)
        at: int = builder.EndObject()
        self.written[id(table)] = at
        return at

    def start(self, table: NewTable) -> None:
        """Begin a table; the bytes of unknown fields go at its end."""
        builder, carried = self.builder, table.carried
        if carried is None:
            builder.StartObject(table.type.slots)
            return
        padding = -(builder.Offset() + len(carried.data) + carried.phase) % carried.alignment
        builder.Prep(1, padding + len(carried.data))
        self.place(bytes(padding))
        builder.StartObject(max(table.type.slots, *(slot + 1 for slot, _ in carried.slots)))
        self.place(carried.data)
        for slot, offset in carried.slots:
            builder.current_vtable[slot] = builder.Offset() - offset

    def place(self, raw: bytes) -> None:
        """Prepend bytes for which `Prep` has made room."""
        head = self.builder.Head() - len(raw)
        self.builder.head = head
        self.builder.Bytes[head : head + len(raw)] = raw

    def moved(self, table: NewTable, item: Field) -> bytes:
        """Return the bytes of a field; a position in the file is changed to its new value."""
        raw = cast(bytes, table.fields[item.slot])
        mover = self.overlay.file_offsets.get((table.type.name, item.name))
        moved = None if mover is None else mover(raw, self.shift)
        return raw if moved is None else moved

    def reference(self, table: NewTable, item: Field) -> int:
        value = table.fields[item.slot]
        if isinstance(value, int):
            return self.overlay.base - value  # the offset of an object in the old file
        if isinstance(value, NewTable):
            return self.table(value)
        if isinstance(value, list | tuple):
            return self.references(value)
        if item.kind == "string":
            return int(self.builder.CreateString(value))
        value = self.moved(table, item)
        width = item.dtype.itemsize
        self.builder.StartVector(width, len(value) // width, _DATA_ALIGNMENT if width == 1 else width)
        self.place(value)
        return int(self.builder.EndVector())

    def references(self, references: Sequence[int | NewTable | bytes]) -> int:
        count, base = len(references), self.overlay.base
        places = (
            base - one
            if isinstance(one, int)
            else self.table(one)
            if isinstance(one, NewTable)
            else self.builder.CreateString(one)
            for one in references
        )
        targets = np.fromiter(places, np.int64, count)
        self.builder.StartVector(OFFSET.itemsize, count, OFFSET.itemsize)
        first = self.builder.Offset() + OFFSET.itemsize * count
        here = first - OFFSET.itemsize * np.arange(count, dtype=np.int64)
        self.place((here - targets).astype(OFFSET).tobytes())
        return int(self.builder.EndVector())
