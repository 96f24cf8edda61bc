"""Pair the ends (inputs and outputs) of two graphs: by signature, by position if their counts are equal, or by name.

A part cut out of a model may have as many ends as the whole, so ends are checked again once operators are paired:

    before   x -> CONV_2D a -> RELU -> CONV_2D b -> y      between `x` and `b` are constants that AFTER does not
    after                     x' ----> CONV_2D b -> y'     have, so `x'` is not `x`: the model was cut there
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from circletools.graph.algorithms import components
from circletools.origin.tracking.view import NONE, Pairs, Side, View, Views, ends_of
from circletools.wording import Attributes, Word

_MOST_BETWEEN = 6  # the most operators that may have been fused; values differ if more are missing between them

Names = Mapping[str, int]
"""The inputs and outputs of a graph by their names in a signature."""


def pair_ends(before: Side, after: Side, named: tuple[tuple[Names, Names], tuple[Names, Names]]) -> Pairs:
    """Return pairs of ends, without operators; `named` holds the names of inputs and outputs, for both models."""
    old, new = ends_of(before.graph), ends_of(after.graph)
    inputs, outputs = (
        tuple(_same_ends((before, after), ends, names))
        for ends, names in zip(zip(old, new, strict=True), named, strict=True)
    )
    return Pairs(np.full(len(before), NONE), np.full(len(after), NONE), inputs, outputs)


def _same_ends(
    sides: tuple[Side, Side], ends: tuple[list[int], list[int]], named: tuple[Names, Names]
) -> Iterator[tuple[int, int]]:
    before, after = sides
    common = named[0].keys() & named[1].keys()
    if common:
        yield from ((named[0][name], named[1][name]) for name in sorted(common))
    elif len(ends[0]) == len(ends[1]):
        outer = [{side.names[end] for end in own} for side, own in zip(sides, ends, strict=True)]
        inner = outer[1].intersection(before.names) - outer[0] - {b""}
        left = outer[0].intersection(after.names)
        for old, new in zip(*ends, strict=True):
            # The end may be an inner value of BEFORE, if the model was cut there.
            cut = after.names[new] in inner and before.names[old] not in left
            if not cut and _alike(sides, old, new):
                yield old, new
    else:
        names = {before.names[value]: value for value in ends[0] if before.names[value]}
        yield from ((names[after.names[end]], end) for end in ends[1] if after.names[end] in names)


def _alike(sides: tuple[Side, Side], old: int, new: int) -> bool:
    """Return whether two ends can correspond, with equal sizes, or with equal ranks and one equal dimension."""
    sizes = int(sides[0].elements[old]), int(sides[1].elements[new])
    if sizes[0] == sizes[1] or 0 in sizes:
        return True
    shapes = sides[0].shape(old), sides[1].shape(new)
    if len(shapes[0]) != len(shapes[1]):
        return False
    same = any(one == other > 1 for one, other in zip(*shapes, strict=True))
    return same or any(max(shape) == 1 for shape in shapes)


def resized(before: Side, after: Side, pairs: Pairs) -> bool:
    """Return whether an input or output has a different size, in which case sizes inside the models differ too."""
    old, new = np.array([*pairs.inputs, *pairs.outputs], np.int64).reshape(-1, 2).T
    sizes = before.elements[old], after.elements[new]
    return bool(((sizes[0] != sizes[1]) & (sizes[0] > 0) & (sizes[1] > 0)).any())


def cut_ends(now: View, pairs: Pairs) -> tuple[set[int], set[int]]:
    """Return AFTER's inputs and outputs that are not ends of BEFORE, because the model was cut there."""
    ends = ends_of(now.side.graph)
    inputs, outputs = (
        {int(now.value[end]) for end in set(own) - {new for _, new in known}}
        for own, known in zip(ends, (pairs.inputs, pairs.outputs), strict=True)
    )
    return inputs, outputs


def recheck_ends(views: Views, pairs: Pairs) -> Pairs:
    """Return the pairs, except pairs of ends with too many missing operators between them.

    The views must show everything except conversions without a partner.
    """
    was, now = views
    partner = pairs.to_before.tolist()
    paired = [(old, new) for new, old in enumerate(partner) if old != NONE]
    made = {mine: own for old, new in paired for own, mine in zip(was.made[old], now.made[new], strict=False)}

    def is_cut_input(old: int, new: int) -> bool:
        readers = [(was.reads[partner[reader]], slot) for reader, slot in now.readers[new] if partner[reader] != NONE]
        read = [reads[slot][2] for reads, slot in readers if slot < len(reads)]
        return bool(read) and all(_is_far(views, pairs, value, old) for value in read)

    ends = [[(int(was.value[old]), int(now.value[new])) for old, new in own] for own in (pairs.inputs, pairs.outputs)]
    inputs = [not is_cut_input(*own) for own in ends[0]]
    outputs = [new not in made or not _is_far(views, pairs, old, made[new]) for old, new in ends[1]]
    return replace(
        pairs, inputs=tuple(compress(pairs.inputs, inputs)), outputs=tuple(compress(pairs.outputs, outputs))
    )


def _is_lost(was: View, row: int) -> bool:
    """Return whether an operator of BEFORE has significant constants, and AFTER has none of them."""
    constant, constants = was.side.constant, was.side.constants
    own = [int(constant[value]) for *_, value in was.reads[row] if constant[value] != NONE]
    telling = [number for number in own if constants.distinctive[number]]
    return bool(telling) and not any(constants.shared[number] for number in telling)


def _is_far(views: Views, pairs: Pairs, value: int, goal: int) -> bool:
    """Return whether more operators than can be fused lie on every path back from one value to the other."""
    was, waiting, seen = views[0], [value], set[int]()
    while waiting:
        value = waiting.pop()
        if value == goal:
            return len(seen) > _MOST_BETWEEN
        row = int(was.side.graph.producer[value])
        if row != NONE and row not in seen and pairs.to_after[row] == NONE and not _is_lost(was, row):
            seen.add(row)
            waiting += [read for *_, read in was.reads[row]]
    return True


# --- the evidence for origins, and pairs that nothing fixes in place ----------------------------------------------


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
between such pairs (0.96 to 1). `ABSORBED`: operators fused into a neighbor (0.93 to 0.95). `ONE_OF_TWO`: one of two
operators in a region that replaces two (0.5 to 0.9). `PERHAPS`: many missing operators assigned to one operator, or
removed (0.24).
"""

_OF_PAIRS = (Evidence.TAG, Evidence.NAME, Evidence.CONSTANT, Evidence.VALUES, Evidence.POSITION)


@dataclass(frozen=True, slots=True)
class Grounds(Attributes):
    """The reason why an operator has a source: the evidence, and the confidence (from 0 to 1)."""

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
