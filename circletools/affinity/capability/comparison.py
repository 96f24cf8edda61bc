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
from typing import NamedTuple

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
                raise ValueError("has no divisor")
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
