"""What AFTER's operators compute of BEFORE's, beyond pairs: regions, what was fused or folded, what was put in.

    before   CONV_2D -> RELU -> SOFTMAX      MEAN -> SUB -> MUL -> ADD      CONV_2D ------------> ADD
    after    CONV_2D ---------> SOFTMAX      ------ LAYER_NORM ------      CONV_2D -> QUANTIZE -> ADD
             CONV_2D gets RELU's             LAYER_NORM gets all four      QUANTIZE gets CONV_2D's

A region is what hangs together among operators without a partner. Regions of the two models that lie between the
same operators (or ends) do the same work. A region of BEFORE that has no like went into what feeds it, or, where it
only prepares an input, into what it feeds. What was put in has the origin of what it continues: the ONE compiler
gives a Quantize that it puts behind an operator the origin of that operator, and one behind an input that of the
first operator it feeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from circletools.origin.tracking.constants import CLOSE, SCALED
from circletools.origin.tracking.match import CONVERTING, Matcher
from circletools.origin.tracking.score import Evidence
from circletools.origin.tracking.side import NONE, Side, View, main_inputs

PREPARING = frozenset({"PAD", "PADV2", "MIRROR_PAD", "DEQUANTIZE", "DENSIFY"})
"""Operators that are folded into what takes their output."""

HANDING_ON = CONVERTING | {"CAST", "CONCATENATION", "EXPAND_DIMS", "RESHAPE", "SQUEEZE", "TRANSPOSE"}
"""Operators that a tool puts in to change how a value is written or laid out."""

_MOST_STEPS, _MOST_BESIDE = 64, 64
_MOST_SHARED = 1 << 14  # operators times operators: beyond, nothing is known rather than everything
_OVERLAP = 0.5
IN_REGION, ABSORBED = 0.9, 0.8
_MOST_FUSED = 4  # operators that are usually fused into one; where more are gone, they may as well have been cut off

Found = dict[int, tuple[Evidence, float]]
"""Operator of BEFORE -> evidence and confidence."""

_End = tuple[str, int]


@dataclass(slots=True)
class _Region:
    """Operators without a partner that hang together, and the paired operators (by AFTER's row) and ends around."""

    operators: list[int]
    feeds: set[_End] = field(default_factory=set)
    takers: set[_End] = field(default_factory=set)

    def overlap(self, other: _Region) -> float:
        """Return how far two regions lie between the same ends, 0 where they only touch on one side."""
        if (self.feeds and other.feeds and not self.feeds & other.feeds) or not self.takers & other.takers:
            return 0.0
        return len((self.feeds & other.feeds) | (self.takers & other.takers)) / len(
            (self.feeds | other.feeds) | (self.takers | other.takers)
        )


def cover(matcher: Matcher, paired: list[Found], ends: dict[int, list[int]]) -> list[Found]:
    """Return for each operator of AFTER what it computes; `paired` is what its pair says."""
    found = [dict(entry) for entry in paired]
    before, after, pairs = matcher.before, matcher.after, matcher.pairs
    put_in = np.array([code in CONVERTING for code in after.codes], np.bool_)
    put_in &= np.array(pairs.to_before, np.int64).reshape(-1) == NONE
    matcher.show([np.zeros(len(before), np.bool_), put_in])
    views = matcher.views
    matcher.paired = len(after) - pairs.to_before.count(NONE)
    inputs, outputs = dict(matcher.anchors.inputs), dict(matcher.anchors.outputs)
    olds = _regions(before, views[0], pairs.to_after, pairs.to_after, inputs, outputs)
    same = [{new: new for new in ends_of.values()} for ends_of in (inputs, outputs)]
    news = _regions(after, views[1], pairs.to_before, list(range(len(after))), same[0], same[1])
    named = {old: new for new, rows in ends.items() for old in rows}
    beside: dict[_End, list[_Region]] = defaultdict(list)
    for region in news:
        for end in region.feeds | region.takers:
            beside[end].append(region)
    for region in _pair_regions(matcher, olds, news, named, found):
        moved = _moved(matcher, region, beside, found)
        if moved is None:
            _absorb(matcher, views[0], region, named, found)
        else:
            _share_out(matcher, [(region, ABSORBED)], moved, found)
    _continue(after, views[1], found)
    return found


def _regions(
    side: Side, shown: View, partner: list[int], name: list[int], inputs: dict[int, int], outputs: dict[int, int],
) -> list[_Region]:  # fmt: skip
    """Return the regions; `partner` is -1 for what is in one, `name` the row by which what is around is called."""
    is_free = {row for row, other in enumerate(partner) if other == NONE and not shown.hidden[row]}
    regions = _hanging_together(shown, is_free)
    output_values: dict[int, list[int]] = defaultdict(list)
    for tensor, number in outputs.items():
        output_values[int(shown.value[tensor])].append(number)
    for region in regions:
        for row in region.operators:
            for producer, _, value in shown.sources[row]:
                if producer != NONE and producer not in is_free:
                    region.feeds.add(("operator", name[producer]))
                elif value in inputs:
                    region.feeds.add(("input", inputs[value]))
            for value in shown.made[row]:
                takers = [taker for taker, _ in shown.takers.get(value, ()) if taker not in is_free]
                region.takers.update(("operator", name[taker]) for taker in takers)
                region.takers.update(("output", number) for number in output_values.get(value, ()))
    return regions


def _hanging_together(shown: View, free: set[int]) -> list[_Region]:
    """Return the `free` operators in groups of those that feed each other."""
    left = set(free)
    regions: list[_Region] = []
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
        regions.append(_Region(sorted(members)))
    return regions


def _pair_regions(
    matcher: Matcher, olds: list[_Region], news: list[_Region], named: dict[int, int], found: list[Found]
) -> list[_Region]:
    """Give what a region of AFTER computes to its operators; return the regions of BEFORE that have no like."""
    by_taker: dict[_End, list[int]] = defaultdict(list)
    region_of: dict[int, int] = {}
    for index, region in enumerate(news):
        for end in region.takers:
            by_taker[end].append(index)
        region_of |= dict.fromkeys(region.operators, index)
    assigned: dict[int, list[tuple[_Region, float]]] = defaultdict(list)
    left = []
    for region in olds:
        touched = {index for end in region.takers for index in by_taker.get(end, ())[:_MOST_BESIDE]}
        best = max(((region.overlap(news[index]), -index) for index in touched), default=(0.0, 0))
        by_name = {region_of[named[row]] for row in region.operators if named.get(row) in region_of}
        if by_name:
            for index in by_name:
                assigned[index].append((region, 1.0))
        elif best[0] >= _OVERLAP and _is_tied(region, news[-best[1]]):
            assigned[-best[1]].append((region, best[0]))
        else:
            left.append(region)
    for index, parts in assigned.items():
        _share_out(matcher, parts, news[index], found)
    return left


def _is_tied(old: _Region, new: _Region) -> bool:
    """Say whether there is more to two regions than that each is all there is between the ends of a model."""
    between_operators = any(kind == "operator" for kind, _ in (old.feeds & new.feeds) | (old.takers & new.takers))
    return between_operators or len(old.operators) == 1 or len(new.operators) == 1


def _sureness(matcher: Matcher, old: _Region, new: _Region, found: list[Found]) -> float:
    """Return how sure the ends are between which two regions lie; inputs and outputs as sure as much is paired."""
    share = min(1.0, matcher.paired / max(1, min(len(matcher.before), len(matcher.after))))
    ends = (old.feeds & new.feeds) | (old.takers & new.takers)
    sure = [
        max((confidence for _, confidence in found[row].values()), default=0.0) if kind == "operator" else share
        for kind, row in ends
    ]
    return sum(sure) / len(sure) if sure else 1.0


def _share_out(matcher: Matcher, parts: list[tuple[_Region, float]], region: _Region, found: list[Found]) -> None:
    """Share BEFORE's operators out to a region: one by one where the codes tell, else all to all that is left."""
    score = min(overlap * _sureness(matcher, part, region, found) for part, overlap in parts)
    olds = sorted(row for part, _ in parts for row in part.operators)
    news = list(region.operators)
    if len(olds) > 1 and len(news) > 1:
        counts = [
            Counter(side.codes[row] for row in rows) for side, rows in ((matcher.before, olds), (matcher.after, news))
        ]
        same = {code for code in counts[0] if counts[0][code] == counts[1].get(code)}
        for code in same:
            alike = [
                [row for row in rows if side.codes[row] == code]
                for side, rows in ((matcher.before, olds), (matcher.after, news))
            ]
            for old, new in zip(*alike, strict=True):
                found[new][old] = (Evidence.REGION, IN_REGION * score)
        rest = [row for row in olds if matcher.before.codes[row] not in same] or olds
        news = [row for row in news if matcher.after.codes[row] not in same]
        if not news:  # all have found themselves; what is left over went into the last of them
            news = region.operators[-1:] if rest is not olds else []
        olds = rest
    if len(news) * len(olds) > _MOST_SHARED:
        return
    for new in news:
        for old in olds:
            found[new].setdefault(old, (Evidence.REGION, IN_REGION * score / max(1, len(news) - 1) ** 0.5))


def _moved(
    matcher: Matcher, region: _Region, beside: dict[_End, list[_Region]], found: list[Found]
) -> _Region | None:
    """Return the region of AFTER that a region has become which changed places with its neighbour."""
    codes = Counter(matcher.before.codes[row] for row in region.operators)
    for end in sorted(region.feeds | region.takers):
        for other in beside.get(end, ())[:_MOST_BESIDE]:
            if len(other.operators) != len(region.operators) or any(found[row] for row in other.operators):
                continue
            if Counter(matcher.after.codes[row] for row in other.operators) == codes:
                return other
    return None


def _changed(matcher: Matcher, row: int) -> bool:
    """Say whether an operator of AFTER holds other constants than its partner; quantized ones are the same."""
    held: list[dict[int, int]] = []  # class -> tensor type
    for side, classes, shown, operator in (
        (matcher.before, matcher.classes.before, matcher.views[0], matcher.pairs.to_before[row]),
        (matcher.after, matcher.classes.after, matcher.views[1], row),
    ):
        types = side.model.tensor_columns.types
        tensors = [value for producer, _, value in shown.sources[operator] if producer == NONE]
        held.append({int(classes[tensor]): int(types[tensor]) for tensor in tensors if classes[tensor] != NONE})
    return held[0].keys() != held[1].keys() or any(
        matcher.classes.how[number] == SCALED or (matcher.classes.how[number] == CLOSE and kind == held[1][number])
        for number, kind in held[0].items()
    )


def _absorb(matcher: Matcher, shown: View, region: _Region, named: dict[int, int], found: list[Found]) -> None:
    """Give a region of BEFORE that is gone to what took over its work."""
    by_name = {named[row] for row in region.operators if row in named}
    twins = {twin for row in region.operators if (twin := _twin(matcher, shown, row)) != NONE}
    feeds = [row for kind, row in sorted(region.feeds) if kind == "operator"]
    takers = [row for kind, row in sorted(region.takers) if kind == "operator"]
    preparing = all(matcher.before.codes[row] in PREPARING for row in region.operators)
    if by_name:
        heirs = sorted(by_name)
    elif len(twins) == len(region.operators):
        heirs = sorted(twins)
    elif not feeds or preparing:
        heirs = takers
    else:
        behind = not _changed(matcher, feeds[-1]) and any(_changed(matcher, row) for row in takers)
        heirs = takers if behind else feeds[-1:]
    if len(heirs) * len(region.operators) > _MOST_SHARED:
        return
    usual = min(1.0, _MOST_FUSED / len(region.operators))
    for heir in heirs:
        own = max((confidence for _, confidence in found[heir].values()), default=IN_REGION)
        for row in region.operators:
            confidence = own * (1.0 if by_name else ABSORBED * usual / len(heirs))
            found[heir].setdefault(row, (Evidence.FUSED, confidence))


def _twin(matcher: Matcher, shown: View, row: int) -> int:
    """Return AFTER's operator for one that computes the same from the same, -1 where there is none."""
    sources = shown.sources[row]
    if not sources:
        return NONE
    for other, _ in shown.takers.get(sources[0][2], ())[:_MOST_BESIDE]:
        partner = matcher.pairs.to_after[other]
        same_code = partner != NONE and matcher.before.codes[other] == matcher.before.codes[row]
        if same_code and [source[2] for source in shown.sources[other]] == [source[2] for source in sources]:
            return partner
    return NONE


def _continue(after: Side, shown: View, found: list[Found]) -> None:
    """Give what was put in the origin of what it continues, and behind an input or a constant, of what it feeds."""
    main = main_inputs(after)
    takers: dict[int, list[int]] = defaultdict(list)
    for operator, tensor in zip(after.inputs.operator.tolist(), after.inputs.tensor.tolist(), strict=True):
        takers[tensor].append(operator)
    made: dict[int, list[int]] = defaultdict(list)
    for operator, tensor in zip(after.outputs.operator.tolist(), after.outputs.tensor.tolist(), strict=True):
        made[operator].append(tensor)
    direct = [bool(entry) for entry in found]
    for row, code in enumerate(after.codes):
        if direct[row] or code not in HANDING_ON:
            continue
        heir = row
        for _ in range(_MOST_STEPS):
            if heir == NONE or direct[heir]:
                break
            tensor = int(main[heir]) if after.codes[heir] in HANDING_ON else NONE
            heir = int(after.producer[tensor]) if tensor != NONE else NONE
        if heir == NONE:
            heir = _first_fed(row, made, takers, direct, after.codes)
        if heir != NONE and direct[heir]:
            found[row] = {old: (Evidence.CONTINUED, entry[1]) for old, entry in found[heir].items()}


def _first_fed(
    row: int, made: dict[int, list[int]], takers: dict[int, list[int]], direct: list[bool], codes: list[str]
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
