"""What stood behind an operator of BEFORE and is a part of that operator now.

    before   CONV_2D -> MUL -> ADD -> RELU      AFTER's constants are other ones, and it has an activation:
    after    CONV_2D (with RELU)                it does the work of all four

A sum or factor with a constant is in the weights and the bias, an activation in the options. Behind an operator
without weights, they are in those that read its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from circletools.origin.tracking.constants import CLOSE, SCALED
from circletools.origin.tracking.inserted import LAYOUT_OPS, PREPARING
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE
from circletools.origin.tracking.view import View, Views

ARITHMETIC = frozenset({"ADD", "SUB", "MUL", "DIV"})
WEIGHTED = frozenset({"CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
FUSING = ARITHMETIC | WEIGHTED | {
    "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONCATENATION", "L2_NORMALIZATION", "L2_POOL_2D", "MAX_POOL_2D", "SVDF",
}  # fmt: skip
"""Operators that have a bias or an activation of their own."""

_OF_INDICES = ("INT32", "INT64")


def _is_of_constants(was: View, row: int) -> bool:
    """Say whether an operator adds a constant, or multiplies by one."""
    return was.side.codes[row] in ARITHMETIC and int(was.moving[row]) == 1


def changed(views: Views, pairs: Pairs, row: int) -> bool:
    """Say whether an operator of AFTER holds other constants than its partner; quantized ones are the same."""
    held: list[dict[int, int]] = []  # class -> tensor type
    for view, operator in zip(views, (int(pairs.to_before[row]), row), strict=True):
        classes, types = view.side.constant, view.side.graph.values.type_numbers
        held.append({int(classes[v]): int(types[v]) for *_, v in view.reads[operator] if classes[v] != NONE})
    how = views[0].side.constants.how
    return held[0].keys() != held[1].keys() or any(
        how[number] == SCALED or (how[number] == CLOSE and kind == held[1][number])
        for number, kind in held[0].items()
    )


def is_linear(code: str) -> bool:
    """Say whether an operator can be folded into the constants of the one that reads its output."""
    return code in LAYOUT_OPS or code in PREPARING or code in ARITHMETIC or code == "NEG"


def is_behind(
    views: Views, pairs: Pairs, rows: Sequence[int], feeder: int, takers: Sequence[int], opaque: set[int]
) -> bool:
    """Say whether linear operators of BEFORE went into those of AFTER that took their result, not into the feeder.

    Then these hold other constants. They hold the same where the factors were all one and the summands zero, as in a
    norm that was not trained; so it also counts that the feeder has no constants to fold them into.
    """
    now = views[1]
    if _is_changed(views, pairs, feeder):
        return False
    if any(_is_changed(views, pairs, row) for row in takers):
        return True
    arithmetic = [row for row in rows if views[0].side.codes[row] in ARITHMETIC]
    constant = bool(arithmetic) and all(_is_of_constants(views[0], row) for row in arithmetic)
    weighted = bool(takers) and all(now.side.codes[row] in WEIGHTED and _holds_numbers(now, row) for row in takers)
    return constant and weighted and feeder not in opaque and not _holds_numbers(now, feeder)


def _is_changed(views: Views, pairs: Pairs, row: int) -> bool:
    return bool(pairs.to_before[row] != NONE) and changed(views, pairs, row)


def _holds_numbers(now: View, row: int) -> bool:
    """Say whether an operator of AFTER reads a constant that is no shape, axis or index; a bias never comes alone."""
    types = now.side.graph.values.types
    return any(now.side.is_constant[value] and types[value] not in _OF_INDICES for *_, value in now.reads[row])
