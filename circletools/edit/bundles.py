"""Extract or replace a model in a bundle (`.task`, `.litertlm`), preserving all other bytes and their alignment."""

from __future__ import annotations

import os
import zlib
from contextlib import closing
from pathlib import Path
from struct import Struct

from circletools.edit.results import RewriteResult
from circletools.errors import EditError, UsageError
from circletools.model.bundles import (
    BLOCK_BYTES,
    HEADER_BYTES,
    LOCAL_BYTES,
    Member,
    bundle_members,
    find_member,
    open_member,
    split_member,
)
from circletools.model.model import open_model
from circletools.storage.files import Part, Range, Source, open_source, write
from circletools.storage.zips import directory_start, end_place

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
