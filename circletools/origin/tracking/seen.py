"""What a view shows of each operator: how many computed values it takes, and which telling constants it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from circletools.origin.tracking.constants import Classes
from circletools.origin.tracking.side import NONE, Indices, Side, View, main_inputs


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and by operator row how many inputs are no constants and which telling constants both models have.

    `holding` has the operators and these constants in two rows.
    """

    view: View
    computed: list[int]
    held: dict[int, frozenset[int]]
    holders: dict[int, list[int]]
    holding: Indices


def look(side: Side, shown: View, classes: Indices, known: Classes, near: Seen | None = None) -> Seen:
    """Return what a view shows; `classes` are those of this model's tensors, `known` those of both.

    Where the constants are those that were seen in a view `near`, they are taken over.
    """
    computed: list[int] = _computed(side, shown.value[side.inputs.tensor]).tolist()
    holding = _holding(side, shown, classes, known)
    if near is not None and np.array_equal(holding, near.holding):
        return Seen(shown, computed, near.held, near.holders, holding)
    held = _held(holding)
    return Seen(shown, computed, held, _holders(held), holding)


def _holders(held: dict[int, frozenset[int]]) -> dict[int, list[int]]:
    """Return the operators that hold each constant."""
    holders: dict[int, list[int]] = {}
    for operator, numbers in held.items():
        for number in numbers:
            holders.setdefault(number, []).append(operator)
    return holders


def _computed(side: Side, values: Indices) -> Indices:
    """Return how many of the inputs of each operator are no constants; `values` has the tensor of each."""
    moving = ~side.is_constant[values]
    return np.bincount(side.inputs.operator[moving], minlength=len(side))


def single(side: Side) -> NDArray[np.bool_]:
    """Say which operators make one value out of one that is no constant."""
    taken = _computed(side, side.inputs.tensor)
    made = np.bincount(side.outputs.operator, minlength=len(side))
    single: NDArray[np.bool_] = (taken == 1) & (made == 1) & (main_inputs(side) != NONE)
    return single


def _holding(side: Side, shown: View, classes: Indices, known: Classes) -> Indices:
    """Return operators and the constants they take that both models have and that are hardly equal by chance."""
    telling = np.append(known.shared & known.distinctive, False)
    values = shown.value[side.inputs.tensor]
    chosen = telling[classes[values]] & ~shown.hidden[side.inputs.operator]
    return np.stack([side.inputs.operator[chosen], classes[values[chosen]]])


def _held(holding: Indices) -> dict[int, frozenset[int]]:
    """Return these constants by operator."""
    held: dict[int, frozenset[int]] = {}
    for operator, number in zip(*holding.tolist(), strict=True):
        held[operator] = held.get(operator, frozenset()) | {number}
    return held
