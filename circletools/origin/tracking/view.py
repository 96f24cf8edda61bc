"""A view of a graph that hides some operators: their outputs stand for their inputs.

    the graph    CONV_2D -a-> QUANTIZE -b-> ADD        hidden: QUANTIZE
    the view     CONV_2D ------- a -------> ADD        `b` is `a`

Operators and values keep their numbers.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import grouped, places_in_rows
from circletools.graph.algorithms import Indices, rows_by_key
from circletools.graph.columns import Mask
from circletools.graph.graph import Graph
from circletools.model.sizes import element_counts
from circletools.origin.tracking.constants import Constants

NONE = -1
CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE", "FAKE_QUANT"})
"""Operators that change the representation of a value, not the value; tools insert and remove them."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two graphs. `names` holds the names of values; `code` and `constant` are numbers shared by both sides.

    `constant` is the class of a value's constant data, or -1 if it is not a constant.
    """

    graph: Graph
    names: list[bytes]
    code: Indices
    constant: Indices
    constants: Constants

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def codes(self) -> list[str]:
        """The name of the code of each operator."""
        return self.graph.operators.code_names

    @cached_property
    def slot(self) -> Indices:
        """The position of each input slot among the slots that its operator uses."""
        operators = self.graph.uses.operators
        return places_in_rows(np.bincount(operators, minlength=len(self)))

    @cached_property
    def place(self) -> Indices:
        """The position of each value among the outputs of its producer."""
        operators, values = self.graph.definitions
        place = np.zeros(len(self.graph.values), np.int64)
        place[values] = np.arange(len(operators)) - np.searchsorted(operators, operators)
        return place

    @cached_property
    def is_constant(self) -> Mask:
        """Whether each value is a constant in the file."""
        is_constant: Mask = self.constant != NONE
        return is_constant

    @cached_property
    def first(self) -> list[int]:
        """The value in the first output slot of each operator, or -1."""
        first: list[int] = self.graph.first_results.tolist()
        return first

    @cached_property
    def main(self) -> Indices:
        """The value that each operator mainly works on: the first non-constant input, or else the first input."""
        operators, values = self.graph.uses
        main = np.full(len(self), NONE, np.int64)
        for constant in (True, False):  # the last of several assignments wins, so go backward
            chosen = np.flatnonzero(self.is_constant[values] == constant)[::-1]
            main[operators[chosen]] = values[chosen]
        return main

    @cached_property
    def elements(self) -> Indices:
        """The number of elements of each value; 0 if a dimension is 0, negative or unreasonably large."""
        counts = element_counts(self.graph.values.shapes, self.graph.values.shapes.flat())
        return np.where((counts > 0) & (counts < 2**62), counts, 0).astype(np.int64)

    def sizes(self, is_resized: bool) -> Indices:
        """Return the number of elements of each operator's first output, or 0 if it is not known.

        For resized models, no size is known.
        """
        return np.append(self.elements * (not is_resized), 0)[self.graph.first_results]

    @cached_property
    def is_pass_through(self) -> Mask:
        """Whether each operator produces one value from one non-constant value."""
        operators, values = self.graph.uses
        moving = np.bincount(operators[~self.is_constant[values]], minlength=len(self))
        made = np.bincount(self.graph.definitions.operators, minlength=len(self))
        handing: Mask = (moving == 1) & (made == 1)
        return handing

    def is_any(self, codes: Container[str]) -> Mask:
        """Return a mask of the operators with one of these codes."""
        return np.array([code in codes for code in self.codes], np.bool_)

    def shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(self.graph.values.shapes.row(value).tolist())


def ends_of(graph: Graph) -> tuple[list[int], list[int]]:
    """Return the inputs and the outputs of a graph. Raises ModelFormatError for a value that does not exist."""
    ends = graph.inputs.tolist(), graph.outputs.tolist()
    for direction, values in zip(("inputs", "outputs"), ends, strict=True):
        if any(not 0 <= value < len(graph.values) for value in values):
            raise ModelFormatError("the tensor does not exist", location=f"{graph.place()}.{direction}")
    return ends


@dataclass(frozen=True, eq=False)
class Pairs:
    """The partner of each operator, or -1.

    `inputs` and `outputs` are pairs of corresponding values at the ends of the two graphs. `by_name` is true if names
    count as evidence.
    """

    to_after: Indices
    to_before: Indices
    inputs: tuple[tuple[int, int], ...] = ()
    outputs: tuple[tuple[int, int], ...] = ()
    by_name: bool = False

    def unpaired(self, side: int) -> Mask:
        """Return a mask of the operators of BEFORE (0) or AFTER (1) that have no partner."""
        unpaired: Mask = (self.to_after, self.to_before)[side] == NONE
        return unpaired

    @property
    def complete(self) -> bool:
        """Whether all operators of one of the models are paired."""
        return not (self.unpaired(0).any() and self.unpaired(1).any())

    def added(self, found: Sequence[tuple[int, int]]) -> Pairs:
        """Return these pairs and additional pairs of operators that had no partner."""
        if not found:
            return self
        olds, news = np.array(found, np.int64).T
        to_after, to_before = self.to_after.copy(), self.to_before.copy()
        to_after[olds], to_before[news] = news, olds
        return replace(self, to_after=to_after, to_before=to_before)

    def without(self, news: Indices) -> Pairs:
        """Return these pairs, except those of the given operators of AFTER."""
        to_after, to_before = self.to_after.copy(), self.to_before.copy()
        to_after[to_before[news]] = NONE
        to_before[news] = NONE
        return replace(self, to_after=to_after, to_before=to_before)


@dataclass(frozen=True, eq=False)
class View:
    """The visible part of one of the two graphs. `value` maps each value to the one that it stands for.

    Columns hold the visible input slots: the reading operator (`reader`, ascending), its `slot`, the value (`read`),
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
        """The values that each operator produces, each once; if several write a value, the last one counts."""
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
        """For each operator, its constants that both models have and that are unlikely to be equal by chance."""
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
        """Return masks of the operators that read from a chosen operator, and of those that feed a chosen one."""
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
    """Return the view of a side without the `hidden` operators; the output of each stands for its main input."""
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
