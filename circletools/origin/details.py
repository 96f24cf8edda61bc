"""Details of sources besides their names, stored in the `CIRCLETOOLS_sources` metadata entry.

    [version = 2: u32][string count: u32] ([shared][length][data: length bytes])*
    [source count] ([source id][check: u16][path][class][file][line][call][caller])*

Numbers without a type are LEB128: seven bits per byte, the lowest first; the top bit is set in all bytes but the
last. `shared` is the number of leading bytes that a string has in common with the previous one. The id, path and line
of a source are stored as differences from the previous source, zigzag-encoded (0, -1, 1, -2, ...). Strings are
numbered from 1, in order; 0 is the empty string. The check is the lower half of the CRC-32 of the source's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, count
from struct import Struct
from zlib import crc32

from circletools.metadata.codec import TableReader, check_ids, encode_name
from circletools.origin.source import NOTHING, SourceDetails

DETAILS_TABLE = "CIRCLETOOLS_sources"
_VERSION = 2
_PAIR = Struct("<II")
_CHECK = Struct("<H")
_MOST_BITS = 35  # enough for a u32, or the difference of two


def encode_details(details: Mapping[int, SourceDetails], sources: Mapping[int, str]) -> bytes:
    """Encode the details of sources that have any, by source id.

    Raises UsageError for an id or line that is not a u32, or a string with a NUL.
    """
    written = {source: details[source] for source in sorted(details) if source in sources}
    written = {source: known for source, known in written.items() if known != NOTHING}
    # Put strings next to those with the longest common prefix: paths in order of appearance, the others sorted.
    texts_of = {source: (one.class_name, one.file, one.call, one.caller) for source, one in written.items()}
    others = sorted(set(chain.from_iterable(texts_of.values())))
    strings = dict(zip(dict.fromkeys(("", *others, *(one.path for one in written.values()))), count(), strict=False))
    entries, before = bytearray(_leb(len(written))), (0, 0, 0)
    for source, known in written.items():
        check_ids((source, known.line))
        now = (source, strings[known.path], known.line)
        own, path, line = (_leb(2 * d if d >= 0 else -2 * d - 1) for d in map(int.__sub__, now, before))
        class_name, file, call, caller = (_leb(strings[one]) for one in texts_of[source])
        entries += b"".join((own, _CHECK.pack(_check(sources[source])), path, class_name, file, line, call, caller))
        before = now
    texts, last = bytearray(_PAIR.pack(_VERSION, len(strings) - 1)), b""
    for text in (encode_name(one, "a string") for one in strings if one):
        shared = next((at for at, both in enumerate(zip(last, text, strict=False)) if both[0] != both[1]), None)
        shared = min(len(last), len(text)) if shared is None else shared
        texts += _leb(shared) + _leb(len(text) - shared) + text[shared:]
        last = text
    return bytes(texts + entries)


def _leb(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def decode_details(
    data: bytes | memoryview, sources: Mapping[int, str], charge: Callable[[int], None] = lambda _: None
) -> dict[int, SourceDetails]:
    """Decode the details of sources by id; omit entries that no longer match the name of their source.

    `charge` is called with the size of each string. Raises TableFormatError.
    """
    reader = TableReader(data, DETAILS_TABLE)
    strings, last = [""], b""
    for _ in range(reader.header(_VERSION)):
        shared, length = _number(reader), _number(reader)
        if shared > len(last):
            raise reader.error("the prefix that a string shares is longer than the previous string", reader.position)
        charge(shared + length)
        last = last[:shared] + bytes(reader.take(length))
        strings.append(last.decode("utf-8", "surrogateescape"))
    details: dict[int, SourceDetails] = {}
    source = path = line = 0
    for index in range(_number(reader)):
        at = reader.position
        step = _difference(reader)
        source += step
        check = _CHECK.unpack(reader.take(_CHECK.size))[0]
        path += _difference(reader)
        class_name, file = _number(reader), _number(reader)
        line += _difference(reader)
        call, caller = _number(reader), _number(reader)
        if index and step <= 0:
            raise reader.error(f"duplicate entry for source {source}", at)
        if not 0 <= path < len(strings) or max(class_name, file, call, caller) >= len(strings):
            raise reader.error(f"source {source} refers to a string that does not exist", at)
        if line < 0 or source < 0:
            raise reader.error(f"source {source} has a negative number", at)
        if source in sources and check == _check(sources[source]):
            details[source] = SourceDetails(
                strings[path], strings[class_name], strings[file], line, strings[call], strings[caller]
            )
    reader.finish()
    return details


def _number(reader: TableReader) -> int:
    found = 0
    for shift in range(0, _MOST_BITS, 7):
        byte = reader.take(1, "a number is truncated")[0]
        found |= (byte & 127) << shift
        if byte < 128:
            return found
    raise reader.error("a number is too long", reader.position)


def _difference(reader: TableReader) -> int:
    number = _number(reader)
    return -(number + 1) // 2 if number % 2 else number // 2


def _check(name: str) -> int:
    return crc32(encode_name(name)) & 0xFFFF
