"""Shapes of operators that reduce, count, fill or look up."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from circletools.shapes.call import Call, Rule, Shape, UnknownError, refuse_unless, shown


def reduce(call: Call) -> Sequence[Shape]:
    """Without the axes of the second input, or with 1 in their places."""
    shape = call.shape()
    axes = {call.axis(axis, len(shape)) for axis in call.numbers(1)} if shape else set()
    keep = bool(call.options.get("keep_dims"))
    return [tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)]


def top_k(call: Call) -> Sequence[Shape]:
    """The best of the last dimension: values and indices."""
    shape, count = call.shape(), call.number(1)
    refuse_unless(bool(shape) and 0 <= count <= shape[-1], f"the best {count} of {shown(shape)}", 1)
    return [(*shape[:-1], count)] * 2


def by_value(slot: int) -> Rule:
    """Return the rule of a shape that an input gives."""

    def rule(call: Call) -> Sequence[Shape]:
        sizes = tuple(call.numbers(slot))
        refuse_unless(min(sizes, default=0) >= 0, f"{shown(sizes)} is no shape", slot)
        return [sizes]

    return rule


def range_(call: Call) -> Sequence[Shape]:
    """From start to limit in steps."""
    start, limit, step = (call.number(slot) for slot in range(3))
    refuse_unless(step != 0 and (limit - start) * step >= 0, f"no range from {start} to {limit} in steps of {step}")
    return [(ceil((limit - start) / step),)]


def unknown(call: Call) -> Sequence[Shape]:
    """Depends on values."""
    raise UnknownError
