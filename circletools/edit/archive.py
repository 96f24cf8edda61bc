"""The ZIP archive of files (labels, vocabularies) that TFLite metadata tools append to a model; bundles of models.

Offsets relative to the start of the file are adjusted when the archive moves. Other offsets, such as those relative
to the start of the archive, stay unchanged as long as readers can infer that start from the position of the central
directory; the TFLite task library (minizip) and unzip refuse an archive that seems to start before the file.

Format: APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from struct import Struct
from zipfile import BadZipFile, ZipFile, ZipInfo

from circletools.edit.results import RewriteResult
from circletools.errors import EditError, UsageError
from circletools.model.bundles import (
    BLOCK_BYTES,
    HEADER_BYTES,
    LOCAL_BYTES,
    PACKED,
    Member,
    archive_files,
    bundle_members,
    find_member,
    open_member,
    split_member,
)
from circletools.model.external import external_data
from circletools.model.model import Model, open_model
from circletools.storage.files import Part, Range, Source, open_source, view, write
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


# --- extract or replace a model in a bundle (`.task`, `.litertlm`), preserving other bytes and their alignment ---


_U2, _U4, _U8 = Struct("<H"), Struct("<I"), Struct("<Q")
_LARGEST_ALIGNMENT, _LARGEST_ZIP = 4096, (1 << 32) - 2


def extract_member(name: str, target: str | os.PathLike[str]) -> RewriteResult:
    """Write the member `BUNDLE!MEMBER` of a bundle to a file. Raises UsageError, InvalidInputError or OutputError."""
    source = open_member(name)
    if source is None:
        raise UsageError("this is not a member of a bundle", location=name, hint="write BUNDLE!MEMBER")
    write(target, [Range(source, 0, len(source.octets))])
    return RewriteResult((f"{len(source.octets)} bytes",))


def replace_member(
    name: str, model: str | os.PathLike[str], target: str | os.PathLike[str] | None = None
) -> RewriteResult:
    """Replace the member `BUNDLE!MEMBER` with a model, in the bundle itself or in a copy at `target`.

    Raises UsageError if the member does not exist, InvalidInputError if `model` is not a model, and EditError if
    members of the bundle overlap or the bundle would become too large.
    """
    parts = split_member(name)
    if parts is None:
        raise UsageError("this is not a member of a bundle", location=name, hint="write BUNDLE!MEMBER")
    with open_model(model) as new, closing(open_source(parts[0])) as bundle:
        members = bundle_members(bundle.octets)
        member = find_member(members, *parts)
        if member.reason:
            raise EditError(member.reason, location=name)
        if bundle.octets[member.start : member.end] == new.source.octets:
            if target is not None:
                write(target, [Range(bundle, 0, len(bundle.octets))], source=bundle)
            return RewriteResult(())
        for other in members:
            if other is not member and (other.reason or (other.head < member.end and member.head < other.end)):
                raise EditError(f"{other.name!r} overlaps this member, or cannot be read", location=name)
        data = Range(new.source, 0, len(new.source.octets))
        make = _sections if member.kind != "file" else _archive
        write(Path(parts[0]) if target is None else target, make(bundle, members, member, data), source=bundle)
        return RewriteResult((f"{parts[1]}: {member.end - member.start} -> {len(data)} bytes",))


def _sections(bundle: Source, members: list[Member], member: Member, data: Range) -> list[Part]:
    """Move later sections by whole blocks and write their new offsets into the header."""
    later = [other for other in members if other.start >= member.end and other is not member]
    after = min((other.start for other in later), default=None)
    end, moved = member.start + len(data), 0
    if after is not None:
        moved = -(-(end - after) // BLOCK_BYTES) * BLOCK_BYTES
    front = bytearray(bundle.octets[: member.start])
    for other in (*later, member):
        begin, finish = (other.start + moved, other.end + moved) if other is not member else (member.start, end)
        for place, value in zip(other.entry, (begin, finish), strict=True):
            if not place and value:
                raise EditError("a section of the bundle has no offset in the header", location=other.name)
            _U8.pack_into(front, HEADER_BYTES + place, value)
    rest = Range(bundle, member.end if after is None else after, len(bundle.octets))
    gap = bytes(after + moved - end) if after is not None else b""
    return [bytes(front), data, gap, rest]


def _archive(bundle: Source, members: list[Member], member: Member, data: Range) -> list[Part]:
    """Move later files by a multiple of their alignment and update their positions."""
    memory, shift = bundle.octets, member.entry[1]
    start, end = directory_start(memory), end_place(memory)
    assert start is not None
    assert end is not None
    later = [other for other in members if other.head >= member.end]
    after = min((other.head for other in later), default=start)
    aligned = max((other.start & -other.start for other in later), default=1)
    step = max(4, min(aligned, _LARGEST_ALIGNMENT))
    moved = -(-(member.start + len(data) - after) // step) * step
    if start + moved > _LARGEST_ZIP:
        raise EditError("the archive would be larger than 4 GiB", location=bundle.name)
    check = _U4.pack(zlib.crc32(data.source.octets)) + _U4.pack(len(data)) * 2
    local = bytearray(memory[member.head : member.start])
    local[14:26] = check
    local[6] &= ~8  # the sizes now precede the data
    directory = bytearray(memory[start:])
    for other in members:
        line = other.entry[0] - start
        if other is member:
            directory[line + 16 : line + 28] = check
            directory[line + 8] &= ~8
        elif other.head >= member.end:
            _U4.pack_into(directory, line + 42, other.head + moved - shift)
    _U4.pack_into(directory, end - start + 16, start + moved - shift)
    assert len(local) >= LOCAL_BYTES
    gap = bytes(after + moved - member.start - len(data))
    return [Range(bundle, 0, member.head), bytes(local), data, gap, Range(bundle, after, start), bytes(directory)]
