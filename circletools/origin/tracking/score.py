"""The confidence in a pair: which evidence it has, and how much of what is around it agrees.

The agreement of a pair is the share of its input slots, and of the operators that take its outputs, that are paired
with each other too (or are the same constant, the same input or the same output). Where in both models something
without a partner stands beside the two, that counts as one that does not agree.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from circletools.origin.tracking.constants import EXACT
from circletools.origin.tracking.match import CONVERTING, Matcher, fed_and_feeding
from circletools.origin.tracking.side import NONE, Indices
from circletools.wording import Word

_LEAST_AGREEMENT = 0.34


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


ALONE = {Evidence.TAG: 1.0, Evidence.NAME: 0.9, Evidence.CONSTANT: 0.9, Evidence.VALUES: 0.8, Evidence.POSITION: 0.0}
"""The confidence in a pair with this evidence when nothing around it agrees; with all around it, it is 1."""

CHOSEN = 0.5
"""The factor for a pair that was chosen by its order among others that are just the same."""

Source = tuple[int, int, int]
Beside = tuple[NDArray[np.bool_], NDArray[np.bool_]]


class Scorer:
    """Looks at the pairs as they are found so far; the matcher must show what scores are to look at."""

    def __init__(self, matcher: Matcher) -> None:
        """Look at the ends, and at what has no partner."""
        self.matcher = matcher
        self.names: list[list[bytes]] = [side.names for side in matcher.sides]
        self.inputs: dict[int, int] = dict(matcher.anchors.inputs)
        self.outputs: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        for number, pair in enumerate(matcher.anchors.outputs):
            for side in (0, 1):
                self.outputs[side].setdefault(int(matcher.views[side].value[pair[side]]), []).append(number)
        self.opaque: set[int] = matcher.opaque()
        self.cut: tuple[set[int], set[int]] = cut_ends(matcher)
        self.loose: tuple[Beside, Beside] = (
            _beside_the_lost(matcher, 0, set()),
            _beside_the_lost(matcher, 1, self.opaque),
        )
        self.whole: list[bool] = self._wholly_agreeing()
        self.known: dict[int, Evidence] = {}

    def evidence(self, old: int, new: int) -> Evidence:
        """Return the strongest evidence that a pair has."""
        if new not in self.known:
            self.known[new] = self._evidence(old, new)
        return self.known[new]

    def _evidence(self, old: int, new: int) -> Evidence:
        first, second = self.matcher.views[0].made[old], self.matcher.views[1].made[new]
        named = self.matcher.names_count and first and second
        if named and self.names[0][first[0]] == self.names[1][second[0]] != b"":
            return Evidence.TAG if self.names[1][second[0]] in self.matcher.tags else Evidence.NAME
        olds, news = self.matcher.held[0].get(old), self.matcher.held[1].get(new)
        if not olds or not news:
            return Evidence.POSITION
        held = [number for number in olds & news if self._is_telling(number)]
        if any(self.matcher.classes.how[number] == EXACT for number in held):
            return Evidence.CONSTANT
        return Evidence.VALUES if held else Evidence.POSITION

    def _is_telling(self, number: int) -> bool:
        """Say whether a constant tells its operators from others: tied weights do not."""
        olds, news = self.matcher.holders
        return len(olds.get(number, ())) < 2 and len(news.get(number, ())) < 2

    def confidence(self, old: int, new: int) -> float:
        """Return the confidence in a pair."""
        evidence = self.evidence(old, new)
        alone = ALONE[evidence]
        sure = 1.0 if self.whole[new] else 1 - (1 - alone) * (1 - self.agreement(old, new))
        chosen = self.matcher.pairs.choices[new] > 1 and not alone
        return sure * (CHOSEN if chosen else 1)

    def agreement(self, old: int, new: int) -> float:
        """Return the share of what is around two operators that agrees."""
        if self.whole[new]:
            return 1.0
        matcher = self.matcher
        agreeing = 0
        total = sum(bool(self.loose[0][end][old] and self.loose[1][end][new]) for end in (0, 1))
        for first, second in zip_longest(matcher.views[0].sources[old], matcher.views[1].sources[new]):
            if first is None or second is None:
                total += self._moves(first, 0) or self._moves(second, 1)
                continue
            if first[0] != NONE and (second[2] in self.cut[0] or self._swallowed(first[0], second[0])):
                continue
            total += 1
            agreeing += self._same(first, second)
        for first_made, second_made in zip_longest(matcher.views[0].made[old], matcher.views[1].made[new]):
            if first_made is None or second_made is None:
                total += 1
                continue
            olds = set(matcher.views[0].takers.get(first_made, ()))
            news = set(matcher.views[1].takers.get(second_made, ()))
            to_after = matcher.pairs.to_after
            swallowing = {(taker, slot) for taker, slot in news if taker in self.opaque}
            if swallowing:
                news -= swallowing
                olds = {(taker, slot) for taker, slot in olds if to_after[taker] != NONE}
            total += len(news) if second_made in self.cut[1] else max(len(olds), len(news))
            agreeing += len({(to_after[taker], slot) for taker, slot in olds if to_after[taker] != NONE} & news)
            old_ends, new_ends = self.outputs[0].get(first_made, []), self.outputs[1].get(second_made, [])
            total += max(len(old_ends), len(new_ends))
            agreeing += len(set(old_ends) & set(new_ends))
        return agreeing / total if total else 1.0

    def _wholly_agreeing(self) -> list[bool]:
        """Say of each operator of AFTER, all at once, whether all that is around it and its partner surely agrees."""
        pairs, views = self.matcher.pairs, self.matcher.views
        to_after, to_before = np.asarray(pairs.to_after), np.asarray(pairs.to_before)
        rows = np.flatnonzero(to_before != NONE)
        olds = to_before[rows]
        counts = [np.bincount(view.slots[0], minlength=len(view.made)) for view in views]
        starts = [np.cumsum(count) - count for count in counts]
        fed = [np.bincount(view.slots[1] + 1, minlength=len(view.made) + 1)[1:] for view in views]
        made = [view.made_counts for view in views]
        whole = np.zeros(len(to_before), np.bool_)
        whole[rows] = np.logical_and.reduce([one[olds] == other[rows] for one, other in (counts, fed, made)])
        for end in (0, 1):
            whole[rows] &= ~(self.loose[0][end][olds] & self.loose[1][end][rows])
        for side, partner in enumerate((to_after, np.arange(len(to_before)))):
            makers = self.matcher.sides[side].producer[np.array(list(self.outputs[side]), np.int64)]
            makers = partner[makers[makers != NONE]]
            whole[makers[makers != NONE]] = False
        taker, giver = views[1].slots[:2]
        compared = whole[taker]
        at = np.flatnonzero(compared)
        agrees = np.zeros(len(taker), np.bool_)
        agrees[at] = self._same_slots(at - starts[1][taker[at]] + starts[0][to_before[taker[at]]], at, to_after)
        whole[taker[~agrees]] = False
        whole[giver[~agrees & (giver != NONE)]] = False
        return list(whole.tolist())

    def _same_slots(self, olds: Indices, news: Indices, to_after: Indices) -> NDArray[np.bool_]:
        """Say of slots of BEFORE and AFTER whether they take the same."""
        old, new = (view.slots[1:, at] for view, at in zip(self.matcher.views, (olds, news), strict=True))
        computed = (old[0] != NONE) & (new[0] != NONE) & (old[1] == new[1]) & (to_after[old[0]] == new[0])
        classes = [numbers[slots[2]] for numbers, slots in zip(self.matcher.classes.numbers, (old, new), strict=True)]
        distinctive = np.append(self.matcher.classes.distinctive, True)  # what is no constant has class -1
        equal = (classes[0] == classes[1]) | ~(distinctive[classes[0]] | distinctive[classes[1]])
        inputs = np.arange(len(self.matcher.before.producer))
        inputs[list(self.inputs)] = list(self.inputs.values())
        given = np.where((classes[0] == NONE) & (classes[1] == NONE), inputs[old[2]] == new[2], equal)
        same: NDArray[np.bool_] = np.where((old[0] == NONE) & (new[0] == NONE), given, computed)
        return same

    def _swallowed(self, old: int, new: int) -> bool:
        """Say whether an operator of BEFORE can have gone into an opaque one."""
        return new in self.opaque and self.matcher.pairs.to_after[old] == NONE

    def _moves(self, source: Source | None, side: int) -> bool:
        """Say whether a slot that only one of the two has takes what is no constant: a bias may come or go."""
        if source is None:
            return False
        return source[0] != NONE or not self.matcher.sides[side].is_constant[source[2]]

    def _same(self, old: Source, new: Source) -> bool:
        matcher = self.matcher
        if old[0] != NONE or new[0] != NONE:
            return NONE not in (old[0], new[0]) and old[1] == new[1] and matcher.pairs.to_after[old[0]] == new[0]
        classes = int(matcher.classes.numbers[0][old[2]]), int(matcher.classes.numbers[1][new[2]])
        if classes == (NONE, NONE):
            return self.inputs.get(old[2], old[2] if old[2] == new[2] else NONE) == new[2]
        if NONE in classes:
            return False
        both_small = not matcher.classes.distinctive[classes[0]] and not matcher.classes.distinctive[classes[1]]
        return classes[0] == classes[1] or both_small


def cut_ends(matcher: Matcher) -> tuple[set[int], set[int]]:
    """Return the values that are inputs, and outputs, of AFTER and of no subgraph of BEFORE: it was cut there."""
    side, value = matcher.after, matcher.views[1].value
    ends: list[set[int]] = []
    for direction, known in (("inputs", matcher.anchors.inputs), ("outputs", matcher.anchors.outputs)):
        all_ = {tensor for number in range(len(side.model.subgraphs)) for tensor in side.boundary(number, direction)}
        ends.append({int(value[tensor]) for tensor in all_ - {new for _, new in known}})
    return ends[0], ends[1]


def _beside_the_lost(matcher: Matcher, side: int, opaque: set[int]) -> Beside:
    """Say which operators are fed by, and which feed, one without a partner that does more than convert."""
    this = matcher.sides[side]
    lost = matcher.pairs.lonely(side) & ~this.is_any(CONVERTING)
    lost[list(opaque)] = False
    return fed_and_feeding(lost, this.producer[this.inputs.tensor], this.inputs.operator)


def drop_the_unlikely(matcher: Matcher) -> None:
    """Undo the pairs whose only evidence is their position where what is around them does not agree."""
    pairs = matcher.pairs
    for _ in range(3):
        scores = Scorer(matcher)
        unlikely = [
            (old, new)
            for new, old in enumerate(pairs.to_before)
            if old != NONE
            and not scores.whole[new]
            and scores.evidence(old, new) is Evidence.POSITION
            and scores.agreement(old, new) < _LEAST_AGREEMENT
        ]
        for old, new in unlikely:
            pairs.to_after[old] = pairs.to_before[new] = NONE
        if not unlikely:
            return
