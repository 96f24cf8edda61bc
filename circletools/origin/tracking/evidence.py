"""Rate the evidence for origins, and drop pairs that nothing fixes in place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circletools.graph.algorithms import components
from circletools.origin.tracking.ends import cut_ends
from circletools.origin.tracking.view import NONE, Pairs, Views
from circletools.wording import Attributes, Word


class Evidence(Word):
    """The kinds of evidence for an origin, the strongest first."""

    TAG = "tag"
    NAME = "name"
    CONSTANT = "constant"
    VALUES = "values"
    POSITION = "position"
    FUSED = "fused"
    REGION = "region"
    CONTINUED = "continued"


CERTAIN, SURE, ABSORBED, ONE_OF_TWO, PERHAPS = 1.0, 0.95, 0.9, 0.5, 0.25
"""Classes of confidence, each with its share of correct origins on model pairs with a known ground truth.

`CERTAIN`: pairs with direct evidence, or fixed by their place (measured: 0.997 to 1). `SURE`: operators that lie
between such pairs (0.96 to 1). `ABSORBED`: operators fused into a neighbour (0.93 to 0.95). `ONE_OF_TWO`: one of two
operators in a region that replaces two (0.5 to 0.9). `PERHAPS`: many missing operators assigned to one operator, or
removed (0.24).
"""

_OF_PAIRS = (Evidence.TAG, Evidence.NAME, Evidence.CONSTANT, Evidence.VALUES, Evidence.POSITION)


@dataclass(frozen=True, slots=True)
class Grounds(Attributes):
    """Why an operator has a source: the evidence, and the confidence (from 0 to 1)."""

    evidence: Evidence
    confidence: float


Found = dict[int, Grounds]
"""Operator of BEFORE -> grounds."""


def grounds(evidence: Evidence, *, chosen: bool = False) -> Grounds:
    """Return evidence with its confidence; `chosen` means that there are several possible answers."""
    if evidence is Evidence.FUSED:
        return Grounds(evidence, PERHAPS if chosen else ABSORBED)
    return Grounds(evidence, ONE_OF_TWO if chosen else CERTAIN if evidence in _OF_PAIRS else SURE)


def evidence_of(views: Views, pairs: Pairs, tags: frozenset[bytes]) -> list[Evidence]:
    """Return the strongest evidence of each pair, by operator of AFTER; POSITION if it has no partner."""
    was, now = views
    names = was.side.names, now.side.names
    firsts = was.side.first, now.side.first
    found = [Evidence.POSITION] * len(now)
    for new in np.flatnonzero(~pairs.unpaired(1)).tolist():
        old = int(pairs.to_before[new])
        first, second = firsts[0][old], firsts[1][new]
        if pairs.by_name and NONE not in (first, second) and names[0][first] == names[1][second] != b"":
            found[new] = Evidence.TAG if names[1][second] in tags else Evidence.NAME
            continue
        both = was.held.get(old, frozenset()) & now.held.get(new, frozenset())
        # Operators with tied weights share their constants, so these are not evidence.
        telling = [number for number in both if len(was.holders[number]) == len(now.holders[number]) == 1]
        if telling:
            close = all(now.side.constants.close[number] for number in telling)
            found[new] = Evidence.VALUES if close else Evidence.CONSTANT
    return found


def drop_disconnected_pairs(views: Views, pairs: Pairs) -> Pairs:
    """Return the pairs, except those in parts of AFTER that fit in several places of BEFORE.

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
