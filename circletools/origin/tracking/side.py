"""One of the two compared graphs, with numbers for codes and constants that both share."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import places_in_rows
from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask
from circletools.graph.graph import Graph
from circletools.origin.tracking.constants import Constants

NONE = -1
CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE", "FAKE_QUANT"})
"""Operators that change the representation of a value, not the value; tools insert and remove them."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two graphs. `names` are the names of values; `code` and `constant` are numbers that both sides share.

    `constant` is the class of a value's constant data, -1 if it is not a constant.
    """

    graph: Graph
    names: list[bytes]
    code: Indices
    constant: Indices
    constants: Constants

    def __len__(self) -> int:
        """Return the number of operators."""
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
        """The value that each operator mainly works on: the first non-constant input, else the first input."""
        operators, values = self.graph.uses
        main = np.full(len(self), NONE, np.int64)
        for constant in (True, False):  # the last of several assignments wins, so go backwards
            chosen = np.flatnonzero(self.is_constant[values] == constant)[::-1]
            main[operators[chosen]] = values[chosen]
        return main

    @cached_property
    def elements(self) -> Indices:
        """The number of elements of each value; 0 if a dimension is 0, negative or unreasonably large."""
        shapes = self.graph.values.shapes
        sizes = np.append(shapes.flat().astype(np.float64), 1.0)  # the 1 belongs to the last row, for reduceat
        products, some = np.ones(len(shapes.count)), np.flatnonzero(shapes.count)
        if some.size:
            with np.errstate(over="ignore", invalid="ignore"):
                products[some] = np.multiply.reduceat(sizes, shapes.splits()[some])
        products[~((products > 0) & (products < 2**62))] = 0
        return products.astype(np.int64)

    def sizes(self, is_resized: bool) -> Indices:
        """Return the number of elements of each operator's first output, 0 if it is not known.

        For resized models, no size is known.
        """
        return np.append(self.elements * (not is_resized), 0)[self.graph.first_results]

    @cached_property
    def hands_on(self) -> Mask:
        """Whether each operator produces one value from one non-constant value."""
        operators, values = self.graph.uses
        moving = np.bincount(operators[~self.is_constant[values]], minlength=len(self))
        made = np.bincount(self.graph.definitions.operators, minlength=len(self))
        handing: Mask = (moving == 1) & (made == 1)
        return handing

    def is_any(self, codes: Container[str]) -> Mask:
        """Return which operators have one of these codes."""
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


def shared_codes(graphs: tuple[Graph, Graph]) -> list[Indices]:
    """Return a number for the code of each operator."""
    numbers: dict[str, int] = {}
    codes = [graph.operators.code_names for graph in graphs]
    return [np.array([numbers.setdefault(code, len(numbers)) for code in own], np.int64) for own in codes]
