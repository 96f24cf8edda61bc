"""Colours: numbers that are equal for operators that look alike, in themselves and in what is around them.

A colour starts from what the operator is; each round mixes in the colours of the operators that feed it and of those
that it feeds, with the slots, so that after n rounds it stands for all within n steps (colour refinement, also called
Weisfeiler-Lehman). An operator whose colour stands once in each model belongs to its like in the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.model.keys import further, mixed, spread
from circletools.origin.tracking.side import NONE, Indices, Side, View

Colours = NDArray[np.uint64]

_FED, _FEEDS = spread(1), spread(2)


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
        self._pin = spread(self.pin)
        self.count: int = len(side)

    def refine(self, colours: Colours) -> Colours:
        """Return the colours after one more round."""
        taker, own = self.taker[self.fed], mixed(colours)
        fed = gather(self.count, taker, further(further(own[self.giver], self._pin), _FED))
        feeds = gather(self.count, self.giver, further(further(own[taker], self._pin), _FEEDS))
        return further(further(own, spread(fed)), spread(feeds))
