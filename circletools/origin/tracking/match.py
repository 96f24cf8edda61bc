"""Pair corresponding operators along the graph: by ends, constants and colors, then outward from each pair.

Certain pairs come first, and each pair makes further pairs certain:

    1. the readers of the same input, and producers of the same output  x -> [CONV_2D]    [SOFTMAX] -> y
    2. the only holders of a constant that both models have             w -> [FULLY_CONNECTED]
    3. operators with a unique color in each model, the deepest first
    4. the producers and readers of each new pair, slot by slot

Colors are refined (Weisfeiler-Lehman), so that operators of the same color have equal properties and surroundings:

    round 0    the code, the size, the constants and the ends of an operator; a pair has a unique color
    round n    mixed with the colors, in round n - 1, of its producers and readers, with the slots
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from circletools.graph.algorithms import Indices
from circletools.model.keys import alone_in_both, further, mixed
from circletools.origin.tracking.view import NONE, Pairs, Side, View, Views

DEPTH = 12  # rounds; more would only distinguish long chains of equal operators, as ends and pairs do

Colors = NDArray[np.uint64]


def gather(count: int, keys: Indices, colors: Colors) -> Colors:
    """Return the sum of the colors of each key."""
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, keys, colors)
    return sums


def histories(views: Views, pairs: Pairs, free: list[Indices], sizes: list[Indices]) -> list[list[Colors]]:
    """Return the colors of both models after 0, 1, 2, … rounds.

    The rounds end once no `free` operators of the two models share a color: further rounds would not change that.
    """
    edges = [_edges(view) for view in views]
    history = [[_first(views, pairs, sizes, side)] for side in (0, 1)]
    for _ in range(DEPTH):
        own = [rounds[-1][rows] for rounds, rows in zip(history, free, strict=True)]
        free = [rows[np.isin(mine, other)] for rows, mine, other in zip(free, own, own[::-1], strict=True)]
        if not all(map(len, free)):
            return [rounds[:-1] for rounds in history]
        for one, rounds in zip(edges, history, strict=True):
            new = old = rounds[-1]
            for near, far, pins in one:
                new = further(new, gather(len(old), near, further(old[far], pins)))
            rounds.append(new)
    return history


def _edges(view: View) -> list[tuple[Indices, Indices, Colors]]:
    """Return the edges in both directions: the near and the far operators, and the colors of the slots."""
    fed = view.giver != NONE
    giver, reader, pin = view.giver[fed], view.reader[fed], view.slot[fed] * 1024 + view.place[fed]
    return [(reader, giver, mixed(pin, 1)), (giver, reader, mixed(pin, 2))]


def _first(views: Views, pairs: Pairs, sizes: list[Indices], side: int) -> Colors:
    """Return the initial color of each operator; the operators of a pair share a unique color."""
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
    colors = mixed(mixed(this.code, sizes[side], 3), read, made)
    paired = ~pairs.unpaired(side)
    identity = np.arange(len(this)) if side else pairs.to_after
    colors[paired] = mixed(identity[paired], 6)
    return colors


def match(views: Views, pairs: Pairs, sizes: list[Indices]) -> Pairs:
    """Return the pairs, and all further pairs that follow from them in these views.

    `sizes` holds a number for each operator; the numbers of two operators must agree if both are known.
    """
    if pairs.complete:
        return pairs
    search = Search(views, pairs, sizes)
    search.from_ends()
    search.by_constants()
    if all(map(len, search.free())):
        search.by_colors()
    return search.pairs


class Search:
    """The pairs during the search, as lists, since propagation visits one slot at a time."""

    def __init__(self, views: Views, pairs: Pairs, sizes: list[Indices]) -> None:
        self.views, self.start, self.sizes = views, pairs, sizes
        self.to_after, self.to_before = pairs.to_after.tolist(), pairs.to_before.tolist()
        self.hidden = [view.hidden.tolist() for view in views]
        self.codes = [view.side.code.tolist() for view in views]
        self.moving = [view.moving.tolist() for view in views]
        self.plain_sizes = [one.tolist() for one in sizes]
        self.fresh = deque(self._pairs_to_extend())

    def _pairs_to_extend(self) -> list[tuple[int, int]]:
        """Return the pairs that, in both models, have a neighbor without a partner."""
        old, new = (np.logical_or(*view.beside(self.start.unpaired(side))) for side, view in enumerate(self.views))
        news = np.flatnonzero(new & ~self.start.unpaired(1))
        news = news[old[self.start.to_before[news]]]
        return list(zip(self.start.to_before[news].tolist(), news.tolist(), strict=True))

    @property
    def pairs(self) -> Pairs:
        """The current pairs."""
        to_after, to_before = (np.array(row, np.int64) for row in (self.to_after, self.to_before))
        return replace(self.start, to_after=to_after, to_before=to_before)

    def free(self) -> list[Indices]:
        """Return the visible operators of each model that have no partner."""
        pairs = self.pairs
        return [np.flatnonzero(pairs.unpaired(side) & ~view.hidden) for side, view in enumerate(self.views)]

    def fits(self, old: int, new: int) -> bool:
        """Return whether two operators can correspond.

        They can if their codes, input counts and known sizes agree and, if both hold significant constants, share
        one.
        """
        if self.codes[0][old] != self.codes[1][new] or self.moving[0][old] != self.moving[1][new]:
            return False
        sizes = self.plain_sizes[0][old], self.plain_sizes[1][new]
        if sizes[0] != sizes[1] and 0 not in sizes:
            return False
        held = self.views[0].held.get(old), self.views[1].held.get(new)
        return held[0] is None or held[1] is None or not held[0].isdisjoint(held[1])

    def pair(self, old: int, new: int) -> None:
        """Pair two operators without partners, if they fit."""
        if NONE in (old, new) or self.to_after[old] != NONE or self.to_before[new] != NONE:
            return
        if not self.hidden[0][old] and not self.hidden[1][new] and self.fits(old, new):
            self.to_after[old], self.to_before[new] = new, old
            self.fresh.append((old, new))

    def spread(self) -> None:
        """Propagate every new pair along the graph to the operators it reads from, and to its readers."""
        was, now = self.views
        to_after, to_before = self.to_after, self.to_before
        while self.fresh:
            old, new = self.fresh.popleft()
            for (giver, place, _), (its, other, _) in zip(was.reads[old], now.reads[new], strict=False):
                if giver != NONE != its and place == other and to_after[giver] == NONE == to_before[its]:
                    self.pair(giver, its)
            for value, its in zip(was.made[old], now.made[new], strict=False):
                self.pair_readers(value, its)

    def pair_readers(self, old: int, new: int) -> None:
        """Pair the readers of two corresponding values, if each kind of reader occurs once."""
        kinds: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for side, value in enumerate((old, new)):
            partner = (self.to_after, self.to_before)[side]
            for operator, slot in self.views[side].readers[value]:
                if partner[operator] == NONE:
                    kinds.setdefault((self.codes[side][operator], slot), ([], []))[side].append(operator)
        for first, second in kinds.values():
            if len(first) == len(second) == 1:
                self.pair(first[0], second[0])

    def from_ends(self) -> None:
        """Start from the readers of inputs, the producers of outputs, and the existing pairs."""
        was, now = self.views
        for old, new in dict.fromkeys(self.start.inputs):
            self.pair_readers(int(was.value[old]), int(now.value[new]))
        for old, new in self.start.outputs:
            self.pair(int(was.side.graph.producer[was.value[old]]), int(now.side.graph.producer[now.value[new]]))
        self.spread()

    def by_constants(self) -> None:
        """Pair operators that hold a constant that no other operator of their model holds."""
        for number, olds in self.views[0].holders.items():
            news = self.views[1].holders.get(number, ())
            if len(olds) == len(news) == 1:
                self.pair(olds[0], news[0])
        self.spread()

    def by_colors(self) -> None:
        """Pair operators with unique colors, the deepest first."""
        history = histories(self.views, self.pairs, self.free(), self.sizes)
        for depth in reversed(range(1, len(history[0]))):  # round 0 reflects only an operator's own properties
            still = self.free()
            alone = alone_in_both(*(rounds[depth][rows] for rounds, rows in zip(history, still, strict=True)))
            for old, new in zip(*(rows[at].tolist() for rows, at in zip(still, alone, strict=True)), strict=True):
                self.pair(old, new)
            self.spread()


# --- pairs of operators by the names of output tensors, if the names can be trusted -------------------------------
# A tool that renumbers tensors gives old names to other tensors. So names count only if most operators with a common
# name have the same code, hold the same constants and are in the same place:
#
#     before   RELU a -> FULLY_CONNECTED c -> RELU b      the name `a` is now at the end, where RELU `b` was:
#     after    RELU b -> FULLY_CONNECTED c -> RELU a      `c` is evidence against `a` and `b`
#
# A neighbor with a common name is evidence for a pair if its partner is the other operator's neighbor, and
# otherwise against it. A neighbor without a partner is not evidence: a tool may have inserted it.


_HALF, _MOST = 0.5, 0.75  # required shares: of similar operators among those with equal names; of places that agree


def pair_by_name(views: Views, pairs: Pairs, sizes: list[Indices], *, tagged: bool, opaque: set[int]) -> Pairs:
    """Return the pairs, and new pairs of operators whose first outputs have the same name.

    Names that are tags are trusted. `opaque` holds the operators of AFTER that can contain many others.
    """
    names = [_operators_by_name(view.side) for view in views]
    common = [(names[0][name], new) for name, new in names[1].items() if name in names[0]]
    search = Search(views, pairs, [np.zeros(len(view), np.int64) for view in views])
    alike = [couple for couple in common if search.fits(*couple)]
    named = replace(pairs.added(alike), by_name=True)
    if tagged:
        return named
    if not alike or len(alike) < _HALF * sum(new not in opaque for _, new in common):
        return pairs
    total, agreeing = _places(views, named, sizes)
    if agreeing.sum() < _MOST * total.sum():
        return pairs
    return named.without(np.flatnonzero(~named.unpaired(1) & (total > 0) & (agreeing == 0)))


def _operators_by_name(side: Side) -> dict[bytes, int]:
    """Return operators by the name of their first output, for names that occur only once."""
    named = [(side.names[value], row) for row, value in enumerate(side.first) if value != NONE]
    counts = Counter(name for name, _ in named)
    return {name: row for name, row in named if name and counts[name] == 1}


def _places(views: Views, named: Pairs, sizes: list[Indices]) -> tuple[Indices, Indices]:
    """For each operator of AFTER, return how much evidence neighbors and size give, and how much of it agrees."""
    was, now = views
    news = np.flatnonzero(~named.unpaired(1)[now.reader])  # AFTER's slots with a counterpart, and BEFORE's
    starts, partner = np.searchsorted(was.reader, np.arange(len(was) + 1)), named.to_before[now.reader[news]]
    olds = starts[partner] + now.slot[news]
    news, olds = news[olds < starts[partner + 1]], olds[olds < starts[partner + 1]]
    partner, giver = np.append(named.to_after, NONE)[was.giver[olds]], now.giver[news]
    decided = (partner != NONE) & (giver != NONE) | np.isin(was.read[olds], [old for old, _ in named.inputs])
    decided &= ~np.append(named.unpaired(1), False)[giver]
    total, agreeing = np.zeros(len(now), np.int64), np.zeros(len(now), np.int64)
    for counts, chosen in ((total, decided), (agreeing, decided & (partner == giver))):
        for ends in (now.reader[news], partner):
            np.add.at(counts, ends[chosen & (ends != NONE)], 1)
    new = np.flatnonzero(~named.unpaired(1))
    before, after = sizes[0][named.to_before[new]], sizes[1][new]
    total[new] += (before != after) & (before > 0) & (after > 0)
    return total, agreeing
