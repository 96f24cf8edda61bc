"""Colours: numbers that are equal for operators that look alike, in themselves and in what is around them.

A colour starts from what the operator is; each round mixes in the colours of the operators that feed it and of those
that it feeds, with the slots, so that after n rounds it stands for all within n steps (colour refinement, also called
Weisfeiler-Lehman). An operator whose colour stands once in each model belongs to its like in the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.origin.tracking.side import NONE, Indices, Side, View

Colours = NDArray[np.uint64]

_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(*parts: Any) -> Colours:
    """Return one number for several, column by column; the order matters (the finalizer of splitmix64)."""
    mixed = np.zeros(1, np.uint64)
    for part in parts:
        mixed = (mixed + np.asarray(part).astype(np.int64).view(np.uint64)) * _A + _C
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _B
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _C
        mixed ^= mixed >> np.uint64(31)
    return mixed


def gather(count: int, keys: Indices, colours: Colours) -> Colours:
    """Return the sum of the colours of each key."""
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, keys, colours)
    return sums


class Edges:
    """Who feeds whom in a view, as arrays."""

    def __init__(self, side: Side, view: View) -> None:
        """Look at the slots of the operators that are shown."""
        shown = ~view.hidden[side.inputs.operator]
        self.taker = side.inputs.operator[shown]
        self.slot = side.inputs.position[shown]
        self.value = view.value[side.inputs.tensor[shown]]
        made = np.zeros(len(side.producer), np.int64)
        made[side.outputs.tensor] = side.outputs.position
        producer = side.producer[self.value]
        self.fed = producer != NONE
        self.giver = producer[self.fed]
        self.pin = self.slot[self.fed] * 1024 + made[self.value][self.fed]
        self.count = len(side)

    def refine(self, colours: Colours) -> Colours:
        """Return the colours after one more round."""
        taker = self.taker[self.fed]
        fed = gather(self.count, taker, mix(colours[self.giver].view(np.int64), self.pin, 1))
        feeds = gather(self.count, self.giver, mix(colours[taker].view(np.int64), self.pin, 2))
        return mix(colours.view(np.int64), fed.view(np.int64), feeds.view(np.int64))


def alone_in_both(before: Colours, after: Colours) -> tuple[Indices, Indices]:
    """Return the positions in either model of the colours that stand exactly once in each."""
    old, old_at, old_count = np.unique(before, return_index=True, return_counts=True)
    new, new_at, new_count = np.unique(after, return_index=True, return_counts=True)
    old, old_at = old[old_count == 1], old_at[old_count == 1]
    new, new_at = new[new_count == 1], new_at[new_count == 1]
    _, from_old, from_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    return old_at[from_old], new_at[from_new]
