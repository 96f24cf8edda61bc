"""The prefix: new objects in front of the old file, which follows byte for byte.

A FlatBuffers reference only points forward, so new objects are written *before* the old file:

    [root offset, identifier, marker, new objects][the old file]

The length of the prefix is a multiple of 64, so everything in the old file keeps its
alignment. For a large file it is a multiple of 4096, so a copy-on-write file system can share blocks; for a huge
file, a multiple of 1 MiB, because a page cache with large folios copies a third faster between equally aligned
positions (measured on ext4: 0.30 s per GiB instead of 0.43 s). If such a multiple would exceed 2 GiB, the next
smaller one is used.
"""

from __future__ import annotations

from typing import cast

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Wire, too_large
from circletools.flatbuf.overlay import Overlay
from circletools.flatbuf.schema import Schema
from circletools.flatbuf.tables import NewTable
from circletools.flatbuf.verify import check_header
from circletools.flatbuf.writer import Writer

MARKER = b"CIRTOOL1"
"""The marker at byte 8 of a file with a prefix, followed by the prefix's length (u64)."""

_MARKER_BYTES = 16
_LEAST_ALIGNMENT = 64
_ALIGNMENTS = ((512 << 20, 1 << 20), (16 << 20, 4096), (0, _LEAST_ALIGNMENT))  # (least old size, multiple)


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
    prefix = b""
    for _ in range(1 + overlay.moves):
        # The length of the prefix is not known earlier. Positions in the file have a fixed width.
        writer = Writer(overlay, overlay.file_offsets, len(prefix), base=overlay.base)
        (prefix,) = cast(list[bytes], writer.write(root, bytes(_MARKER_BYTES), alignment))
    return prefix[:8] + MARKER + len(prefix).to_bytes(8, "little") + prefix[8 + _MARKER_BYTES :]
