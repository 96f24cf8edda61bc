"""The passes in order: from two graphs to the operators of BEFORE that each operator of AFTER computes.

Each pass is a pure function that takes views of the two graphs and the pairs so far, and returns new pairs. Operators
are neighbours if only hidden operators lie between them:

    names, match     conversions (QUANTIZE, ...) are hidden
    match            nothing is hidden: conversions are paired, too
    recheck, drop    pairs that their surroundings contradict are dropped
    cover            operators without a partner: regions, fused, folded, inserted
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circletools.graph.columns import Mask
from circletools.origin.tracking.agreement import drop_the_disconnected, drop_the_unlikely
from circletools.origin.tracking.cover import cover
from circletools.origin.tracking.ends import Names, pair_ends, recheck_ends, resized
from circletools.origin.tracking.evidence import Found, evidence_of
from circletools.origin.tracking.match import match
from circletools.origin.tracking.names import pair_by_name
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import CONVERSIONS, Side
from circletools.origin.tracking.view import Views, look

_OPAQUE = ("CUSTOM", "DELEGATE")


@dataclass(frozen=True, eq=False)
class Tracked:
    """The result for two graphs: pairs, and what each operator of AFTER computes.

    `opaque` are operators of AFTER that can hold many operators.
    """

    views: Views
    pairs: Pairs
    found: list[Found]
    opaque: set[int]


def track_graphs(
    before: Side, after: Side, ends: tuple[tuple[Names, Names], tuple[Names, Names]], tags: frozenset[bytes]
) -> Tracked:
    """Run the passes; `ends` are names of inputs and outputs in signatures, `tags` the tags of BEFORE's values."""
    sides = before, after
    pairs = pair_ends(before, after, ends, Pairs.none(before, after))
    sizes = [side.sizes(resized(before, after, pairs)) for side in sides]
    conversions = [side.is_any(CONVERSIONS) for side in sides]
    handing = [side.hands_on | mask for side, mask in zip(sides, conversions, strict=True)]
    codes = {code for code in set(after.codes).difference(before.codes) if code.startswith(_OPAQUE)}
    custom = after.is_any(codes)

    views = _views(sides, conversions)
    pairs = pair_by_name(views, pairs, sizes, tagged=bool(tags), opaque=set(np.flatnonzero(custom).tolist()))
    pairs = match(views, pairs, sizes)
    pairs = match(_views(sides, [np.zeros(len(side), np.bool_) for side in sides]), pairs, sizes)
    pairs = recheck_ends(_views(sides, _left(conversions, pairs)), pairs)
    pairs = drop_the_unlikely(_views(sides, _left(handing, pairs)), pairs, tags)
    if not tags:
        pairs = drop_the_disconnected(_views(sides, [np.zeros(len(side), np.bool_) for side in sides]), pairs)
    opaque = set(np.flatnonzero(custom & pairs.unpaired(1)).tolist())
    views = _views(sides, _left(handing, pairs))
    evidence = evidence_of(views, pairs, tags)
    inserted = [np.zeros(len(before), np.bool_), conversions[1] & pairs.unpaired(1)]
    found = cover(_views(sides, inserted), pairs, evidence, opaque)
    return Tracked(views, pairs, found, opaque)


def _views(sides: tuple[Side, Side], hidden: list[Mask]) -> Views:
    return look(sides[0], hidden[0]), look(sides[1], hidden[1])


def _left(masks: list[Mask], pairs: Pairs) -> list[Mask]:
    """Return the operators in each mask that have no partner."""
    return [mask & pairs.unpaired(side) for side, mask in enumerate(masks)]
