"""Regions: connected groups of operators that have no partner in the other model.

before   CONV_2D -> MEAN -> SUB -> MUL -> ADD -> SOFTMAX      the regions lie between the same operators:
after    CONV_2D ------- LAYER_NORM ---------> SOFTMAX        LAYER_NORM does the work of all four
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.side import NONE, Side, View

MOST_BESIDE = 64
_OVERLAP = 0.5

End = tuple[str, int]
"""What a region lies beside: an `operator` by AFTER's row, or an `input` or `output` by its number."""


@dataclass(slots=True)
class Region:
    """A connected group of operators without a partner, and the paired operators (by AFTER's row) and ends around."""

    operators: list[int]
    feeds: set[End] = field(default_factory=set)
    takers: set[End] = field(default_factory=set)
    slots: set[tuple[int, int]] = field(default_factory=set)  # of operators that take what it makes

    def overlap(self, other: Region) -> float:
        """Return how far two regions lie between the same ends, 0 where they only touch on one side."""
        if (self.feeds and other.feeds and not self.feeds & other.feeds) or not self.takers & other.takers:
            return 0.0
        return len((self.feeds & other.feeds) | (self.takers & other.takers)) / len(
            (self.feeds | other.feeds) | (self.takers | other.takers)
        )


def both_regions(matcher: Matcher) -> tuple[list[Region], list[Region]]:
    """Return the regions of BEFORE and AFTER as the pairs stand now."""
    inputs, outputs = dict(matcher.anchors.inputs), dict(matcher.anchors.outputs)
    same = [{new: new for new in ends.values()} for ends in (inputs, outputs)]
    to_after, to_before = matcher.pairs.to_after, matcher.pairs.to_before
    free = [set(np.flatnonzero(matcher.pairs.lonely(side) & ~matcher.views[side].hidden).tolist()) for side in (0, 1)]
    return (
        _regions(matcher.views[0], free[0] & needed(matcher), to_after, inputs, outputs),
        _regions(matcher.views[1], free[1], list(range(len(matcher.after))), *same),
    )


def needed(matcher: Matcher) -> set[int]:
    """Return BEFORE's operators whose results reach an operator with a partner, or an output that AFTER has.

    What does not was removed with the outputs that it led to. What leads to a slot that takes an input of AFTER's own
    was cut off.
    """
    shown, other, to_after = *matcher.views, matcher.pairs.to_after
    inputs = set(matcher.anchors.inputs)
    known = {int(shown.value[old]): int(other.value[new]) for old, new in inputs}
    own = _inputs_of(matcher.after) - set(known.values())
    producer = matcher.before.producer
    waiting = [int(producer[shown.value[old]]) for old, _ in matcher.anchors.outputs]
    for old, new in enumerate(to_after):
        if new != NONE:
            slots = zip_longest(shown.sources[old], other.sources[new])
            waiting += [was[0] for was, now in slots if was is not None and (now is None or now[2] not in own)]
    found: set[int] = set()
    while waiting:
        row = waiting.pop()
        if row != NONE and row not in found:
            found.add(row)
            if to_after[row] == NONE:
                waiting += [source[0] for source in shown.sources[row]]
    return found


def _inputs_of(side: Side) -> set[int]:
    return {tensor for subgraph in range(len(side.model.subgraphs)) for tensor in side.boundary(subgraph, "inputs")}


def _regions(
    shown: View, is_free: set[int], name: list[int], inputs: dict[int, int], outputs: dict[int, int]
) -> list[Region]:
    """Return the regions of the operators `is_free`; `name` is the row by which what is around is called."""
    regions = _hanging_together(shown, is_free)
    output_values: dict[int, list[int]] = defaultdict(list)
    for tensor, number in outputs.items():
        output_values[int(shown.value[tensor])].append(number)
    for region in regions:
        for row in region.operators:
            for producer, _, value in shown.sources[row]:
                if producer != NONE and producer not in is_free and name[producer] != NONE:
                    region.feeds.add(("operator", name[producer]))
                elif value in inputs:
                    region.feeds.add(("input", inputs[value]))
            for value in shown.made[row]:
                slots = {
                    (name[row], slot)
                    for row, slot in shown.takers.get(value, ())
                    if row not in is_free and name[row] != NONE
                }
                region.slots |= slots
                region.takers.update(("operator", row) for row, _ in slots)
                region.takers.update(("output", number) for number in output_values.get(value, ()))
    return regions


def _hanging_together(shown: View, free: set[int]) -> list[Region]:
    """Return the `free` operators in groups of those that feed each other."""
    left = set(free)
    regions: list[Region] = []
    for start in sorted(free):
        if start not in left:
            continue
        left.remove(start)
        members, waiting = [], [start]
        while waiting:
            row = waiting.pop()
            members.append(row)
            beside = [source[0] for source in shown.sources[row]]
            beside += [taker for value in shown.made[row] for taker, _ in shown.takers.get(value, ())]
            for other in beside:
                if other in left:
                    left.remove(other)
                    waiting.append(other)
        regions.append(Region(sorted(members)))
    return regions


def pair_regions(
    olds: list[Region], news: list[Region], named: dict[int, int]
) -> tuple[list[tuple[list[tuple[Region, float]], Region]], list[Region]]:
    """Return the regions of AFTER with those of BEFORE whose work they do and how far these overlap, and the rest."""
    by_taker: dict[End, list[int]] = defaultdict(list)
    region_of: dict[int, int] = {}
    for index, region in enumerate(news):
        for end in region.takers:
            by_taker[end].append(index)
        region_of |= dict.fromkeys(region.operators, index)
    assigned: dict[int, list[tuple[Region, float]]] = defaultdict(list)
    left = []
    for region in olds:
        touched = {index for end in region.takers for index in by_taker.get(end, ())[:MOST_BESIDE]}
        best = max(
            (
                (region.overlap(news[index]), len(region.slots & news[index].slots), index not in assigned, -index)
                for index in touched
            ),
            default=(0.0, 0, False, 0),
        )
        by_name = {region_of[named[row]] for row in region.operators if named.get(row) in region_of}
        if by_name:
            for index in by_name:
                assigned[index].append((region, 1.0))
        elif best[0] >= _OVERLAP and _is_tied(region, news[-best[-1]]):
            assigned[-best[-1]].append((region, best[0]))
        else:
            left.append(region)
    return [(parts, news[index]) for index, parts in assigned.items()], left


def _is_tied(old: Region, new: Region) -> bool:
    """Say whether two regions share more than the ends of the model, or one is a single operator."""
    between_operators = any(kind == "operator" for kind, _ in (old.feeds & new.feeds) | (old.takers & new.takers))
    return between_operators or len(old.operators) == 1 or len(new.operators) == 1


def one_by_one(matcher: Matcher, olds: Sequence[int], news: Sequence[int]) -> list[tuple[int, int]]:
    """Return the operators of two regions of several that are each other: of one code and beside the same operators.

    Where no such pair is left, those of a code that stands as often in both are paired in their order.
    """
    if min(len(olds), len(news)) < 2:
        return []
    places: list[dict[tuple[str, str, int], list[int]]] = []
    for side, rows in enumerate((olds, news)):
        at: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        for row in rows:
            for place in _places(matcher, side, row):
                at[place].append(row)
        places.append(at)
    found: dict[int, int] = {}
    taken: set[int] = set()
    for place, rows in places[0].items():
        others = places[1].get(place, [])
        if len(rows) == len(others) == 1 and rows[0] not in found and others[0] not in taken:
            found[rows[0]] = others[0]
            taken.add(others[0])
    return sorted(found.items()) or _in_order(matcher, olds, news)


def _places(matcher: Matcher, side: int, row: int) -> list[tuple[str, str, int]]:
    """Return where an operator stands: its code with each paired operator that it takes from or feeds, in order."""
    partner = (matcher.pairs.to_after, list(range(len(matcher.after))))[side]
    free = matcher.pairs.partners[side]
    shown, code = matcher.views[side], matcher.sides[side].codes[row]
    givers = {("from", source[0]) for source in shown.sources[row] if source[0] != NONE}
    takers = {("to", taker) for value in shown.made[row] for taker, _ in shown.takers.get(value, ())}
    return sorted((code, way, partner[other]) for way, other in givers | takers if free[other] != NONE)


def _in_order(matcher: Matcher, olds: Sequence[int], news: Sequence[int]) -> list[tuple[int, int]]:
    codes = matcher.before.codes, matcher.after.codes
    counts = [Counter(codes[side][row] for row in rows) for side, rows in enumerate((olds, news))]
    pairs: list[tuple[int, int]] = []
    for code in counts[0]:
        if counts[0][code] == counts[1].get(code):
            alike = [[row for row in rows if codes[side][row] == code] for side, rows in enumerate((olds, news))]
            pairs += zip(*alike, strict=True)
    return pairs
