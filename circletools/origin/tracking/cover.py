"""Find the operators of BEFORE whose work AFTER's operators do, in addition to the work of their partners.

    before   CONV_2D -> RELU -> SOFTMAX      MEAN -> SUB -> MUL -> ADD      CONV_2D ------------> ADD
    after    CONV_2D ---------> SOFTMAX      ------ LAYER_NORM ------      CONV_2D -> QUANTIZE -> ADD
             CONV_2D gets RELU's             LAYER_NORM gets all four      QUANTIZE gets CONV_2D's

Regions of the two models that lie between the same values do the same work. A region of BEFORE without a counterpart
was absorbed by its producer, or, if it only prepares an input, by its reader. An inserted operator gets the origin of
the operator that it continues: the ONE compiler gives a Quantize inserted after an operator the origin of that
operator, and a Quantize after an input the origin of the first operator that it feeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from circletools.graph.algorithms import rows_by_key
from circletools.origin.tracking.ends import Evidence, Found, grounds
from circletools.origin.tracking.regions import Region, both_regions, pair_regions, repeated, same_values
from circletools.origin.tracking.view import CONVERSIONS, NONE, Pairs, Side, Views

LAYOUT_OPS = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE", "TRANSPOSE"})
"""Operators that only change the shape or order of elements; consecutive ones count as one."""

INSERTED = CONVERSIONS | LAYOUT_OPS | {"CAST", "CONCATENATION"}
"""Operators that tools insert to change the type or layout of a value."""

ARITHMETIC = frozenset({"ADD", "SUB", "MUL", "DIV"})
SEPARABLE = ARITHMETIC | {"RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1"}
"""Operators that may have been the bias, scale or activation of their producer, if they read only one value."""

_MOST_STEPS = 64


def continue_inserted(after: Side, opaque: set[int], found: list[Found]) -> None:
    """Give inserted operators the origin of the operator before them or, at an input or constant, of the next one."""
    direct = [bool(entry) for entry in found]
    moving = after.is_any(INSERTED) | (after.is_any(SEPARABLE) & after.is_pass_through)
    rows = [row for row in np.flatnonzero(moving).tolist() if not direct[row]]
    if not rows:
        return
    main, producer, readers = after.main.tolist(), after.graph.producer.tolist(), after.graph.readers
    made = rows_by_key(len(after), *after.graph.definitions)
    for row in rows:
        heir = row
        for _ in range(_MOST_STEPS):
            if heir == NONE or direct[heir] or heir in opaque:
                break
            value = main[heir] if moving[heir] else NONE
            heir = producer[value] if value != NONE else NONE
        if heir == NONE:
            heir = _first_fed(row, made, readers, direct, after.codes)
        if heir != NONE and direct[heir]:
            found[row] = dict.fromkeys(found[heir], grounds(Evidence.CONTINUED))


def _first_fed(
    row: int, made: list[list[int]], readers: list[list[int]], direct: list[bool], codes: list[str]
) -> int:
    """Return the first operator that an inserted one feeds, skipping other inserted ones, or -1."""
    for _ in range(_MOST_STEPS):
        fed = sorted({reader for value in made[row] for reader in readers[value]})
        if not fed:
            return NONE
        row = next((reader for reader in fed if direct[reader]), fed[0])
        if direct[row]:
            return row
        if codes[row] not in INSERTED:
            return NONE
    return NONE


PREPARING = frozenset({"PAD", "PADV2", "MIRROR_PAD", "DEQUANTIZE", "DENSIFY"})
"""Operators that are folded into the operator that reads their output."""

LINEAR = ARITHMETIC | LAYOUT_OPS | PREPARING | {"NEG"}
"""Operators that can be folded into the constants of the operator that reads their output."""

_MOST_ROUNDS, _MOST_PASSED, _MOST_BESIDE = 8, 8, 64
_MOST_SHARED = 1 << 14  # the largest product of operator counts for which all are assigned to all
_MOST_FUSED = 4  # the maximum number of operators fused into one; if more are missing, they may have been cut off


def cover(views: Views, pairs: Pairs, evidence: list[Evidence], opaque: set[int]) -> list[Found]:
    """For each operator of AFTER, return the operators of BEFORE whose work it does.

    The views must show everything except inserted conversions.
    """
    found: list[Found] = [{} for _ in evidence]
    for new in np.flatnonzero(~pairs.unpaired(1)).tolist():
        found[new][int(pairs.to_before[new])] = grounds(evidence[new])
    twins = repeated(views[0], pairs.to_after)
    copies = {copy: int(pairs.to_before[row]) for copy, row in repeated(views[1], pairs.to_before).items()}
    for new, old in copies.items():
        found[new][old] = found[int(pairs.to_after[old])][old]
    for twin, old in twins.items():
        found[int(pairs.to_after[old])][twin] = grounds(Evidence.FUSED)
    for _ in range(_MOST_ROUNDS):
        known = same_values(views, pairs, copies, twins)
        olds, news = both_regions(views, pairs, known, (twins, copies))
        alike, left = pair_regions(olds, news)
        inside = _pairs_inside(views, alike)
        for old, new in inside:
            found[new][old] = grounds(Evidence.REGION)
        pairs = pairs.added(inside)
        if not inside:
            break
    for parts, region in alike:
        _assign_to_each(views, parts, region, opaque, found)
    _assign_regions(views, pairs, left, news, found)
    continue_inserted(views[1].side, opaque, found)
    return found


def _assign_regions(views: Views, pairs: Pairs, left: list[Region], news: list[Region], found: list[Found]) -> None:
    """Assign BEFORE's unmatched regions to the regions that they became, or to the operators that absorbed them."""
    beside: dict[int, list[Region]] = defaultdict(list)
    for region in news:
        for end in region.feeds | region.takers:
            beside[end].append(region)
    for region in left:
        moved = _moved(views, region, beside, found)
        if moved is None:
            _absorb(views, pairs, region, found)
            continue
        olds, news_ = (
            sorted(one.operators, key=lambda row, codes=view.side.codes: (codes[row], row))  # type: ignore[misc]
            for one, view in zip((region, moved), views, strict=True)
        )
        for old, new in zip(olds, news_, strict=True):
            found[new].setdefault(old, grounds(Evidence.REGION))


def _pairs_inside(views: Views, alike: list[tuple[list[Region], Region]]) -> list[tuple[int, int]]:
    """Return pairs of operators inside corresponding regions, in order, for codes that occur equally often in both.

    A region of a single operator has no such pairs.
    """
    found: dict[int, int] = {}
    codes = [view.side.codes for view in views]
    for parts, region in alike:
        rows: tuple[dict[str, list[int]], dict[str, list[int]]] = defaultdict(list), defaultdict(list)
        olds = sorted(row for part in parts for row in part.operators)
        for side, own in enumerate((olds, region.operators)):
            for row in own:
                rows[side][codes[side][row]].append(row)
        for code, own in rows[0].items() if len(olds) > 1 else ():
            if len(own) == len(rows[1][code]) and found.keys().isdisjoint(rows[1][code]):
                found.update(zip(rows[1][code], own, strict=True))
    return [(old, new) for new, old in found.items()]


def _assign_to_each(views: Views, parts: list[Region], region: Region, opaque: set[int], found: list[Found]) -> None:
    """Assign all operators of `parts` to each operator of the region or, if some of these are opaque, only to those.

    With many operators on both sides, the assignment is unknown: if most of it would be wrong, nothing is assigned.
    """
    olds = sorted({row for part in parts for row in part.operators})
    news = sorted(opaque.intersection(region.operators)) or region.operators
    same = [new for new in news if views[1].side.codes[new] == views[0].side.codes[olds[0]]]
    if len(olds) == len(same) == 1:  # this operator still exists, and the others are new
        news = same
    several = min(len(olds), len(news))
    unknown = len(news) > 1 and not opaque.isdisjoint(news)  # how the work is divided among them
    if unknown or len(news) * len(olds) > _MOST_SHARED or several > 2:
        return
    for new in news:
        for old in olds:
            found[new].setdefault(old, grounds(Evidence.REGION, chosen=several > 1))


def _moved(views: Views, region: Region, beside: Mapping[int, list[Region]], found: list[Found]) -> Region | None:
    """Return the region of AFTER that this region became by swapping places with a neighbor.

    before   RESHAPE -> RELU -> MINIMUM        a layout change moves past elementwise operators
    after               RELU -> MINIMUM -> RESHAPE
    """
    codes = Counter(views[0].side.codes[row] for row in region.operators)
    for end in _passed(views, region):
        for other in beside.get(end, ())[:_MOST_BESIDE]:
            is_free = not any(found[row] for row in other.operators)
            if is_free and Counter(views[1].side.codes[row] for row in other.operators) == codes:
                return other
    return None


def _passed(views: Views, region: Region) -> Iterator[int]:
    """Yield the neighbors of a region, and then the chains of operators after and before them."""
    yield from sorted(region.feeds | region.takers)
    now = views[1]

    def makers(row: int) -> list[int]:
        return [giver for giver, *_ in now.reads[row] if giver != NONE]

    for ends, step in ((region.takers, now.takers), (region.feeds, makers)):
        for row in sorted(ends):
            others = step(row)
            for _ in range(_MOST_PASSED):
                if len(others) != 1:
                    break
                yield others[0]
                others = step(others[0])


def _absorb(views: Views, pairs: Pairs, region: Region, found: list[Found]) -> None:
    """Assign a region of BEFORE that is missing in AFTER to the operators that took over its work.

    These are the region's last producer, or its readers if the region prepares an input, or if it is linear and only
    the readers hold changed constants.
    """
    codes = {views[0].side.codes[row] for row in region.operators}
    feeds, heirs = sorted(region.feeds), sorted(region.takers)
    behind = codes <= LINEAR and not (feeds and _is_changed(views, pairs, feeds[-1]))
    if feeds and not codes <= PREPARING and not (behind and any(_is_changed(views, pairs, row) for row in heirs)):
        heirs = feeds[-1:]
    if len(heirs) * len(region.operators) > _MOST_SHARED:
        return
    why = grounds(Evidence.FUSED, chosen=len(region.operators) > _MOST_FUSED)
    for heir in heirs:
        for row in region.operators:
            found[heir].setdefault(row, why)


def _is_changed(views: Views, pairs: Pairs, row: int) -> bool:
    """Return whether an operator of AFTER holds constants that its partner lacks; quantized copies count as equal.

    before   ADD -> MUL by a constant -> FULLY_CONNECTED      AFTER's FULLY_CONNECTED holds other constants,
    after    ADD ----------------------> FULLY_CONNECTED      and ADD cannot hold the factor
    """
    if pairs.to_before[row] == NONE:
        return False
    held: list[dict[int, int]] = []  # class -> tensor type
    for view, operator in zip(views, (int(pairs.to_before[row]), row), strict=True):
        classes, types = view.side.constant, view.side.graph.values.type_numbers
        held.append({int(classes[v]): int(types[v]) for *_, v in view.reads[operator] if classes[v] != NONE})
    close = views[0].side.constants.close
    return held[0].keys() != held[1].keys() or any(
        close[number] and kind == held[1][number] for number, kind in held[0].items()
    )
