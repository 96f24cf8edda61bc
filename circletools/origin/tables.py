"""The ONE compiler's metadata tables as bytes: u32 little endian, no header, no padding.

    ONE_source_table            [n] ([id][length][data: length bytes])*    length counts the final NUL
    ONE_op_table                [n] ([id][count][source id: u32 * count])*
    ONE_execution_plan_table    [n] ([position][size][u32 * size])*

Written entries ascend by id, and so do the source ids of an entry. Read, any order is taken, as the ONE
compiler does (compiler/luci/import/src/CircleImportMetadata.cpp); what it refuses is refused here, with the
byte offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from struct import Struct, unpack

import numpy as np

from circletools.errors import TableFormatError, UsageError

SOURCE_TABLE = "ONE_source_table"
OP_TABLE = "ONE_op_table"
EXECUTION_PLAN_TABLE = "ONE_execution_plan_table"

_U4 = Struct("<I")
_PAIR = Struct("<II")
_LIMIT = 1 << 32


def encode_source_table(sources: Mapping[int, str]) -> bytes:
    """Encode id -> name. Raises UsageError for an id that is no u32 or a name with a NUL."""
    _check_ids(sources)
    parts = [_U4.pack(len(sources))]
    try:
        for source, name in sorted(sources.items()):
            data = name.encode("utf-8", "surrogateescape")
            if b"\0" in data:
                encode_name(name, f"the name of source {source}")
            parts.append(b"%b%b\0" % (_PAIR.pack(source, len(data) + 1), data))
    except UnicodeEncodeError:
        encode_name(name, f"the name of source {source}")
    return b"".join(parts)


def encode_name(name: str, what: str = "the name") -> bytes:
    """Encode the name of a source. Raises UsageError where it holds a NUL, or what no bytes decode to."""
    if "\0" in name:
        raise UsageError(f"{what} holds a NUL character: {name[:40]!r}")
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is no text ({error.reason}): {name[:40]!r}") from error


def encode_op_table(operators: Mapping[int, Iterable[int]]) -> bytes:
    """Encode operator index -> source ids. Raises UsageError for a number that is no u32."""
    numbers = [len(operators)]
    for operator, sources in sorted(operators.items()):
        unique = set(sources)
        numbers += (operator, len(unique), *(unique if len(unique) == 1 else sorted(unique)))
    _check_ids(numbers)
    return np.array(numbers, "<u4").tobytes()


def _check_ids(numbers: Collection[int]) -> None:
    for number in (min(numbers, default=0), max(numbers, default=0)):
        if not 0 <= number < _LIMIT:
            raise UsageError(f"{number} is no id: ids are whole numbers below 2^32")


def decode_source_table(data: bytes | memoryview) -> dict[int, str]:
    """Decode id -> name (UTF-8, anything else kept by surrogate escapes). Raises TableFormatError."""
    sources: dict[int, str] = {}
    reader = _Reader(data, SOURCE_TABLE)
    for source, length, at in reader.entries():
        if length == 0:
            raise reader.error("a name of length 0 (the length counts the final NUL)", at + 4)
        raw = reader.take(length)
        if raw[-1] != 0:
            raise reader.error("a name without its final NUL", reader.position - 1)
        if source in sources:
            raise reader.error(f"a second entry for id {source}", at)
        sources[source] = bytes(raw[:-1]).decode("utf-8", "surrogateescape")
    return sources


def decode_op_table(data: bytes | memoryview, sources: Iterable[int] | None = None) -> dict[int, frozenset[int]]:
    """Decode operator index -> source ids. Raises TableFormatError.

    With `sources`, the ids of the source table, an id that is not among them is an error too.
    """
    known = None if sources is None else frozenset(sources)
    operators: dict[int, frozenset[int]] = {}
    reader = _Reader(data, OP_TABLE)
    for operator, count, at in reader.entries():
        ids = frozenset(reader.numbers(count))
        if operator in operators:
            raise reader.error(f"a second entry for operator {operator}", at)
        if known is not None and not ids <= known:
            raise reader.error(f"operator {operator} names source {min(ids - known)}, which does not exist", at + 8)
        operators[operator] = ids
    return operators


def decode_execution_plan(data: bytes | memoryview) -> dict[int, tuple[int, ...]]:
    """Decode position -> plan. Raises TableFormatError."""
    plan: dict[int, tuple[int, ...]] = {}
    reader = _Reader(data, EXECUTION_PLAN_TABLE)
    for position, count, at in reader.entries():
        if count == 0:
            raise reader.error("an empty entry", at + 4)
        if position in plan:
            raise reader.error(f"a second entry for position {position}", at)
        plan[position] = reader.numbers(count)
    return plan


class _Reader:
    """Reads `[n] ([id][count] ...)*` and keeps the place for errors."""

    def __init__(self, data: bytes | memoryview, table: str) -> None:
        self.data = memoryview(data).cast("B")
        self.table = table
        self.position = 0

    def error(self, message: str, offset: int) -> TableFormatError:
        return TableFormatError(message, offset=offset, location=self.table)

    def entries(self) -> Iterable[tuple[int, int, int]]:
        """Yield (id, count, offset) of each entry; the caller takes what follows before going on."""
        if len(self.data) < _U4.size:
            raise self.error("shorter than its entry count (4 bytes)", 0)
        declared = int(_U4.unpack(self.take(_U4.size))[0])
        found = 0
        while self.position < len(self.data):
            if found == declared:
                raise self.error(f"bytes left over behind {declared} entries", self.position)
            at = self.position
            first, second = _PAIR.unpack(self.take(_PAIR.size))
            yield first, second, at
            found += 1
        if found != declared:
            raise self.error(f"{declared} entries declared, {found} found", len(self.data))

    def take(self, count: int) -> memoryview:
        end = self.position + count
        if end > len(self.data):
            raise self.error(f"an entry is cut off: {count} bytes needed", self.position)
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def numbers(self, count: int) -> tuple[int, ...]:
        return unpack(f"<{count}I", self.take(_U4.size * count))
