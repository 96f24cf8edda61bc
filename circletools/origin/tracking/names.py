"""Pairs operators by the names of output tensors, if the names can be trusted.

A tool that renumbers tensors gives old names to other tensors. So names count only if most operators with a common
name have the same code, hold the same constants and are in the same place:

    before   RELU a -> FULLY_CONNECTED c -> RELU b      the name `a` is now at the end, where RELU `b` was:
    after    RELU b -> FULLY_CONNECTED c -> RELU a      `c` is evidence against `a` and `b`

A neighbour with a common name is evidence for a pair if its partner is the other operator's neighbour, and otherwise
against it. A neighbour with another code and without a partner is no evidence: a tool may have inserted it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask
from circletools.origin.tracking.agreement import same_reads
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE, Side
from circletools.origin.tracking.view import Views, same_slots

_HALF, _MOST = 0.5, 0.75  # among equal names: the share with one code; of constants and places: the share that agrees


def pair_by_name(views: Views, pairs: Pairs, sizes: list[Indices], *, tagged: bool, opaque: set[int]) -> Pairs:
    """Return the pairs with operators added whose first outputs have the same name.

    Names that are tags are trusted. `opaque` are operators of AFTER that can hold many operators.
    """
    names = [_operators_by_name(view.side) for view in views]
    common = [(names[0][name], new) for name, new in names[1].items() if name in names[0]]
    codes = views[0].side.code, views[1].side.code
    alike = [(old, new) for old, new in common if codes[0][old] == codes[1][new]]
    moving = views[0].moving, views[1].moving
    named = replace(pairs.added([(o, n) for o, n in alike if moving[0][o] == moving[1][n]]), by_name=True)
    if tagged:
        return named
    if not alike or len(alike) < _HALF * sum(new not in opaque for _, new in common):
        return pairs
    constants = np.array([_same_constants(views, couple) for couple in alike], np.float64)
    total, agreeing = _places(views, named, sizes)
    for wrong, all_ in (
        (np.sum(constants == 0), np.isfinite(constants).sum()),
        ((total - agreeing).sum(), total.sum()),
    ):
        if wrong > (1 - _MOST) * all_:
            return pairs
    other = {new for (_, new), same in zip(alike, constants, strict=True) if same == 0}
    contradicted = ~named.unpaired(1) & (total > 0) & (agreeing == 0)
    contradicted[sorted(other)] = ~named.unpaired(1)[sorted(other)]
    return named.without(np.flatnonzero(contradicted))


def _operators_by_name(side: Side) -> dict[bytes, int]:
    """Return the operator of each unique name of a first output."""
    named = [(side.names[value], row) for row, value in enumerate(side.first) if value != NONE]
    counts = Counter(name for name, _ in named)
    return {name: row for name, row in named if name and counts[name] == 1}


def _same_constants(views: Views, couple: tuple[int, int]) -> float:
    """Return 1 if two operators share a significant constant, 0 if theirs differ, NaN if they have none."""
    held = [view.held.get(row) for view, row in zip(views, couple, strict=True)]
    return np.nan if held[0] is None or held[1] is None else float(not held[0].isdisjoint(held[1]))


def _places(views: Views, named: Pairs, sizes: list[Indices]) -> tuple[Indices, Indices]:
    """Return for each operator of AFTER the evidence from neighbours and size: its amount, and how much agrees."""
    was, now = views
    news, olds, _ = same_slots(views, named)
    partner = np.append(named.to_after, NONE)[was.giver[olds]]
    alike = np.append(was.side.code, NONE)[was.giver[olds]] == np.append(now.side.code, NONE)[now.giver[news]]
    decided: Mask = (partner != NONE) & (now.giver[news] != NONE)
    decided &= alike | ~np.append(named.unpaired(1), True)[now.giver[news]]
    decided |= np.isin(was.read[olds], [old for old, _ in named.inputs])
    same = same_reads(views, named, olds, news)
    total, agreeing = np.zeros(len(now), np.int64), np.zeros(len(now), np.int64)
    for counts, chosen in ((total, decided), (agreeing, decided & same)):
        np.add.at(counts, now.reader[news[chosen]], 1)
        makers = partner[chosen] if counts is total else now.giver[news[chosen]]
        np.add.at(counts, makers[makers != NONE], 1)
    new = np.flatnonzero(~named.unpaired(1))
    before, after = sizes[0][named.to_before[new]], sizes[1][new]
    total[new] += (before != after) & (before > 0) & (after > 0)
    return total, agreeing
