"""Pairs by the names of output tensors, where names can be trusted.

A tool that numbers tensors anew gives old names to other tensors. So names count only where most operators with a
name in common are of one code, hold the same constants and stand in the same place:

    before   RELU a -> FULLY_CONNECTED c -> RELU b      the name `a` is at the end now, where RELU `b` stood:
    after    RELU b -> FULLY_CONNECTED c -> RELU a      `c` speaks against `a`, and against `b`

A neighbour speaks for a pair where it is paired with the neighbour of the other one, and against it where the place
beside its partner is taken by another operator of the same code. An empty place, or one of another code, says
nothing: a tool may have put something in between.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from circletools.graph.algorithms import Indices
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE, Side
from circletools.origin.tracking.view import View, Views

_ADDED = re.compile(rb"(_(de|re)?quant(ize|ized)?|_(u?int(4|8|16)|fp?16|float16))+$")
_HALF, _MOST = 0.5, 0.75  # of equal names: the share of one code; of constants and places: the share that agrees

Couple = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Named:
    """Pairs by name, and AFTER's operators by those of BEFORE whose name they have without being their partner.

    Those were fused into them: the value that they make has the name of the last.
    """

    pairs: Pairs
    heirs: dict[int, int]


def pair_by_name(views: Views, pairs: Pairs, sizes: list[Indices], *, tagged: bool, opaque: set[int]) -> Named:
    """Return the pairs with those of operators whose first outputs have the same name.

    Names that are tags are trusted as is. `opaque` are operators of AFTER that can hold many.
    """
    common = list(_same_names(views[0].side, views[1].side))
    trusted = common if tagged else _trusted(views, pairs, sizes, common, opaque)
    if not trusted:
        return Named(pairs, {})
    pairs = replace(pairs, by_name=True)
    pairs = pairs.added([couple for couple in trusted if _fits(views, pairs, couple)])
    return Named(pairs, {old: new for old, new in trusted if pairs.to_after[old] == NONE})


def _fits(views: Views, pairs: Pairs, couple: Couple) -> bool:
    old, new = couple
    was, now = views
    if pairs.to_after[old] != NONE or pairs.to_before[new] != NONE or was.side.code[old] != now.side.code[new]:
        return False
    held = was.held.get(old), now.held.get(new)
    return was.moving[old] == now.moving[new] and (None in held or not held[0].isdisjoint(held[1] or ()))  # type: ignore[union-attr]


def _same_names(before: Side, after: Side) -> Iterator[Couple]:
    """Yield the operators, one of each model, that share an output name which no other operator has."""
    olds, news = _operators_by_name(before), _operators_by_name(after)
    left = []
    taken = set[int]()
    for name, new in news.items():
        if name in olds:
            taken.add(olds[name])
            yield olds[name], new
        else:
            left.append((name, new))
    for name, new in left:
        for part in name.split(b";") if b";" in name else [_ADDED.sub(b"", name)]:
            if part in olds and olds[part] not in taken:
                taken.add(olds[part])
                yield olds[part], new


def _operators_by_name(side: Side) -> dict[bytes, int]:
    """Return the operator of each name of a first output that stands once."""
    named = [(side.names[value], row) for row, value in enumerate(side.first) if value != NONE]
    counts = Counter(name for name, _ in named)
    return {name: row for name, row in named if name and counts[name] == 1}


def _trusted(
    views: Views, pairs: Pairs, sizes: list[Indices], common: list[Couple], opaque: set[int]
) -> list[Couple]:
    """Return the pairs that names can be trusted for, if any."""
    was, now = views
    alike = [(old, new) for old, new in common if was.side.codes[old] == now.side.codes[new]]
    # An opaque operator has the name of the last that it holds.
    if not alike or len(alike) < _HALF * sum(new not in opaque for _, new in common):
        return []
    at = {new: old for old, new in common if new in opaque}
    made = [(int(was.side.graph.producer[old]), int(now.side.graph.producer[new])) for old, new in pairs.outputs]
    if any(at.get(new, old) != old for old, new in made):  # what makes an output has the name of another
        return []
    partner = dict(alike)
    inputs = {int(was.value[old]): int(now.value[new]) for old, new in pairs.inputs}
    constants, places = list[bool](), list[bool]()
    contradicted = set[Couple]()
    for old, new in alike:
        held = was.held.get(old), now.held.get(new)
        own = [] if held[0] is None or held[1] is None else [not held[0].isdisjoint(held[1])]
        ends = int(sizes[0][old]), int(sizes[1][new])
        beside = [] if ends[0] == ends[1] or 0 in ends else [False]
        beside += [*_in_front(views, partner, inputs, (old, new)), *_behind(views, partner, (old, new))]
        constants += own
        places += beside
        if (own or beside) and not any((*own, *beside)):
            contradicted.add((old, new))
    if any(sum(heard) < _MOST * len(heard) for heard in (constants, places)):
        return []
    return [couple for couple in common if couple not in contradicted]


def _in_front(views: Views, partner: dict[int, int], inputs: dict[int, int], couple: Couple) -> Iterator[bool]:
    """Compare what two operators read: say for each slot that tells whether it agrees."""
    was, now = views
    for slot, (old, new) in enumerate(zip(was.reads[couple[0]], now.reads[couple[1]], strict=False)):
        giver, place, value = old
        if giver == NONE:
            expected = inputs.get(value, NONE)
        else:
            made = now.made[partner[giver]] if giver in partner else []
            expected = made[place] if place < len(made) else NONE
        if expected != NONE and (new[2] == expected or _is_taken(now, expected, slot, couple[1])):
            yield new[2] == expected


def _is_taken(now: View, value: int, slot: int, row: int) -> bool:
    codes = now.side.codes
    return any(at == slot and codes[reader] == codes[row] for reader, at in now.readers[value])


def _behind(views: Views, partner: dict[int, int], couple: Couple) -> Iterator[bool]:
    """Compare what reads the first outputs of two operators."""
    was, now = views
    codes = now.side.codes
    for value in was.made[couple[0]][:1]:
        for reader, slot in was.readers[value]:
            reads = now.reads[partner[reader]] if reader in partner else []
            giver = reads[slot][0] if slot < len(reads) else NONE
            if giver == couple[1] or (giver != NONE and codes[giver] == codes[couple[1]]):
                yield giver == couple[1]
