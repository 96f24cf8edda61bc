"""Indices of two aligned lists as one set of numbers."""

from __future__ import annotations

import numpy as np

from circletools.diff.alignment import Alignment
from circletools.diff.correspondence import Numbering


def numbering(pairs: dict[int, int], before: int, after: int) -> Numbering:
    """Return the numbers of lists of these lengths."""
    ours, theirs = (np.array(list(side), np.int64) for side in (pairs.keys(), pairs.values()))
    return Numbering(Alignment(ours, theirs, np.zeros(len(pairs), np.bool_), (before, after)))


def test_partners_have_one_number_and_all_others_their_own() -> None:
    numbers = numbering({0: 2, 1: 0}, 3, 4)
    assert numbers.before(np.arange(-2, 5)).tolist() == [-2, -1, 0, 1, 2, 7, 8]
    assert numbers.after(np.arange(-2, 6)).tolist() == [-2, -1, 1, 4, 0, 6, 7, 8]


def test_lists_without_elements() -> None:
    assert numbering({}, 3, 0).after(np.arange(2)).tolist() == [3, 4]
    assert numbering({}, 0, 3).before(np.arange(2)).tolist() == [3, 4]
