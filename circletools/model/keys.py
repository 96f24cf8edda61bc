"""Integer keys for aligning two models: equal objects have equal keys.

Keys from `Interning` are exact. Others are 64-bit hashes: a collision affects alignments, never comparisons.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import places_in_rows

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SAMPLES = 64
_ROWS_AT_ONCE = 1 << 14


class Interning:
    """Gives each distinct value a number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def keys(self, values: Iterable[Hashable]) -> NDArray[np.int64]:
        """Return the number of each value."""
        known = self._known
        return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of these values in place (splitmix64)."""
    values += _GOLDEN
    shifted = np.right_shift(values, np.uint64(30))
    values ^= shifted
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= np.right_shift(values, np.uint64(27), out=shifted)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= np.right_shift(values, np.uint64(31), out=shifted)
    return values


def spread(column: NDArray[Any] | int) -> NDArray[np.uint64]:
    """Return a column of integers as the keys with which `further` starts."""
    values = np.atleast_1d(column)
    return _scramble(values.astype(np.uint64 if values.dtype == np.uint64 else np.int64).view(np.uint64))


def further(keys: NDArray[np.uint64], column: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the keys of rows that are extended by one column."""
    return _scramble(keys * np.uint64(31) + column)


def mixed(*columns: NDArray[Any] | int) -> NDArray[np.uint64]:
    """Return a key for each row of integer columns; an int stands for a constant column."""
    keys = np.zeros(1, np.uint64)
    for column in columns:
        keys = further(keys, spread(column))
    return keys


def row_keys(flat: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a key for each row, computed from its elements and their order; `flat` holds the rows, concatenated."""
    splits = np.concatenate(([0], np.cumsum(counts)))
    keys = mixed(flat, places_in_rows(counts))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(keys, dtype=np.uint64)))
    return mixed(np.diff(sums[splits]), counts)


def alone_in_both(before: NDArray[Any], after: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the keys that occur exactly once on both sides."""
    sides = []
    for keys in (before, after):
        values, first, counts = np.unique(keys, return_index=True, return_counts=True)
        sides.append((values[counts == 1], first[counts == 1]))
    _, old, new = np.intersect1d(sides[0][0], sides[1][0], assume_unique=True, return_indices=True)
    return sides[0][1][old], sides[1][1][new]


def sample_keys(data: NDArray[np.uint8], start: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a key for each range of bytes, computed from its length and evenly spaced sample bytes."""
    keys = np.zeros(len(start), np.uint64)
    spread = np.arange(_SAMPLES)
    for first in range(0, len(start), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        some = count[rows] > 0
        at = (start[rows, None] + spread * count[rows, None] // _SAMPLES)[some]
        sampled = np.zeros((len(some), _SAMPLES // 8), np.uint64)
        sampled[some] = data[at].view(np.uint64)
        keys[rows] = mixed(count[rows], *sampled.T)
    return keys
