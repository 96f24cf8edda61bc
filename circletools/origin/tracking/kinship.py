"""Whether two models are the same network at all, from 0 to 1: otherwise what looks alike is a coincidence.

Constants decide where both models have some that are hardly equal by chance: a tool that quantizes or optimises a
model leaves most of them recognisable, and two networks of one structure have none in common. Where there is
nothing to compare, the share of the larger model that has partners in the other one does, or the share of the smaller
one (a part cut out of the larger) that has them by name. Only names with a path count there: exporters give `add_3`,
`Identity` and `PartitionedCall:0` to every model.
"""

from __future__ import annotations

import numpy as np

from circletools.origin.tracking.match import CONVERTING, Matcher
from circletools.origin.tracking.score import Evidence, Scorer
from circletools.origin.tracking.side import NONE, Indices

LOOKALIKE = 0.4
"""The most confidence in an origin between models that have constants, or names, and none in common."""

_ENDS = 0.95  # where a compiler took all constants into its operators, and all inputs and outputs are those of BEFORE
_ENOUGH = 0.5  # of the constants of the model that has fewer


def kinship(matcher: Matcher, scores: Scorer) -> float:
    """Return the factor for the confidence of all that does not rest on an equal constant."""
    if matcher.tagged:
        return 1.0
    if scores.opaque and len(scores.opaque) == len(matcher.after):
        return max(_ENDS if _all_ends_known(matcher) else LOOKALIKE, _values_by_name(matcher))
    old, new = _telling(matcher, scores)
    fewest = min(len(old), len(new))
    named = _values_by_name(matcher) if scores.opaque else _known_by_name(matcher, scores)
    if fewest:
        common = len(np.intersect1d(old, new))
        of_names = named if scores.opaque else 0.0
        return max(min(1.0, common / fewest / _ENOUGH), LOOKALIKE * _placed(matcher, scores), of_names)
    if scores.opaque and _all_ends_known(matcher):
        return _ENDS
    strangers = _named(matcher) and not matcher.names_count
    return max(_placed(matcher, scores) ** 2 * (LOOKALIKE if strangers else 1.0), named)


def _telling(matcher: Matcher, scores: Scorer) -> tuple[Indices, Indices]:
    """Return the classes of constants that are hardly equal by chance, but for what opaque operators hold."""
    classes, after = matcher.classes, matcher.after
    telling = np.append(classes.distinctive, False)
    held = ~np.isin(after.inputs.operator, list(scores.opaque))
    numbers = (
        classes.numbers[0],
        classes.numbers[1][np.unique(after.inputs.tensor[held])] if scores.opaque else classes.numbers[1],
    )
    old, new = (np.unique(side[telling[side]]) for side in numbers)
    return old, new


def _placed(matcher: Matcher, scores: Scorer) -> float:
    """Return how much of the larger model has partners, each as far as its surroundings agree."""
    before, after = _working(matcher)
    if scores.opaque:
        before = after = after - len(scores.opaque)
    larger = max(before, after)
    agreeing = sum(
        scores.agreement(old, new)
        for new, old in enumerate(matcher.pairs.to_before)
        if old != NONE and matcher.after.codes[new] not in CONVERTING
    )
    return min(1.0, agreeing / larger) if larger else 1.0


def _known_by_name(matcher: Matcher, scores: Scorer) -> float:
    """Return how much of the smaller model has partners with names that have a path."""
    known = sum(
        b"/" in scores.names[0][matcher.views[0].made[old][0]]
        for new, old in enumerate(matcher.pairs.to_before)
        if old != NONE and scores.evidence(old, new) is Evidence.NAME
    )
    return min(1.0, known / max(1, min(_working(matcher))))


def _values_by_name(matcher: Matcher) -> float:
    """Return how many of the values that AFTER computes have names that BEFORE has too."""
    known = {matcher.before.names[tensor] for tensor in matcher.before.outputs.tensor.tolist()}
    made = [matcher.after.names[tensor] for tensor in matcher.after.outputs.tensor.tolist()]
    return sum(bool(name) and name in known for name in made) / len(made) if made else 0.0


def _all_ends_known(matcher: Matcher) -> bool:
    """Say whether every output of AFTER is one of BEFORE, and every input."""
    side, anchors = matcher.after, matcher.anchors
    for direction, known in (("inputs", anchors.inputs), ("outputs", anchors.outputs)):
        ends = {end for subgraph in range(len(side.model.subgraphs)) for end in side.boundary(subgraph, direction)}
        if not ends <= {new for _, new in known}:
            return False
    return True


def _working(matcher: Matcher) -> tuple[int, int]:
    """Return how many operators of either model do more than convert."""
    before, after = (sum(code not in CONVERTING for code in side.codes) for side in matcher.sides)
    return before, after


def _named(matcher: Matcher) -> bool:
    """Say whether outputs of operators have names in both models."""
    return all(any(side.names[tensor] for tensor in side.outputs.tensor.tolist()) for side in matcher.sides)
