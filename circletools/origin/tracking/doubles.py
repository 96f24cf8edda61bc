"""Operators of one model that compute the same: of the same values, with the same code and constants.

before   FULLY_CONNECTED a -> RELU, TANH        a tool computes `a` once for each that takes it,
after    FULLY_CONNECTED a -> RELU              or once for both: all have its origin
         FULLY_CONNECTED b -> TANH
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from circletools.model.keys import further, mixed
from circletools.origin.tracking.colours import gather
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.side import NONE, Indices

_STEPS = 8


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
        known = {number: row for row, number in reversed(numbers.items()) if partners[row] != NONE}
        for row, number in numbers.items():
            if partners[row] == NONE and number in known:
                matcher.doubles[side][row] = known[number] if side == 0 else pairs.to_before[known[number]]
    for row, held in matcher.held[1].items():
        holders = {old for number in held for old in matcher.holders[0].get(number, ())}
        if pairs.to_before[row] == NONE and len(holders) == 1:
            (old,) = holders
            if pairs.to_after[old] != NONE and matcher.codes[0][old] != matcher.codes[1][row]:
                matcher.doubles[1].setdefault(row, old)


def _numbers(matcher: Matcher, side: int) -> dict[int, int]:
    """Return by row a number that operators have in common that compute the same; most others are left out."""
    this, shown, classes = matcher.sides[side], matcher.views[side], matcher.classes.numbers[side]
    sizes, codes = matcher.sizes[side].tolist(), matcher.codes[side].tolist()
    # What a slot takes: from 0 on what an operator makes, an even number below a constant, an odd one another value.
    values = np.arange(len(this.producer))
    bare = np.where(this.is_constant, -2 * classes - 4, -2 * values - 1)
    unlike = _unlike(matcher, side, bare)
    bare_of, sources_of, made_of = bare.tolist(), shown.sources, shown.made
    known: dict[Hashable, int] = {}
    shared: dict[int, int] = {}
    numbers: list[int] = [NONE] * (len(this) + 1)  # the last one is that of no operator, whose row is -1
    for row, alone in enumerate(unlike):
        if alone:
            numbers[row] = row
            continue
        takes = [
            number << 32 | place if (number := numbers[maker]) != NONE else bare_of[value]
            for maker, place, value in sources_of[row]
        ]
        numbers[row] = shared[row] = known.setdefault((codes[row], sizes[row], len(made_of[row]), *takes), row)
    return shared


def _unlike(matcher: Matcher, side: int, bare: Indices) -> list[bool]:
    """Say which operators cannot compute what another one does: they differ in what they are made of, a few steps up.

    Those that take nothing are like no other.
    """
    shown, count = matcher.views[side], len(matcher.sides[side])
    taker, maker, place, value = shown.slots
    slot = np.arange(len(taker)) - np.searchsorted(taker, taker)
    made = (maker != NONE) & (maker < taker)  # as it is numbered by then
    pins = mixed(slot, place * made, np.where(made, 0, bare[value]))
    colours = mixed(matcher.codes[side], matcher.sizes[side], shown.made_counts)
    alone = np.zeros(count, np.bool_)
    for _ in range(_STEPS):
        above = np.where(made, colours[maker], np.uint64(0))
        colours = further(colours, gather(count, taker, further(above, pins)))
    _, first, counts = np.unique(colours, return_index=True, return_counts=True)
    alone[first[counts == 1]] = True
    alone[np.bincount(taker, minlength=count) == 0] = True
    return alone.tolist()
