"""Match the elements of two lists by keys, the most specific keys first.

First, equal elements at both ends are matched; next, elements whose key is unique on both sides and that keep their
order (patience diff); then the gaps between them, recursively. Less specific keys are tried on the remaining
elements. An element has moved if its specific key is unique on both sides but its position is out of order.

    before   a b c d e          a, d and e match at the ends, which leaves b, c and x;
    after    a c x b d e        c keeps its place, b has moved, x was added
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.model.keys import alone_in_both

Indices = NDArray[np.int64]
Keys = NDArray[Any]
Levels = Sequence[tuple[Keys, Keys]]
_Gap = tuple[Indices, Indices]

_ROUNDS = 32  # the maximum depth of recursion; real models need far less
_QUADRATIC = 1 << 20  # the maximum number of pairs of elements to compare by blunt keys


@dataclass(frozen=True, slots=True)
class Alignment:
    """The matched pairs, sorted by `before`; `moved` marks pairs out of order. `counts` holds the lists' lengths."""

    before: Indices
    after: Indices
    moved: NDArray[np.bool_]
    counts: tuple[int, int]


def align(levels: Levels, blunt: Levels = (), *, by_place: bool = False) -> Alignment:
    """Align two lists by their keys; each of `levels` holds the keys of both lists, the most specific level first.

    `blunt` keys are too vague to identify an element: they match elements within a gap, never moved ones. With
    `by_place`, the remaining elements of a gap are matched by position if both lists have the same number of them.
    """
    first, second = (len(keys) for keys in levels[0])
    partner, moved = np.full(first, -1, np.int64), np.zeros(first, np.bool_)
    gaps: list[_Gap] = [(np.arange(first), np.arange(second))]
    for keys in levels:
        gaps = [rest for gap in gaps for rest in _match(keys, gap, partner)]
        gaps = _find_moved(keys, gaps, partner, moved)
    for keys in blunt:
        gaps = [rest for gap in gaps for rest in _match(keys, gap, partner)]
        gaps = list(_match_exactly(keys, gaps, partner))
    for before, after in gaps if by_place else ():
        if len(before) == len(after):
            partner[before] = after
    found = np.flatnonzero(partner >= 0)
    return Alignment(found, partner[found], moved[found], (first, second))


def _match(keys: tuple[Keys, Keys], gap: _Gap, partner: Indices) -> list[_Gap]:
    """Pair the elements of a gap; return the gaps that remain."""
    pending, left = [gap], []
    for _ in range(_ROUNDS):
        split: list[_Gap] = []
        for before, after in pending:
            middle = _trim(keys, before, after, partner)
            anchors = _anchors(keys[0][middle[0]], keys[1][middle[1]])
            if len(anchors[0]):
                partner[middle[0][anchors[0]]] = middle[1][anchors[1]]
                split += _between(middle, anchors)
            else:
                left.append(middle)
        pending = [one for one in split if len(one[0]) and len(one[1])]
        left += [one for one in split if not (len(one[0]) and len(one[1]))]
        if not pending:
            break
    return [one for one in (*left, *pending) if len(one[0]) or len(one[1])]


def _trim(keys: tuple[Keys, Keys], before: Indices, after: Indices, partner: Indices) -> _Gap:
    """Pair equal elements at both ends; return the gap between them."""
    for step in (1, -1):
        old, new = before[::step], after[::step]
        length = min(len(old), len(new))
        unequal = keys[0][old[:length]] != keys[1][new[:length]]
        equal = int(unequal.argmax()) if unequal.any() else length
        partner[old[:equal]] = new[:equal]
        before, after = old[equal:][::step], new[equal:][::step]
    return before, after


def _anchors(before: Keys, after: Keys) -> tuple[Indices, Indices]:
    """Return the positions of the longest sequence of keys that are unique on both sides and in the same order."""
    old, new = alone_in_both(before, after)
    order = np.argsort(old)
    old, new = old[order], new[order]
    kept = _longest_ascent(new)
    return old[kept], new[kept]


def _longest_ascent(values: Indices) -> Indices:
    """Return the positions of a longest ascending subsequence of distinct numbers."""
    if (np.diff(values) > 0).all():
        return np.arange(len(values))
    ends: list[int] = []  # for each length, the smallest last value of such a subsequence
    places: list[int] = []
    previous = np.full(len(values), -1, np.int64)
    for place, value in enumerate(values.tolist()):
        length = bisect_left(ends, value)
        if length == len(ends):
            ends.append(value)
            places.append(place)
        else:
            ends[length], places[length] = value, place
        if length:
            previous[place] = places[length - 1]
    chain = []
    place = places[-1]
    while place >= 0:
        chain.append(place)
        place = int(previous[place])
    return np.array(chain[::-1], np.int64)


def _between(gap: _Gap, anchors: tuple[Indices, Indices]) -> Iterator[_Gap]:
    """Yield the non-empty gaps between anchors."""
    bounds = [np.concatenate(([-1], at, [len(side)])) for at, side in zip(anchors, gap, strict=True)]
    some = (np.diff(bounds[0]) > 1) | (np.diff(bounds[1]) > 1)
    for index in np.flatnonzero(some).tolist():
        before, after = (side[bound[index] + 1 : bound[index + 1]] for side, bound in zip(gap, bounds, strict=True))
        yield before, after


def _find_moved(keys: tuple[Keys, Keys], gaps: list[_Gap], partner: Indices, moved: NDArray[np.bool_]) -> list[_Gap]:
    """Pair the remaining elements whose keys are unique on both sides, wherever they are."""
    if not gaps:
        return gaps
    before, after = (np.concatenate([gap[side] for gap in gaps]) for side in (0, 1))
    old, new = alone_in_both(keys[0][before], keys[1][after])
    partner[before[old]] = after[new]
    moved[before[old]] = True
    taken = np.zeros(len(keys[1]), np.bool_)
    taken[after[new]] = True
    rest = [(old[partner[old] < 0], new[~taken[new]]) for old, new in gaps]
    return [gap for gap in rest if len(gap[0]) or len(gap[1])]


def _match_exactly(keys: tuple[Keys, Keys], gaps: list[_Gap], partner: Indices) -> Iterator[_Gap]:
    """Pair elements of small gaps by the matching blocks of their keys; leave large gaps unmatched."""
    budget = _QUADRATIC
    for before, after in gaps:
        cost = len(before) * len(after)
        if not 0 < cost <= budget:
            yield before, after
            continue
        budget -= cost
        matcher = SequenceMatcher(None, keys[0][before].tolist(), keys[1][after].tolist(), autojunk=False)
        at = (0, 0)
        for old, new, length in matcher.get_matching_blocks():
            partner[before[old : old + length]] = after[new : new + length]
            yield before[at[0] : old], after[at[1] : new]
            at = (old + length, new + length)
