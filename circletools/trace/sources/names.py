"""Parse many places of a text at once: numbers, and the texts of begin events (each distinct text once).

Eight characters form one 64-bit word.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_ZEROS = np.uint64(0x3030303030303030)
_HIGH = np.uint64(0x8080808080808080)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_ONES = np.uint64(0x0101010101010101)
_BYTE = np.uint64(0xFF)
_SPACES = np.uint64(0x2020202020202020)
_FIRST_TWO, _SECOND, _POINT = np.uint64(0xFFFF), np.uint64(0xFF00), np.uint64((ord(".") ^ ord("0")) << 8)
_SHIFTS = tuple(np.uint64(bits) for bits in (8, 16, 32))
_SEVEN, _EIGHT, _TOP = np.uint64(7), np.uint64(8), np.uint64(56)


def blocks(data: bytes, at: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """Return `width` bytes from each place, as rows; copying a block takes no longer than copying a word."""
    records = np.ndarray((max(0, len(data) - width + 1),), f"V{width}", data, strides=(1,))
    return records[at].view(np.uint8).reshape(len(at), width)


def words_in(rows: npt.NDArray[np.uint8], column: int) -> Words:
    """Return the little-endian word that begins at this column of each row; there must be at least one row."""
    return np.ndarray((len(rows),), "<u8", rows, column, rows.strides[:1])


def word(text: bytes) -> np.uint64:
    """Return up to eight characters as a word."""
    return np.uint64(int.from_bytes(text, "little"))


def spread(words: Words) -> tuple[Words, Words]:
    """Return the characters' digit values, and a word with the high bit set in each byte that is not a digit."""
    values = words ^ _ZEROS
    return values, (((values & _LOW) + _ABOVE_NINE) | values) & _HIGH


def number(values: Words) -> npt.NDArray[np.int64]:
    """Return the number that eight digit values form; the first digit is in the lowest byte."""
    pairs = (values * np.uint64(2561)) >> _EIGHT & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(6553601)) >> _SHIFTS[1] & np.uint64(0x0000FFFF0000FFFF)
    return ((fours * np.uint64(42949672960001)) >> _SHIFTS[2]).astype(np.int64)


def leading(rows: npt.NDArray[np.uint8], column: int) -> tuple[npt.NDArray[np.int64], Words]:
    """Return the number that begins at this column of each row, and how many of eight characters follow it."""
    values, marks = spread(words_in(rows, column))
    for shift in _SHIFTS:
        marks |= marks << shift
    flags = marks >> _SEVEN
    dropped = flags * _ONES >> _TOP
    return number((values & ~(flags * _BYTE)) << (dropped * _EIGHT & np.uint64(63))), dropped


def stamps(rows: npt.NDArray[np.uint8], colon: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Parse ` SECONDS.MICROS` before the colon in each row, in nanoseconds; also return which rows match.

    Seconds have at most seven digits. At least 15 characters must precede the colon.
    """
    fraction, others = spread(words_in(rows, colon - 8))  # S . d d d d d d
    good = (others >> _SHIFTS[1] == 0) & ((fraction & _SECOND) == _POINT)
    before = words_in(rows, colon - 15)
    seconds, breaks = spread(before)
    marks = breaks.copy()
    for shift in _SHIFTS:
        marks |= marks >> shift
    marks = (marks >> _SEVEN) * _BYTE  # a mask of the bytes up to the last character that is not a digit
    good &= (breaks >> _TOP == 0) & ((before ^ _SPACES) & (marks ^ marks >> _EIGHT) == 0) & (marks != 0)
    times = number(seconds & ~marks) * 1_000_000_000 + number(fraction & ~_FIRST_TWO) * 1000
    return times, good


Numbers = npt.NDArray[np.int64]
_Rows = TypeVar("_Rows", bound="Columns")


class Columns:
    """Base class of slotted dataclasses whose fields are columns of the same length."""

    __slots__: tuple[str, ...] = ()

    def only(self: _Rows, keep: npt.NDArray[np.bool_] | Numbers) -> _Rows:
        """Return some of the rows, selected by a mask or by indices."""
        at = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        return type(self)(*(getattr(self, name).take(at) for name in self.__slots__))


_WORD, _MOST_WORDS = 8, 32
_SLOTS, _SLOT_SHIFT = 1 << 12, np.uint64(52)
_MIX = np.uint64(0x9E3779B97F4A7C15) ** np.arange(1, _MOST_WORDS + 1, dtype=np.uint64)
_MASKS = np.tri(_MOST_WORDS * _WORD + 1, _MOST_WORDS * _WORD, -1, np.bool_).astype(np.uint8) * np.uint8(0xFF)
_MASKS = _MASKS.view(np.uint64)


def interned(data: bytes, starts: Numbers, ends: Numbers) -> tuple[Numbers, list[bytes]]:
    """Return each range's text as an index, and the distinct texts.

    Ranges of limited length are compared as rows of words, which are hashed into slots; only the few ranges that
    differ from the first one in their slot are processed one by one.
    """
    sizes = ends - starts
    width = min(-(-int(sizes.max(initial=1)) // _WORD), _MOST_WORDS)
    like = np.flatnonzero((sizes <= width * _WORD) & (starts <= len(data) - width * _WORD))
    codes, texts = np.full(len(starts), -1, np.int64), dict[bytes, int]()

    def read(at: Numbers) -> list[int]:
        stretches = zip(starts[at].tolist(), ends[at].tolist(), strict=True)
        return [texts.setdefault(data[start:end], len(texts)) for start, end in stretches]

    if len(like):
        rows = blocks(data, starts[like], width * _WORD).view("<u8")
        rows &= _MASKS[:, :width].take(sizes[like], axis=0)
        leaders = np.full(_SLOTS, -1)
        slots = rows @ _MIX[:width] >> _SLOT_SHIFT
        leaders[slots[::-1]] = np.arange(len(like))[::-1]
        chosen = np.sort(leaders[leaders >= 0])
        numbers = np.zeros(len(like), np.int64)
        numbers[chosen] = read(like[chosen])
        leader = leaders[slots]
        equal = reduce(np.bitwise_or, (rows ^ rows.take(leader, axis=0)).T) == 0
        codes[like[equal]] = numbers[leader[equal]]
    others = np.flatnonzero(codes < 0)
    codes[others] = read(others)
    return codes, list(texts)


def read_names(
    data: bytes, begins: npt.NDArray[np.bool_], starts: Numbers, ends: Numbers
) -> tuple[Numbers, list[bytes], Numbers]:
    """Parse `PID|TEXT` of the begin events, each from `starts` to `ends`.

    Return the text of each event as an index into the names (-1 for end events), the names, and the process of each
    event (-1 for end events, and for begin events without a process id or text).
    """
    codes, raw = interned(data, starts[begins], ends[begins])
    names: dict[bytes, int] = {}
    texts, pids = np.zeros(len(raw), np.int64), np.zeros(len(raw), np.int64)
    found = np.full((2, len(begins)), -1, np.int64)
    for at, text in enumerate(raw):
        pid, bar, name = text.partition(b"|")
        pids[at] = int(pid) if bar and pid.isdigit() and len(pid) <= 10 else -1
        name = name.rstrip(b"\r\n").removesuffix(b"\\n\\")  # the suffix is from a page with the lines in a string
        texts[at] = names.setdefault(name, len(names))
    found[:, begins] = texts[codes], pids[codes]
    return found[0], list(names), found[1]


_FEW = 1 << 20


def small(values: Numbers) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return non-negative values in the smallest type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def by_thread(threads: Numbers) -> Numbers:
    """Return the order of a stable sort by thread index; keys of 8 or 16 bits are sorted by radix."""
    return np.argsort(small(threads), kind="stable")


def grouped(keys: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield each distinct key, in ascending order, with the indices of its rows."""
    order = np.argsort(keys, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if len(keys) else ():
        yield int(keys[rows[0]]), rows


def distinct(keys: Numbers) -> list[int]:
    """Return the distinct keys, sorted; all must be non-negative."""
    most = keys.max(initial=0)
    if most < _FEW:
        seen = np.zeros(most + 1, np.bool_)
        seen[keys] = True
        return np.flatnonzero(seen).tolist()
    return np.unique(keys).tolist()  # type: ignore[no-any-return]


def sums(keys: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """Sum `values` by key (all non-negative); return ascending keys and their sums, omitting sums of 0."""
    if len(keys) and keys.max() < _FEW and values.sum(dtype=np.float64) < 1 << 52:  # exact as floats
        totals = np.bincount(keys, values)
        known = np.flatnonzero(totals)
        return known, totals[known].astype(np.int64)
    known, inverse = np.unique(keys, return_inverse=True)
    found = np.zeros(len(known), np.int64)
    np.add.at(found, inverse, values)
    return known[found != 0], found[found != 0]
