"""Which element of one list belongs to which of another, and what that means for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.diff import alignment
from circletools.diff.alignment import Alignment, align

KEYS = st.lists(st.integers(0, 5), max_size=9)


def keys(text: Any) -> np.ndarray[Any, Any]:
    return np.array([ord(one) if isinstance(one, str) else one for one in text], np.int64)


def shown(found: Alignment) -> tuple[list[tuple[int, int]], list[int], list[int], list[int]]:
    """Return the pairs, and which of the first list moved, which were removed, and which of the second were added."""
    pairs = list(zip(found.before.tolist(), found.after.tolist(), strict=True))
    rest = (np.delete(np.arange(found.counts[at]), own) for at, own in enumerate((found.before, found.after)))
    return pairs, found.before[found.moved].tolist(), *(own.tolist() for own in rest)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", ([], [], [], [])),
        ("a", "", ([], [], [0], [])),
        ("", "a", ([], [], [], [0])),
        ("abc", "abc", ([(0, 0), (1, 1), (2, 2)], [], [], [])),
        ("abcde", "acxbde", ([(0, 0), (1, 3), (2, 1), (3, 4), (4, 5)], [1], [], [2])),
        ("ab", "ba", ([(0, 1), (1, 0)], [0], [], [])),
        ("abc", "cab", ([(0, 1), (1, 2), (2, 0)], [2], [], [])),
        ("aab", "ab", ([(0, 0), (2, 1)], [], [1], [])),
        ("ab", "aab", ([(0, 0), (1, 2)], [], [], [1])),
        ("aa", "a", ([(0, 0)], [], [1], [])),
        ("xaay", "zaaw", ([], [], [0, 1, 2, 3], [0, 1, 2, 3])),
        ("xby", "zbw", ([(1, 1)], [], [0, 2], [0, 2])),
        ("xbyb", "zbwb", ([(1, 1), (3, 3)], [], [0, 2], [0, 2])),
    ],
)
def test_small_alignments(before: str, after: str, expected: Any) -> None:
    assert shown(align([(keys(before), keys(after))])) == expected


def test_blunter_keys_take_what_is_left() -> None:
    sharp, names = (keys("abcd"), keys("axyd")), (keys("ABCD"), keys("ACBD"))
    assert shown(align([sharp])) == ([(0, 0), (3, 3)], [], [1, 2], [1, 2])
    assert shown(align([sharp, names])) == ([(0, 0), (1, 2), (2, 1), (3, 3)], [1], [], [])
    # With blunt keys nothing moves; what is alike in the same order belongs together, also where it is not unique.
    assert shown(align([sharp], [names])) == ([(0, 0), (2, 1), (3, 3)], [], [1], [2])
    repeated = (keys("11121"), keys("31141"))
    assert shown(align([(keys("abcde"), keys("vwxyz"))], [repeated])) == (
        [(0, 1), (1, 2), (4, 4)], [], [2, 3], [0, 3]
    )  # fmt: skip


def test_by_place_what_is_left_in_equal_numbers_belongs_together() -> None:
    pair = (keys("axyd"), keys("avwd"))
    assert shown(align([pair], by_place=True)) == ([(0, 0), (1, 1), (2, 2), (3, 3)], [], [], [])
    assert shown(align([pair])) == ([(0, 0), (3, 3)], [], [1, 2], [1, 2])
    assert shown(align([(keys("axyd"), keys("avd"))], by_place=True)) == ([(0, 0), (3, 2)], [], [1, 2], [1])


def test_elements_between_equal_ones_are_paired_by_position() -> None:
    def placed(before: str, after: str, first: str, second: str) -> Any:
        return shown(align([(keys(first), keys(second))], [(keys(before), keys(after))], by_place=True))

    assert placed("p11q", "r11s", "abcd", "efgh") == ([(0, 0), (1, 1), (2, 2), (3, 3)], [], [], [])
    assert placed("p11q", "rt11s", "abcd", "efghi") == ([(1, 2), (2, 3), (3, 4)], [], [0], [0, 1])
    assert placed("p11qv", "r11s", "abcde", "fghi") == ([(0, 0), (1, 1), (2, 2)], [], [3, 4], [3])
    # What has moved, here to the front, is no longer between the others.
    moved = align([(keys("abcx"), keys("caby"))], by_place=True)
    assert shown(moved) == ([(0, 1), (1, 2), (2, 0), (3, 3)], [2], [], [])


@given(KEYS, KEYS, KEYS, KEYS)
def test_any_alignment(first: list[int], second: list[int], third: list[int], fourth: list[int]) -> None:
    pads = (max(len(first), len(third)), max(len(second), len(fourth)))
    sharp = tuple(np.array(side + [9] * (pads[at] - len(side)), np.int64) for at, side in enumerate((first, second)))
    blunt = tuple(np.array(side + [9] * (pads[at] - len(side)), np.int64) for at, side in enumerate((third, fourth)))
    found = align([(sharp[0], sharp[1])], [(blunt[0], blunt[1])])
    pairs = list(zip(found.before.tolist(), found.after.tolist(), strict=True))
    assert found.counts == pads
    assert found.before.tolist() == sorted(set(found.before.tolist()))
    assert len(set(found.after.tolist())) == len(pairs)
    assert all(sharp[0][old] == sharp[1][new] or blunt[0][old] == blunt[1][new] for old, new in pairs)
    kept = found.after[~found.moved].tolist()
    assert kept == sorted(kept)
    assert all(sharp[0][old] == sharp[1][new] for old, new in zip(*(
        side[found.moved].tolist() for side in (found.before, found.after)), strict=True))  # fmt: skip
    rest = np.delete(sharp[0], found.before).tolist(), np.delete(sharp[1], found.after).tolist()
    assert not any(rest[0].count(key) == rest[1].count(key) == 1 == sharp[0].tolist().count(key) ==
                   sharp[1].tolist().count(key) for key in rest[0])  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "pairs"),
    [
        (8, [(3, 3)]),
        (9, [(0, 1), (1, 2), (3, 3)]),
        (17, [(0, 1), (1, 2), (3, 3)]),
        (18, [(0, 1), (1, 2), (3, 3), (4, 5), (5, 6)]),
    ],
)
def test_an_exact_alignment_is_made_as_long_as_it_is_cheap(
    budget: int, pairs: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gaps of three by three, on both sides of an element that is known."""
    monkeypatch.setattr(alignment, "_QUADRATIC", budget)
    blunt = keys("1120112"), keys("3110311")
    assert shown(align([(keys("abcXdef"), keys("ghiXjkl"))], [blunt]))[:2] == (pairs, [])
