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

_END, _END_BYTES, _COMMENT_BYTES = b"PK\5\6", 22, 65535
_END_FIELDS = Struct("<4s4H2LH")
_ENTRY, _ENTRY_BYTES = b"PK\1\2", 46
_LENGTHS = Struct("<3H")  # of the name, the extra field and the comment behind an entry
_U4 = Struct("<I")
_ZIP64 = 0xFFFFFFFF


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


def directory_start(file: memoryview) -> int | None:
    """Return where the central directory of an archive at the end of `file` starts, None without an archive."""
    place = _end_place(file)
    if place is None:
        return None
    size = _END_FIELDS.unpack_from(file, place)[5]
    start = place - size
    return start if start >= 0 and bytes(file[start : start + 4]) in (_ENTRY, _END) else None


def archive_entries(model: Model) -> list[ZipInfo] | None:
    """Return the central directory of an archive behind a model, None where there is none that can be read."""
    try:
        with ZipFile(model.source.path or io.BytesIO(model.wire.memory)) as archive:
            return archive.infolist()
    except (BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
        return None


def central_directory(file: memoryview) -> tuple[int, list[tuple[bytes, bytes]], int, bytes] | None:
    """Return where the central directory starts, its entries by name, where it says that it is, and the comment.

    None without an archive. Raises EditError for one that is broken, or larger than 32 bits count.
    """
    start, end = directory_start(file), _end_place(file)
    if start is None or end is None:
        return None
    entries, place = [], start
    while place < end:
        if file[place : place + 4] != _ENTRY or place + _ENTRY_BYTES > end:
            raise EditError("the ZIP archive behind the flatbuffer is broken", hint="its directory cannot be read")
        lengths = _LENGTHS.unpack_from(file, place + 28)
        after = place + _ENTRY_BYTES + sum(lengths)
        name = bytes(file[place + _ENTRY_BYTES : place + _ENTRY_BYTES + lengths[0]])
        entries.append((name, bytes(file[place:after])))
        place = after
    *_, recorded, comment = _END_FIELDS.unpack_from(file, end)
    if recorded == _ZIP64:
        raise EditError("the ZIP archive behind the flatbuffer is a ZIP64 archive", hint="it cannot be changed")
    return start, entries, recorded, bytes(file[len(file) - comment :] if comment else b"")


def _end_place(file: memoryview) -> int | None:
    """Return where the end record stands: its comment must end where the file does."""
    first = max(len(file) - _END_BYTES - _COMMENT_BYTES, 0)
    tail = bytes(file[first:])
    place = tail.rfind(_END)
    while place >= 0:
        if place + _END_BYTES <= len(tail):
            comment = _END_FIELDS.unpack_from(tail, place)[7]
            if place + _END_BYTES + comment == len(tail):
                return first + place
        place = tail.rfind(_END, 0, place)
    return None


def moved_directory(file: memoryview, moved: int) -> bytes:
    """Return the central directory and all behind it, for an archive that moves by `moved` bytes in its file.

    It comes back unchanged where readers find their way. Raises EditError where its offsets cannot be changed.
    """
    start, end = directory_start(file), _end_place(file)
    assert start is not None
    assert end is not None
    tail = bytearray(file[start:])
    *_, size, offset, _ = _END_FIELDS.unpack_from(file, end)
    if start - offset + moved >= 0:
        return bytes(tail)
    _move(tail, end - start + 16, moved)
    place = 0
    while place < size:
        if tail[place : place + 4] != _ENTRY or place + _ENTRY_BYTES > size:
            raise EditError(
                "the ZIP archive behind the flatbuffer is broken", hint="its central directory cannot be read"
            )
        _move(tail, place + 42, moved)
        place += _ENTRY_BYTES + sum(_LENGTHS.unpack_from(tail, place + 28))
    return bytes(tail)


def _move(tail: bytearray, at: int, moved: int) -> None:
    """Move the offset that stands at `at`."""
    offset = _U4.unpack_from(tail, at)[0]
    if offset == _ZIP64 or offset + moved < 0:
        raise EditError(
            "the ZIP archive behind the flatbuffer cannot be moved", hint="it is a ZIP64 archive, or broken"
        )
    _U4.pack_into(tail, at, offset + moved)
