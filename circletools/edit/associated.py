"""Associated files of a model: entries of a ZIP archive appended to it, which ordinary ZIP tools can also open.

Existing entries stay in place; the central directory is written again after the new entries.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from zipfile import BadZipFile, ZipFile, ZipInfo

from circletools.errors import EditError
from circletools.model.model import Model
from circletools.storage.files import Part, Range, view
from circletools.storage.zips import END, END_FIELDS, END_OFFSET, ENTRY_OFFSET, MOST, ZIP64, central_directory, moved


def with_files(parts: Sequence[Part], files: Mapping[str, bytes]) -> list[Part]:
    """Return the parts of a file with `files` added to its archive. Raises EditError if that is impossible."""
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
        raise EditError("the ZIP archive after the model has no room for more files")
    end = END_FIELDS.pack(END, 0, 0, len(kept), len(kept), len(table), 0, len(comment))
    return [*parts, table + moved(end, END_OFFSET, at) + comment]


def has_file(model: Model, name: str, data: bytes) -> bool:
    """Return whether the archive has this file with this data."""
    try:
        with ZipFile(model.source.path or io.BytesIO(model.wire.memory)) as archive:
            return archive.getinfo(name).file_size == len(data) and archive.read(name) == data
    except (BadZipFile, KeyError, ValueError, NotImplementedError, OSError, EOFError, RuntimeError):
        return False


def _stored(name: str, data: bytes) -> tuple[bytes, bytes]:
    """Return an entry of an archive with its data, and its directory record; without a time."""
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        info = ZipInfo(name)
        info.external_attr = 0o644 << 16
        archive.writestr(info, data)
    whole = stream.getvalue()
    size, start = END_FIELDS.unpack_from(whole, len(whole) - END_FIELDS.size)[5:7]
    return whole[:start], whole[start : start + size]
