"""Operators of one model that compute the same: of the same values, with the same code and constants.

before   FULLY_CONNECTED a -> RELU, TANH        a tool computes `a` once for each that takes it,
after    FULLY_CONNECTED a -> RELU              or once for both: all have its origin
         FULLY_CONNECTED b -> TANH
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.side import NONE


def find_doubles(matcher: Matcher) -> None:
    """Enter the operators without a partner that compute what one with a partner does, of both models.

    Of AFTER's also those that hold a constant, hardly equal by chance, which one operator of BEFORE holds alone: its
    bias has got an operator of its own.
    """
    pairs = matcher.pairs
    for side, partners in enumerate(pairs.partners):
        if NONE not in partners:
            continue
        numbers = _numbers(matcher, side)
        known = {number: row for row, number in reversed(list(enumerate(numbers))) if partners[row] != NONE}
        for row, number in enumerate(numbers):
            if partners[row] == NONE and number in known:
                matcher.doubles[side][row] = known[number] if side == 0 else pairs.to_before[known[number]]
    for row, held in matcher.held[1].items():
        holders = {old for number in held for old in matcher.holders[0].get(number, ())}
        if pairs.to_before[row] == NONE and len(holders) == 1:
            (old,) = holders
            if pairs.to_after[old] != NONE and matcher.codes[0][old] != matcher.codes[1][row]:
                matcher.doubles[1].setdefault(row, old)


def _numbers(matcher: Matcher, side: int) -> list[int]:
    """Return for each operator a number that it has in common with those that compute the same."""
    this, shown, classes = matcher.sides[side], matcher.views[side], matcher.classes.numbers[side]
    sizes, codes = matcher.sizes[side].tolist(), matcher.codes[side].tolist()
    # What a slot takes: from 0 on what an operator makes, an even number below a constant, an odd one another value.
    values = np.arange(len(this.producer))
    bare = np.where(this.is_constant, -2 * classes - 4, -2 * values - 1).tolist()
    known: dict[Hashable, int] = {}
    numbers: list[int] = [NONE] * (len(this) + 1)  # the last one is that of no operator, whose row is -1
    for row, sources in enumerate(shown.sources):
        key: Hashable = row
        if sources:
            takes = [
                number << 32 | place if (number := numbers[maker]) != NONE else bare[value]
                for maker, place, value in sources
            ]
            key = (codes[row], sizes[row], len(shown.made[row]), *takes)
        numbers[row] = known.setdefault(key, len(known))
    return numbers[:-1]
