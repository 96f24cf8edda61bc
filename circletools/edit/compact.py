"""Compact a model file into a minimal flatbuffer, followed by its external and trailing data."""

from __future__ import annotations

import os

from circletools.edit.archive import move_archive
from circletools.edit.editable import check_editable, original_start
from circletools.errors import EditError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.compact import compact as compact_flatbuffer
from circletools.flatbuf.compact import is_known
from circletools.flatbuf.inert import Inert
from circletools.flatbuf.schema import Schema
from circletools.flatbuf.transplant import Altered, Keep, end_of, transplant
from circletools.flatbuf.verify import Reachable, walk
from circletools.model.external import FILE_OFFSETS, external_data
from circletools.model.model import Model
from circletools.storage.files import Part, Progress, write

_PIECE_BYTES = 1 << 20
_EXTERNAL_ALIGNMENT = 64  # external data keeps its alignment up to this value


def compact(
    model: Model, target: str | os.PathLike[str], *, in_place: bool = False, progress: Progress | None = None
) -> int:
    """Write the model to `target` as a minimal file; return its size in bytes.

    Raises EditError if unknown fields could be references or the target cannot be written; UsageError if the target
    is the file being read and `in_place` is not set, InvalidInputError if the file changed since it was opened.
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
    wire, schema, reachable = model.wire, model.schema, model.reachable
    if is_known(schema, reachable):
        return model.source.parts(compact_flatbuffer(wire, schema, reachable, FILE_OFFSETS, moved))
    return model.source.parts(transplant(wire, schema, *_all(wire, schema, reachable, moved)))


def _all(wire: Wire, schema: Schema, reachable: Reachable, moved: int = 0) -> tuple[Altered, Keep]:
    root = int(reachable.tables[schema.root].at[0])
    keep = Keep(Inert(wire, schema, lambda: reachable), FILE_OFFSETS, moved)
    return Altered(schema.tables[schema.root], root, {}), keep


def _end(wire: Wire, schema: Schema, reachable: Reachable) -> int:
    """Return the end of the last object, including objects that unknown fields refer to."""
    if is_known(schema, reachable):
        return reachable.end
    return max(reachable.end, end_of(wire, schema, *_all(wire, schema, reachable)))


def _rest(model: Model) -> tuple[int, bool]:
    """Return the start of the part of the file that is kept unchanged, and whether it contains external data."""
    first = min((int(data.offsets.min()) for data in external_data(model)), default=None)
    if first is not None:
        if first < _end(model.wire, model.schema, model.reachable):
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
    end, base = max(_end(model.wire, model.schema, model.reachable), *ends, 0), original_start(model)
    if base:
        # Data at the end of the original file that is no longer used does not count as trailing data.
        wire = Wire(model.wire.memory[base:])
        end = max(end, base + _end(wire, model.schema, walk(wire, model.schema)))
    for at in range(end, model.wire.size, _PIECE_BYTES):
        used = model.wire.data[at : at + _PIECE_BYTES] != 0
        if used.any():
            return at + int(used.argmax())
    return model.wire.size
