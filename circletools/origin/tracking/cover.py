"""What AFTER's operators compute of BEFORE's, beyond pairs: regions, what was fused or folded, what was put in.

    before   CONV_2D -> RELU -> SOFTMAX      MEAN -> SUB -> MUL -> ADD      CONV_2D ------------> ADD
    after    CONV_2D ---------> SOFTMAX      ------ LAYER_NORM ------      CONV_2D -> QUANTIZE -> ADD
             CONV_2D gets RELU's             LAYER_NORM gets all four      QUANTIZE gets CONV_2D's

A region is a connected group of operators without a partner. Regions of the two models that lie between the same
operators (or ends) do the same work. A region of BEFORE without a counterpart was absorbed by what feeds it, or,
where it only prepares an input, by what it feeds. What was put in has the origin of what it continues: the ONE
compiler gives a Quantize that it puts behind an operator the origin of that operator, and one behind an input that of
the first operator it feeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import fsum

import numpy as np

from circletools.flatbuf.columns import grouped
from circletools.origin.tracking.doubles import find_doubles
from circletools.origin.tracking.folded import ARITHMETIC, find_folded, is_behind
from circletools.origin.tracking.match import CONVERTING, Matcher
from circletools.origin.tracking.regions import (
    MOST_BESIDE,
    End,
    Region,
    both_regions,
    one_by_one,
    pair_regions,
    same_values,
)
from circletools.origin.tracking.score import Evidence
from circletools.origin.tracking.side import NONE, Side, main_inputs

PREPARING = frozenset({"PAD", "PADV2", "MIRROR_PAD", "DEQUANTIZE", "DENSIFY"})
"""Operators that are folded into what takes their output."""

LAYING_OUT = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE", "TRANSPOSE"})
"""Operators that give the same elements another shape or order; one behind the other are one."""

HANDING_ON = CONVERTING | LAYING_OUT | {"CAST", "CONCATENATION"}
"""Operators that a tool puts in to change how a value is written or laid out."""

SEPARABLE = ARITHMETIC | {"RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "TANH"}
"""Operators that can be a part of the one in front of them: its activation, its bias, its scale."""

FUSING = ARITHMETIC | {
    "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONCATENATION", "CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED",
    "L2_NORMALIZATION", "L2_POOL_2D", "MAX_POOL_2D", "SVDF", "TRANSPOSE_CONV",
}  # fmt: skip
"""Operators that have a bias or an activation of their own."""

_MOST_STEPS, _MOST_ROUNDS, _MOST_PASSED = 64, 8, 8
_LEAST_SHARE = 0.4
_ENDS_ONLY = 0.8  # how sure inputs and outputs are where everything between them was put into one operator
_BESIDE_OTHERS = 0.8  # the factor for an operator that holds many, where others stand in its region
_MOST_SHARED = 1 << 14  # operators times operators: beyond, nothing is known rather than everything
IN_REGION, ABSORBED, SPLIT_OFF = 0.9, 0.8, 0.9
_MOST_FUSED = 4  # operators that are usually fused into one; where more are gone, they may as well have been cut off

Found = dict[int, tuple[Evidence, float]]
"""Operator of BEFORE -> evidence and confidence."""

Alike = tuple[list[tuple[Region, float]], Region]
"""Regions of BEFORE with their overlap, and the one of AFTER that does their work."""


def cover(matcher: Matcher, paired: list[Found], ends: dict[int, list[int]]) -> list[Found]:
    """Return for each operator of AFTER what it computes; `paired` is what its pair says."""
    found = [dict(entry) for entry in paired]
    pairs = matcher.pairs
    matcher.paired = len(matcher.after) - pairs.to_before.count(NONE)
    put_in = matcher.after.is_any(CONVERTING) & pairs.lonely(1)
    matcher.show([np.zeros(len(matcher.before), np.bool_), put_in])
    named = {old: new for new, rows in ends.items() for old in rows}
    _enter_doubles(matcher, found)
    olds, news = both_regions(matcher)
    alike, left = pair_regions(olds, news, named)
    for _ in range(_MOST_ROUNDS):
        if not _pair_inside(matcher, alike, found):
            break
        olds, news = both_regions(matcher)
        alike, left = pair_regions(olds, news, named)
    opaque = matcher.opaque()
    for parts, region in alike:
        _share_out(matcher, parts, region, opaque, found)
    beside: dict[End, list[Region]] = defaultdict(list)
    for region in news:
        for end in region.feeds | region.takers:
            beside[end].append(region)
    for region in left:
        moved = _moved(matcher, region, beside, found)
        if moved is None:
            _absorb(matcher, region, named, found)
        else:
            _hand_over(matcher, region, moved, found)
    _split_off(matcher, news, found)
    _continue(matcher.after, opaque, found)
    return found


def _enter_doubles(matcher: Matcher, found: list[Found]) -> None:
    """Give operators that compute what another one does the origin of that one, and that one theirs."""
    find_doubles(matcher)
    find_folded(matcher)
    partners = matcher.pairs.to_after
    for new, old in matcher.doubles[1].items():
        evidence, sure = found[partners[old]][old]
        found[new][old] = (evidence, SPLIT_OFF * sure)
    for double, old in matcher.doubles[0].items():
        found[partners[old]][double] = (Evidence.FUSED, ABSORBED * found[partners[old]][old][1])


def _pair_inside(matcher: Matcher, alike: list[Alike], found: list[Found]) -> bool:
    """Pair operators inside regions that belong together, as far as code and place tell; say whether any could be."""
    fresh = []
    for parts, region in alike:
        score = _score(matcher, parts, region, found)
        olds = [row for part, _ in parts for row in part.operators]
        fresh += [(old, new, score) for old, new in one_by_one(matcher, sorted(olds), region.operators)]
    for old, new, score in fresh:
        if matcher.pairs.are_free(old, new):
            matcher.pairs.add(old, new)
            found[new][old] = (Evidence.REGION, IN_REGION * score)
    return bool(fresh)


def _sureness(matcher: Matcher, old: Region, new: Region, found: list[Found]) -> float:
    """Return the confidence in the ends that two regions share.

    That of inputs and outputs of the model is the share of operators that are paired.
    """
    others = min(len(matcher.before), len(matcher.after) - len(matcher.opaque()))
    share = min(1.0, matcher.paired / others) if others > 0 else _ENDS_ONLY
    ends = (old.feeds & new.feeds) | (old.takers & new.takers)
    sure = [
        max((confidence for _, confidence in found[row].values()), default=0.0) if kind == "operator" else share
        for kind, row in ends
    ]
    return fsum(sure) / len(sure) if sure else 1.0  # the order of a set must not tell


def _score(matcher: Matcher, parts: list[tuple[Region, float]], region: Region, found: list[Found]) -> float:
    return min(overlap * _sureness(matcher, part, region, found) for part, overlap in parts)


def _share_out(
    matcher: Matcher, parts: list[tuple[Region, float]], region: Region, opaque: set[int], found: list[Found]
) -> None:
    """Give all of BEFORE's operators to all of a region, or to those in it that can hold many.

    Of many for many it is not known who does what: where each would most likely be wrong, nobody gets any.
    """
    olds = sorted({row for part, _ in parts for row in (*part.operators, *part.again)})
    news = sorted(opaque.intersection(region.operators)) or region.operators
    same = [new for new in news if matcher.after.codes[new] == matcher.before.codes[olds[0]]]
    if len(olds) == len(same) == 1:  # it is still there, and the others are new
        news = same
    share = _BESIDE_OTHERS
    if len(news) == len(region.operators) or len(news) > 1:
        share = 1 / min(len(olds), len(news))
    unknown = len(news) > 1 and not opaque.isdisjoint(news)  # where one ends and the next begins
    if unknown or len(news) * len(olds) > _MOST_SHARED or share < _LEAST_SHARE:
        return
    score = share**2 * IN_REGION * _score(matcher, parts, region, found)
    for new in news:
        for old in olds:
            found[new].setdefault(old, (Evidence.REGION, score))


def _hand_over(matcher: Matcher, region: Region, moved: Region, found: list[Found]) -> None:
    """Give the operators of a region to the same ones of the region that it has become elsewhere."""
    score = ABSORBED * IN_REGION * _sureness(matcher, region, moved, found)
    pairs = one_by_one(matcher, region.operators, moved.operators)
    for old, new in pairs or zip(region.operators, moved.operators, strict=True):
        found[new].setdefault(old, (Evidence.REGION, score))


def _moved(matcher: Matcher, region: Region, beside: dict[End, list[Region]], found: list[Found]) -> Region | None:
    """Return the region of AFTER that is this one after it changed places with what stands behind or in front."""
    codes = Counter(matcher.before.codes[row] for row in region.operators)
    held = _held(matcher, 0, region)
    for end in _passed(matcher, region):
        for other in beside.get(end, ())[:MOST_BESIDE]:
            is_free = not any(found[row] for row in other.operators)
            same = is_free and Counter(matcher.after.codes[row] for row in other.operators) == codes
            if same and _held(matcher, 1, other) <= held:  # else its constants are those of another one of BEFORE
                return other
    return None


def _held(matcher: Matcher, side: int, region: Region) -> set[int]:
    """Return the classes of constants that both models have which the operators of a region take."""
    sources = (source for row in region.operators for source in matcher.views[side].sources[row])
    classes = (int(matcher.classes.numbers[side][value]) for _, _, value in sources)
    return {number for number in classes if number != NONE and matcher.classes.shared[number]}


def _passed(matcher: Matcher, region: Region) -> Iterator[End]:
    """Yield what a region lies beside, and then what stands in a row behind and in front of that."""
    yield from sorted(region.feeds | region.takers)
    shown = matcher.views[1]

    def takers(row: int) -> list[int]:
        return [taker for value in shown.made[row] for taker, _ in shown.takers.get(value, ())]

    def makers(row: int) -> list[int]:
        return [maker for maker, _, _ in shown.sources[row] if maker != NONE]

    for ends, beside in ((region.takers, takers), (region.feeds, makers)):
        for row in sorted(row for kind, row in ends if kind == "operator"):
            others = beside(row)
            for _ in range(_MOST_PASSED):
                if len(others) != 1:
                    break
                yield "operator", others[0]
                others = beside(others[0])


def _absorb(matcher: Matcher, region: Region, named: dict[int, int], found: list[Found]) -> None:
    """Give a region of BEFORE that is gone to what took over its work."""
    by_name = {named[row] for row in region.operators if row in named}
    feeds = [row for kind, row in sorted(region.feeds) if kind == "operator"]
    takers = [row for kind, row in sorted(region.takers) if kind == "operator"]
    preparing = all(matcher.before.codes[row] in PREPARING for row in region.operators)
    laying_out = all(matcher.before.codes[row] in LAYING_OUT for row in region.operators)
    laid_out = [row for row in takers if laying_out and matcher.after.codes[row] in LAYING_OUT]
    behind = False
    if by_name:
        heirs = sorted(by_name)
    elif not feeds or preparing:
        heirs = takers
    elif laid_out and matcher.after.codes[feeds[-1]] not in LAYING_OUT:
        heirs = laid_out
    else:
        linear = all(_is_linear(matcher, row) for row in region.operators)
        behind = linear and is_behind(matcher, region.operators, feeds[-1], takers)
        heirs = takers if behind else feeds[-1:]
    if len(heirs) * len(region.operators) > _MOST_SHARED:
        return
    usual = min(1.0, _MOST_FUSED / len(region.operators)) ** 2
    for heir in heirs:
        own = max((confidence for _, confidence in found[heir].values()), default=IN_REGION)
        for row in region.operators:
            confidence = own * (1.0 if by_name else ABSORBED * usual / (1 if behind else len(heirs)))
            found[heir].setdefault(row, (Evidence.FUSED, confidence))


def _is_linear(matcher: Matcher, row: int) -> bool:
    """Say whether an operator can be folded into the constants of the one that takes its output."""
    code = matcher.before.codes[row]
    return code in LAYING_OUT or code in PREPARING or code in ARITHMETIC or code == "NEG"


def _split_off(matcher: Matcher, news: list[Region], found: list[Found]) -> None:
    """Give a region of AFTER that has no like in BEFORE, and stands in one value there, to what makes that value.

    So stands an activation, or a sum, that was a part of the operator in front of it.
    """
    codes = matcher.after.codes
    news = [region for region in news if all(codes[row] in SEPARABLE and not found[row] for row in region.operators)]
    values = [known for known in same_values(matcher).values() if len(known) > 1] if news else []
    at: dict[int, set[int]] = defaultdict(set)
    for number, known in enumerate(values):
        for value in known:
            at[value].add(number)
    for region in news:
        behind = [
            value
            for value in sorted(region.taken)
            if any(at[value] & at[made] for made in region.made if made != value)
        ]
        makers = [int(matcher.after.producer[value]) for value in behind]
        heirs = [maker for maker in makers if maker != NONE and found[maker] and codes[maker] in FUSING]
        if heirs:
            for row in region.operators:
                found[row] = {
                    old: (Evidence.CONTINUED, sure * SPLIT_OFF) for old, (_, sure) in found[heirs[0]].items()
                }


def _continue(after: Side, opaque: set[int], found: list[Found]) -> None:
    """Give what was put in the origin of what it continues, and behind an input or a constant, of what it feeds."""
    main = main_inputs(after)
    takers: dict[int, list[int]] = defaultdict(list)
    for operator, tensor in zip(after.inputs.operator.tolist(), after.inputs.tensor.tolist(), strict=True):
        takers[tensor].append(operator)
    made = grouped(len(after), after.outputs.operator, after.outputs.tensor.tolist())
    direct = [bool(entry) for entry in found]
    for row, code in enumerate(after.codes):
        if direct[row] or code not in HANDING_ON:
            continue
        heir = row
        for _ in range(_MOST_STEPS):
            if heir == NONE or direct[heir] or heir in opaque:
                break
            tensor = int(main[heir]) if after.codes[heir] in HANDING_ON else NONE
            heir = int(after.producer[tensor]) if tensor != NONE else NONE
        if heir == NONE:
            heir = _first_fed(row, made, takers, direct, after.codes)
        if heir != NONE and direct[heir]:
            found[row] = {old: (Evidence.CONTINUED, entry[1]) for old, entry in found[heir].items()}


def _first_fed(
    row: int, made: list[list[int]], takers: dict[int, list[int]], direct: list[bool], codes: list[str]
) -> int:
    for _ in range(_MOST_STEPS):
        fed = sorted(taker for tensor in made[row] for taker in takers[tensor])
        if not fed:
            return NONE
        row = next((taker for taker in fed if direct[taker]), fed[0])
        if direct[row]:
            return row
        if codes[row] not in HANDING_ON:
            return NONE
    return NONE
