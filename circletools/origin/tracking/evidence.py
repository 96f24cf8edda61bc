"""What origins rest on, and how sure they are: a few classes, each with the share of origins that is right in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circletools.origin.tracking.colours import Views
from circletools.origin.tracking.constants import EXACT
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE
from circletools.wording import Word


class Evidence(Word):
    """What an origin rests on, the strongest first."""

    TAG = "tag"
    NAME = "name"
    CONSTANT = "constant"
    VALUES = "values"
    POSITION = "position"
    FUSED = "fused"
    REGION = "region"
    CONTINUED = "continued"


CONFIDENCE = {
    Evidence.TAG: 1.0,
    Evidence.NAME: 0.99,
    Evidence.CONSTANT: 0.99,
    Evidence.VALUES: 0.99,
    Evidence.POSITION: 0.98,
    Evidence.FUSED: 0.95,
    Evidence.REGION: 0.95,
    Evidence.CONTINUED: 0.95,
}
"""How often an origin with this evidence is right, as counted on pairs of models whose truth is known."""

CHOSEN = 0.5
"""The factor for what was chosen among others just alike."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why an operator has a source: the evidence, and the confidence, from 0 to 1."""

    evidence: Evidence
    confidence: float


Found = dict[int, Grounds]
"""Operator of BEFORE -> grounds."""


def evidence_of(views: Views, pairs: Pairs, tags: frozenset[bytes]) -> list[Evidence]:
    """Return the strongest evidence of each pair, by operator of AFTER; POSITION where it has no partner."""
    was, now = views
    names = was.side.names, now.side.names
    firsts = was.side.first.tolist(), now.side.first.tolist()
    found = [Evidence.POSITION] * len(now)
    for new in np.flatnonzero(~pairs.unpaired(1)).tolist():
        old = int(pairs.to_before[new])
        first, second = firsts[0][old], firsts[1][new]
        if pairs.by_name and NONE not in (first, second) and names[0][first] == names[1][second] != b"":
            found[new] = Evidence.TAG if names[1][second] in tags else Evidence.NAME
            continue
        both = was.held.get(old, frozenset()) & now.held.get(new, frozenset())
        # Tied weights do not tell their operators apart.
        telling = [number for number in both if len(was.holders[number]) == len(now.holders[number]) == 1]
        if telling:
            exact = any(now.side.constants.how[number] == EXACT for number in telling)
            found[new] = Evidence.CONSTANT if exact else Evidence.VALUES
    return found
