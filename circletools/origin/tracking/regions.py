"""Regions: connected groups of operators that have no partner in the other model.

before   CONV_2D -> MEAN -> SUB -> MUL -> ADD -> SOFTMAX      the regions lie between the same operators:
after    CONV_2D ------- LAYER_NORM ---------> SOFTMAX        LAYER_NORM does the work of all four
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from circletools.origin.tracking.match import Matcher, fed_and_feeding
from circletools.origin.tracking.score import cut_ends
from circletools.origin.tracking.side import NONE, View

MOST_BESIDE = 64
_OVERLAP = 0.5
_MOST_AGAIN = 4
WITHIN = 0.9  # how far a region overlaps with one that takes and makes all that it does, and more

End = tuple[str, int]
"""What a region lies beside: an `operator` by AFTER's row, or an `input` or `output` by its number."""


@dataclass(slots=True)
class Region:
    """A connected group of operators without a partner, and the paired operators (by AFTER's row) and ends around.

    `taken` and `made` are the values of AFTER that it takes and makes. `again` are paired operators of BEFORE that
    one of AFTER computes once more, to do the work of these without taking what they took.
    """

    operators: list[int]
    feeds: set[End] = field(default_factory=set)
    takers: set[End] = field(default_factory=set)
    slots: set[tuple[int, int]] = field(default_factory=set)  # of operators that take what it makes
    taken: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    again: list[int] = field(default_factory=list)

    def overlap(self, other: Region) -> float:
        """Return how far two regions lie between the same values, 0 where they only touch on one side.

        A region that lies wholly within the ends of the other one overlaps with it wholly.
        """
        if (self.taken and other.taken and not self.taken & other.taken) or not self.made & other.made:
            return 0.0
        common = len(self.taken & other.taken) + len(self.made & other.made)
        both = len(self.taken | other.taken) + len(self.made | other.made)
        return max(common / both, WITHIN * common / (len(self.taken) + len(self.made)))


def both_regions(matcher: Matcher) -> tuple[list[Region], list[Region]]:
    """Return the regions of BEFORE and AFTER as the pairs stand now."""
    free = [set(matcher.free(side).tolist()) for side in (0, 1)]
    if not any(free):
        return [], []
    values = same_values(matcher)
    itself = {value: {value} for known in values.values() for value in known}
    names = matcher.pairs.to_after, list(range(len(matcher.after)))
    free[0] &= needed(matcher, values)
    for side, doubles in enumerate(matcher.doubles):
        free[side] -= doubles.keys()
    ends = [
        [{pair[side]: number for number, pair in enumerate(pairs)} for side in (0, 1)]
        for pairs in (matcher.anchors.inputs, matcher.anchors.outputs)
    ]
    olds, news = (
        _regions(matcher, side, free[side], names[side], known, [of[side] for of in ends])
        for side, known in enumerate((values, itself))
    )
    by_made = _by_made(news)
    for region in olds:
        _reach_back(matcher, values, region, [news[index] for index in _touched(region, by_made)])
    return olds, news


def _by_made(news: list[Region]) -> dict[int, list[int]]:
    by_made: dict[int, list[int]] = defaultdict(list)
    for index, region in enumerate(news):
        for value in region.made:
            by_made[value].append(index)
    return by_made


def _touched(region: Region, by_made: dict[int, list[int]]) -> list[int]:
    """Return the regions that make a value in common with this one."""
    return sorted({index for value in region.made for index in by_made.get(value, ())[:MOST_BESIDE]})


def _reach_back(matcher: Matcher, values: dict[int, set[int]], region: Region, news: list[Region]) -> None:
    """Let a region take what one of AFTER takes that makes the same, if few operators lie between.

    They have partners, and the region of AFTER computes them once more.
    """
    if not region.taken or len(news) != 1 or not news[0].taken or region.taken & news[0].taken:
        return
    shown, members, again = matcher.views[0], set(region.operators), set[int]()
    waiting = [source for row in region.operators for source in shown.sources[row] if source[0] not in members]
    while waiting:
        producer, _, value = waiting.pop()
        if matcher.before.is_constant[value] or values.get(value, set()) & news[0].taken:
            continue
        if producer == NONE or matcher.pairs.to_after[producer] == NONE or len(again) == _MOST_AGAIN:
            return
        if producer not in again:
            again.add(producer)
            waiting += shown.sources[producer]
    region.again, region.taken = sorted(again), set(news[0].taken)


def same_values(matcher: Matcher) -> dict[int, set[int]]:
    """Return, by value of BEFORE, the values of AFTER that are the same one, as far as pairs and names tell.

    What two paired operators make, and what they take in one slot, is the same. It can be several: what was put in
    behind an operator makes a value that is the same as that operator's.
    """
    was, now = matcher.views
    pairs, found = matcher.pairs, defaultdict[int, set[int]](set)
    for old, new in (*matcher.anchors.inputs, *matcher.anchors.outputs):
        found[int(was.value[old])].add(int(now.value[new]))
    near = [_beside_the_lonely(matcher, side) for side in (0, 1)]
    to_before = np.asarray(pairs.to_before)
    rows = np.flatnonzero(to_before != NONE)
    for new in rows[near[0][to_before[rows]] | near[1][rows]].tolist():
        old = pairs.to_before[new]
        for old_made, new_made in zip(was.made[old], now.made[new], strict=False):
            found[old_made].add(new_made)
        for before, after in zip(was.sources[old], now.sources[new], strict=False):
            paired = (
                before[0] != NONE
                and after[0] != NONE
                and pairs.to_after[before[0]] != NONE != pairs.to_before[after[0]]
            )
            moving = not matcher.before.is_constant[before[2]] and not matcher.after.is_constant[after[2]]
            if moving and not paired:
                found[before[2]].add(after[2])
    for new, old in matcher.doubles[1].items():
        for old_made, new_made in zip(was.made[old], now.made[new], strict=False):
            found[old_made].add(new_made)
    for double, old in matcher.doubles[0].items():
        for value, same in zip(was.made[double], was.made[old], strict=False):
            found[value] |= found[same] | set(now.made[pairs.to_after[old]][:1] if same == was.made[old][0] else ())
    if matcher.names_count:
        for before_value, after_value in _named_alike(matcher):
            found[before_value].add(after_value)
    return dict(found)


def _beside_the_lonely(matcher: Matcher, number: int) -> NDArray[np.bool_]:
    """Say which operators take from one without a partner, or feed one."""
    side, shown, lonely = matcher.sides[number], matcher.views[number], matcher.pairs.lonely(number)
    fed, feeds = fed_and_feeding(lonely, side.producer[shown.value[side.inputs.tensor]], side.inputs.operator)
    return fed | feeds


def _named_alike(matcher: Matcher) -> Iterator[tuple[int, int]]:
    """Yield the values of operators without a partner that have the same name, which no other has."""
    places: list[dict[bytes, list[int]]] = [defaultdict(list), defaultdict(list)]
    for number, side in enumerate(matcher.sides):
        names, lonely = side.names, matcher.pairs.lonely(number)
        for tensor in side.outputs.tensor[lonely[side.outputs.operator]].tolist():
            if names[tensor]:
                places[number][names[tensor]].append(int(matcher.views[number].value[tensor]))
    for name, olds in places[0].items():
        news = places[1].get(name, ())
        if len(olds) == len(news) == 1 and (matcher.resized or _of_one_shape(matcher, olds[0], news[0])):
            yield olds[0], news[0]


def _of_one_shape(matcher: Matcher, old: int, new: int) -> bool:
    """Say whether two values can be the same one; a tool that exchanges operators may leave names where they were."""
    return matcher.before.shape(old) == matcher.after.shape(new)


def needed(matcher: Matcher, values: dict[int, set[int]]) -> set[int]:
    """Return BEFORE's operators without a partner whose results reach one with, or an output that AFTER has.

    What does not was removed with the outputs that it led to. What leads to an input of AFTER's own was cut off.
    """
    shown, other, to_after = *matcher.views, matcher.pairs.to_after
    own = cut_ends(matcher)[0]
    cut = {value for value, known in values.items() if known & own}
    producer = matcher.before.producer
    waiting = [int(producer[shown.value[old]]) for old, _ in matcher.anchors.outputs]
    lonely = matcher.pairs.lonely(0)
    fed, _ = fed_and_feeding(lonely, *shown.slots[1::-1])
    for old in np.flatnonzero(fed & ~lonely).tolist():
        slots = zip_longest(shown.sources[old], other.sources[to_after[old]])
        waiting += [was[0] for was, now in slots if was is not None and (now is None or now[2] not in own)]
    found: set[int] = set()
    while waiting:
        row = waiting.pop()
        if row != NONE and row not in found and to_after[row] == NONE:
            found.add(row)
            waiting += [source[0] for source in shown.sources[row] if source[2] not in cut]
    return found


def _regions(
    matcher: Matcher, side: int, is_free: set[int], name: Sequence[int], known: dict[int, set[int]],
    ends: list[dict[int, int]],
) -> list[Region]:  # fmt: skip
    """Return the regions of the operators `is_free`; `name` is the row by which what is around is called."""
    shown, after, is_constant = matcher.views[side], matcher.after, matcher.sides[side].is_constant
    inputs, outputs = ends
    regions = _hanging_together(shown, is_free, known)
    output_values: dict[int, list[int]] = defaultdict(list)
    for tensor, number in outputs.items():
        output_values[int(shown.value[tensor])].append(number)
    for region in regions:
        members = set(region.operators)
        for row in region.operators:
            for producer, _, value in shown.sources[row]:
                if producer in members or is_constant[value]:
                    continue
                region.taken |= known.get(value, set())
                if producer != NONE and name[producer] != NONE:
                    region.feeds.add(("operator", name[producer]))
                elif producer != NONE:
                    makers = {int(after.producer[same]) for same in known.get(value, ())} - {NONE}
                    region.feeds |= {("operator", maker) for maker in makers}
                elif value in inputs:
                    region.feeds.add(("input", inputs[value]))
            for value in shown.made[row]:
                around = {taker for taker in shown.takers.get(value, ()) if taker[0] not in members}
                if around or value in output_values:
                    region.made |= known.get(value, set())
                slots = {(name[taker], slot) for taker, slot in around if name[taker] != NONE}
                region.slots |= slots
                region.takers.update(("operator", taker) for taker, _ in slots)
                region.takers.update(("output", number) for number in output_values.get(value, ()))
    return regions


def _hanging_together(shown: View, free: set[int], known: Container[int]) -> list[Region]:
    """Return the `free` operators in groups of those that feed each other with values that are not `known`."""
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
            beside = [source[0] for source in shown.sources[row] if source[2] not in known]
            made = [value for value in shown.made[row] if value not in known]
            beside += [taker for value in made for taker, _ in shown.takers.get(value, ())]
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
    by_made = _by_made(news)
    region_of: dict[int, int] = {}
    for index, region in enumerate(news):
        region_of |= dict.fromkeys(region.operators, index)
    assigned: dict[int, list[tuple[Region, float]]] = defaultdict(list)
    left = []
    for region in olds:
        best = max(
            (
                (region.overlap(news[index]), len(region.slots & news[index].slots), index not in assigned, -index)
                for index in _touched(region, by_made)
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
    """Return the operators of two regions that are each other: of one code and beside the same operators.

    Where no such pair is left, those of a code that stands as often in both are paired in their order. A region of
    one has the operator of its code, if there is one.
    """
    if len(olds) < 2:
        return []
    if len(news) == 1:
        same = [old for old in olds if matcher.before.codes[old] == matcher.after.codes[news[0]]]
        return [(same[0], news[0])] if len(same) == 1 else []
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
