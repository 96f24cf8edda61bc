"""Associated files of a model: entries of a ZIP archive behind it, which tools for ZIP files open too.

Data of entries that are there stays where it is; the central directory is written anew behind the new ones.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from struct import Struct
from zipfile import BadZipFile, ZipFile, ZipInfo

from circletools.edit.archive import archive_entries
from circletools.errors import EditError
from circletools.model.model import Model
from circletools.storage.files import Part, Range, view
from circletools.storage.zips import central_directory

_OFFSET = Struct("<I")
_END = Struct("<4s4H2LH")
_LARGEST = (1 << 32) - 1


def with_files(parts: Sequence[Part], files: Mapping[str, bytes]) -> list[Part]:
    """Return the parts of a file with these files in its archive. Raises EditError where that is not possible."""
    *front, last = parts
    directory = central_directory(view(last))
    kept: list[bytes] = []
    comment = b""
    if directory is not None:
        start, entries, recorded, comment = directory
        moved = sum(map(len, front)) + start - recorded
        kept = [_at(entry, moved) for name, entry in entries if name.decode("utf-8", "replace") not in files]
        last = last[:start] if isinstance(last, bytes) else Range(last.source, last.start, last.start + start)
    parts = [*front, last]
    for name, data in files.items():
        local, entry = _stored(name, data)
        kept.append(_at(entry, sum(map(len, parts))))
        parts.append(local)
    table, at = b"".join(kept), sum(map(len, parts))
    if len(kept) >= 0xFFFF or len(table) > _LARGEST:
        raise EditError("the ZIP archive behind the model has no room for more files")
    end = _END.pack(b"PK\5\6", 0, 0, len(kept), len(kept), len(table), *_OFFSET.unpack(_offset(at)), len(comment))
    return [*parts, table + end + comment]


def _at(entry: bytes, moved: int) -> bytes:
    """Return a line of the directory whose entry stands elsewhere."""
    return entry[:42] + _offset(_OFFSET.unpack_from(entry, 42)[0] + moved) + entry[46:]


def _offset(position: int) -> bytes:
    if not 0 <= position < _LARGEST:
        raise EditError("the model is too large for a ZIP archive behind it", hint="an archive needs 32-bit offsets")
    return _OFFSET.pack(position)


def has_file(model: Model, name: str, data: bytes) -> bool:
    """Return whether the archive has this file with this data."""
    entries = archive_entries(model) or ()
    sizes = {entry.filename: entry.file_size for entry in entries}
    if sizes.get(name) != len(data):
        return False
    try:
        with ZipFile(model.source.path or io.BytesIO(model.wire.memory)) as archive:
            return archive.read(name) == data
    except (BadZipFile, ValueError, NotImplementedError, OSError, EOFError, RuntimeError):
        return False


def _stored(name: str, data: bytes) -> tuple[bytes, bytes]:
    """Return an entry of an archive, with its data, and its line in the directory; without a time."""
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        info = ZipInfo(name)
        info.external_attr = 0o644 << 16
        archive.writestr(info, data)
    whole = stream.getvalue()
    size, start = _END.unpack_from(whole, len(whole) - _END.size)[5:7]
    return whole[:start], whole[start : start + size]
