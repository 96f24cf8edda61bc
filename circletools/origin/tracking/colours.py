"""Colours: numbers that are equal for operators that look alike, in themselves and in what is around them.

A colour starts from what the operator is; each round mixes in the colours of the operators that feed it and of those
that it feeds, with the slots, so that after n rounds it stands for all within n steps (colour refinement, also called
Weisfeiler-Lehman). An operator whose colour stands once in each model belongs to its like in the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.model.keys import lengthen, mixed
from circletools.origin.tracking.side import NONE, Indices, Side, View

Colours = NDArray[np.uint64]

_FED, _FEEDS = 1, 2


def gather(count: int, keys: Indices, colours: Colours) -> Colours:
    """Return the sum of the colours of each key."""
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, keys, colours)
    return sums


def alike(rows: list[Indices], colours: list[Colours]) -> list[Indices]:
    """Return those rows of two models whose colour a row of the other one has too."""
    own = [colour[row] for row, colour in zip(rows, colours, strict=True)]
    return [row[np.isin(mine, other)] for row, mine, other in zip(rows, own, reversed(own), strict=True)]


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
        self.fed_taker: NDArray[np.int64] = self.taker[self.fed]
        self.pin: NDArray[np.int64] = self.slot[self.fed] * 1024 + made[self.value][self.fed]
        self.count: int = len(side)
        self._pins: tuple[Colours, Colours] = (mixed(self.pin, _FED), mixed(self.pin, _FEEDS))
        # Room for what is at each edge and at each operator: to ask for it anew each time takes most of the time.
        self._at_edges: tuple[Colours, Colours] = (np.empty_like(self._pins[0]), np.empty_like(self._pins[0]))
        sums = np.empty(self.count, np.uint64)
        self._at_operators: tuple[Colours, Colours] = (sums, np.empty_like(sums))

    def refine(self, colours: Colours) -> Colours:
        """Return the colours after one more round."""
        sums, room = self._at_operators
        refined = colours.copy()
        ends = (self.fed_taker, self.giver)
        for near, far, pins in zip(ends, reversed(ends), self._pins, strict=True):
            self._gather(near, far, pins, colours)
            lengthen(refined, sums, room)
        return refined

    def _gather(self, near: Indices, far: Indices, pins: Colours, colours: Colours) -> None:
        """Put the sum over the edges of each operator into the room for operators."""
        others, room = self._at_edges
        sums = self._at_operators[0]
        np.take(colours, far, out=others, mode="clip")  # any other mode takes fresh memory; all are in range
        lengthen(others, pins, room)
        sums.fill(0)
        np.add.at(sums, near, others)
