"""Compact a model file into a minimal flatbuffer, followed by its external and trailing data."""

from __future__ import annotations

import os

from circletools.edit.archive import move_archive
from circletools.edit.members import check_editable, original_start
from circletools.errors import EditError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.tables import OldTables
from circletools.flatbuf.verify import walk
from circletools.flatbuf.writer import Writer
from circletools.model.external import FILE_OFFSETS, external_data
from circletools.model.model import Model
from circletools.storage.files import Part, Progress, write

_PIECE_BYTES = 1 << 20
_EXTERNAL_ALIGNMENT = 64  # external data keeps its alignment up to this value


def compact(
    model: Model, target: str | os.PathLike[str], *, in_place: bool = False, progress: Progress | None = None
) -> int:
    """Write the model to `target` as a minimal file; return its size in bytes.

    Raises EditError if unknown fields could be references or the target cannot be written, UsageError if the
    target is being read and `in_place` is not set, and InvalidInputError if the file has changed since it was opened.
    """
    model.source.check_other(target, in_place=in_place)
    parts = compact_parts(model)
    write(target, parts, source=model.source, progress=progress)
    return sum(len(part) for part in parts)


def compact_parts(model: Model) -> list[Part]:
    """Return the minimal file as a list of bytes and ranges of the old file."""
    check_editable(model)
    parts = _flatbuffer(model, 0)
    size = sum(len(part) for part in parts)
    start, external = _rest(model)
    if external:
        padding = (start - size) % _EXTERNAL_ALIGNMENT
        parts = [*_flatbuffer(model, size + padding - start), bytes(padding)]
    return [*parts, *move_archive(model, start, sum(len(part) for part in parts) - start)]


def _flatbuffer(model: Model, moved: int) -> list[Part]:
    old = OldTables(model.wire, model.schema, lambda: model.reachable)
    root = old.copy(model.schema.root, int(model.root.at[0]))
    return model.source.parts(Writer(old, FILE_OFFSETS, moved, minimal=True).write(root))


def _rest(model: Model) -> tuple[int, bool]:
    """Return the start of the part of the file that is kept unchanged, and whether it contains external data."""
    first = min((int(data.offsets.min()) for data in external_data(model)), default=None)
    if first is not None:
        if first < model.reachable.end:
            raise EditError(
                "external data lies inside the flatbuffer", hint="its bytes cannot be distinguished from unused ones"
            )
        return first, True
    return tail_start(model), False


def tail_start(model: Model) -> int:
    """Return the start of trailing data (such as an archive) after everything the model uses, or the file's end.

    Leading zeros are padding; if they were kept, the file would grow with every compaction.
    """
    ends = (int((data.offsets + data.sizes).max()) for data in external_data(model))
    end, base = max(model.reachable.end, *ends, 0), original_start(model)
    if base:
        # Data at the end of the original file that is no longer used does not count as trailing data.
        wire = Wire(model.wire.memory[base:])
        end = max(end, base + walk(wire, model.schema).end)
    for at in range(end, model.wire.size, _PIECE_BYTES):
        used = model.wire.data[at : at + _PIECE_BYTES] != 0
        if used.any():
            return at + int(used.argmax())
    return model.wire.size
