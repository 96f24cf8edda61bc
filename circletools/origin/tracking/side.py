"""The two graphs that are compared: columns of a graph, with numbers for codes and constants that both share."""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Vectors
from circletools.graph.algorithms import Indices
from circletools.graph.columns import Mask, Uses
from circletools.graph.graph import Graph
from circletools.origin.tracking.constants import Constants

NONE = -1
CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE", "FAKE_QUANT"})
"""Operators that change how a value is written, not the value; tools put them in and take them out."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two graphs. `names` are those of values; `code` and `constant` are numbers that both sides share.

    `constant` is the class of what a value holds, -1 where it is no constant.
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

    @property
    def reads(self) -> Uses:
        """Operator and value of the input slots that are used."""
        return self.graph.uses

    @property
    def makes(self) -> Uses:
        """Operator and value of the output slots that are used."""
        return self.graph.definitions

    @property
    def producer(self) -> Indices:
        """The operator that makes each value, or -1."""
        return self.graph.producer

    @cached_property
    def place(self) -> Indices:
        """The place of each value among the outputs of its producer."""
        operators, values = self.makes
        place = np.zeros(len(self.producer), np.int64)
        place[values] = np.arange(len(operators)) - np.searchsorted(operators, operators)
        return place

    @cached_property
    def is_constant(self) -> Mask:
        """Whether each value is in the file."""
        return self.constant != NONE

    @cached_property
    def telling(self) -> Mask:
        """Whether each value is a constant that both models have, and hardly by chance."""
        telling: Mask = np.append(self.constants.shared & self.constants.distinctive, False)[self.constant]
        return telling

    @cached_property
    def first(self) -> Indices:
        """The first value that each operator makes, or -1."""
        operators, values = self.makes
        first = np.full(len(self), NONE, np.int64)
        first[operators[::-1]] = values[::-1]
        return first

    @cached_property
    def main(self) -> Indices:
        """The value that each operator works on: the first that it reads and that is no constant, else the first."""
        operators, values = self.reads
        main = np.full(len(self), NONE, np.int64)
        for constant in (True, False):  # of several assignments the last counts: so go backwards
            chosen = np.flatnonzero(self.is_constant[values] == constant)[::-1]
            main[operators[chosen]] = values[chosen]
        return main

    @cached_property
    def elements(self) -> Indices:
        """The number of elements of each value, 0 where it is not known."""
        return _products(self.graph.values.shapes)

    @cached_property
    def last_dimension(self) -> Indices:
        """The last dimension of each value, 0 where it has none."""
        last = self.graph.values.shapes.element(-1)
        return np.where(self.elements > 0, np.nan_to_num(last), 0).astype(np.int64)

    @cached_property
    def hands_on(self) -> Mask:
        """Whether each operator makes one value out of one that is no constant."""
        operators, values = self.reads
        moving = np.bincount(operators[~self.is_constant[values]], minlength=len(self))
        made = np.bincount(self.makes.operators, minlength=len(self))
        handing: Mask = (moving == 1) & (made == 1)
        return handing

    def is_any(self, codes: Container[str]) -> Mask:
        """Say which operators are of one of these codes."""
        return np.array([code in codes for code in self.codes], np.bool_)

    @cached_property
    def activations(self) -> list[str]:
        """The activation that each operator has fused into it."""
        names = self.graph.values.schema.enums["ActivationFunctionType"]
        numbers = self.graph.operators.option("fused_activation_function")
        return [names.get(number, "") for number in numbers.astype(int).tolist()]

    def shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(self.graph.values.shapes.row(value).tolist())


class Ends(NamedTuple):
    """The inputs and the outputs of a graph."""

    inputs: list[int]
    outputs: list[int]


def ends_of(graph: Graph) -> Ends:
    """Return the values that are a graph's inputs and outputs. Raises ModelFormatError for one that does not exist."""
    ends = Ends(graph.inputs.tolist(), graph.outputs.tolist())
    for direction, values in zip(Ends._fields, ends, strict=True):
        if any(not 0 <= value < len(graph.values) for value in values):
            raise ModelFormatError("the tensor does not exist", location=f"{graph.place()}.{direction}")
    return ends


def shared_codes(graphs: tuple[Graph, Graph]) -> list[Indices]:
    """Return a number for the code of each operator, that of a handle for the name of its variable too.

    Names of variables count where both graphs have the same ones.
    """
    options = [graph.operators.option("shared_name").tolist() for graph in graphs]
    if set(options[0]) != set(options[1]):
        options = [[0.0] * len(graph) for graph in graphs]
    numbers: dict[Hashable, int] = {}
    return [
        np.array(
            [numbers.setdefault(key, len(numbers)) for key in zip(graph.operators.code_names, names, strict=True)],
            np.int64,
        )
        for graph, names in zip(graphs, options, strict=True)
    ]


def _products(shapes: Vectors) -> Indices:
    """Return the number of elements of each shape, 0 where a size is 0, negative or out of all proportion."""
    sizes = np.append(shapes.flat().astype(np.float64), 1.0)  # the 1 belongs to the last row, for reduceat
    starts = shapes.splits()[:-1]
    products = np.ones(len(starts))
    filled = shapes.count > 0
    if filled.any():
        with np.errstate(over="ignore", invalid="ignore"):
            products[filled] = np.multiply.reduceat(sizes, starts[filled])
    products[~((products > 0) & (products < 2**62))] = 0
    return products.astype(np.int64)
