"""Agreement between the neighbourhoods of paired operators: scores, and removal of unlikely pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from circletools.graph.algorithms import Indices, components
from circletools.graph.columns import Mask
from circletools.origin.tracking.ends import cut_ends
from circletools.origin.tracking.evidence import Evidence, evidence_of
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import CONVERSIONS, NONE
from circletools.origin.tracking.view import Views, same_slots

Shares = NDArray[np.float64]

_LEAST = 1 / 3
_ROUNDS = 3


def agreement(views: Views, pairs: Pairs, opaque: set[int]) -> Shares:
    """Return for each paired operator of AFTER how much of the two neighbourhoods agrees, from 0 to 1.

    This is the share of its input slots, and of the slots that read its results, whose other ends are paired too, or
    are the same constant or end. Neighbours that were cut off, and neighbours of `opaque` operators, do not count; if
    both operators have a neighbour without a partner, that counts as a disagreement.
    """
    was, now = views
    count = len(now)
    paired = ~pairs.unpaired(1)
    agreeing, total = np.zeros(count), np.zeros(count)
    is_opaque = np.zeros(count + 1, np.bool_)
    is_opaque[list(opaque)] = True
    cut_inputs, cut_outputs = (np.isin(np.arange(len(now.value)), list(cut)) for cut in cut_ends(now, pairs))
    news, olds, more = same_slots(views, pairs)
    swallowed = is_opaque[now.giver[news]] & (np.append(pairs.to_after, NONE)[was.giver[olds]] == NONE)
    decided = (was.giver[olds] == NONE) | ~(cut_inputs[now.read[news]] | swallowed)
    same = same_reads(views, pairs, olds, news)
    np.add.at(total, now.reader[news[decided]], 1)
    np.add.at(agreeing, now.reader[news[decided & same]], 1)
    # Slots that only one of the two has: a constant, such as a bias, may have been added or removed.
    np.add.at(total, now.reader[more[~now.side.is_constant[now.read[more]]]], 1)
    mine, lengths = pairs.to_after[was.reader], np.bincount(now.reader, minlength=count + 1)
    extra = (mine != NONE) & (was.slot >= lengths[mine]) & ~was.side.is_constant[was.read]
    np.add.at(total, mine[extra], 1)
    # Slots that read their results.
    made = now.giver[news[same]]
    np.add.at(agreeing, made[made != NONE], 1)
    readers = ~is_opaque[now.reader] & (now.giver != NONE)
    of_new = np.bincount(now.giver[readers], minlength=count)
    beside_opaque, cut = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    beside_opaque[now.giver[is_opaque[now.reader] & (now.giver != NONE)]] = True
    producers = now.side.graph.producer[np.flatnonzero(cut_outputs)]
    cut[producers[producers != NONE]] = True
    giver = np.append(pairs.to_after, NONE)[was.giver]
    gone = (giver == NONE) | (np.append(beside_opaque, False)[giver] & (pairs.to_after[was.reader] == NONE))
    of_old = np.bincount(giver[~gone], minlength=count)
    total += np.where(cut, of_new, np.maximum(of_new, of_old))
    _count_outputs(views, pairs, agreeing, total)
    for old, new in zip(*(_beside_the_lost(views, pairs, side, opaque) for side in (0, 1)), strict=True):
        total[paired] += old[pairs.to_before[paired]] & new[paired]
    return np.where(total > 0, np.minimum(agreeing / np.maximum(total, 1), 1.0), 1.0) * paired


def same_reads(views: Views, pairs: Pairs, olds: Indices, news: Indices) -> Mask:
    """Return whether slots of BEFORE and AFTER read the same value."""
    was, now = views
    giver = np.append(pairs.to_after, NONE)[was.giver[olds]]
    computed = (giver != NONE) & (giver == now.giver[news]) & (was.place[olds] == now.place[news])
    values = was.read[olds], now.read[news]
    classes = was.side.constant[values[0]], now.side.constant[values[1]]
    distinctive = np.append(was.side.constants.distinctive, True)  # values that are not constants have class -1
    equal = (classes[0] == classes[1]) | ~(distinctive[classes[0]] | distinctive[classes[1]])
    partner = np.arange(len(was.value))
    ends = np.array(pairs.inputs, np.int64).reshape(-1, 2)
    partner[ends[:, 0]] = ends[:, 1]
    given = np.where((classes[0] == NONE) & (classes[1] == NONE), partner[values[0]] == values[1], equal)
    bare = (was.giver[olds] == NONE) & (now.giver[news] == NONE)
    same: Mask = np.where(bare, given, computed)
    return same


def _count_outputs(views: Views, pairs: Pairs, agreeing: Shares, total: Shares) -> None:
    """Count the outputs of paired operators: those of one pair agree."""
    counts = (Counter[int](), Counter[int]())
    for ends in pairs.outputs:
        makers = [int(view.side.graph.producer[view.value[end]]) for view, end in zip(views, ends, strict=True)]
        old = int(pairs.to_after[makers[0]]) if makers[0] != NONE else NONE
        counts[0][old] += 1
        counts[1][makers[1]] += 1
        if old == makers[1] != NONE:
            agreeing[old] += 1
    for row in (counts[0].keys() | counts[1].keys()) - {NONE}:
        total[row] += max(counts[0][row], counts[1][row])


def _beside_the_lost(views: Views, pairs: Pairs, side: int, opaque: set[int]) -> tuple[Mask, Mask]:
    """Return which operators have an unpaired producer, and which an unpaired reader, that is not a conversion."""
    view = views[side]
    lost = pairs.unpaired(side) & ~view.side.is_any(CONVERSIONS)
    lost[list(opaque) if side else []] = False
    return view.beside(lost)


def drop_the_unlikely(views: Views, pairs: Pairs, opaque: set[int], tags: frozenset[bytes]) -> Pairs:
    """Return the pairs without those that rest only on position and whose neighbourhoods disagree."""
    for _ in range(_ROUNDS):
        evidence = evidence_of(views, pairs, tags)
        weak = ~pairs.unpaired(1) & (agreement(views, pairs, opaque) <= _LEAST)
        weak &= np.array([one is Evidence.POSITION for one in evidence], np.bool_)
        if not weak.any():
            break
        pairs = pairs.without(np.flatnonzero(weak))
    return pairs


def drop_the_disconnected(views: Views, pairs: Pairs) -> Pairs:
    """Return the pairs without parts of AFTER that fit in several places of BEFORE.

    A part cut out of a network with repetition, such as an unrolled LSTM with its tied weights, fits in several
    places: an end, a name, a constant, or an operator with a unique code must fix the place of each part.
    """
    now = views[1]
    paired = ~pairs.unpaired(1)
    if not pairs.unpaired(0).any() or not any(cut_ends(now, pairs)):
        return pairs
    linked = (now.giver != NONE) & paired[now.reader] & np.append(paired, False)[now.giver]
    part = np.array(components(len(now), now.reader[linked].tolist(), now.giver[linked].tolist()), np.int64)
    held = np.array([one is not Evidence.POSITION for one in evidence_of(views, pairs, frozenset())], np.bool_)
    held[[reader for _, new in pairs.inputs for reader, _ in now.readers[int(now.value[new])]]] = True
    makers = now.side.graph.producer[now.value[[new for _, new in pairs.outputs]]]
    held[makers[makers != NONE]] = True
    codes = [view.side.code for view in views]
    counts = [np.bincount(code, minlength=1 + max(own.max(initial=0) for own in codes)) for code in codes]
    held |= (counts[0] == 1)[codes[1]] & (counts[1] == 1)[codes[1]]
    return pairs.without(np.flatnonzero(paired & ~np.isin(part, part[held & paired])))
