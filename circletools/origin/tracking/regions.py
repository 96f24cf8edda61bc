"""Find regions (connected groups of unpaired operators), and the regions of two models that do the same work.

    before   CONV_2D -> MEAN -> SUB -> MUL -> ADD -> SOFTMAX      the regions lie between the same values:
    after    CONV_2D ------- LAYER_NORM ---------> SOFTMAX        LAYER_NORM does the work of all four

A region ends at values known in both models: inputs and results of paired operators, and ends.

Operators that compute the same value are found by value numbering, as compilers find common subexpressions:

    before   FULLY_CONNECTED a -> RELU, TANH        a tool computes `a` once for each reader,
    after    FULLY_CONNECTED a -> RELU              or once for both: all have its origin
             FULLY_CONNECTED b -> TANH
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from circletools.graph.algorithms import Indices, components
from circletools.origin.tracking.ends import cut_ends
from circletools.origin.tracking.view import NONE, Pairs, View, Views


def repeated(view: View, partner: np.ndarray) -> dict[int, int]:
    """Map unpaired operators of a model to a paired operator that computes the same value."""
    if not (partner == NONE).any():
        return {}
    constant, is_constant, codes = (
        view.side.constant.tolist(),
        view.side.is_constant.tolist(),
        view.side.code.tolist(),
    )
    known, number = dict[Hashable, int](), list(range(len(view)))
    groups: dict[int, list[int]] = defaultdict(list)

    def key(row: int, giver: int, place: int, value: int) -> Hashable:
        """Key the input of a slot by the number of the operator that produces it, or by the class of a constant."""
        if NONE != giver <= row:  # earlier operators already have their numbers
            return number[giver], place
        return NONE, constant[value] if is_constant[value] else ~value  # negative, unlike classes

    for row in np.flatnonzero(~view.hidden).tolist():
        if view.reads[row]:
            number[row] = known.setdefault((codes[row], *(key(row, *slot) for slot in view.reads[row])), row)
            groups[number[row]].append(row)
    found: dict[int, int] = {}
    for rows in groups.values():
        paired = [row for row in rows if partner[row] != NONE]
        if paired:
            found |= {row: paired[0] for row in rows if partner[row] == NONE}
    return found


Known = Mapping[int, set[int]]
"""For each value of BEFORE, the corresponding values of AFTER."""

_OVERLAP = 0.5
_MOST_BESIDE = 64


@dataclass(slots=True)
class Region:
    """A connected group of operators without a partner.

    `taken` holds the values of AFTER that the region reads from outside, and `made` those that are read outside it;
    `feeds` and `takers` hold the adjacent paired operators of AFTER.
    """

    operators: list[int]
    taken: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    feeds: set[int] = field(default_factory=set)
    takers: set[int] = field(default_factory=set)

    def overlap(self, other: Region) -> float:
        """Return the degree to which two regions lie between the same values: 1 if one lies within the other."""
        if (self.taken and other.taken and not self.taken & other.taken) or not self.made & other.made:
            return 0.0
        common = len(self.taken & other.taken) + len(self.made & other.made)
        return common / (len(self.taken) + len(self.made))


def same_values(
    views: Views, pairs: Pairs, copies: Mapping[int, int], twins: Mapping[int, int]
) -> dict[int, set[int]]:
    """Return the AFTER values that correspond to each BEFORE value, judging by pairs.

    The results of two paired operators correspond, and so do the values read in the same slot. Several values may
    correspond to one, since an inserted operator may produce a value that equals its input. `copies` holds
    AFTER's operators that compute the same value as a paired one (see `repeated`); `twins` holds those of BEFORE.
    """
    was, now = views
    found: dict[int, set[int]] = defaultdict(set)
    for old, new in (*pairs.inputs, *pairs.outputs):
        found[int(was.value[old])].add(int(now.value[new]))
    near = [np.logical_or(*view.beside(pairs.unpaired(side))) for side, view in enumerate(views)]
    rows = np.flatnonzero(~pairs.unpaired(1))
    rows = rows[near[0][pairs.to_before[rows]] | near[1][rows]]
    couples = list(zip(pairs.to_before[rows].tolist(), rows.tolist(), strict=True))
    equal = [
        *((old, new) for new, old in copies.items()),
        *((one, int(pairs.to_after[old])) for one, old in twins.items()),
    ]
    for old, new in couples + equal:
        for one, other in zip(was.made[old], now.made[new], strict=False):
            found[one].add(other)
    for old, new in couples:
        for before, after in zip(was.reads[old], now.reads[new], strict=False):
            both = NONE not in (before[0], after[0])
            paired = both and pairs.to_after[before[0]] != NONE != pairs.to_before[after[0]]
            if not (paired or was.side.is_constant[before[2]] or now.side.is_constant[after[2]]):
                found[before[2]].add(after[2])
    return dict(found)


def needed(views: Views, pairs: Pairs, known: Known) -> set[int]:
    """Return BEFORE's unpaired operators whose results reach a paired one, or an output that AFTER has.

    The others were removed together with their outputs. Operators before a new input of AFTER were cut off.
    """
    was, now = views
    cut_inputs, _ = cut_ends(now, pairs)
    cut = {value for value, same in known.items() if same & cut_inputs}
    waiting = [int(was.side.graph.producer[was.value[old]]) for old, _ in pairs.outputs]
    fed, _ = was.beside(pairs.unpaired(0))
    for old in np.flatnonzero(fed & ~pairs.unpaired(0)).tolist():
        slots = zip_longest(was.reads[old], now.reads[int(pairs.to_after[old])])
        waiting += [one[0] for one, other in slots if one and (other is None or other[2] not in cut_inputs)]
    found: set[int] = set()
    while waiting:
        row = waiting.pop()
        if row != NONE and row not in found and pairs.to_after[row] == NONE:
            found.add(row)
            waiting += [giver for giver, _, value in was.reads[row] if value not in cut]
    return found


def both_regions(
    views: Views, pairs: Pairs, known: Known, without: Sequence[Collection[int]]
) -> tuple[list[Region], list[Region]]:
    """Return the regions of BEFORE and AFTER, `without` some operators of each."""
    itself = {value: {value} for same in known.values() for value in same}
    free = [
        set(np.flatnonzero(pairs.unpaired(side) & ~view.hidden).tolist()).difference(without[side])
        for side, view in enumerate(views)
    ]
    free[0] &= needed(views, pairs, known)
    olds = _regions(views, 0, free[0], known, pairs.to_after, pairs.outputs)
    news = _regions(views, 1, free[1], itself, np.arange(len(views[1])), pairs.outputs)
    return olds, news


def _regions(
    views: Views, side: int, free: set[int], known: Known, partner: Indices, outputs_: Sequence[tuple[int, int]]
) -> list[Region]:
    """Return the regions of the `free` operators; `partner` is each operator's index in AFTER, or -1."""
    view, constant = views[side], views[side].side.is_constant
    rows = sorted(free)
    number = {row: at for at, row in enumerate(rows)}
    edges = [
        (number[giver], number[row])
        for row in rows
        for giver, _, value in view.reads[row]
        if giver in number and value not in known
    ]
    label = components(len(rows), *zip(*edges, strict=True)) if edges else list(range(len(rows)))
    regions = [Region([]) for _ in range(max(label, default=-1) + 1)]
    outputs = {int(view.value[ends[side]]) for ends in outputs_}
    for row, at in zip(rows, label, strict=True):
        region = regions[at]
        region.operators.append(row)
        for giver, _, value in view.reads[row]:
            if constant[value] or (giver in number and label[number[giver]] == at):
                continue
            region.taken |= known.get(value, set())
            makers = (
                {int(partner[giver])}
                if giver != NONE and partner[giver] != NONE
                else {int(views[1].side.graph.producer[same]) for same in known.get(value, ())}
            )
            region.feeds |= makers - {NONE}
        for value in view.made[row]:
            around = {
                reader
                for reader, _ in view.readers[value]
                if number.get(reader) is None or label[number[reader]] != at
            }
            if around or value in outputs:
                region.made |= known.get(value, set())
            region.takers |= {int(partner[reader]) for reader in around} - {NONE}
    return regions


def pair_regions(olds: list[Region], news: list[Region]) -> tuple[list[tuple[list[Region], Region]], list[Region]]:
    """Return each region of AFTER with the regions of BEFORE whose work it does, and the unmatched ones of BEFORE."""
    makers: dict[int, list[int]] = defaultdict(list)
    for at, region in enumerate(news):
        for value in region.made:
            makers[value].append(at)
    assigned: dict[int, list[Region]] = defaultdict(list)
    left: list[Region] = []
    for region in olds:
        ranks = [
            (region.overlap(news[at]), len(region.takers & news[at].takers), at not in assigned, -at)
            for at in {at for value in region.made for at in makers.get(value, ())[:_MOST_BESIDE]}
        ]
        best = max(ranks, default=(0.0, 0, False, 0))
        (assigned[-best[-1]] if best[0] >= _OVERLAP else left).append(region)
    return [(parts, news[at]) for at, parts in assigned.items()], left
