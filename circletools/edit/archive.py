"""The ZIP archive that TFLite metadata keeps behind the flatbuffer (labels, vocabularies).

Its offsets count from the start of the file, or from the start of the archive. Readers work out which by where the
central directory stands, and so take an archive that has moved *back* in its file. One that has moved *forward*
would start before the file does, and is refused (minizip, in the TFLite task library; unzip). Then its offsets
must be changed.

Format: APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import io
from struct import Struct
from zipfile import BadZipFile, ZipFile, ZipInfo

from circletools.errors import EditError
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.storage.files import Part, Range
from circletools.storage.zips import END_FIELDS, ENTRY, ENTRY_BYTES, LENGTHS, ZIP64, directory_start, end_place

_U4 = Struct("<I")


def move_archive(model: Model, start: int, moved: int) -> list[Part]:
    """Return the file from `start` on, which moves by `moved` bytes, so that an archive at its end stays readable.

    Raises EditError where the archive's offsets would have to be changed and cannot be.
    """
    rest = Range(model.source, start, model.wire.size)
    if moved >= 0:
        return [rest]
    directory = directory_start(model.wire.memory)
    ends = (int((data.offsets + data.sizes).max()) for data in external_data(model))
    if directory is None or directory < max(start, model.reachable.end, *ends):
        return [rest]
    return [Range(model.source, start, directory), moved_directory(model.wire.memory, moved)]


def archive_entries(model: Model) -> list[ZipInfo] | None:
    """Return the central directory of an archive behind a model, None where there is none that can be read."""
    try:
        with ZipFile(model.source.path or io.BytesIO(model.wire.memory)) as archive:
            return archive.infolist()
    except (BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
        return None


def moved_directory(file: memoryview, moved: int) -> bytes:
    """Return the central directory and all behind it, for an archive that moves by `moved` bytes in its file.

    It comes back unchanged where readers find their way. Raises EditError where its offsets cannot be changed.
    """
    start, end = directory_start(file), end_place(file)
    assert start is not None
    assert end is not None
    tail = bytearray(file[start:])
    *_, size, offset, _ = END_FIELDS.unpack_from(file, end)
    if start - offset + moved >= 0:
        return bytes(tail)
    _move(tail, end - start + 16, moved)
    place = 0
    while place < size:
        if tail[place : place + 4] != ENTRY or place + ENTRY_BYTES > size:
            raise EditError(
                "the ZIP archive behind the flatbuffer is broken", hint="its central directory cannot be read"
            )
        _move(tail, place + 42, moved)
        place += ENTRY_BYTES + sum(LENGTHS.unpack_from(tail, place + 28))
    return bytes(tail)


def _move(tail: bytearray, at: int, moved: int) -> None:
    """Move the offset that stands at `at`."""
    offset = _U4.unpack_from(tail, at)[0]
    if offset == ZIP64 or offset + moved < 0:
        raise EditError(
            "the ZIP archive behind the flatbuffer cannot be moved", hint="it is a ZIP64 archive, or broken"
        )
    _U4.pack_into(tail, at, offset + moved)
