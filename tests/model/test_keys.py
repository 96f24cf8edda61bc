"""Numbers that stand for things: equal for equal things, different for others, and those of the plain definition."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from circletools.model.keys import Interning, alone_in_both, mixed, row_keys, sample_keys

ALL = 2**64 - 1


def scramble(value: int) -> int:
    """Return the next output of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators)."""
    value = (value + 0x9E3779B97F4A7C15) & ALL
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & ALL
    value = (value ^ value >> 27) * 0x94D049BB133111EB & ALL
    return value ^ value >> 31


def mix(*values: int) -> int:
    key = 0
    for value in values:
        key = scramble((key * 31 + scramble(value & ALL)) & ALL)
    return key


def test_the_reference_is_splitmix64() -> None:
    assert [scramble(0), scramble(0x9E3779B97F4A7C15)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_distinct_values_have_distinct_numbers() -> None:
    numbers = Interning()
    assert numbers.keys(["a", "b", "a", ("c", 1)]).tolist() == [0, 1, 0, 2]
    assert numbers.keys([("c", 1), 7, "b"]).tolist() == [2, 3, 1]
    assert numbers.keys([]).tolist() == []


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64])
def test_mixed_columns(dtype: Any) -> None:
    first: NDArray[Any] = np.array([0, 1, 100], dtype)
    second: NDArray[Any] = np.array([7, 7, 0], dtype)
    assert mixed(first, 5, second).tolist() == [mix(int(a), 5, int(b)) for a, b in zip(first, second, strict=True)]
    assert mixed(first).tolist() == [mix(int(a)) for a in first]


def test_negative_and_large_numbers_are_their_64_bits() -> None:
    assert mixed(np.array([-1], np.int8)).tolist() == mixed(np.array([ALL], np.uint64)).tolist() == [mix(ALL)]


def test_rows_are_distinguished_by_elements_and_their_order() -> None:
    rows = [[], [1], [2], [1, 2], [2, 1], [1, 2, 0], [1, 2]]
    keys = row_keys(np.concatenate(rows).astype(np.int64), np.array([len(row) for row in rows])).tolist()
    assert keys == [
        mix(sum(mix(element, place) for place, element in enumerate(row)) & ALL, len(row)) for row in rows
    ]
    assert keys[3] == keys[6]
    assert len(set(keys)) == len(rows) - 1


def test_ranges_of_bytes_are_distinguished_by_length_and_samples() -> None:
    data = np.random.default_rng(1).integers(0, 256, 5000).astype(np.uint8)
    edges = [0, 0, 1, 65, 129, 5000]
    start, count = np.array(edges[:-1]), np.diff(edges)
    wanted = []
    for first, stop in pairwise(edges):
        size = stop - first
        sampled = bytes(data[[first + number * size // 64 for number in range(64)]]) if size else bytes(64)
        wanted.append(mix(size, *(int.from_bytes(sampled[at : at + 8], "little") for at in range(0, 64, 8))))
    assert sample_keys(data, start, count).tolist() == wanted


def test_many_ranges_have_the_keys_of_few() -> None:
    data = np.arange(64, dtype=np.uint8)
    start = np.arange(40_000) % 60
    count = np.full(len(start), 4)
    keys = sample_keys(data, start, count)
    assert (keys == np.tile(keys[:60], 667)[: len(keys)]).all()
    assert len(np.unique(keys)) == 60
    assert keys[:60].tolist() == [sample_keys(data, start[at : at + 1], count[:1])[0] for at in range(60)]


KEYS = st.lists(st.integers(0, 6), max_size=8)


@given(KEYS, KEYS)
def test_keys_that_are_unique_on_both_sides(before: list[int], after: list[int]) -> None:
    old, new = alone_in_both(np.array(before, np.int64), np.array(after, np.int64))
    alone = [key for key in range(7) if before.count(key) == after.count(key) == 1]
    assert old.tolist() == [before.index(key) for key in alone]
    assert new.tolist() == [after.index(key) for key in alone]
