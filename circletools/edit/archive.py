"""The ZIP archive of files (labels, vocabularies) that TFLite metadata tools append to the flatbuffer.

Offsets relative to the start of the file are adjusted when the archive moves. Other offsets, such as those relative
to the start of the archive, stay unchanged as long as readers can infer that start from the position of the central
directory; the TFLite task library (minizip) and unzip refuse an archive that seems to start before the file.

Format: APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from zipfile import BadZipFile, ZipFile, ZipInfo

from circletools.errors import EditError
from circletools.model.bundles import PACKED, archive_files
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.storage.files import Part, Range, view
from circletools.storage.zips import (
    END,
    END_FIELDS,
    END_OFFSET,
    ENTRY_OFFSET,
    MOST,
    ZIP64,
    central_directory,
    directory_entries,
    directory_start,
    end_place,
    moved,
)


def move_archive(model: Model, start: int, by: int, end: int | None = None, old: Collection[str] = ()) -> list[Part]:
    """Return the file from `start` on, with an archive at its end adjusted for a move by `by` bytes.

    With `end`, the file is cut off there. Files of the archive whose names are in `old` are overwritten with zeros.
    Raises EditError if the archive's offsets cannot be adjusted, InvalidInputError if the file has changed since it
    was opened, and ModelFormatError if the archive is broken and `old` is given.
    """
    model.source.check_unchanged()  # a file that has become shorter may lack the directory
    rest = Range(model.source, start, model.wire.size if end is None else end)
    directory = directory_start(model.wire.memory) if (by or old) and end is None else None
    ends = (int((data.offsets + data.sizes).max()) for data in external_data(model))
    if directory is None or directory < (used := max(start, model.reachable.end, *ends)):
        return [rest]
    try:
        return [*_kept(model, start, directory, used, old), moved_directory(model.wire.memory, by)]
    except EditError:
        if by < 0:
            raise
        return [rest]


def _kept(model: Model, start: int, end: int, used: int, old: Collection[str]) -> Iterator[Part]:
    files = sorted((file for file, _ in archive_files(model.wire.memory)), key=lambda file: file.head) if old else []
    for file, after in zip(files, [*(file.head for file in files[1:]), end], strict=False):
        if file.name in old and used <= file.head and file.end <= after and file.reason in ("", PACKED):
            yield from (Range(model.source, start, file.head), bytes(file.end - file.head))
            start = file.end
        used = max(used, file.end)  # files may overlap
    yield Range(model.source, start, end)


def archive_entries(model: Model) -> list[ZipInfo] | None:
    """Return the entries of the archive after a model, or None if there is no readable archive."""
    try:
        with ZipFile(model.source.path or io.BytesIO(model.wire.memory)) as archive:
            return archive.infolist()
    except (BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
        return None


def moved_directory(file: memoryview, by: int) -> bytes:
    """Return the central directory and everything after it, for an archive that moves by `by` bytes in its file.

    Offsets that are not relative to the start of the file stay unchanged if readers can still find the entries.
    Raises EditError if offsets cannot be changed.
    """
    start, end = directory_start(file), end_place(file)
    assert start is not None
    assert end is not None
    before = start - END_FIELDS.unpack_from(file, end)[6]  # the position in the file that offset 0 refers to
    if before > 0 and before + by >= 0:
        return bytes(file[start:])
    lines = [moved(line, ENTRY_OFFSET, by) for _, line in directory_entries(file, start, end)]
    return b"".join((*lines, moved(bytes(file[end:]), END_OFFSET, by)))


# --- associated files of a model: entries of a ZIP archive appended to it, which ordinary ZIP tools can also open
# Existing entries stay in place; the central directory is rewritten after the new entries.


def with_files(parts: Sequence[Part], files: Mapping[str, bytes]) -> list[Part]:
    """Return the parts of a file with `files` added to its archive. Raises EditError if this is not possible."""
    if not files:
        return list(parts)
    *front, last = parts
    directory = central_directory(view(last))
    kept: list[bytes] = []
    comment = b""
    if directory is not None:
        start, entries, recorded, comment = directory
        by = sum(map(len, front)) + start - recorded
        others = (entry for name, entry in entries if name.decode("utf-8", "replace") not in files)
        kept = [moved(entry, ENTRY_OFFSET, by) for entry in others]
        last = last[:start] if isinstance(last, bytes) else Range(last.source, last.start, last.start + start)
    parts = [*front, last]
    for name, data in files.items():
        local, entry = _stored(name, data)
        kept.append(moved(entry, ENTRY_OFFSET, sum(map(len, parts))))
        parts.append(local)
    table, at = b"".join(kept), sum(map(len, parts))
    if len(kept) >= MOST or len(table) > ZIP64:
        raise EditError("the ZIP archive appended to the model has no room for more files")
    end = END_FIELDS.pack(END, 0, 0, len(kept), len(kept), len(table), 0, len(comment))
    return [*parts, table + moved(end, END_OFFSET, at) + comment]


def has_file(model: Model, name: str, data: bytes) -> bool:
    """Return whether the archive has this file with this data, uncompressed."""
    files = (file for file, _ in archive_files(model.wire.memory) if file.name == name and not file.reason)
    return any(model.wire.memory[file.start : file.end] == data for file in files)


def _stored(name: str, data: bytes) -> tuple[bytes, bytes]:
    """Return a file as an archive entry, and its directory record; neither has a timestamp."""
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        info = ZipInfo(name)
        info.external_attr = 0o644 << 16
        archive.writestr(info, data)
    whole = stream.getvalue()
    size, start = END_FIELDS.unpack_from(whole, len(whole) - END_FIELDS.size)[5:7]
    return whole[:start], whole[start : start + size]
