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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import row_numbers
from circletools.graph.columns import Slots, Values
from circletools.graph.graph import Graph
from circletools.model.arrays import DTYPES
from circletools.model.sizes import element_counts

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
_MOST_BITS = 1000  # integers with more bits are not converted to floats


class TensorTerm(NamedTuple):
    """A property of the input or output at index `place`, or of all inputs or outputs if `place` is None.

    `extreme`, "least" or "most", selects one number of a constant with several elements, or of several tensors.
    """

    side: str
    place: int | None
    what: str
    element: int | None
    extreme: str = ""

    @property
    def text(self) -> str:
        """The term in the syntax of tables, without `extreme`."""
        place, element = ("s" if self.place is None else self.place), ("" if self.element is None else self.element)
        return f"{self.side}{place}.{self.what}{element}"


Term = TensorTerm | str
"""A variable of a comparison: a property of a tensor, or the name of an option."""
Terms = tuple[tuple[Term, int], ...]
Show = Callable[[Terms, float], str]
"""Converts the value of a product of terms, each raised to the power 1 or -1, to text."""


def plain(terms: Terms, value: float) -> str:
    """Return a number as text."""
    return f"{value:g}"


@dataclass(frozen=True, slots=True)
class Product:
    """A constant times terms, each raised to the power 1 or -1."""

    text: str
    constant: float
    terms: Terms

    def value(self, settings: Mapping[Term, float], extreme: str) -> float:
        """Return the product, or NaN if a term has no value."""
        found = self.constant
        for term, power in self.terms:
            value = settings.get(_at(term, extreme), 0.0 if isinstance(term, str) else math.nan)
            if power < 0 and value == 0:
                return math.nan
            found = found * value if power > 0 else found / value
        return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two products and the relation between them; the comparison is false if either product has no value."""

    text: str
    left: Product
    sign: str
    right: Product

    @property
    def terms(self) -> frozenset[Term]:
        """The terms that the comparison reads; a term with several numbers is listed as its two extremes."""
        every = [term for side in (self.left, self.right) for term, _ in side.terms]
        return frozenset(_at(term, extreme) for term in every for extreme in (_LEAST, _MOST))

    def values(self, settings: Mapping[Term, float], show: Show) -> Iterator[str]:
        """Yield the value of each term as text; `show` converts the numbers."""
        for term, _ in (*self.left.terms, *self.right.terms):
            both = [show(((term, 1),), settings.get(_at(term, extreme), 0.0)) for extreme in (_LEAST, _MOST)]
            yield f"{term if isinstance(term, str) else term.text} is {' to '.join(dict.fromkeys(both))}"

    def mismatch(self, settings: Mapping[Term, float], show: Show = plain) -> str | None:
        """Return a description of the mismatch, or None if the comparison holds for each number."""
        compare = _OPERATORS[self.sign]
        for extreme in (_LEAST, _MOST):
            one, other = (side.value(settings, extreme) for side in (self.left, self.right))
            if not compare(one, other):
                if math.isnan(one):
                    return f"{self.left.text} has no value, but must be {self.sign} {self.right.text}"
                shown = (
                    f"{self.right.text} ({show(self.right.terms, other)})" if self.right.terms else self.right.text
                )
                return f"{self.left.text} is {show(self.left.terms, one)}, but must be {self.sign} {shown}"
        return None


def is_several(term: Term) -> bool:
    """Return whether a term can have several numbers: one for each tensor, or for each element of a constant."""
    if isinstance(term, str):
        return False
    return term.place is None or term.what == "axis" or (term.what == "value" and term.element is None)


def _at(term: Term, extreme: str) -> Term:
    return term._replace(extreme=extreme) if isinstance(term, TensorTerm) and is_several(term) else term


def parse_comparison(text: str) -> Comparison:
    """Parse a comparison. Raises ValueError, which describes the mistake."""
    found = _SIDES.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"must have two sides, separated by one of {' '.join(_OPERATORS)}")
    left, sign, right = found.groups()
    comparison = Comparison(text, _product(left), sign, _product(right))
    if sum(is_several(term) for term, _ in (*comparison.left.terms, *comparison.right.terms)) > 1:
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
        """Read a subgraph, whose operators must refer to existing tensors, through a weak reference."""
        self._reference = facts
        self._values: dict[tuple[int, str], NDArray[Any]] = {}
        self._columns: dict[TensorTerm | tuple[str, int | None], Column] = {}  # of each operator, or of each tensor

    @property
    def _facts(self) -> Graph:
        facts = self._reference()
        assert facts is not None
        return facts

    def of(self, term: TensorTerm, rows: NDArray[np.int64]) -> Column:
        """Return the values of a term for these operators."""
        slots = self._facts.operands if term.side == "input" else self._facts.results
        if term.place is None:
            if term not in self._columns:
                self._columns[term] = self._extremes(term, slots)
            return self._columns[term][rows]
        if term.what == "axis":
            return self._axes(term, slots, rows)
        places = slots.splits[rows] + term.place
        there = places < slots.splits[rows + 1]
        tensors = np.full(len(rows), -1, np.int64)
        tensors[there] = slots.values[places[there]]
        return self._of_tensors(term, tensors)

    def show(self, terms: Terms, value: float) -> str:
        """Return the value of a product as text: for the number of a shape, that shape."""
        if [getattr(term, "what", "") for term, _ in terms] != ["shape"] or math.isnan(value):
            return plain(terms, value)
        return str(self._facts.values.shapes.row(int(np.argmax(self._columns["shape", None] == value))).tolist())

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
        found = np.full(len(slots.counts), unused)
        if len(filled := np.flatnonzero(slots.counts)):
            found[filled] = combine.reduceat(values, slots.splits[filled])
        found[found == unused] = np.nan
        return found

    def _of_tensors(self, term: TensorTerm, tensors: NDArray[np.int64]) -> Column:
        if term.what == "value":
            unique, which = np.unique(tensors, return_inverse=True)
            return np.array([self._value(term, int(tensor)) for tensor in unique], np.float64)[which]
        key = term.what, term.element
        if key not in self._columns:
            self._columns[key] = np.append(_column(self._facts.values, *key), np.nan)
        return self._columns[key][tensors]

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
        name = values.model.schema.enums["TensorType"].get(int(values.type_numbers[tensor]), "")
        key = int(values.buffers[tensor]), name
        if key not in self._values:
            data = values.model.buffers.data.row(key[0])
            dtype = np.dtype(DTYPES.get(name, "c8"))  # complex numbers have no order
            size = data.size // dtype.itemsize * dtype.itemsize if dtype.kind != "c" else 0
            self._values[key] = data[:size].view(dtype)
        return self._values[key]


def _column(values: Values, what: str, element: int | None) -> Column:
    """Return a property of each tensor as a number; the property `shape` numbers the distinct shapes."""
    shapes = values.shapes
    if what == "external":
        return values.model.buffers.external[values.buffers].astype(np.float64)
    if what in ("dim", "span"):
        return shapes.element(element or 0) - (what == "span")
    if what == "rank":
        return shapes.count.astype(np.float64)
    if what == "shape":
        return row_numbers(shapes.flat(), shapes.count).astype(np.float64)
    if what == "size":
        return element_counts(shapes, shapes.flat())
    tables, rows = values.quantization
    found = np.full(len(values), np.nan)  # NaN unless there is a single scale
    if len(rows):
        one = tables.vectors("scale").count == 1
        numbers = tables.vectors(what).element(0)[one]
        if what == "zero_point":
            numbers = np.nan_to_num(numbers).astype(np.int64).astype(np.int32)  # LiteRT keeps 32 bits
        found[rows[one]] = numbers
    return found
