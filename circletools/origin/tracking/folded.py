"""Whether what stood between two operators of BEFORE went into the constants of the one behind.

before   ADD -> MUL by a constant -> FULLY_CONNECTED      AFTER's FULLY_CONNECTED holds other constants,
after    ADD ----------------------> FULLY_CONNECTED      and ADD cannot hold the factor
"""

from __future__ import annotations

from circletools.origin.tracking.constants import CLOSE, SCALED
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE
from circletools.origin.tracking.view import Views


def is_changed(views: Views, pairs: Pairs, row: int) -> bool:
    """Say whether an operator of AFTER holds other constants than its partner; quantized ones are the same."""
    if pairs.to_before[row] == NONE:
        return False
    held: list[dict[int, int]] = []  # class -> tensor type
    for view, operator in zip(views, (int(pairs.to_before[row]), row), strict=True):
        classes, types = view.side.constant, view.side.graph.values.type_numbers
        held.append({int(classes[v]): int(types[v]) for *_, v in view.reads[operator] if classes[v] != NONE})
    how = views[0].side.constants.how
    return held[0].keys() != held[1].keys() or any(
        how[number] == SCALED or (how[number] == CLOSE and kind == held[1][number])
        for number, kind in held[0].items()
    )
