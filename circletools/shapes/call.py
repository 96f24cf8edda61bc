"""The call of an operator as the shape rules receive it, and helpers for these rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.schema import schema_document
from circletools.model.sizes import element_count
from circletools.wording import counted

Shape = tuple[int, ...]
Value = NDArray[Any]


class RefusedError(Exception):
    """The operator refuses these shapes. `slot` is the input whose constant causes this, if there is one.

    The operator may accept an input with `times` times as many elements. `effect` is what LiteRT does.
    """

    effect = "LiteRT's kernel refuses the operator"

    def __init__(self, reason: str, slot: int | None = None, times: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.slot, self.times = reason, slot, times


class DoubtfulError(RefusedError):
    """LiteRT's kernel accepts these shapes, but computes nothing, only a part, or something different."""

    effect = "a kernel may compute something different"


class UndelegatedError(DoubtfulError):
    """LiteRT's kernel refuses these shapes, but its XNNPACK delegate does not."""

    effect = "LiteRT runs the operator only in its XNNPACK delegate"


class OverrunError(UndelegatedError):
    """LiteRT's kernel refuses these shapes, but its XNNPACK delegate reads past the end of a tensor."""

    effect = f"{UndelegatedError.effect}, which reads past the end"


class DelegatedError(DoubtfulError):
    """LiteRT's kernel accepts these shapes, but its XNNPACK delegate, if it takes the operator, does not."""

    effect = "LiteRT runs the operator only without its XNNPACK delegate"


class WindowError(DoubtfulError):
    """The window is larger than the input, and the output is empty."""


class UnknownError(Exception):
    """The shape depends on values that are known only when the model runs."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with the shapes of its inputs, and with the values of those that are known and have few integers.

    A shape is None if the input is omitted or its shape is unknown.
    """

    code: str
    options: Mapping[str, Any]
    shapes: Sequence[Shape | None]
    values: Sequence[Value | None]
    results: int

    def __len__(self) -> int:
        return len(self.shapes)

    def shape(self, slot: int = 0, rank: int | None = None) -> Shape:
        """Return the shape of an input. Raises UnknownError or RefusedError."""
        if slot >= len(self.shapes):
            raise RefusedError(f"it has no input {slot}")
        found = self.shapes[slot]
        if found is None:
            raise UnknownError
        if rank is not None and len(found) != rank:
            raise RefusedError(f"input {slot} has {counted(len(found), 'dimension')}, not {rank}")
        return found

    def all_shapes(self) -> list[Shape]:
        """Return the shapes of all inputs. Raises UnknownError."""
        return [self.shape(slot) for slot in range(len(self))]

    def one_shape(self, start: int = 0) -> Shape:
        """Return the shape that all inputs from this slot on have in common. Raises UnknownError or RefusedError."""
        first, *others = self.all_shapes()[start:]
        for slot, shape in enumerate(others, start + 1):
            refuse_unless(shape == first, f"{shown(shape)} does not match {shown(first)}", slot)
        return first

    def numbers(self, slot: int, rank: int | None = None) -> list[int]:
        """Return the values of an input as a flat list. Raises UnknownError or RefusedError."""
        self.shape(slot, rank)
        value = self.values[slot]
        if value is None:
            raise UnknownError
        return [int(number) for number in value.reshape(-1).tolist()]

    def number(self, slot: int) -> int:
        """Return the only value of an input. Raises UnknownError or RefusedError."""
        found = self.numbers(slot)
        if len(found) != 1:
            raise RefusedError(f"input {slot} has {len(found)} values, not one", slot)
        return found[0]

    def option(self, name: str, default: int = 0) -> int:
        """Return a numeric option."""
        return int(self.options.get(name, default))

    def axis(self, number: int, rank: int) -> int:
        """Return an axis as a non-negative number. Raises RefusedError if the axis does not exist."""
        if not -rank <= number < rank:
            raise RefusedError(f"axis {number} does not exist in {counted(rank, 'dimension')}")
        return number % rank


Rule = Callable[[Call], Sequence[Shape]]
"""A function that returns the shapes of the outputs. Raises RefusedError or UnknownError."""


def refuse_unless(holds: bool, reason: str, slot: int | None = None) -> None:
    """Raise RefusedError if a condition does not hold."""
    if not holds:
        raise RefusedError(reason, slot)


def check_needs(call: Call) -> None:
    """Check that inputs have the ranks that LiteRT's kernel needs, by schema/litert.json. Raises RefusedError.

    With `filled`, the XNNPACK delegate refuses dimensions of size 0 in input 0, except for the batch.
    """
    needs = schema_document("litert")["operators"].get(call.code, {}).get("needs", {})
    for slot, (least, most) in needs.get("ranks", {}).items():
        shape = call.shapes[int(slot)] if int(slot) < len(call) else None
        fits = shape is None or least <= len(shape) <= (len(shape) if most is None else most)
        refuse_unless(fits, f"input {slot} of shape {shown(shape)} has too few or too many dimensions")
    if needs.get("filled") and 0 in (call.shapes[0] or ())[1:]:
        raise DelegatedError("a dimension of input 0 is 0")


def broadcast(*shapes: Shape) -> Shape:
    """Return the common broadcast shape. Raises RefusedError."""
    if len(set(shapes)) == 1:
        return shapes[0]
    found = []
    for sizes in zip_longest(*map(reversed, shapes), fillvalue=1):
        larger = {size for size in sizes if size != 1}
        if len(larger) > 1:
            raise RefusedError(f"{' and '.join(map(shown, shapes))} do not broadcast")
        found.append(larger.pop() if larger else 1)
    return tuple(reversed(found))


def without(shape: Shape, axis: int) -> Shape:
    """Return a shape without one dimension."""
    return shape[:axis] + shape[axis + 1 :]


def shown(shape: Sequence[int] | None) -> str:
    """Return a shape as text."""
    return "?" if shape is None else f"[{','.join(map(str, shape))}]"


def resolved(sizes: Sequence[int], count: int, slot: int | None = None) -> Shape:
    """Return sizes in which -1 is replaced so that there are `count` elements. Raises RefusedError."""
    known = element_count(size for size in sizes if size != -1)
    if list(sizes).count(-1) == 1 and known and count % known == 0:
        return tuple(count // known if size == -1 else size for size in sizes)
    if -1 in sizes or known != count:
        reason = f"{counted(count, 'element')} cannot form {shown(sizes)}"
        raise RefusedError(reason, slot, max(known // max(count, 1), 0))
    return tuple(sizes)


def empty(shape: Shape) -> Value:
    """Return an array of the given shape that needs no memory for elements."""
    try:
        return np.broadcast_to(np.zeros((), np.int8), shape)
    except ValueError as error:
        raise RefusedError(f"{shown(shape)} is not a shape") from error
