"""Details of sources beside their names, as the metadata entry `CIRCLETOOLS_sources`.

    [version = 1][string count] ([length][data: length bytes])*
    [source count] ([source id][check][path][class][file][line][call])*

Strings are numbered from 1, in order; 0 is the empty one. The check is the CRC-32 of the source's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from zlib import crc32

from circletools.metadata.codec import TableReader, check_ids, encode_name
from circletools.origin.source import SourceDetails

DETAILS_TABLE = "CIRCLETOOLS_sources"
_VERSION = 1
_U4 = Struct("<I")
_PAIR = Struct("<II")
_ENTRY = Struct("<7I")


def encode_details(details: Mapping[int, SourceDetails], sources: Mapping[int, str]) -> bytes:
    """Encode source id -> details, for the sources that have some.

    Raises UsageError for an id or line that is no u32, or a text with a NUL.
    """
    strings: dict[bytes, int] = {b"": 0}

    def number(text: str, what: str) -> int:
        return strings.setdefault(encode_name(text, what), len(strings))

    entries = []
    for source, known in sorted(details.items()):
        if known == SourceDetails() or source not in sources:
            continue
        check_ids((source, known.line))
        path, class_name = number(known.path, "a path"), number(known.class_name, "a class")
        file, call = number(known.file, "a file"), number(known.call, "a call")
        entries.append(_ENTRY.pack(source, _check(sources[source]), path, class_name, file, known.line, call))
    del strings[b""]
    texts = [_U4.pack(len(data)) + data for data in strings]
    return b"".join((_PAIR.pack(_VERSION, len(texts)), *texts, _U4.pack(len(entries)), *entries))


def decode_details(data: bytes | memoryview, sources: Mapping[int, str]) -> dict[int, SourceDetails]:
    """Decode source id -> details; leave out what is not about the source of that id any more.

    Raises TableFormatError.
    """
    reader = TableReader(data, DETAILS_TABLE)
    strings = [""]
    for _ in range(reader.header(_VERSION)):
        length = _U4.unpack(reader.take(_U4.size, "a text is cut off"))[0]
        strings.append(bytes(reader.take(length)).decode("utf-8", "surrogateescape"))
    count = _U4.unpack(reader.take(_U4.size, "the number of sources is cut off"))[0]
    details: dict[int, SourceDetails] = {}
    seen: set[int] = set()
    for _ in range(count):
        at = reader.position
        source, check, path, class_name, file, line, call = _ENTRY.unpack(reader.take(_ENTRY.size))
        if source in seen:
            raise reader.error(f"a second entry for source {source}", at)
        if max(path, class_name, file, call) >= len(strings):
            raise reader.error(f"source {source} has a text that does not exist", at)
        seen.add(source)
        if source in sources and check == _check(sources[source]):
            details[source] = SourceDetails(strings[path], strings[class_name], strings[file], line, strings[call])
    reader.finish()
    return details


def _check(name: str) -> int:
    return crc32(encode_name(name))
