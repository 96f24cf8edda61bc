"""Colours: numbers that are equal for operators that look alike, in themselves and in what is around them.

A colour starts from what the operator is; each round mixes in the colours of the operators that feed it and of those
that it feeds, with the slots, so that after n rounds it stands for all within n steps (colour refinement, also called
Weisfeiler-Lehman). An operator whose colour stands once in each model belongs to its like in the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.model.keys import mixed
from circletools.origin.tracking.side import NONE, Indices, Side, View

Colours = NDArray[np.uint64]


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
        self.taker: NDArray[np.int64] = side.inputs.operator[shown]
        self.slot: NDArray[np.int64] = side.inputs.position[shown]
        self.value: NDArray[np.int64] = view.value[side.inputs.tensor[shown]]
        made = np.zeros(len(side.producer), np.int64)
        made[side.outputs.tensor] = side.outputs.position
        producer = side.producer[self.value]
        self.fed = producer != NONE
        self.giver: NDArray[np.int64] = producer[self.fed]
        self.pin: NDArray[np.int64] = self.slot[self.fed] * 1024 + made[self.value][self.fed]
        self.count: int = len(side)

    def refine(self, colours: Colours) -> Colours:
        """Return the colours after one more round."""
        taker = self.taker[self.fed]
        fed = gather(self.count, taker, mixed(colours[self.giver], self.pin, 1))
        feeds = gather(self.count, self.giver, mixed(colours[taker], self.pin, 2))
        return mixed(colours, fed, feeds)
