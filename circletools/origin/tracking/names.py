"""Pair operators by the names of output tensors, if the names can be trusted.

A tool that renumbers tensors gives old names to other tensors. So names count only if most operators with a common
name have the same code, hold the same constants and are in the same place:

    before   RELU a -> FULLY_CONNECTED c -> RELU b      the name `a` is now at the end, where RELU `b` was:
    after    RELU b -> FULLY_CONNECTED c -> RELU a      `c` is evidence against `a` and `b`

A neighbour with a common name is evidence for a pair if its partner is the other operator's neighbour, and otherwise
against it. A neighbour without a partner is not evidence: a tool may have inserted it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from circletools.graph.algorithms import Indices
from circletools.origin.tracking.match import Search
from circletools.origin.tracking.view import NONE, Pairs, Side, Views

_HALF, _MOST = 0.5, 0.75  # required shares: of similar operators among equal names; of places that agree


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
    """For each operator of AFTER, return how much evidence neighbours and size give, and how much of it agrees."""
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
