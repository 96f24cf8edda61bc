"""Encode and decode the metadata tables of the ONE compiler and of circletools (little-endian u32 numbers)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from struct import Struct, unpack

import numpy as np

from circletools.errors import TableFormatError, UsageError

_U4 = Struct("<I")
_PAIR = Struct("<II")
_LIMIT = 1 << 32
_ROOM = "." * _PAIR.size  # room for two numbers


def encode_names(names: Mapping[int, str]) -> bytes:
    """Encode a map from ids to names as `[n] ([id][length][data: length bytes])*`; length includes the final NUL.

    Raises UsageError if an id is not a u32 or a name contains a NUL.
    """
    check_ids(names)
    ids = sorted(names)
    return encode_ascending(ids, [names[number] for number in ids])


def encode_ascending(ids: Sequence[int], texts: Sequence[str]) -> bytes:
    """Encode names like `encode_names`, given ascending ids. Raises UsageError if a name contains a NUL."""
    # All names are joined, each behind space for its numbers, and encoded in one step.
    text = "".join((_ROOM[: _U4.size], _ROOM, f"\0{_ROOM}".join(texts), "\0") if texts else _ROOM[: _U4.size])
    try:
        table = bytearray(text, "utf-8", "surrogateescape")
    except UnicodeEncodeError:
        table = bytearray()
    if table.count(0) != len(texts):  # find the name that caused the error
        for number, name in zip(ids, texts, strict=True):
            encode_name(name, f"the name of source {number}")
    lengths = np.fromiter(map(len, texts if text.isascii() else map(encode_name, texts)), np.int64, len(texts)) + 1
    ends = _U4.size + np.cumsum(lengths + _PAIR.size)
    _U4.pack_into(table, 0, len(texts))
    if texts:
        numbers = np.ndarray((len(table) - _U4.size + 1,), "<u4", table, 0, (1,))  # numbers are not aligned
        numbers[ends - lengths - _PAIR.size] = ids
        numbers[ends - lengths - _U4.size] = lengths
    return bytes(table)


def encode_name(name: str, what: str = "the name") -> bytes:
    """Encode a name. Raises UsageError if the name contains a NUL or cannot be encoded."""
    if "\0" in name:
        raise UsageError(f"{what} contains a NUL character: {name[:40]!r}")
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is not valid text ({error.reason}): {name[:40]!r}") from error


def check_ids(numbers: Collection[int]) -> None:
    """Raise UsageError if a number is not a u32."""
    for number in (min(numbers), max(numbers)) if numbers else ():
        if not 0 <= number < _LIMIT:
            raise UsageError(f"{number} is not an id: ids are integers below 2^32")


def decode_names(data: bytes | memoryview, table: str) -> dict[int, str]:
    """Decode a map from ids to names (UTF-8; other bytes become surrogate escapes). Raises TableFormatError."""
    names: dict[int, str] = {}
    reader = TableReader(data, table)
    for number, length, at in reader.entries():
        if length == 0:
            raise reader.error("a name of length 0 (the length includes the final NUL)", at + 4)
        raw = bytes(reader.take(length))
        if raw[-1] != 0:
            raise reader.error("a name without its final NUL", reader.position - 1)
        if number in names:
            raise reader.error(f"duplicate entry for id {number}", at)
        names[number] = raw[:-1].decode("utf-8", "surrogateescape")
    return names


class TableReader:
    """Reads a table from its start and adds the offset to errors. ONE's tables are `[n] ([id][count] ...)*`."""

    def __init__(self, data: bytes | memoryview, table: str) -> None:
        self.data: memoryview = memoryview(data).cast("B")
        self.table = table
        self.position: int = 0

    def error(self, message: str, offset: int, hint: str | None = None) -> TableFormatError:
        return TableFormatError(message, offset=offset, location=self.table, hint=hint)

    def header(self, version: int) -> int:
        """Read `[version][count]`, the header of circletools' own tables, and return the count."""
        known, count = _PAIR.unpack(self.take(_PAIR.size, "too short for its header (8 bytes)"))
        if known != version:
            raise self.error(f"version {known} is not known", 0, "use a newer version of circletools")
        return int(count)

    def finish(self) -> None:
        """Raise TableFormatError if there are unread bytes."""
        if self.position != len(self.data):
            raise self.error("bytes left over", self.position)

    def entries(self) -> Iterable[tuple[int, int, int]]:
        """Yield (id, count, offset) of each entry; the caller must read its data before the next entry."""
        if len(self.data) < _U4.size:
            raise self.error("too short for its entry count (4 bytes)", 0)
        declared = int(_U4.unpack(self.take(_U4.size))[0])
        found = 0
        while self.position < len(self.data):
            if found == declared:
                raise self.error(f"bytes left over after {declared} entries", self.position)
            at = self.position
            first, second = _PAIR.unpack(self.take(_PAIR.size))
            yield first, second, at
            found += 1
        if found != declared:
            raise self.error(f"{declared} entries declared, {found} found", len(self.data))

    def take(self, count: int, missing: str | None = None) -> memoryview:
        """Return the next `count` bytes. If there are fewer, raises TableFormatError with the message `missing`."""
        end = self.position + count
        if end > len(self.data):
            raise self.error(missing or f"an entry is truncated: {count} bytes needed", self.position)
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def numbers(self, count: int) -> tuple[int, ...]:
        return unpack(f"<{count}I", self.take(_U4.size * count))
