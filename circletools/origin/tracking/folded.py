"""What stood behind an operator of BEFORE and is a part of that operator now.

    before   CONV_2D -> MUL -> ADD -> RELU      AFTER's constants are other ones, and it has an activation:
    after    CONV_2D (with RELU)                it does the work of all four

A sum or factor with a constant is in the weights and the bias, an activation in the options. Behind an
operator without weights, they are in those that take their result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.model.options import options_of
from circletools.origin.tracking.constants import CLOSE, SCALED
from circletools.origin.tracking.match import Matcher, fed_and_feeding
from circletools.origin.tracking.side import NONE, Side

ARITHMETIC = frozenset({"ADD", "SUB", "MUL", "DIV"})
WEIGHTED = frozenset({"CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
_OF_INDICES = ("INT32", "INT64")


def find_folded(matcher: Matcher) -> None:
    """Enter the operators of BEFORE that an operator with a partner took in, among the doubles of that one."""
    if NONE not in matcher.pairs.to_after:
        return
    outputs = {int(matcher.views[0].value[old]) for old, _ in matcher.anchors.outputs}
    activations = [_activations(side) for side in matcher.sides]
    lonely = matcher.pairs.lonely(0)
    _, feeding = fed_and_feeding(lonely, *matcher.views[0].slots[1::-1])
    for old in np.flatnonzero(feeding & ~lonely).tolist():
        new = matcher.pairs.to_after[old]
        row, is_changed = _only_taker(matcher, old, outputs), None
        while row != NONE and _is_of_constants(matcher, row):
            if is_changed is None:
                is_changed = changed(matcher, new)
            if not is_changed:
                break
            matcher.doubles[0][row] = old
            row = _only_taker(matcher, row, outputs)
        fused = activations[1][new]
        if row != NONE and activations[0][old] == "NONE" and fused == matcher.before.codes[row]:
            matcher.doubles[0][row] = old


def _only_taker(matcher: Matcher, row: int, outputs: set[int]) -> int:
    """Return the operator without a partner that alone takes what an operator makes, which is no output; or -1."""
    shown = matcher.views[0]
    takers = [taker for value in shown.made[row] for taker, _ in shown.takers.get(value, ())]
    alone = len(takers) == len(shown.made[row]) == 1 and matcher.pairs.to_after[takers[0]] == NONE
    free = alone and takers[0] not in matcher.doubles[0] and outputs.isdisjoint(shown.made[row])
    return takers[0] if free else NONE


def _is_of_constants(matcher: Matcher, row: int) -> bool:
    """Say whether an operator adds a constant, or multiplies by one."""
    return matcher.before.codes[row] in ARITHMETIC and matcher.computed[0][row] == 1


def _activations(side: Side) -> list[str]:
    """Return the activation that each operator has fused into it."""
    names = side.model.schema.enums["ActivationFunctionType"]
    numbers = options_of(side.model.operator_columns.tables, "fused_activation_function", side.model.schema)
    return [names.get(number, "") for number in numbers.astype(int).tolist()]


def changed(matcher: Matcher, row: int) -> bool:
    """Say whether an operator of AFTER holds other constants than its partner; quantized ones are the same."""
    held: list[dict[int, int]] = []  # class -> tensor type
    for side, operator in enumerate((matcher.pairs.to_before[row], row)):
        classes, types = matcher.classes.numbers[side], matcher.sides[side].model.tensor_columns.types
        tensors = [value for producer, _, value in matcher.views[side].sources[operator] if producer == NONE]
        held.append({int(classes[tensor]): int(types[tensor]) for tensor in tensors if classes[tensor] != NONE})
    return held[0].keys() != held[1].keys() or any(
        matcher.classes.how[number] == SCALED or (matcher.classes.how[number] == CLOSE and kind == held[1][number])
        for number, kind in held[0].items()
    )


def is_behind(matcher: Matcher, rows: Sequence[int], feeder: int, takers: Sequence[int]) -> bool:
    """Say whether linear operators of BEFORE went into those of AFTER that took their result, not into the feeder.

    Then these hold other constants. They hold the same where the factors were all one and the summands zero, as in a
    norm that was not trained; so it also counts that the feeder has no constants to fold them into.
    """
    if changed(matcher, feeder):
        return False
    if any(changed(matcher, row) for row in takers):
        return True
    of_constants = [_is_of_constants(matcher, row) for row in rows if matcher.before.codes[row] in ARITHMETIC]
    weighted = bool(takers) and all(_weights(matcher, row) for row in takers)
    bare = feeder not in matcher.opaque() and not _holds_numbers(matcher, feeder)
    return bool(of_constants) and all(of_constants) and weighted and bare


def _weights(matcher: Matcher, row: int) -> bool:
    return matcher.after.codes[row] in WEIGHTED and _holds_numbers(matcher, row)


def _holds_numbers(matcher: Matcher, row: int) -> bool:
    """Say whether an operator of AFTER takes a constant that is no shape, axis or index; a bias never comes alone."""
    side = matcher.after
    names, types = side.model.schema.enums["TensorType"], side.model.tensor_columns.types
    constants = (value for _, _, value in matcher.views[1].sources[row] if side.is_constant[value])
    return any(names.get(int(types[value])) not in _OF_INDICES for value in constants)
