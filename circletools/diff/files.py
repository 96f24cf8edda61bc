"""Compare two models outside of their flatbuffers: the format, and trailing bytes, often a ZIP archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circletools.diff.comparison import ModelComparison
from circletools.diff.tolerance import between
from circletools.edit.archive import archive_entries
from circletools.edit.editable import original_start
from circletools.findings import Finding
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.comparison import Difference
from circletools.flatbuf.leaves import same_bytes
from circletools.flatbuf.verify import walk
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.storage.zips import directory_start

_Members = dict[str, dict[str, Any]]


def file_differences(comparison: ModelComparison, _: list[Finding]) -> Iterator[Difference]:
    """Yield the differences of format, of the files in an archive (by length and CRC), or of other trailing bytes."""
    models = comparison.before, comparison.after
    if models[0].format != models[1].format:
        yield between("format", models[0].format, models[1].format)
    behind = [model.wire.memory[_end(model) :] for model in models]
    archives = [_members(model, data) for model, data in zip(models, behind, strict=True)]
    if archives[0] is None and archives[1] is None:
        old, new = (bytes_ if any(bytes_) else bytes_[:0] for bytes_ in behind)
        if not same_bytes(old, new):
            yield between("trailing_bytes", {"bytes": len(old)}, {"bytes": len(new)})
        return
    first, second = (members or {} for members in archives)
    for name in dict.fromkeys((*first, *second)):
        if first.get(name) != second.get(name):
            yield between(f"archive[{name}]", first.get(name), second.get(name))


def _end(model: Model) -> int:
    """Return the end of the model, including unused data that an edit left at the end of its original file."""
    ends = [model.reachable.end, *(int((data.offsets + data.sizes).max()) for data in external_data(model))]
    base = original_start(model)
    if base:
        ends.append(base + walk(Wire(model.wire.memory[base:]), model.schema).end)
    return min(max(ends), model.wire.size)


def _members(model: Model, behind: memoryview) -> _Members | None:
    """Return the files of an archive after the model, or None if there is no readable one."""
    entries = None if directory_start(behind) is None else archive_entries(model)
    if entries is None:
        return None
    return {entry.filename: {"bytes": entry.file_size, "crc32": f"{entry.CRC:08x}"} for entry in entries}
