"""Inputs and outputs of the models, looked at again when operators are paired: which of them belong together.

A part that was cut out of a model has ends of its own. Where it has as many as the whole, they are paired at first:

    before   x -> CONV_2D a -> RELU -> CONV_2D b -> y      what lies between `x` and `b` holds constants that AFTER
    after                     x' ----> CONV_2D b -> y'     has nowhere, so `x'` is not `x`: the model was cut there

And outputs that were not paired, because there are fewer now, are where what makes them is paired.

What was cut out of a network that repeats itself, as an unrolled LSTM with its tied weights does, fits in several
places. So of a part that no end and nothing of its own holds in one place, no pair is believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.score import cut_ends
from circletools.origin.tracking.side import NONE

_MOST_BETWEEN = 6  # operators without a partner that may be gone between an end and what is beside it now
_STEPS = 3  # operators that may be fused into the one that makes an output now


def revise(matcher: Matcher) -> None:
    """Give up pairs of ends between which too much lies, and pair outputs by what makes them."""
    if not (matcher.pairs.lonely(0).any() or matcher.pairs.lonely(1).any()):
        return
    matcher.look_through_conversions()
    anchors, lost = matcher.anchors, lost_constants(matcher)
    anchors.inputs = [pair for pair in anchors.inputs if not _input_is_cut(matcher, lost, *pair)]
    anchors.outputs = [pair for pair in anchors.outputs if not _output_is_cut(matcher, lost, *pair)]
    anchors.outputs += _late(matcher, lost)
    matcher.look_through_the_rest()


def drop_the_adrift(matcher: Matcher) -> None:
    """Undo the pairs of parts of AFTER that may as well be elsewhere in BEFORE."""
    if matcher.tagged or NONE not in matcher.pairs.to_after or not any(cut_ends(matcher)):
        return
    matcher.look_at_everything()
    pairs, shown = matcher.pairs, matcher.views[1]
    held = _held_in_place(matcher)
    seen: set[int] = set()
    for start, partner in enumerate(pairs.to_before):
        if partner == NONE or start in seen:
            continue
        seen.add(start)
        part = [start]
        for row in part:
            beside = [source[0] for source in shown.sources[row]]
            beside += [taker for value in shown.made[row] for taker, _ in shown.takers.get(value, ())]
            fresh = {other for other in beside if other != NONE and pairs.to_before[other] != NONE} - seen
            seen |= fresh
            part += sorted(fresh)
        if held.isdisjoint(part):
            for row in part:
                pairs.to_after[pairs.to_before[row]] = pairs.to_before[row] = NONE
    matcher.look_through_the_rest()


def _held_in_place(matcher: Matcher) -> set[int]:
    """Return AFTER's operators that can have one partner only: by an end, a name, or what they are and hold."""
    was, now = matcher.views
    held = {taker for _, new in matcher.anchors.inputs for taker, _ in now.takers.get(int(now.value[new]), ())}
    held |= {int(matcher.after.producer[now.value[new]]) for _, new in matcher.anchors.outputs}
    looks = [_looks(matcher, side) for side in (0, 1)]
    counts = [Counter(side) for side in looks]
    for new, old in enumerate(matcher.pairs.to_before):
        if old == NONE:
            continue
        alone = looks[0][old] == looks[1][new] and counts[0][looks[0][old]] == counts[1][looks[1][new]] == 1
        first = was.made[old][:1], now.made[new][:1]
        named = matcher.names_count and all(first)
        if alone or (named and matcher.before.names[first[0][0]] == matcher.after.names[first[1][0]] != b""):
            held.add(new)
    return held


def _looks(matcher: Matcher, side: int) -> list[tuple[int, ...]]:
    """Return what each operator is by itself: its code, its size, and which constants it holds where."""
    this, classes = matcher.sides[side], matcher.classes.numbers[side]
    return [
        (code, size, *(int(classes[value]) if this.is_constant[value] else NONE - 1 for _, _, value in sources))
        for code, size, sources in zip(
            matcher.codes[side].tolist(), matcher.sizes[side].tolist(), matcher.views[side].sources, strict=True
        )
    ]


def lost_constants(matcher: Matcher) -> set[int]:
    """Return BEFORE's operators without a partner whose constants, hardly equal by chance, AFTER has nowhere."""
    numbers, classes = matcher.classes.numbers[0], matcher.classes
    lost = set()
    for row, partner in enumerate(matcher.pairs.to_after):
        if partner == NONE:
            own = [int(numbers[value]) for producer, _, value in matcher.views[0].sources[row] if producer == NONE]
            telling = [number for number in own if number != NONE and classes.distinctive[number]]
            if telling and not any(classes.shared[number] for number in telling):
                lost.add(row)
    return lost


def _input_is_cut(matcher: Matcher, lost: set[int], old: int, new: int) -> bool:
    """Say whether what takes AFTER's input takes, in BEFORE, what is far from that input."""
    was, now = matcher.views
    heard = []
    for taker, slot in now.takers.get(int(now.value[new]), ()):
        partner = matcher.pairs.to_before[taker]
        if partner != NONE and slot < len(was.sources[partner]):
            heard.append(_far(matcher, lost, [was.sources[partner][slot][2]], int(was.value[old])))
    return bool(heard) and all(heard)


def _output_is_cut(matcher: Matcher, lost: set[int], old: int, new: int) -> bool:
    """Say whether what makes AFTER's output is, in BEFORE, far from that output."""
    was, now = matcher.views
    maker = int(matcher.after.producer[now.value[new]])
    partner = matcher.pairs.to_before[maker] if maker != NONE else NONE
    if partner == NONE or not was.made[partner]:
        return False
    places = [place for place, value in enumerate(now.made[maker]) if value == now.value[new]]
    made = [was.made[partner][place] for place in places if place < len(was.made[partner])]
    return all(_far(matcher, lost, [int(was.value[old])], value) for value in made or was.made[partner][:1])


def _far(matcher: Matcher, lost: set[int], values: Iterable[int], goal: int) -> bool:
    """Say whether no way back from values to another one goes through a few operators that can have been fused."""
    was, waiting, seen = matcher.views[0], list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if value == goal:
            return len(seen) > _MOST_BETWEEN
        row = int(matcher.before.producer[value])
        if row != NONE and row not in seen and row not in lost and matcher.pairs.to_after[row] == NONE:
            seen.add(row)
            waiting += [source[2] for source in was.sources[row]]
    return True


def _late(matcher: Matcher, lost: set[int]) -> list[tuple[int, int]]:
    """Return pairs of outputs without a partner: of one maker, or with only what can be fused in between."""
    anchors, (was, now) = matcher.anchors, matcher.views
    known = [{pair[side] for pair in anchors.outputs} for side in (0, 1)]
    found: list[tuple[int, int]] = []
    for old_subgraph, new_subgraph in anchors.subgraphs.items():
        olds = {int(was.value[t]): t for t in matcher.before.boundary(old_subgraph, "outputs") if t not in known[0]}
        for new in dict.fromkeys(matcher.after.boundary(new_subgraph, "outputs")):
            maker = int(matcher.after.producer[now.value[new]])
            partner = matcher.pairs.to_before[maker] if maker != NONE else NONE
            if new in known[1] or partner == NONE:
                continue
            place = now.made[maker].index(int(now.value[new])) if int(now.value[new]) in now.made[maker] else 0
            value = was.made[partner][place] if place < len(was.made[partner]) else NONE
            for _ in range(_STEPS):
                if value == NONE or value in olds:
                    break
                takers = [row for row, _ in was.takers.get(value, ())]
                fused = len(takers) == 1 and takers[0] not in lost and matcher.pairs.to_after[takers[0]] == NONE
                value = was.made[takers[0]][0] if fused and len(was.made[takers[0]]) == 1 else NONE
            if value in olds:
                found.append((olds.pop(value), new))
    return found
