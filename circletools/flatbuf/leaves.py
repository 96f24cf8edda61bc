"""Compare strings and vectors of numbers in two files byte by byte, without copying them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors

_SMALL_BYTES = 1 << 10  # vectors up to this length are compared in batches
_CHUNK_BYTES = 1 << 20


def differing_vectors(before: Vectors, after: Vectors) -> NDArray[np.bool_]:
    """Return the rows in which the bytes differ; a pair that occurs in several rows is compared once.

    Raises ModelFormatError if rows overlap so much that the comparison would exceed the budget.
    """
    width = before.dtype.itemsize
    differs: NDArray[np.bool_] = before.count != after.count
    rows = np.flatnonzero(~differs & (before.count > 0))
    ends = before.start[rows] << 32 | after.start[rows]  # positions have 31 bits
    _, distinct, back = np.unique(ends, return_index=True, return_inverse=True)
    rows, every = rows[distinct], rows
    old, new = (_bytes_of(vectors, rows).check_total() for vectors in (before, after))
    unequal = np.zeros(len(rows), np.bool_)
    small = before.count[rows] * width <= _SMALL_BYTES
    unequal[small] = _small(*(_bytes_of(vectors, rows[small]) for vectors in (before, after)))
    for row in np.flatnonzero(~small).tolist():
        unequal[row] = first_difference(old, new, row) < old.count[row]
    differs[every] = unequal[back]
    return differs


def _bytes_of(vectors: Vectors, rows: NDArray[np.int64]) -> Vectors:
    bytes_each = vectors.count[rows] * vectors.dtype.itemsize
    return Vectors(vectors.wire, np.dtype("u1"), vectors.start[rows], bytes_each, vectors.what)


def _small(before: Vectors, after: Vectors) -> NDArray[np.bool_]:
    """Compare rows of equal, non-zero lengths."""
    if not len(before.count):
        return np.zeros(0, np.bool_)
    unequal: NDArray[np.bool_] = np.logical_or.reduceat(before.flat() != after.flat(), before.splits()[:-1])
    return unequal


def same_bytes(before: memoryview, after: memoryview) -> bool:
    """Return whether two ranges hold the same bytes, without copying them."""
    return len(before) == len(after) == first_differing_byte(before, after)


def first_difference(before: Vectors, after: Vectors, row: int) -> int:
    """Return the index of the first element that differs, or the length of the shorter vector."""
    return _first(before.row(row), after.row(row))


def first_differing_byte(before: memoryview, after: memoryview) -> int:
    """Return the first position at which the bytes differ, or the length of the shorter range."""
    return _first(np.frombuffer(before, np.uint8), np.frombuffer(after, np.uint8))


def _first(before: NDArray[Any], after: NDArray[Any]) -> int:
    length, step = min(len(before), len(after)), _CHUNK_BYTES // before.itemsize
    bits = np.dtype(f"u{before.itemsize}")  # compared as bits, so that NaN equals itself
    for at in range(0, length, step):
        end = min(at + step, length)
        unequal = before[at:end].view(bits) != after[at:end].view(bits)
        if unequal.any():
            return at + int(unequal.argmax())
    return length
