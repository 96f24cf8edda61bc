"""Colour refinement (Weisfeiler-Lehman): operators of the same colour have equal properties and equal surroundings.

    round 0    the code, the size, the constants and the ends of an operator; a pair has a unique colour
    round n    mixed with the colours, in round n - 1, of its producers and readers, with the slots

After n rounds a colour represents everything within n steps. Two operators, one in each model, match if they alone
have their colour.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.graph.algorithms import Indices
from circletools.model.keys import further, mixed
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE
from circletools.origin.tracking.view import View, Views

DEPTH = 12  # rounds; deeper ones only distinguish long chains of equal operators, as ends and pairs also do

Colours = NDArray[np.uint64]


def gather(count: int, keys: Indices, colours: Colours) -> Colours:
    """Return the sum of the colours of each key."""
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, keys, colours)
    return sums


def histories(views: Views, pairs: Pairs, free: list[Indices], sizes: list[Indices]) -> list[list[Colours]]:
    """Return the colours of both models after 0, 1, 2, … rounds.

    They end once no `free` operators of the two models share a colour, as further rounds would not change that.
    """
    edges = [_Edges(view) for view in views]
    history = [[_first(views, pairs, sizes, side)] for side in (0, 1)]
    for _ in range(DEPTH):
        free = list(_in_common(free, [rounds[-1] for rounds in history]))
        if not all(map(len, free)):
            return [rounds[:-1] for rounds in history]
        for one, rounds in zip(edges, history, strict=True):
            rounds.append(one.refined(rounds[-1]))
    return history


def _in_common(free: list[Indices], colours: list[Colours]) -> Iterator[Indices]:
    own = [colour[rows] for rows, colour in zip(free, colours, strict=True)]
    for rows, mine, other in zip(free, own, reversed(own), strict=True):
        yield rows[np.isin(mine, other)]


class _Edges:
    """The edges between operators in a view."""

    def __init__(self, view: View) -> None:
        self.count = len(view)
        fed = view.giver != NONE
        self.ends = (view.reader[fed], view.giver[fed])
        pin = view.slot[fed] * 1024 + view.place[fed]
        self.pins = (mixed(pin, 1), mixed(pin, 2))

    def refined(self, colours: Colours) -> Colours:
        """Return the colours after one more round."""
        new = colours
        for near, far, pins in zip(self.ends, reversed(self.ends), self.pins, strict=True):
            new = further(new, gather(self.count, near, further(colours[far], pins)))
        return new


def _first(views: Views, pairs: Pairs, sizes: list[Indices], side: int) -> Colours:
    """Return the initial colour of each operator; the operators of a pair share a unique colour."""
    view, this = views[side], views[side].side
    value, reader, slot = (column[view.giver == NONE] for column in (view.read, view.reader, view.slot))
    given = np.zeros(len(view.value), np.int64)
    for number, pair in enumerate(pairs.inputs, 1):
        given[pair[side]] = number
    known = this.constant[value]
    shared = np.append(this.constants.shared, False)[known]
    kind = np.where(shared, known + 8, np.where(this.is_constant[value], 1, 0))
    read = gather(len(this), reader, mixed(kind, given[value], slot, 4))
    makers = this.graph.producer[view.value[np.array([pair[side] for pair in pairs.outputs], np.int64)]]
    made = gather(len(this), makers[makers != NONE], mixed(np.flatnonzero(makers != NONE), 5))
    colours = mixed(mixed(this.code, sizes[side], 3), read, made)
    paired = ~pairs.unpaired(side)
    identity = np.arange(len(this)) if side else pairs.to_after
    colours[paired] = mixed(identity[paired], 6)
    return colours
