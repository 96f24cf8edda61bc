"""Shapes of operators that reduce, count, fill or look up."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from circletools.shapes.call import Call, Rule, Shape, UnknownError, broadcast, refuse_unless, shown


def same(call: Call) -> Sequence[Shape]:
    """The shape of the first input."""
    return [call.shape()]


def second(call: Call) -> Sequence[Shape]:
    """The shape of the second input."""
    return [call.shape(1)]


def broadcasting(call: Call) -> Sequence[Shape]:
    """The shape that all inputs broadcast to."""
    return [broadcast(*(call.shape(slot) for slot in range(len(call))))]


def all_the_same(call: Call) -> Sequence[Shape]:
    """One shape of all inputs."""
    shape = call.shape()
    for slot in range(1, len(call)):
        refuse_unless(call.shape(slot) == shape, f"{shown(call.shape(slot))} beside {shown(shape)}", slot)
    return [shape]


def select(call: Call) -> Sequence[Shape]:
    """The shape of both branches."""
    refuse_unless(call.shape(1) == call.shape(2), f"{shown(call.shape(1))} beside {shown(call.shape(2))}")
    return [call.shape(1)]


def reduce(call: Call) -> Sequence[Shape]:
    """Without the axes of the second input, or with 1 in their places."""
    shape = call.shape()
    axes = {call.axis(axis, len(shape)) for axis in call.numbers(1)} if shape else set()
    if call.options.get("keep_dims"):
        return [tuple(1 if axis in axes else size for axis, size in enumerate(shape))]
    return [tuple(size for axis, size in enumerate(shape) if axis not in axes)]


def arg(call: Call) -> Sequence[Shape]:
    """Without one axis."""
    shape = call.shape()
    axis = call.axis(call.number(1), len(shape))
    return [shape[:axis] + shape[axis + 1 :]]


def top_k(call: Call) -> Sequence[Shape]:
    """The best of the last dimension: values and indices."""
    shape, count = call.shape(), call.number(1)
    refuse_unless(bool(shape) and 0 <= count <= shape[-1], f"the best {count} of {shown(shape)}", 1)
    return [(*shape[:-1], count)] * 2


def shape_of(call: Call) -> Sequence[Shape]:
    """One number for each dimension."""
    return [(len(call.shape()),)]


def scalar(call: Call) -> Sequence[Shape]:
    """One number."""
    return [()] * call.results


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


def one_hot(call: Call) -> Sequence[Shape]:
    """With a dimension more, of the depth."""
    shape, depth = call.shape(), call.number(1)
    axis = call.axis(call.option("axis", -1), len(shape) + 1)
    return [(*shape[:axis], depth, *shape[axis:])]


def matrix_diag(call: Call) -> Sequence[Shape]:
    """The last dimension twice."""
    shape = call.shape()
    refuse_unless(bool(shape), "a scalar has no diagonal")
    return [(*shape, shape[-1])]


def embedding_lookup(call: Call) -> Sequence[Shape]:
    """A row of the second input for each index."""
    return [call.shape(0, 1) + call.shape(1)[1:]]


def segment_sum(call: Call) -> Sequence[Shape]:
    """As many as the last segment says."""
    segments = call.numbers(1)
    return [(segments[-1] + 1 if segments else 0, *call.shape()[1:])]


def unsorted_segment(call: Call) -> Sequence[Shape]:
    """As many as the third input says."""
    return [(call.number(2), *call.shape()[len(call.shape(1)) :])]


def rfft_2d(call: Call) -> Sequence[Shape]:
    """The lengths of the second input, the last halved."""
    height, width = call.numbers(1)
    return [(*call.shape()[:-2], height, width // 2 + 1)]


def suppression(call: Call) -> Sequence[Shape]:
    """As many boxes as the third input allows: indices, scores in version 5, and their number."""
    most = (call.number(2),)
    return [*[most] * (call.results - 1), ()]


def multinomial(call: Call) -> Sequence[Shape]:
    """Samples for each row."""
    return [(call.shape(0, 2)[0], call.number(1))]


def unknown(call: Call) -> Sequence[Shape]:
    """Depends on values."""
    raise UnknownError


def broadcast_args(call: Call) -> Sequence[Shape]:
    """The rank of what two shapes broadcast to."""
    return [(max(call.shape(0, 1)[0], call.shape(1, 1)[0]),)]
