"""Shapes of operators that move, reduce, count or fill elements: reshape, slice, concatenate, gather, pad and sum."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from circletools.model.sizes import element_count
from circletools.shapes.call import (
    Call,
    DelegatedError,
    DoubtfulError,
    OverrunError,
    RefusedError,
    Rule,
    Shape,
    UndelegatedError,
    UnknownError,
    broadcast,
    empty,
    refuse_unless,
    resolved,
    shown,
    without,
)


def reshape(call: Call) -> Sequence[Shape]:
    """The shape in the second input, or else in the options; one size may be -1."""
    given = len(call) > 1 and call.shapes[1] is not None
    sizes = call.numbers(1) if given else list(call.options.get("new_shape", ()))
    if not given and sizes == [0]:
        sizes = []  # old converters wrote a scalar in this way
    stated, count = call.values[1] if len(call) > 1 else None, element_count(call.shape())
    # XNNPACK accepts a shape of any rank, and treats 0 as -1; it does not take -1 alone.
    other = [-1] if stated is None or stated.dtype != np.int32 else [int(size) or -1 for size in stated.reshape(-1)]
    try:
        found = resolved(sizes, count, 1 if given else None)
    except RefusedError as error:
        if other == [-1]:
            raise
        resolved(other, count, 1)
        raise UndelegatedError(error.reason, times=error.times) from error
    try:
        return [found if given or other == [-1] else resolved(other, count, 1)]
    except RefusedError as error:
        raise DelegatedError(error.reason) from error


def squeeze(call: Call) -> Sequence[Shape]:
    """The shape without the listed dimensions or, if the options list none, without all dimensions of size 1."""
    shape = call.shape()
    axes = {call.axis(axis, len(shape)) for axis in call.options.get("squeeze_dims", ())}
    for axis in axes:
        refuse_unless(shape[axis] == 1, f"dimension {axis} of {shown(shape)} is not 1")
    return [tuple(size for axis, size in enumerate(shape) if axis not in axes and (axes or size != 1))]


def inserted(call: Call, shape: Shape, axis: int, size: int) -> Sequence[Shape]:
    """The shape with one additional dimension."""
    axis = call.axis(axis, len(shape) + 1)
    return [(*shape[:axis], size, *shape[axis:])]


def transpose(call: Call) -> Sequence[Shape]:
    """The shape with its dimensions permuted by the second input."""
    shape = call.shape()
    order = [call.axis(axis, len(shape)) for axis in call.numbers(1)]
    if sorted(order) != list(range(len(shape))):  # the kernel does not compare the axes with each other
        kind = DelegatedError if len(order) == len(shape) else RefusedError
        raise kind(f"{shown(order)} does not permute {shown(shape)}", 1)
    if len(call.shape(1)) != 1:
        raise UndelegatedError("the permutation is not a vector", 1)
    return [tuple(shape[axis] for axis in order)]


def prelu(call: Call) -> Sequence[Shape]:
    """The shape of input 0, to which the slopes broadcast."""
    found = broadcast(*call.all_shapes())
    if found != call.shape():
        raise UndelegatedError(f"the slopes {shown(call.shape(1))} do not fit {shown(call.shape())}", 1)
    return [found]


def unpack(call: Call) -> Sequence[Shape]:
    """One output for each index of the dimension."""
    shape = call.shape()
    axis, count = call.axis(call.option("axis"), len(shape)), call.option("num")
    fits = shape[axis] == count == call.results
    refuse_unless(fits, f"size {shape[axis]} of dimension {axis} is not the number of outputs, {count}")
    return [without(shape, axis)] * count


def pack(call: Call) -> Sequence[Shape]:
    """The common shape with a dimension for the inputs."""
    count = call.option("values_count")
    refuse_unless(count == len(call), f"the number of inputs is {len(call)}, but values_count is {count}")
    return inserted(call, call.one_shape(), call.option("axis"), len(call))


def concatenation(call: Call) -> Sequence[Shape]:
    """The common shape, with the sizes in one dimension added up."""
    shapes = call.all_shapes()
    axis = call.axis(call.option("axis"), len(shapes[0]))
    for slot, shape in enumerate(shapes):
        same = len(shape) == len(shapes[0]) and without(shape, axis) == without(shapes[0], axis)
        refuse_unless(same, f"{shown(shape)} does not match {shown(shapes[0])}", slot)
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def split(call: Call) -> Sequence[Shape]:
    """Equal pieces along the axis that the first input contains."""
    shape, count = call.shape(1), call.option("num_splits")
    refuse_unless(count == call.results > 0, f"the number of outputs is {call.results}, but num_splits is {count}")
    axis = call.axis(call.number(0), len(shape))
    refuse_unless(shape[axis] % count == 0, f"size {shape[axis]} of dimension {axis} is not a multiple of {count}")
    return [(*shape[:axis], shape[axis] // count, *shape[axis + 1 :])] * count


def split_v(call: Call) -> Sequence[Shape]:
    """Pieces of the given sizes; one may be -1."""
    count = call.option("num_splits")
    refuse_unless(count == call.results, f"the number of outputs is {call.results}, but num_splits is {count}")
    shape, sizes = call.shape(), call.numbers(1, 1)
    axis = call.axis(call.number(2), len(shape))
    if -1 in sizes:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    fits = len(sizes) == call.results and sum(sizes) == shape[axis] and min(sizes) >= 0
    refuse_unless(fits, f"dimension {axis} is {shape[axis]}, but the pieces are {shown(sizes)}", 1)
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def segment_sum(call: Call) -> Sequence[Shape]:
    """A sum for each segment; the numbers of the segments count up from 0 (ValidateSegmentIds in segment_sum.cc)."""
    shape, numbers = call.shape(), call.numbers(1, 1)
    ascend = {*np.diff([0, *numbers]).tolist()} <= {0, 1} and not any(numbers[:1])
    fits = ascend and shape[:1] == (len(numbers),)
    refuse_unless(fits, f"the segments {shown(numbers)} do not number the rows of {shown(shape)}", 1)
    return [(max(numbers, default=-1) + 1, *shape[1:])]


def select(call: Call) -> list[Shape]:
    """Return the shape of both values; the condition has that shape, is a scalar, or has one value for each row."""
    condition, shape = call.shape(), call.one_shape(1)
    fits = condition in (shape, shape[:1], ())
    refuse_unless(fits, f"the condition {shown(condition)} does not match {shown(shape)}")
    return [shape]


def slice_(call: Call) -> Sequence[Shape]:
    """The slice from `begin` with the given size; the size -1 means up to the end."""
    shape, begin, size = call.shape(), call.numbers(1, 1), call.numbers(2, 1)
    if not len(begin) == len(size) == len(shape):
        kind = UndelegatedError if len(begin) == len(size) else RefusedError  # XNNPACK does not check the rank
        raise kind("begin and size need one value for each dimension")
    found = tuple(
        whole - start if count == -1 else count for whole, start, count in zip(shape, begin, size, strict=True)
    )
    for whole, start, count in zip(shape, begin, found, strict=True):
        if not 0 <= start <= start + count <= whole:
            kind = RefusedError if min(*begin, *size) < 0 else OverrunError
            raise kind(f"{shown(begin)} + {shown(size)} > {shown(shape)}", 2)
    return [found]


def slices(call: Call) -> tuple[Any, ...]:
    """Return a strided slice as a NumPy index."""
    begin, end, step = (call.numbers(slot, 1) for slot in (1, 2, 3))
    if len(step) < len(begin):
        raise DoubtfulError("a dimension has no stride")  # LiteRT reads beyond the strides
    masks = {name: call.option(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    index: list[Any] = []
    for at, (first, last, stride) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << at
        refuse_unless(stride != 0, "a stride is 0", 3)
        if masks["ellipsis"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(0 if masks["begin"] & bit else first)
        else:
            to = first + last if call.option("offset") else last
            index.append(slice(None if masks["begin"] & bit else first, None if masks["end"] & bit else to, stride))
    if index.count(Ellipsis) > 1:
        raise UnknownError
    return tuple(index)


def strided_slice(call: Call) -> Sequence[Shape]:
    """The slice that begin, end, strides and masks select."""
    shape, index = call.shape(), slices(call)
    try:
        return [empty(shape)[index].shape]
    except IndexError as error:  # LiteRT ignores surplus indices, and does not check those of removed dimensions
        raise DoubtfulError(f"the slice exceeds {shown(shape)}") from error


def pad(call: Call) -> Sequence[Shape]:
    """The shape with the padding added before and after each dimension."""
    shape, given = call.shape(), call.shape(1, 2)
    refuse_unless(given == (len(shape), 2), f"the paddings {shown(given)} do not fit {shown(shape)}", 1)
    one_value = "mode" in call.options or all(one is None or element_count(one) == 1 for one in call.shapes[2:3])
    refuse_unless(one_value, "the padding value is not a single value", 2)
    pads = call.numbers(1)
    refuse_unless("mode" in call.options or min(pads, default=0) >= 0, "a padding is negative", 1)
    sizes = (size + front + back for size, front, back in zip(shape, pads[::2], pads[1::2], strict=True))
    return [tuple(sizes)]


def gather(call: Call) -> Sequence[Shape]:
    """The shape with one dimension replaced by the dimensions of the indices."""
    shape, indices = call.shape(), call.shape(1)
    axis, batch = call.axis(call.option("axis"), max(len(shape), 1)), call.option("batch_dims")
    batch += len(indices) if batch < 0 else 0
    fits = batch <= axis and shape[:batch] == indices[:batch]
    refuse_unless(fits, f"indices {shown(indices)} do not fit {shown(shape)}")
    return [(*shape[:axis], *indices[batch:], *shape[axis + 1 :])]


def gather_nd(call: Call) -> Sequence[Shape]:
    """The slices that the last dimension of the indices selects."""
    shape, indices = call.shape(), call.shape(1)
    refuse_unless(bool(indices) and indices[-1] <= len(shape), f"indices {shown(indices)} do not fit {shown(shape)}")
    return [indices[:-1] + shape[indices[-1] :]]


def scatter_nd(call: Call) -> Sequence[Shape]:
    """The shape that the third input contains; the updates contain a slice for each index."""
    indices, updates, sizes = call.shape(), call.shape(1), tuple(call.numbers(2))
    fits = bool(indices) and updates == indices[:-1] + sizes[indices[-1] :]
    refuse_unless(fits, f"updates {shown(updates)} do not fit {shown(sizes)}")
    return [sizes]


def tile(call: Call) -> Sequence[Shape]:
    """The shape with each dimension multiplied by its entry in the second input."""
    shape, times = call.shape(), call.numbers(1)
    refuse_unless(len(times) == len(shape), f"the number of multiples is {len(times)}, not {len(shape)}", 1)
    return [tuple(size * count for size, count in zip(shape, times, strict=True))]


def broadcast_to(call: Call) -> Sequence[Shape]:
    """The shape that the second input contains, if the first broadcasts to it."""
    shape, wanted = call.shape(), tuple(call.numbers(1, 1))
    refuse_unless(broadcast(shape, wanted) == wanted, f"{shown(shape)} does not broadcast to {shown(wanted)}", 1)
    return [wanted]


def space_to_batch(call: Call) -> Sequence[Shape]:
    """Spatial blocks become entries of the batch."""
    shape, block, pads = call.shape(), call.numbers(1, 1), call.numbers(2, 2)
    space = [size + front + back for size, front, back in zip(shape[1:], pads[::2], pads[1::2], strict=False)]
    fits = len(pads) == 2 * len(block) and len(space) == len(block)
    fits = fits and all(size > 0 and not whole % size for whole, size in zip(space, block, strict=True))
    refuse_unless(fits, f"{shown(block)} does not divide {shown(space)}", 1)
    sizes = (whole // size for whole, size in zip(space, block, strict=True))
    return [(shape[0] * element_count(block), *sizes, *shape[1 + len(block) :])]


def batch_to_space(call: Call) -> Sequence[Shape]:
    """Entries of the batch become spatial blocks."""
    shape, block, crops = call.shape(), call.numbers(1, 1), call.numbers(2, 2)
    blocks = element_count(block)
    fits = len(crops) == 2 * len(block) and blocks > 0 and bool(shape) and not shape[0] % blocks
    refuse_unless(fits, f"{shown(block)} does not divide the batch of {shown(shape)}", 1)
    space = zip(shape[1:], block, crops[::2], crops[1::2], strict=False)
    sizes = [size * times - front - back for size, times, front, back in space]
    return [(shape[0] // blocks, *sizes, *shape[1 + len(block) :])]


def blocks_of_channels(call: Call) -> Sequence[Shape]:
    """Spatial blocks become channels, or channels become spatial blocks."""
    batch, height, width, channels = call.shape(0, 4)
    size = call.option("block_size")
    if call.code == "SPACE_TO_DEPTH":
        refuse_unless(size > 0 and not height % size and not width % size, f"{size} does not divide {height}x{width}")
        return [(batch, height // size, width // size, channels * size * size)]
    refuse_unless(size > 0 and not channels % (size * size), f"{size}x{size} does not divide {channels} channels")
    return [(batch, height * size, width * size, channels // (size * size))]


def reduce(call: Call) -> Sequence[Shape]:
    """The shape without the axes that the second input lists, or with size 1 for them."""
    shape = call.shape()
    if not shape and {*call.numbers(1)} - {-1, 0}:  # XNNPACK gives a scalar one dimension; LiteRT's kernel, none
        raise DelegatedError("a scalar has at most one axis")
    axes = {call.axis(axis, len(shape)) for axis in call.numbers(1)} if shape else set()
    keep = bool(call.options.get("keep_dims"))
    return [tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)]


def top_k(call: Call) -> Sequence[Shape]:
    """The largest elements in the last dimension: their values and their indices."""
    shape, count = call.shape(), call.number(1)
    refuse_unless(bool(shape) and 0 <= count <= shape[-1], f"k = {count} does not fit {shown(shape)}", 1)
    return [(*shape[:-1], count)] * 2


def by_value(slot: int) -> Rule:
    """Return the rule for a shape that is the value of an input."""

    def rule(call: Call) -> Sequence[Shape]:
        sizes = tuple(call.numbers(slot, 1))
        refuse_unless(min(sizes, default=0) >= 0, f"{shown(sizes)} is not a shape", slot)
        return [sizes]

    return rule


def range_(call: Call) -> Sequence[Shape]:
    """The numbers from start to limit in steps of delta."""
    start, limit, step = (call.number(slot) for slot in range(3))
    refuse_unless(step != 0 and (limit - start) * step >= 0, f"no range from {start} to {limit} in steps of {step}")
    return [(ceil((limit - start) / step),)]


def shape_of(call: Call) -> Sequence[Shape]:
    """The number of dimensions."""
    kind = call.options.get("out_type", "INT32")
    refuse_unless(kind in ("INT32", "INT64"), f"out_type is {kind}, not INT32 or INT64")
    return [(len(call.shape()),)]


def unknown(call: Call) -> Sequence[Shape]:
    """The shape depends on values that are known only at run time."""
    raise UnknownError
