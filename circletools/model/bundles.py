"""Models in bundles: `.task` of MediaPipe (a ZIP archive of uncompressed files), `.litertlm` of LiteRT-LM (sections).

A member's name follows the bundle's, as in `face.task!face_detector.tflite`. It is the name of a file in the archive,
or the number or `model_type` of a section. A member is mapped in place; nothing is ever decompressed. Formats:
APPNOTE.TXT of PKWARE, 4.3.7; schema/litertlm.json, for a header that begins at byte 32 and whose end is stored at
byte 24.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Literal

import numpy as np

from circletools.errors import EditError, InvalidInputError, ModelFormatError, UsageError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import load_schema
from circletools.model.views import text
from circletools.storage.files import Source, open_source
from circletools.storage.zips import END, central_directory
from circletools.wording import suggestion

BLOCK_BYTES = 16 << 10
"""Sections of a `.litertlm` begin at multiples of this size."""
LOCAL, LOCAL_BYTES = b"PK\3\4", 30
HEADER_BYTES = 32
MODEL = 3
"""The section type of a model."""
PACKED = "it is compressed or encrypted, so circletools and MediaPipe cannot read it; pack it uncompressed (zip -0)"
_MAGIC, _HEADER_END = b"LITERTLM", 24
_U2, _U4, _U8 = Struct("<H"), Struct("<I"), Struct("<Q")
_MOST = 65535


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, or a section: its bytes `start` to `end` in the bundle, and the position of its entry.

    `entry`: the position of its record in an archive's directory, whose positions count from `shift`; or the
    positions of a section's two offsets. `reason`: why the member cannot be read; empty if it can.
    """

    name: str
    kind: Literal["file", "model", "section"]
    start: int
    end: int
    head: int
    entry: tuple[int, int]
    reason: str = ""


def bundle_members(memory: memoryview) -> list[Member]:
    """Return the members of a bundle; other files have none. Raises ModelFormatError for a broken bundle."""
    if bytes(memory[:8]) == _MAGIC:
        return list(_sections(memory))
    if bytes(memory[:4]) == LOCAL:
        found = [member for member, _ in archive_files(memory)]
        if not found:
            raise ModelFormatError("the archive has no directory", hint="it was truncated")
        return found
    return []


def split_member(name: str) -> tuple[str, str] | None:
    """Return the bundle and the member in `BUNDLE!MEMBER`, or None for a plain file name."""
    if "!" not in name or os.path.exists(name):
        return None
    for at in (at for at, character in enumerate(name) if character == "!"):
        if os.path.isfile(name[:at]):
            return name[:at], name[at + 1 :]
    return None


def open_member(name: str) -> Source | None:
    """Map a member of a bundle; return None if the name is that of a plain file.

    Raises UsageError if the member does not exist, and InvalidInputError if it cannot be read.
    """
    parts = split_member(name)
    if parts is None:
        return None
    with closing(open_source(parts[0])) as opened:  # the mapping exists as long as the view
        member = find_member(bundle_members(opened.octets), *parts)
        if member.reason:
            raise InvalidInputError(member.reason, location=name)
        return Source(opened.octets[member.start : member.end], name)


def find_member(members: list[Member], bundle: str, words: str) -> Member:
    """Return the member with this name, or the section with this number. Raises UsageError or InvalidInputError."""
    if not members:
        raise InvalidInputError("it is not a bundle: neither .task nor .litertlm", location=bundle)
    same = [member for member in members if member.name == words]
    if not same and words.isdecimal() and len(words) < 6 and int(words) < len(members):
        same = [members[int(words)]]
    if len(same) != 1:
        names = {member.name: None for member in members}
        hint = suggestion(words, names) if not same else "name a section by its number, counted from 0"
        raise UsageError(f"{len(same) or 'no'} members are called {words!r}", location=bundle, hint=hint)
    return same[0]


def archive_files(memory: memoryview) -> Iterator[tuple[Member, bytes]]:
    """Yield the files of the archive at the end of `memory`, if any, with their directory records.

    Raises ModelFormatError for a broken archive.
    """
    try:
        directory = central_directory(memory)
    except EditError as error:
        raise ModelFormatError(error.message, hint=error.hint) from error
    if directory is None:
        return
    start, entries, recorded, comment = directory
    if recorded > start:
        raise ModelFormatError("the ZIP archive begins before the file", hint="some programs cannot read it")
    if END in comment:
        raise ModelFormatError("the archive's comment contains a second end record", hint="programs may use either")
    place = start
    for name, entry in entries:
        method, flags = _U2.unpack_from(entry, 10)[0], _U2.unpack_from(entry, 8)[0]
        packed, size, head = (_U4.unpack_from(entry, at)[0] for at in (20, 24, 42))
        head += start - recorded
        reason = ""
        if method or flags & 1 or packed != size:
            reason = PACKED
        data = head + LOCAL_BYTES
        named = memory[data : data + len(name)] == name
        if not (0 <= head <= start - LOCAL_BYTES and memory[head : head + 4] == LOCAL and named):
            reason = "the archive's directory does not point to this member"
        else:
            data += sum(_U2.unpack_from(memory, head + at)[0] for at in (26, 28))
            if data + packed > start:
                reason = "the directory of the archive claims more bytes than the archive has"
        yield Member(text(name), "file", data, data + packed, head, (place, start - recorded), reason), entry
        place += len(entry)


def _sections(memory: memoryview) -> Iterator[Member]:
    if len(memory) < HEADER_BYTES:
        raise ModelFormatError("the bundle is truncated")
    end = _U8.unpack_from(memory, _HEADER_END)[0]
    if not HEADER_BYTES + 8 <= end <= len(memory):
        raise ModelFormatError(f"the header cannot end at {end} in a {len(memory)}-byte file", offset=_HEADER_END)
    wire, schema = Wire(memory[HEADER_BYTES:end]), load_schema("litertlm")
    root = Tables(wire, schema.tables[schema.root], np.array([wire.one(0, np.dtype("<u4"))], np.int64))
    metadata, _ = root.child("section_metadata", schema)
    objects, _ = metadata.children("objects", schema)
    if len(objects) > _MOST:
        raise ModelFormatError(f"the bundle has more than {_MOST} sections")
    items, vectors = objects.children("items", schema)
    values: dict[int, str] = {}
    for rows, texts in items.members("value", schema):
        values.update(zip(rows.tolist(), map(text, texts.strings("value")), strict=True))
    keys, splits = items.strings("key"), vectors.splits().tolist()
    begins, ends = (objects.scalars(name).tolist() for name in ("begin_offset", "end_offset"))
    places = [objects.slot_positions(objects.field(name).slot) for name in ("begin_offset", "end_offset")]
    for index, kind in enumerate(objects.scalars("data_type").tolist()):
        named = (at for at in range(splits[index], splits[index + 1]) if keys[at] == b"model_type")
        name = next((values[at] for at in islice(named, 1) if at in values), "") or str(index)
        outside = not end <= begins[index] <= ends[index] <= len(memory)
        reason = "its section lies outside the file or in the header" if outside else ""
        entry = int(places[0][index]), int(places[1][index])
        yield Member(
            name, "model" if kind == MODEL else "section", begins[index], ends[index], begins[index], entry, reason
        )
