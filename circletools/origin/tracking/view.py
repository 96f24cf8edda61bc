"""A graph with some operators looked through: what they make is the value of what they read.

    the graph    CONV_2D -a-> QUANTIZE -b-> ADD        hidden: QUANTIZE
    the view     CONV_2D ------- a -------> ADD        `b` is `a`

Operators and values keep their numbers. Slots are flat columns, by operator (compressed sparse rows), as lists too:
the loops of propagation visit single slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask
from circletools.origin.tracking.side import NONE, Side

Read = tuple[int, int, int]
"""What an input slot reads: the operator that makes it, or -1, its place among that one's outputs, and the value."""


@dataclass(frozen=True, eq=False)
class View:
    """What is shown of a side. `value` has for each value the one that it is."""

    side: Side
    hidden: Mask
    value: Indices

    def __len__(self) -> int:
        """Return the number of operators, hidden ones included."""
        return len(self.side)

    @cached_property
    def _shown(self) -> Mask:
        shown: Mask = ~self.hidden[self.side.reads.operators]
        return shown

    @cached_property
    def reader(self) -> Indices:
        """The operator of each input slot that is shown."""
        return self.side.reads.operators[self._shown]

    @cached_property
    def read(self) -> Indices:
        """The value in each input slot."""
        return self.value[self.side.reads.values[self._shown]]

    @cached_property
    def slot(self) -> Indices:
        """The place of each input slot among those of its operator."""
        return np.arange(len(self.reader)) - self.starts[self.reader]

    @cached_property
    def giver(self) -> Indices:
        """The operator that makes what each input slot reads, or -1."""
        return self.side.producer[self.read]

    @cached_property
    def place(self) -> Indices:
        """The place of what each input slot reads among the outputs of its producer."""
        return self.side.place[self.read]

    @cached_property
    def starts(self) -> Indices:
        """The first input slot of each operator, and the number of all."""
        return np.searchsorted(self.reader, np.arange(len(self) + 1))

    @cached_property
    def made_starts(self) -> Indices:
        """Where in `made_values` the values of each operator begin."""
        return np.searchsorted(self._makes[0], np.arange(len(self) + 1))

    @cached_property
    def _makes(self) -> tuple[Indices, Indices]:
        """Operators and what they make; of many that write one value only the last makes it."""
        operators, values = self.side.makes
        made = (self.side.producer[values] == operators) & ~self.hidden[operators]
        return operators[made], values[made]

    @cached_property
    def lists(self) -> Lists:
        """The columns as lists."""
        order = np.argsort(self.read, kind="stable")
        count = len(self.value) + 1
        return Lists(
            self.starts.tolist(),
            self.giver.tolist(),
            self.place.tolist(),
            self.read.tolist(),
            self.made_starts.tolist(),
            self._makes[1].tolist(),
            np.searchsorted(self.read[order], np.arange(count)).tolist(),
            self.reader[order].tolist(),
            self.slot[order].tolist(),
        )

    def reads(self, operator: int) -> list[Read]:
        """Return what each input slot of an operator reads."""
        at = slice(*self.lists.starts[operator : operator + 2])
        return list(zip(self.lists.giver[at], self.lists.place[at], self.lists.read[at], strict=True))

    def made(self, operator: int) -> list[int]:
        """Return the values that an operator makes."""
        start, end = self.lists.made_starts[operator : operator + 2]
        return self.lists.made[start:end]

    def readers(self, value: int) -> list[tuple[int, int]]:
        """Return the operators that read a value, with the slot."""
        at = slice(*self.lists.reader_starts[value : value + 2])
        return list(zip(self.lists.readers[at], self.lists.reader_slots[at], strict=True))

    def takers(self, operator: int) -> list[int]:
        """Return the operators that read what an operator makes, once for each slot."""
        return [reader for value in self.made(operator) for reader, _ in self.readers(value)]

    @cached_property
    def moving(self) -> Indices:
        """How many slots of each operator read what is no constant."""
        return np.bincount(self.reader[~self.side.is_constant[self.read]], minlength=len(self))

    @cached_property
    def held(self) -> dict[int, frozenset[int]]:
        """By operator, the telling constants that both models have: shared, and hardly equal by chance."""
        telling = self.side.telling[self.read]
        held: dict[int, frozenset[int]] = {}
        for operator, number in zip(
            self.reader[telling].tolist(), self.side.constant[self.read[telling]].tolist(), strict=True
        ):
            held[operator] = held.get(operator, frozenset()) | {number}
        return held

    @cached_property
    def holders(self) -> dict[int, list[int]]:
        """By telling constant, the operators that hold it."""
        holders: dict[int, list[int]] = {}
        for operator, numbers in self.held.items():
            for number in numbers:
                holders.setdefault(number, []).append(operator)
        return holders

    def beside(self, chosen: Mask) -> tuple[Mask, Mask]:
        """Say which operators read from one that is chosen, and which make what one that is chosen reads."""
        fed, feeds = np.zeros(len(self), np.bool_), np.zeros(len(self), np.bool_)
        made = self.giver != NONE
        giver, reader = self.giver[made], self.reader[made]
        fed[reader[chosen[giver]]] = True
        feeds[giver[chosen[reader]]] = True
        return fed, feeds


@dataclass(frozen=True, slots=True)
class Lists:
    """Columns of a view: slots by operator, what operators make, and the slots by the value that they read."""

    starts: list[int]
    giver: list[int]
    place: list[int]
    read: list[int]
    made_starts: list[int]
    made: list[int]
    reader_starts: list[int]
    readers: list[int]
    reader_slots: list[int]


def look(side: Side, hidden: Mask) -> View:
    """Return the view of a side without the `hidden` operators; each hands on its main input."""
    value = np.arange(len(side.producer))
    operators, made = side.makes
    through = hidden[operators] & (side.main[operators] != NONE)
    value[made[through]] = side.main[operators[through]]
    for _ in range(64):  # pointer jumping: each step doubles the distance, and only a cycle takes longer
        further = value[value]
        if np.array_equal(further, value):
            break
        value = further
    return View(side, hidden, value)
