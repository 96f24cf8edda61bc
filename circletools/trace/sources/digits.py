"""Parse decimal numbers at many places of a text at once; eight characters form one 64-bit word."""

from __future__ import annotations

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
    """Return `width` bytes from each place, as rows; a block is copied as fast as a single word."""
    records = np.ndarray((max(0, len(data) - width + 1),), f"V{width}", data, strides=(1,))
    return records[at].view(np.uint8).reshape(len(at), width)


def words_in(rows: npt.NDArray[np.uint8], column: int) -> Words:
    """Return the little-endian word that begins at a column of each row; there is at least one row."""
    return np.ndarray((len(rows),), "<u8", rows, column, rows.strides[:1])


def word(text: bytes) -> np.uint64:
    """Return up to eight characters as a word."""
    return np.uint64(int.from_bytes(text, "little"))


def spread(words: Words) -> tuple[Words, Words]:
    """Return the characters as digit values, and a word with the high bit set in each byte that is not a digit."""
    values = words ^ _ZEROS
    return values, (((values & _LOW) + _ABOVE_NINE) | values) & _HIGH


def number(values: Words) -> npt.NDArray[np.int64]:
    """Return the number formed by eight digit values, the first digit in the lowest byte."""
    pairs = (values * np.uint64(2561)) >> _EIGHT & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(6553601)) >> _SHIFTS[1] & np.uint64(0x0000FFFF0000FFFF)
    return ((fours * np.uint64(42949672960001)) >> _SHIFTS[2]).astype(np.int64)


def up_to_last(others: Words) -> Words:
    """Return a mask of the bytes up to the last character that is not a digit."""
    marks = others.copy()
    for shift in _SHIFTS:
        marks |= marks >> shift
    return (marks >> _SEVEN) * _BYTE


def beginning(values: Words, others: Words) -> tuple[Words, Words]:
    """Shift the leading digits to the end; also return the number of characters removed."""
    marks = others.copy()
    for shift in _SHIFTS:
        marks |= marks << shift
    flags = marks >> _SEVEN
    dropped = flags * _ONES >> _TOP
    return (values & ~(flags * _BYTE)) << (dropped * _EIGHT & np.uint64(63)), dropped


def stamps(rows: npt.NDArray[np.uint8], colon: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Parse ` SECONDS.MICROS` before the colon in each row, in nanoseconds; also return which match.

    Seconds have up to seven digits. At least 15 characters precede the colon.
    """
    fraction, others = spread(words_in(rows, colon - 8))  # S . d d d d d d
    good = (others >> _SHIFTS[1] == 0) & ((fraction & _SECOND) == _POINT)
    before = words_in(rows, colon - 15)
    seconds, breaks = spread(before)
    marks = up_to_last(breaks)
    good &= (breaks >> _TOP == 0) & ((before ^ _SPACES) & (marks ^ marks >> _EIGHT) == 0) & (marks != 0)
    times = number(seconds & ~marks) * 1_000_000_000 + number(fraction & ~_FIRST_TWO) * 1000
    return times, good
