"""Pairs of operators that are the same one: from names, constants and places, and on along the graph.

What is certain comes first, and each pair makes others certain: operators whose colour stands once in each model
(see `colours`), the deepest colours first; then what feeds and what takes the same values. What looks alike
everywhere is paired in its order, and remembered as a choice among so many.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from circletools.model.keys import Interning, alone_in_both, mixed
from circletools.model.options import options_of
from circletools.origin.tracking.anchors import Anchors
from circletools.origin.tracking.colours import Colours, Edges, alike, gather
from circletools.origin.tracking.constants import Classes
from circletools.origin.tracking.seen import Seen, look, single
from circletools.origin.tracking.side import NONE, Indices, Side, View, output_sizes, view

_MOST_ROUNDS = 8
_DEPTHS = (12, 8, 5, 3, 2, 1, 0)
CONVERTING = frozenset({"QUANTIZE", "DEQUANTIZE", "FAKE_QUANT"})
"""Operators that change how a value is written, not the value; tools put them in and take them out."""

_OPAQUE = ("CUSTOM", "DELEGATE")
_KEPT = 2


@dataclass(slots=True)
class Pairs:
    """The partner of each operator, or -1, by operator row; `choices` tells among how many a pair was chosen."""

    to_after: array[int]
    to_before: array[int]
    choices: list[int]
    fresh: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def partners(self) -> tuple[array[int], array[int]]:
        """The partners of either model's operators."""
        return self.to_after, self.to_before

    def lonely(self, side: int) -> NDArray[np.bool_]:
        """Say which operators of a model, 0 for BEFORE and 1 for AFTER, have no partner."""
        lonely: NDArray[np.bool_] = np.asarray(self.partners[side]) == NONE
        return lonely

    def are_free(self, old: int, new: int) -> bool:
        """Say whether neither of two operators has a partner."""
        return self.to_after[old] == NONE == self.to_before[new]

    def add(self, old: int, new: int, choices: int = 1) -> None:
        """Pair two operators that have no partner yet."""
        self.to_after[old], self.to_before[new], self.choices[new] = new, old, choices
        self.fresh.append((old, new))


class Matcher:
    """The two models and what is known of their operators so far."""

    def __init__(self, before: Side, after: Side, classes: Classes, anchors: Anchors) -> None:
        """Start without any pair."""
        self.before: Side = before
        self.after: Side = after
        self.sides: tuple[Side, Side] = (before, after)
        self.classes: Classes = classes
        self.anchors: Anchors = anchors
        self.views: list[View] = []
        self._kept: tuple[dict[bytes, Seen], dict[bytes, Seen]] = ({}, {})
        self.names_count = False  # whether equal names are evidence
        self.tags: frozenset[bytes] = frozenset(before.tags.values())
        self.tagged: bool = bool(self.tags)
        self.paired: int  # operators of AFTER with a partner, once what the others compute is asked
        self.doubles: tuple[dict[int, int], dict[int, int]] = ({}, {})  # see `doubles`: by row, BEFORE's operator
        self.pairs: Pairs = Pairs(array("q", [NONE]) * len(before), array("q", [NONE]) * len(after), [1] * len(after))
        interning = Interning()
        self.codes: list[Indices] = [interning.keys(keys) for keys in _codes(self.sides)]
        kinds = {code for code in set(after.codes).difference(before.codes) if code.startswith(_OPAQUE)}
        self.custom: list[int] = np.flatnonzero(after.is_any(kinds)).tolist()  # of custom codes that BEFORE has not
        self.resized: bool = anchors.resized(before, after)
        self.sizes: list[Indices] = [output_sizes(side, self.resized) for side in (before, after)]
        self._plain_codes: list[list[int]] = [codes.tolist() for codes in self.codes]
        self._plain_sizes: list[list[int]] = [sizes.tolist() for sizes in self.sizes]
        self.show([side.is_any(CONVERTING) for side in self.sides])

    def show(self, hidden: list[NDArray[np.bool_]]) -> None:
        """Look through other operators than before; pairs beside what has no partner are followed anew."""
        shown = [self._seen(number, mask) for number, mask in enumerate(hidden)]
        self.views = [seen.view for seen in shown]
        self._hidden: list[bytes] = [seen.view.hidden.tobytes() for seen in shown]  # quick to look at one by one
        self._edges: list[Edges] = []  # of these views, once colours are asked for
        self._known: tuple[object, list[list[Colours]]] | None = None  # the last histories with constants, in `match`
        self.computed: list[list[int]] = [seen.computed for seen in shown]
        self.held: list[dict[int, frozenset[int]]] = [seen.held for seen in shown]
        self.holders: list[dict[int, list[int]]] = [seen.holders for seen in shown]
        old, new = (
            np.logical_or(*fed_and_feeding(self.pairs.lonely(side), *seen.view.slots[1::-1]))
            for side, seen in enumerate(shown)
        )
        to_before = np.asarray(self.pairs.to_before)
        rows = np.flatnonzero(new & (to_before != NONE))
        rows = rows[old[to_before[rows]]]
        self.pairs.fresh.extend(zip(to_before[rows].tolist(), rows.tolist(), strict=True))

    def _seen(self, number: int, hidden: NDArray[np.bool_]) -> Seen:
        """Return a model with some operators looked through; the last two of each are kept."""
        kept, key = self._kept[number], hidden.tobytes()
        seen = kept.pop(key, None)
        if seen is None:
            near = list(kept.values())[-1] if kept else None
            shown = view(self.sides[number], hidden, near.view if near else None)
            seen = look(self.sides[number], shown, self.classes.numbers[number], self.classes, near)
        kept[key] = seen
        if len(kept) > _KEPT:
            del kept[next(iter(kept))]
        return seen

    def match(self, *, by_size: bool = True, choosing: bool = True) -> None:
        """Find all pairs that the graph gives as it is shown now.

        With `by_size` the outputs of two operators must have as many elements; without `choosing`, what looks alike
        is left for later.
        """
        if not all(NONE in partners for partners in self.pairs.partners):
            self.pairs.fresh.clear()
            return
        self._known = None
        self._spread_from_ends(by_size=by_size)
        self._match_constants(by_size=by_size)
        for with_constants in (True, False) if by_size else (False,):
            for _ in range(_MOST_ROUNDS):
                if not self._match_colours(with_constants=with_constants, by_size=by_size):
                    break
        if choosing:
            self._choose(by_size=by_size)
        self._known = None

    def fits(self, old: int, new: int, *, by_size: bool = True) -> bool:
        """Say whether two operators can be the same one.

        They have one code, take equally many computed values, and neither holds a constant of another operator.
        """
        codes, sizes, computed = self._plain_codes, self._plain_sizes, self.computed
        if codes[0][old] != codes[1][new] or computed[0][old] != computed[1][new]:
            return False
        if by_size and sizes[0][old] != sizes[1][new] and sizes[0][old] and sizes[1][new]:
            return False
        held = self.held[0].get(old), self.held[1].get(new)
        return held[0] is None or held[1] is None or not held[0].isdisjoint(held[1])

    def spread(self, *, by_size: bool = True) -> None:
        """Follow the graph from every new pair to what feeds it and what it feeds."""
        pairs, (was, now) = self.pairs, self.views
        to_after, to_before = pairs.partners
        while pairs.fresh:
            old, new = pairs.fresh.popleft()
            choices = pairs.choices[new]
            for old_source, new_source in zip(was.sources[old], now.sources[new], strict=False):
                giver, other = old_source[0], new_source[0]
                if NONE in (giver, other) or old_source[1] != new_source[1]:
                    continue
                if to_after[giver] == NONE == to_before[other]:
                    self._pair_if(giver, other, choices, by_size)
            for old_value, new_value in zip(was.made[old], now.made[new], strict=False):
                self._pair_takers(old_value, new_value, choices, by_size)

    def _spread_from_ends(self, *, by_size: bool) -> None:
        values, producers = [shown.value for shown in self.views], (self.before.producer, self.after.producer)
        for old, new in dict.fromkeys(self.anchors.inputs):
            self._pair_takers(int(values[0][old]), int(values[1][new]), 1, by_size)
        for old, new in self.anchors.outputs:
            self._pair_if(int(producers[0][values[0][old]]), int(producers[1][values[1][new]]), 1, by_size)
        self.spread(by_size=by_size)

    def _match_constants(self, *, by_size: bool) -> None:
        """Pair operators that hold a constant which no other operator of their model holds."""
        for number, olds in self.holders[0].items():
            news = self.holders[1].get(number, ())
            if len(olds) == len(news) == 1:
                self._pair_if(olds[0], news[0], 1, by_size)
        self.spread(by_size=by_size)

    def _pair_if(self, old: int, new: int, choices: int, by_size: bool) -> None:
        pairs = self.pairs
        if NONE in (old, new) or not pairs.are_free(old, new):
            return
        if not self._hidden[0][old] and not self._hidden[1][new] and self.fits(old, new, by_size=by_size):
            pairs.add(old, new, choices)

    def _pair_takers(self, old: int, new: int, choices: int, by_size: bool) -> None:
        """Pair the operators that take a value in either model, where there is one of a kind."""
        to_after, to_before = self.pairs.partners
        takers = self.views[0].takers.get(old)
        if takers is None or (len(takers) == 1 and to_after[takers[0][0]] != NONE):
            return
        olds = [taker for taker in takers if to_after[taker[0]] == NONE]
        if not olds:
            return
        news = [taker for taker in self.views[1].takers.get(new, ()) if to_before[taker[0]] == NONE]
        if not news:
            return
        if len(olds) == len(news) == 1:
            if olds[0][1] == news[0][1]:
                self._pair_if(olds[0][0], news[0][0], choices, by_size)
            return
        kinds: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for side, takers in enumerate((olds, news)):
            codes = self._plain_codes[side]
            for operator, slot in takers:
                kinds.setdefault((codes[operator], slot), ([], []))[side].append(operator)
        for first, second in kinds.values():
            if len(first) == len(second) == 1:
                self._pair_if(first[0], second[0], choices, by_size)
            elif first and second:
                for one, other in self._alone_by_constants(first, second):
                    self._pair_if(one, other, choices, by_size)

    def _alone_by_constants(self, olds: list[int], news: list[int]) -> list[tuple[int, int]]:
        """Return those of some operators that have constants as no other of them does, and equal ones."""
        constants: list[dict[tuple[int, ...], list[int]]] = [{}, {}]
        for side, rows in enumerate((olds, news)):
            classes, is_constant = self.classes.numbers[side], self.sides[side].is_constant
            for row in rows:
                own = tuple(
                    int(classes[value]) for _, _, value in self.views[side].sources[row] if is_constant[value]
                )
                constants[side].setdefault(own, []).append(row)
        both = [(rows, constants[1].get(own, [])) for own, rows in constants[0].items() if own]
        return [(rows[0], others[0]) for rows, others in both if len(rows) == len(others) == 1]

    # ------------------------------------------------------------------ colours

    def _match_colours(self, *, with_constants: bool, by_size: bool) -> int:
        """Pair operators whose colours stand alone, the deepest first; return how many pairs came of it."""
        pairs = self.pairs
        free = [self.free(side) for side in (0, 1)]
        if not all(map(len, free)):
            return 0
        start = pairs.to_before.count(NONE)
        history = self._both_histories(free, with_constants, by_size)
        for depth in (depth for depth in _DEPTHS if depth < len(history[0])):
            free = [rows[pairs.lonely(side)[rows]] for side, rows in enumerate(free)]
            alone = alone_in_both(*(rounds[depth][rows] for rounds, rows in zip(history, free, strict=True)))
            for old, new in zip(*(rows[at].tolist() for rows, at in zip(free, alone, strict=True)), strict=True):
                # Unique by itself and not by its surroundings: only its constants are evidence.
                if depth or (old in self.held[0] and new in self.held[1]):
                    self._pair_if(old, new, 1, by_size)
            self.spread(by_size=by_size)
        return start - pairs.to_before.count(NONE)

    def free(self, side: int) -> Indices:
        """Return the operators that are shown and have no partner."""
        return np.flatnonzero(self.pairs.lonely(side) & ~self.views[side].hidden)

    def _both_histories(self, free: list[Indices], with_constants: bool, by_size: bool) -> list[list[Colours]]:
        """Return the colours of both sides after 0, 1, 2, … rounds.

        They end where operators `free` of the two have no colour in common: nor would they after more rounds.
        """
        key = (with_constants, by_size, self.pairs.to_before.count(NONE))
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        history = self._histories(free, with_constants, by_size)
        if with_constants:
            self._known = (key, history)
        return history

    def _histories(self, free: list[Indices], with_constants: bool, by_size: bool) -> list[list[Colours]]:
        edges = self._edges = self._edges or list(map(Edges, self.sides, self.views))
        history = [[self._labels(side, edges[side], with_constants, by_size)] for side in (0, 1)]
        for _ in range(_DEPTHS[0]):
            free = alike(free, [rounds[-1] for rounds in history])
            if not all(map(len, free)):
                return [rounds[:-1] for rounds in history]
            for side, rounds in enumerate(history):
                rounds.append(edges[side].refine(rounds[-1]))
        return history

    def _labels(self, side: int, edges: Edges, with_constants: bool, by_size: bool) -> Colours:
        """Return what each operator is by itself; one that has a partner is like that one and no other."""
        this = self.sides[side]
        sizes = self.sizes[side] if by_size else np.zeros(len(this), np.int64)
        what = mixed(self.codes[side], sizes, 3)
        bare = ~edges.fed
        value, taker, slot = edges.value[bare], edges.taker[bare], edges.slot[bare]
        anchors = np.zeros(len(this.producer), np.int64)
        for number, pair in enumerate(self.anchors.inputs, 1):
            anchors[pair[side]] = number
        known = self.classes.numbers[side][value]
        constant = this.is_constant[value]
        shared = constant & self.classes.shared[np.maximum(known, 0)] if len(self.classes.shared) else constant
        kind = np.where(shared & with_constants, known + 8, np.where(constant, 1, 0))
        held = gather(len(this), taker, mixed(kind, anchors[value], slot, 4))
        ends = np.array([pair[side] for pair in self.anchors.outputs], np.int64)
        makers = this.producer[self.views[side].value[ends]]
        given = gather(len(this), makers[makers != NONE], mixed(np.flatnonzero(makers != NONE), 5))
        labels = mixed(what, held, given, self._homes(side, edges))
        pairs = self.pairs
        identity = np.arange(len(this)) if side else np.asarray(pairs.to_after)
        paired = ~pairs.lonely(side)
        labels[paired] = mixed(identity[paired], 6)
        return labels

    def _homes(self, side: int, edges: Edges) -> Indices:
        """Return, for operators that neither take nor feed anything, the subgraph they are in; 0 for all others."""
        this = self.sides[side]
        number = {pair[side]: index for index, pair in enumerate(self.anchors.subgraphs.items(), 1)}
        counts = np.diff(this.operator_splits)
        homes = np.repeat([number.get(subgraph, 0) for subgraph in range(len(counts))], counts).astype(np.int64)
        homes[edges.taker] = 0
        homes[edges.giver] = 0
        return homes

    # ------------------------------------------------------------------ what is alike

    def _choose(self, *, by_size: bool) -> None:
        """Pair what has the same colour as others, as many in each model, in the order of the operators."""
        history = self._both_histories([self.free(side) for side in (0, 1)], True, by_size)
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for side, colours in enumerate(rounds[-1] for rounds in history if len(rounds) > _DEPTHS[0]):
            rows = self.free(side)
            for row, colour in zip(rows.tolist(), colours[rows].tolist(), strict=True):
                groups.setdefault(colour, ([], []))[side].append(row)
        even = [pair for pair in groups.values() if len(pair[0]) == len(pair[1])]
        for olds, news in sorted(even, key=lambda pair: pair[1][0]):
            for old, new in zip(olds, news, strict=True):
                self._pair_if(old, new, len(olds), by_size)
                self.spread(by_size=by_size)

    def look_through_the_rest(self) -> None:
        """Hide operators without a partner that only hand on one value, so that the graph joins up across them."""
        handing_on = [single(side) | side.is_any(CONVERTING) for side in self.sides]
        self.show([hidden & self.pairs.lonely(side) for side, hidden in enumerate(handing_on)])

    def opaque(self) -> set[int]:
        """Return AFTER's operators that can hold many: without a partner, of a custom code that is not in BEFORE."""
        return {row for row in self.custom if self.pairs.to_before[row] == NONE}

    def look_through_conversions(self) -> None:
        """Hide operators without a partner that only convert."""
        self.show([side.is_any(CONVERTING) & self.pairs.lonely(number) for number, side in enumerate(self.sides)])

    def look_at_everything(self) -> None:
        """Hide nothing."""
        self.show([np.zeros(len(side), np.bool_) for side in self.sides])


def _codes(sides: tuple[Side, Side]) -> list[list[tuple[str, float]]]:
    """Return the codes of operators, those of handles with the name of their variable if both models have these."""
    models = [side.model for side in sides]
    options = [options_of(model.operator_columns.tables, "shared_name", model.schema).tolist() for model in models]
    if set(options[0]) != set(options[1]):
        options = [[0.0] * len(side) for side in sides]
    return [list(zip(side.codes, names, strict=True)) for side, names in zip(sides, options, strict=True)]


def fed_and_feeding(
    chosen: NDArray[np.bool_], giver: Indices, taker: Indices
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say which operators are fed by, and which feed, one of those that are chosen; givers can be -1."""
    giver, taker = giver[giver != NONE], taker[giver != NONE]
    fed, feeds = np.zeros(len(chosen), np.bool_), np.zeros(len(chosen), np.bool_)
    fed[taker[chosen[giver]]] = True
    feeds[giver[chosen[taker]]] = True
    return fed, feeds
