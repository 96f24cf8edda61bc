"""Finds operators of one model that compute the same: same inputs, code and constants.

    before   FULLY_CONNECTED a -> RELU, TANH        a tool computes `a` once for each reader,
    after    FULLY_CONNECTED a -> RELU              or once for both: all have its origin
             FULLY_CONNECTED b -> TANH

They are found by value numbering, as compilers find common subexpressions: each operator, in order, is keyed by the
numbers of its inputs.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE
from circletools.origin.tracking.view import View, Views


def twins_of(views: Views, pairs: Pairs) -> dict[int, int]:
    """Return BEFORE's unpaired operators -> a paired operator that computes the same."""
    return _same(views[0], pairs.to_after)


def copies_of(views: Views, pairs: Pairs) -> dict[int, int]:
    """Return AFTER's unpaired operators -> the operator of BEFORE that they compute again."""
    return {copy: int(pairs.to_before[row]) for copy, row in _same(views[1], pairs.to_before).items()}


def _same(view: View, partner: np.ndarray) -> dict[int, int]:
    if not (partner == NONE).any():
        return {}
    # A key for the input of a slot: the number of the operator that makes it, or the class of a constant.
    constant, is_constant = view.side.constant.tolist(), view.side.is_constant.tolist()
    codes, known = view.side.code.tolist(), dict[Hashable, int]()
    number: list[int] = list(range(len(view)))
    done = [False] * len(view)
    paired = (partner != NONE).tolist()
    found: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for row in range(len(view)):
        done[row] = True
        reads = view.reads[row]
        if not reads or view.hidden[row]:
            continue
        key = (
            codes[row],
            *(
                (number[giver], place)
                if giver != NONE and done[giver]
                else (NONE, constant[value] if is_constant[value] else ~value)
                for giver, place, value in reads
            ),
        )
        number[row] = known.setdefault(key, row)
        groups.setdefault(number[row], []).append(row)
    for rows in groups.values():
        first = next((row for row in rows if paired[row]), NONE)
        if len(rows) > 1 and first != NONE:
            found |= {row: first for row in rows if not paired[row]}
    return found
