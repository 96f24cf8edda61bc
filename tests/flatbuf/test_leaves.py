"""Bytes of two files compared where they lie: lengths, pieces, many small rows at once."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import REPEATED_BYTES, Vectors, Wire
from circletools.flatbuf.comparison import differing_vectors, first_difference, first_differing_byte, same_bytes
from circletools.flatbuf.tables import align, vtable_bytes
from circletools.flatbuf.writer import data_alignment

PIECE = 1 << 20


def rows(*values: bytes, width: int = 1, at: tuple[int, ...] | None = None) -> Vectors:
    """Return one vector for each value, or the values at these places among them."""
    data = b"".join(values)
    starts = np.cumsum([0, *map(len, values)])[:-1]
    counts = np.array([len(value) // width for value in values])
    order = list(range(len(values)) if at is None else at)
    return Vectors(Wire(data or b"\0"), np.dtype(f"<u{width}"), starts[order], counts[order])


def differing(before: tuple[bytes, ...], after: tuple[bytes, ...], width: int = 1) -> list[bool]:
    found: list[Any] = differing_vectors(rows(*before, width=width), rows(*after, width=width)).tolist()
    return found


def test_rows_differ_by_length_or_by_any_byte() -> None:
    before = (b"same", b"", b"long", b"last", b"", b"first", b"x")
    after = (b"same", b"", b"longer", b"lasT", b"x", b"First", b"")
    assert differing(before, after) == [False, False, True, True, True, True, True]
    assert differing((), ()) == []
    assert differing((b"", b""), (b"", b"")) == [False, False]


def test_each_byte_counts_however_long_a_row_is() -> None:
    for size, width in product((4, 1020, 1024, 1028, PIECE, PIECE + 4, 2 * PIECE + 8), (1, 4)):
        value = bytes(size)
        for place in (0, size // 2, size - 1):
            other = bytes(place) + b"\1" + bytes(size - place - 1)
            assert differing((b"head", value, b"tail"), (b"head", other, b"tail"), width) == [False, True, False]
            vectors = rows(b"head", value, width=width), rows(b"head", other, width=width)
            assert first_difference(*vectors, 1) == place // width
            assert first_differing_byte(memoryview(value), memoryview(other)) == place
            assert not same_bytes(memoryview(value), memoryview(other))
        assert differing((value, value), (value, value), width) == [False, False]
        assert same_bytes(memoryview(value), memoryview(bytes(size)))
        assert not same_bytes(memoryview(value), memoryview(bytes(size + 1)))
        assert first_differing_byte(memoryview(value), memoryview(bytes(size + 1))) == size
        assert first_difference(rows(value, width=width), rows(value + bytes(width), width=width), 0) == size // width


def test_nan_is_the_same_as_itself() -> None:
    wire = Wire(np.array([1, np.nan, 2, 3], "<f4").tobytes())
    before, after = (Vectors(wire, np.dtype("<f4"), np.array([at]), np.array([2])) for at in (0, 8))
    assert first_difference(before, before, 0) == 2
    assert first_difference(before, after, 0) == 0


def test_rows_for_the_same_pair_agree() -> None:
    before = rows(b"aaaa", b"bbbb", at=(0, 1, 0, 1, 0))
    after = rows(b"aaaa", b"cccc", at=(0, 1, 1, 0, 0))
    assert differing_vectors(before, after).tolist() == [False, True, True, True, False]


def test_rows_that_overlap_too_much_are_refused() -> None:
    data = bytes(1 << 16)

    def vectors(count: int) -> Vectors:
        starts = np.arange(count, dtype=np.int64)
        return Vectors(Wire(data), np.dtype("u1"), starts, np.full(count, 1 << 15))

    most = (3 * len(data) + REPEATED_BYTES) >> 15
    assert not differing_vectors(vectors(most), vectors(most)).any()
    with pytest.raises(ModelFormatError, match=f"vectors total {(most + 1) << 15} bytes"):
        differing_vectors(vectors(most + 1), vectors(most + 1))
    same = Vectors(Wire(data), np.dtype("u1"), np.zeros(most + 1, np.int64), np.full(most + 1, 1 << 15))
    assert not differing_vectors(same, same).any()  # one pair
    with pytest.raises(ModelFormatError, match="vectors total"):
        differing_vectors(same, vectors(most + 1))


def test_a_vtable() -> None:
    assert vtable_bytes([], 4) == b"\4\0\4\0"
    assert vtable_bytes([(2, 8), (0, 4)], 9) == b"\x0a\0\x09\0\4\0\0\0\x08\0"
    assert vtable_bytes([(1, 300)], 304) == b"\x08\0\x30\1\0\0\x2c\1"


def test_alignment() -> None:
    assert [align(at, 8) for at in (0, 1, 7, 8, 9)] == [0, 8, 8, 8, 16]
    found = {size: data_alignment(size) for size in (0, 1, 3, 4, 7, 8, 15, 16, 1000)}
    assert found == {0: 1, 1: 1, 3: 1, 4: 4, 7: 4, 8: 8, 15: 8, 16: 16, 1000: 16}
