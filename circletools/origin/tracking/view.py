"""A view of a graph that hides some operators: their outputs stand for their inputs.

    the graph    CONV_2D -a-> QUANTIZE -b-> ADD        hidden: QUANTIZE
    the view     CONV_2D ------- a -------> ADD        `b` is `a`

Operators and values keep their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circletools.flatbuf.columns import grouped
from circletools.graph.algorithms import Indices, rows_by_key
from circletools.graph.columns import Mask
from circletools.origin.tracking.pairs import Pairs
from circletools.origin.tracking.side import NONE, Side


@dataclass(frozen=True, eq=False)
class View:
    """The visible part of a side. `value` maps each value to the one that it stands for.

    The visible input slots are columns: the reading operator (`reader`, ascending), its `slot`, the value (`read`),
    the operator that produces the value (`giver`, or -1), and the position among its outputs (`place`).
    """

    side: Side
    hidden: Mask
    value: Indices
    reader: Indices
    slot: Indices
    read: Indices
    giver: Indices
    place: Indices

    def __len__(self) -> int:
        """Return the number of operators, hidden ones included."""
        return len(self.hidden)

    @cached_property
    def reads(self) -> list[list[tuple[int, ...]]]:
        """For each operator and slot: giver, place and value."""
        return grouped(len(self), self.reader, _rows(self.giver, self.place, self.read))

    @cached_property
    def readers(self) -> list[list[tuple[int, ...]]]:
        """For each value, the operators that read it, with the slots."""
        order = np.argsort(self.read, kind="stable")
        return grouped(len(self.value), self.read[order], _rows(self.reader[order], self.slot[order]))

    @cached_property
    def made(self) -> list[list[int]]:
        """The values that each operator produces, each once; if several write one value, only the last counts."""
        operators, values = self.side.graph.definitions
        makes = np.flatnonzero((self.side.graph.producer[values] == operators) & ~self.hidden[operators])
        makes = makes[np.sort(np.unique(values[makes], return_index=True)[1])]
        return rows_by_key(len(self), operators[makes], values[makes])

    def takers(self, operator: int) -> list[int]:
        """Return the readers of an operator's results, once for each slot."""
        return [reader for value in self.made[operator] for reader, _ in self.readers[value]]

    @cached_property
    def moving(self) -> Indices:
        """The number of inputs of each operator that are not constants."""
        return np.bincount(self.reader[~self.side.is_constant[self.read]], minlength=len(self))

    @cached_property
    def held(self) -> dict[int, frozenset[int]]:
        """For each operator, the significant constants that both models have, unlikely to be equal by chance."""
        constants = self.side.constants
        number = self.side.constant[self.read]
        telling = np.append(constants.shared & constants.distinctive, False)[number]
        held: dict[int, frozenset[int]] = {}
        for operator, one in zip(self.reader[telling].tolist(), number[telling].tolist(), strict=True):
            held[operator] = held.get(operator, frozenset()) | {one}
        return held

    @cached_property
    def holders(self) -> dict[int, list[int]]:
        """For each significant constant, the operators that hold it."""
        holders: dict[int, list[int]] = {}
        for operator, numbers in self.held.items():
            for number in numbers:
                holders.setdefault(number, []).append(operator)
        return holders

    def beside(self, chosen: Mask) -> tuple[Mask, Mask]:
        """Return which operators read from a chosen one, and which produce an input of a chosen one."""
        fed, feeds = np.zeros(len(self), np.bool_), np.zeros(len(self), np.bool_)
        made = self.giver != NONE
        giver, reader = self.giver[made], self.reader[made]
        fed[reader[chosen[giver]]] = True
        feeds[giver[chosen[reader]]] = True
        return fed, feeds


def _rows(*columns: Indices) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


Views = tuple[View, View]
"""BEFORE and AFTER."""


def look(side: Side, hidden: Mask) -> View:
    """Return the view of a side without the `hidden` operators; each stands for its main input."""
    value = np.arange(len(side.graph.values))
    operators, made = side.graph.definitions
    through = hidden[operators] & (side.main[operators] != NONE)
    value[made[through]] = side.main[operators[through]]
    for _ in range(64):  # pointer jumping: each step doubles the distance, and only a cycle takes longer
        further = value[value]
        if np.array_equal(further, value):
            break
        value = further
    reader, read = side.graph.uses
    shown = ~hidden[reader]
    slot, reader, read = side.slot[shown], reader[shown], value[read[shown]]
    return View(side, hidden, value, reader, slot, read, side.graph.producer[read], side.place[read])


def same_slots(views: Views, pairs: Pairs) -> tuple[Indices, Indices, Indices]:
    """Return input slots of AFTER's paired operators, BEFORE's slots at the same places, and the other slots."""
    was, now = views
    news = np.flatnonzero(~pairs.unpaired(1)[now.reader])
    starts = np.searchsorted(was.reader, np.arange(len(was) + 1))
    partner = pairs.to_before[now.reader[news]]
    olds = starts[partner] + now.slot[news]
    both = olds < starts[partner + 1]
    return news[both], olds[both], news[~both]
