"""The directory of a ZIP archive, which may stand behind something else in its file.

Format: APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

from struct import Struct

from circletools.errors import EditError

END_BYTES, COMMENT_BYTES = 22, 65535
END, END_FIELDS = b"PK\5\6", Struct("<4s4H2LH")
ENTRY, ENTRY_BYTES = b"PK\1\2", 46
LENGTHS = Struct("<3H")
"""Of the name, the extra field and the comment behind an entry."""
ZIP64, MOST = 0xFFFFFFFF, 0xFFFF


def directory_start(file: memoryview) -> int | None:
    """Return where the central directory of an archive at the end of `file` starts, None without an archive."""
    place = end_place(file)
    if place is None:
        return None
    size = END_FIELDS.unpack_from(file, place)[5]
    start = place - size
    return start if start >= 0 and bytes(file[start : start + 4]) in (ENTRY, END) else None


def central_directory(file: memoryview) -> tuple[int, list[tuple[bytes, bytes]], int, bytes] | None:
    """Return where the central directory starts, its entries by name, where it says that it is, and the comment.

    None without an archive. Raises EditError for one that is broken, or larger than 32 bits count.
    """
    start, end = directory_start(file), end_place(file)
    if start is None or end is None:
        return None
    entries: list[tuple[bytes, bytes]] = []
    place = start
    while place < end:
        if len(entries) > MOST:
            raise EditError(f"the ZIP archive has more than {MOST:,} files")
        if file[place : place + 4] != ENTRY or place + ENTRY_BYTES > end:
            raise EditError("the ZIP archive is broken", hint="its directory cannot be read")
        lengths = LENGTHS.unpack_from(file, place + 28)
        after = place + ENTRY_BYTES + sum(lengths)
        name = bytes(file[place + ENTRY_BYTES : place + ENTRY_BYTES + lengths[0]])
        entries.append((name, bytes(file[place:after])))
        place = after
    *_, recorded, comment = END_FIELDS.unpack_from(file, end)
    if recorded == ZIP64:
        raise EditError("the ZIP archive is a ZIP64 archive", hint="it cannot be changed")
    return start, entries, recorded, bytes(file[len(file) - comment :] if comment else b"")


def end_place(file: memoryview) -> int | None:
    """Return where the end record stands: its comment must end where the file does."""
    first = max(len(file) - END_BYTES - COMMENT_BYTES, 0)
    tail = bytes(file[first:])
    place = tail.rfind(END)
    while place >= 0:
        if place + END_BYTES <= len(tail):
            comment = END_FIELDS.unpack_from(tail, place)[7]
            if place + END_BYTES + comment == len(tail):
                return first + place
        place = tail.rfind(END, 0, place)
    return None
