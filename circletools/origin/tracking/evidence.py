"""The evidence for origins and its confidence: a few classes, each with its measured share of correct origins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circletools.origin.tracking.constants import EXACT
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE
from circletools.origin.tracking.view import Views
from circletools.wording import Attributes, Word


class Evidence(Word):
    """The evidence for an origin, the strongest first."""

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

`CERTAIN` are pairs with direct evidence or fixed by their place (measured: 0.997 to 1), `SURE` what follows from what
lies between them (0.96 to 1), `ABSORBED` operators fused into a neighbour (0.93 to 0.95), `ONE_OF_TWO` one of two
operators in a region that replaces two (0.5 to 0.9), `PERHAPS` many missing operators assigned to one operator, or
removed (0.24).
"""

_OF_PAIRS = (Evidence.TAG, Evidence.NAME, Evidence.CONSTANT, Evidence.VALUES, Evidence.POSITION)


@dataclass(frozen=True, slots=True)
class Grounds(Attributes):
    """Why an operator has a source: the evidence, and the confidence, from 0 to 1."""

    evidence: Evidence
    confidence: float


Found = dict[int, Grounds]
"""Operator of BEFORE -> grounds."""


def grounds(evidence: Evidence, *, chosen: bool = False) -> Grounds:
    """Return evidence with its confidence; `chosen` if it is one of several possible answers."""
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
        # Operators with tied weights share these constants, so they are not evidence.
        telling = [number for number in both if len(was.holders[number]) == len(now.holders[number]) == 1]
        if telling:
            exact = any(now.side.constants.how[number] == EXACT for number in telling)
            found[new] = Evidence.CONSTANT if exact else Evidence.VALUES
    return found
