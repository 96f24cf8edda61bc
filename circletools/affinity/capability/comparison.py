"""Comparisons in tables, between options and the sizes, scales, zero points and values of tensors.

    stride_w <= filter_width
    input0.scale / output0.scale >= 2^-10
    inputs.zero_point == output0.zero_point

Each side is a product of numbers and terms, joined by `*` and `/`. docs/capabilities.md lists the terms.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors, row_numbers
from circletools.graph.columns import Slots
from circletools.graph.graph import Graph
from circletools.model.arrays import DTYPES

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_SIDES = re.compile(r"(.+?)(<=|>=|==|<|>)(.+)", re.DOTALL)
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\^(-?\d{1,3}))?")
_SIMPLE, _INDEXED = "(scale|zero_point|rank|size|shape|axis|external)", r"(dim|value|span)(-?\d{1,3})?"
_TENSOR = re.compile(rf"(input|output)(s|\d{{1,3}})\.(?:{_SIMPLE}|{_INDEXED})")
_LEAST, _MOST = "least", "most"
_MOST_BITS = 1000  # the most bits of an integer that is converted to a float


class TensorTerm(NamedTuple):
    """A property of the input or output at index `place`, or of all inputs or outputs if `place` is None.

    `extreme`, "least" or "most", selects one of several numbers: those of a constant or of several tensors.
    """

    side: str
    place: int | None
    what: str
    element: int | None
    extreme: str = ""


Term = TensorTerm | str
"""A variable of a comparison: a property of a tensor, or the name of an option."""


@dataclass(frozen=True, slots=True)
class Product:
    """A constant times terms, each raised to the power 1 or -1."""

    text: str
    constant: float
    terms: tuple[tuple[Term, int], ...]

    def value(self, settings: Mapping[Term, float], extreme: str) -> float:
        """Return the product, or NaN if a term has no value."""
        found = self.constant
        for term, power in self.terms:
            if isinstance(term, str):
                value = settings.get(term, 0.0)
            else:
                value = settings.get(term._replace(extreme=extreme) if is_several(term) else term, math.nan)
            if power < 0 and value == 0:
                return math.nan
            found = found * value if power > 0 else found / value
        return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two products and the relation between them, which is false if either has no value."""

    text: str
    left: Product
    sign: str
    right: Product

    @property
    def terms(self) -> frozenset[Term]:
        """The terms that the comparison reads; a term with several numbers is listed as its two extremes."""
        every = [term for side in (self.left, self.right) for term, _ in side.terms]
        return frozenset(
            term._replace(extreme=extreme) if isinstance(term, TensorTerm) and is_several(term) else term
            for term in every
            for extreme in (_LEAST, _MOST)
        )

    def mismatch(self, settings: Mapping[Term, float]) -> str | None:
        """Return a description of the mismatch, or None if the comparison holds for each number."""
        compare = _OPERATORS[self.sign]
        for extreme in (_LEAST, _MOST):
            one, other = (side.value(settings, extreme) for side in (self.left, self.right))
            if not compare(one, other):
                if math.isnan(one):
                    return f"{self.left.text} has no value, but must be {self.sign} {self.right.text}"
                shown = self.right.text if not self.right.terms else f"{self.right.text} ({other:g})"
                return f"{self.left.text} is {one:g}, but must be {self.sign} {shown}"
        return None


def is_several(term: TensorTerm) -> bool:
    """Return whether a term can have several numbers: one for each tensor, or for each element of a constant."""
    return term.place is None or term.what == "axis" or (term.what == "value" and term.element is None)


def parse_comparison(text: str) -> Comparison:
    """Parse a comparison. Raises ValueError, which describes the mistake."""
    found = _SIDES.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"must have two sides, separated by one of {' '.join(_OPERATORS)}")
    left, sign, right = found.groups()
    comparison = Comparison(text, _product(left), sign, _product(right))
    several = [
        term
        for side in (comparison.left, comparison.right)
        for term, _ in side.terms
        if isinstance(term, TensorTerm) and is_several(term)
    ]
    if len(several) > 1:
        raise ValueError("has two terms that can each have several numbers")
    return comparison


def _product(text: str) -> Product:
    words = [word.strip() for word in re.split("([*/])", text)]
    constant, terms = 1.0, []
    for sign, word in zip(["*", *words[1::2]], words[::2], strict=True):
        power = 1 if sign == "*" else -1
        number = _NUMBER.fullmatch(word)
        if number is not None:
            base, exponent = float(number[1]), int(number[2] or 1)
            if base == 0 and (exponent < 0 or power < 0):
                raise ValueError("divides by 0")
            if exponent * power * math.log2(abs(base) or 1) > _MOST_BITS:
                raise ValueError(f"has a number that is too large: {word[:50]}")
            constant *= base ** (exponent * power)
        else:
            terms.append((_term(word), power))
    return Product(text.strip(), constant, tuple(terms))


def _term(word: str) -> Term:
    found = _TENSOR.fullmatch(word)
    if found is None:
        if not re.fullmatch(r"[a-z_0-9]+", word):
            raise ValueError(f"{word!r} is not a number, an option or a property of a tensor")
        return word
    side, index, simple, indexed, element = found.groups()
    if indexed in ("dim", "span") and element is None:
        raise ValueError(f"{word!r} must name a dimension, as in {indexed}0")
    place = None if index == "s" else int(index)
    return TensorTerm(side, place, simple or indexed, None if element is None else int(element))


# --- the values of terms, as columns: one property of an input or output for many operators -------------------


Column = NDArray[np.float64]


class Measures:
    """The properties of the tensors of one subgraph. If a tensor lacks a property, its value is NaN."""

    def __init__(self, facts: Callable[[], Graph | None]) -> None:
        """Read a subgraph through a weak reference; its operators must refer to existing tensors."""
        self._reference = facts
        self._values: dict[tuple[int, str], NDArray[Any]] = {}

    @property
    def _facts(self) -> Graph:
        facts = self._reference()
        assert facts is not None
        return facts

    def of(self, term: TensorTerm, rows: NDArray[np.int64]) -> Column:
        """Return the values of a term for these operators."""
        slots = self._facts.operands if term.side == "input" else self._facts.results
        if term.place is None:
            return self._extremes(term, slots)[rows]
        if term.what == "axis":
            return self._axes(term, slots, rows)
        places = slots.splits[rows] + term.place
        there = places < slots.splits[rows + 1]
        tensors = np.full(len(rows), -1, np.int64)
        tensors[there] = slots.values[places[there]]
        return self._of_tensors(term, tensors)

    def _axes(self, term: TensorTerm, slots: Slots, rows: NDArray[np.int64]) -> Column:
        """Return the axes in a constant, counted from the end of the first input's shape (-1 is the last)."""
        values = self.of(term._replace(what="value"), rows)
        ranks = self.of(TensorTerm("input", 0, "rank", None), rows)
        several = self.of(term._replace(what="value", extreme="least"), rows) >= 0
        mixed = several != (self.of(term._replace(what="value", extreme="most"), rows) >= 0)
        return np.where(mixed, np.nan, np.where(values >= 0, values - ranks, values))

    def _extremes(self, term: TensorTerm, slots: Slots) -> Column:
        """Return the minimum or maximum over all inputs, or all outputs, of each operator."""
        unused = np.inf if term.extreme == "least" else -np.inf
        # Unlike fmin and fmax, these keep NaN, so that every comparison is false if a tensor has no scale.
        combine = np.minimum if term.extreme == "least" else np.maximum
        values = np.where(slots.values >= 0, self._of_tensors(term, slots.values), unused)
        found = _reduced(combine, values, slots.counts, unused)
        found[found == unused] = np.nan
        return found

    def _of_tensors(self, term: TensorTerm, tensors: NDArray[np.int64]) -> Column:
        if term.what == "value":
            unique, which = np.unique(tensors, return_inverse=True)
            return np.array([self._value(term, int(tensor)) for tensor in unique], np.float64)[which]
        if term.what == "external":
            every = self._facts.values.model_buffers.external[self._facts.values.buffers].astype(np.float64)
        elif term.what in ("dim", "span"):
            every = self._shapes.element(term.element or 0) - (term.what == "span")
        else:
            every = {
                "scale": self._scales,
                "zero_point": self._zero_points,
                "rank": self._ranks,
                "size": self._sizes,
                "shape": self._shape_numbers,
            }[term.what]
        return np.append(every, np.nan)[tensors]

    @cached_property
    def _shapes(self) -> Vectors:
        return self._facts.values.shapes

    @cached_property
    def _ranks(self) -> Column:
        return self._shapes.count.astype(np.float64)

    @cached_property
    def _sizes(self) -> Column:
        with np.errstate(over="ignore", invalid="ignore"):  # every comparison with an unknown size is false
            return _reduced(np.multiply, self._shapes.flat().astype(np.float64), self._shapes.count, 1)

    @cached_property
    def _shape_numbers(self) -> Column:
        """Return a number for each shape; equal shapes have equal numbers."""
        return row_numbers(self._shapes.flat(), self._shapes.count).astype(np.float64)

    @cached_property
    def _scales(self) -> Column:
        return self._quantized("scale")

    @cached_property
    def _zero_points(self) -> Column:
        found = self._quantized("zero_point")
        found[np.isnan(found) & ~np.isnan(self._scales)] = 0
        return found

    def _quantized(self, name: str) -> Column:
        """Return the scale or zero point of each tensor that has a single scale."""
        tables, rows = self._facts.values.tables.child("quantization", self._facts.values.schema)
        found = np.full(len(self._facts.values), np.nan)
        if len(rows):
            one = tables.vectors("scale").count == 1
            found[rows[one]] = tables.vectors(name).element(0)[one]
        return found

    def _value(self, term: TensorTerm, tensor: int) -> float:
        if tensor < 0 or not self._facts.values.is_constant[tensor]:
            return np.nan
        values = self._constant(tensor)
        if is_several(term._replace(place=0)) and values.size:
            return float(values.min() if term.extreme == "least" else values.max())
        element = term.element or 0
        return float(values[element]) if -values.size <= element < values.size else np.nan

    def _constant(self, tensor: int) -> NDArray[Any]:
        values = self._facts.values
        name = values.schema.enums["TensorType"].get(int(values.type_numbers[tensor]), "")
        key = int(values.buffers[tensor]), name
        if key not in self._values:
            data = values.model_buffers.data.row(key[0])
            dtype = np.dtype(DTYPES.get(name, "c8"))  # complex numbers have no order
            size = data.size // dtype.itemsize * dtype.itemsize if dtype.kind != "c" else 0
            self._values[key] = data[:size].view(dtype)
        return self._values[key]


def _reduced(combine: np.ufunc, values: Column, counts: NDArray[np.int64], empty: float) -> Column:
    """Reduce each row of values to one; an empty row gives `empty`."""
    found = np.full(len(counts), float(empty))
    filled = np.flatnonzero(counts)
    if filled.size:
        starts = (np.cumsum(counts) - counts)[filled]
        found[filled] = combine.reduceat(values, starts)
    return found
