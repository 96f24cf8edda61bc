"""A minimal reader and writer of protocol buffers, which walks over messages and picks a few fields.

https://protobuf.dev/programming-guides/encoding/ describes the encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.names import Numbers

_MASK = (1 << 64) - 1

CONTENT, FIXED = -1, -2
"""Placeholders for the value of a field that is a string or message, or has four or eight bytes."""

Parts = dict[int, tuple[int, bytes]]
"""The fields of a message by number: the value and bytes of each."""


class BrokenMessage(Exception):  # noqa: N818 - never leaves this package
    """A message that does not follow the encoding, or is truncated; its argument is the position."""


def varint(data: bytes | bytearray, at: int, end: int) -> tuple[int, int]:
    """Return the number at `at`, and its end. Raises BrokenMessage."""
    if at < end and data[at] < 0x80:  # the usual case
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(end, at + 10)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, place + 1
        shift += 7
    raise BrokenMessage(at)


def fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number, the value, and the start and end of the content of each field.

    The value is the varint's, or CONTENT for a string or message, or FIXED for other numbers. Raises BrokenMessage.
    """
    at = start
    while at < end:
        tag, content = (data[at], at + 1) if data[at] < 0x80 else varint(data, at, end)
        kind, value = tag & 7, FIXED
        if kind == 0 and content < end and data[content] < 0x80:  # the usual case
            value, stop = data[content], content + 1
        elif kind == 0:
            value, stop = varint(data, content, end)
        elif kind == 2:
            size, content = varint(data, content, end)
            value, stop = CONTENT, content + size
        elif kind in (1, 5):
            stop = content + (8 if kind == 1 else 4)
        else:
            raise BrokenMessage(at)
        if stop > end or tag < 8:
            raise BrokenMessage(at)
        yield tag >> 3, value, content, stop
        at = stop


def contents(data: bytes, start: int, end: int) -> Parts:
    """Return each field's value and bytes by number; for repeated fields, the last. Raises BrokenMessage."""
    return {number: (value, data[first:stop]) for number, value, first, stop in fields(data, start, end)}


def number_in(parts: Parts, field: int) -> int:
    """Return the number in a field, or 0 if the message lacks the field."""
    return max(parts[field][0], 0) if field in parts else 0


def bytes_in(parts: Parts, field: int) -> bytes:
    """Return the bytes of a field, or empty bytes if the message lacks it."""
    return parts[field][1] if field in parts and parts[field][0] == CONTENT else b""


def varints(data: npt.NDArray[np.uint8], at: Numbers) -> tuple[Numbers, Numbers]:
    """Return the numbers at many places, and their ends; the data must extend ten bytes beyond each place.

    The numbers are non-negative. A number above 63 bits or ten bytes gets a wrong value, which callers must detect.
    """
    byte = data[at]
    value, end = (byte & 0x7F).astype(np.int64), at + 1
    more = np.flatnonzero(byte >= 0x80)
    for shift in range(7, 63, 7):
        if not len(more):
            break
        byte = data[end[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        end[more] += 1
        more = more[byte >= 0x80]
    return value, end


def number_bytes(value: int) -> bytes:
    """Return a number as a varint."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def field_number(number: int, value: int) -> bytes:
    """Return a field that holds a number."""
    return number_bytes(number << 3) + number_bytes(value)


def field_bytes(number: int, content: bytes) -> bytes:
    """Return a field that holds a string or a message."""
    return number_bytes(number << 3 | 2) + number_bytes(len(content)) + content
