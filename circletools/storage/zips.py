"""The directory of a ZIP archive; the archive may follow other data in its file.

Format: APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import Struct

from circletools.errors import EditError

END, END_FIELDS = b"PK\5\6", Struct("<4s4H2LH")
ZIP64, MOST = 0xFFFFFFFF, 0xFFFF
_LOCATOR = b"PK\6\7"  # minizip looks for it in front of the end record, and prefers it
_ENTRY, _ENTRY_BYTES, _COMMENT_BYTES = b"PK\1\2", 46, 65535
_LENGTHS = Struct("<3H")
"""The lengths of the name, extra field and comment that follow a directory record."""
ENTRY_OFFSET, END_OFFSET = 42, 16
_OFFSET = Struct("<I")


def directory_start(file: memoryview) -> int | None:
    """Return the start of the central directory of the archive at the end of `file`, or None if there is none."""
    place = end_place(file)
    if place is None:
        return None
    size = END_FIELDS.unpack_from(file, place)[5]
    start = place - size
    return start if start >= 0 and bytes(file[start : start + 4]) in (_ENTRY, END) else None


def central_directory(file: memoryview) -> tuple[int, list[tuple[bytes, bytes]], int, bytes] | None:
    """Return the start of the central directory, its records by name, its recorded offset, and the comment.

    Returns None if there is no archive. Raises EditError if the archive is broken or may have 64-bit offsets.
    """
    if _LOCATOR in bytes(file[-END_FIELDS.size - _COMMENT_BYTES :]):
        raise EditError("ZIP64 archives are not supported", hint="programs may find other files in them")
    start, end = directory_start(file), end_place(file)
    if start is None or end is None:
        return None
    entries = list(islice(directory_entries(file, start, end), MOST + 1))
    if len(entries) > MOST:
        raise EditError(f"the ZIP archive has more than {MOST:,} files")
    _, *counts, _, recorded, _ = END_FIELDS.unpack_from(file, end)
    if counts != [0, 0, len(entries), len(entries)]:  # some programs then find other files
        raise EditError("the ZIP archive is broken", hint="its end record contradicts its directory")
    return start, entries, recorded, bytes(file[end + END_FIELDS.size :])


def directory_entries(file: memoryview, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and record of each entry of a directory. Raises EditError if the directory is broken."""
    while start < end:
        name = start + _ENTRY_BYTES
        lengths = _LENGTHS.unpack_from(file, start + 28) if name <= end else ()
        after = name + sum(lengths)
        if file[start : start + 4] != _ENTRY or after > end:
            raise EditError("the ZIP archive is broken", hint="its directory cannot be read")
        yield bytes(file[name : name + lengths[0]]), bytes(file[start:after])
        start = after


def moved(record: bytes, place: int, by: int) -> bytes:
    """Return a record with the offset at `place` increased by `by`. Raises EditError if the sum exceeds 32 bits."""
    offset = _OFFSET.unpack_from(record, place)[0]
    if offset == ZIP64 or offset + by < 0:
        raise EditError(
            "the ZIP archive after the flatbuffer cannot be moved", hint="it is a ZIP64 archive or broken"
        )
    if offset + by >= ZIP64:
        raise EditError("the model is too large for a ZIP archive after it", hint="an archive needs 32-bit offsets")
    return record[:place] + _OFFSET.pack(offset + by) + record[place + _OFFSET.size :]


def end_place(file: memoryview) -> int | None:
    """Return the position of the end record whose comment ends the file, or else of the last one (as in zipfile)."""
    first = max(len(file) - END_FIELDS.size - _COMMENT_BYTES, 0)
    tail = bytes(file[first:])
    last = place = tail.rfind(END, 0, max(len(tail) - END_FIELDS.size + len(END), 0))
    while place >= 0:
        if place + END_FIELDS.size + END_FIELDS.unpack_from(tail, place)[7] == len(tail):
            return first + place
        place = tail.rfind(END, 0, place)
    return None if last < 0 else first + last
