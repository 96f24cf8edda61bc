"""The shapes of operators with windows and weights: convolution, pooling, matrix products and recurrent cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from circletools.flatbuf.schema import schema_document
from circletools.model.sizes import element_count
from circletools.shapes.call import (
    Call,
    DelegatedError,
    OverrunError,
    RefusedError,
    Rule,
    Shape,
    UndelegatedError,
    WindowError,
    broadcast,
    refuse_unless,
    shown,
)


def _out(call: Call, size: int, window: int, stride: int, dilation: int = 1) -> int:
    """Return the number of window positions, as `ComputeOutSize` does in LiteRT's `padding.h`."""
    stride, reach = max(stride, 1), (window - 1) * max(dilation, 1) + 1
    if window < 1:
        return 0
    if call.options.get("padding") == "SAME":
        return -(-size // stride)
    if size < reach:  # a window that is too large by less than a stride gives an empty output
        negative = size + stride <= reach - stride and "CONV" in call.code
        raise (RefusedError if negative else WindowError)(f"a window of {reach} exceeds a dimension of {size}")
    return (size - reach) // stride + 1


def _places(call: Call, sizes: Sequence[int], window: Sequence[int], letters: str = "hw") -> list[int]:
    """Return the number of window positions in each spatial dimension."""
    return [
        _out(call, size, reach, call.option(f"stride_{letter}", 1), call.option(f"dilation_{letter}_factor", 1))
        for size, reach, letter in zip(sizes, window, letters, strict=True)
    ]


def conv_2d(call: Call) -> Sequence[Shape]:
    """The layout is NHWC; weights are OHWI, or 1HWO in a depthwise convolution."""
    weights, depthwise = call.shape(1, 4), call.code == "DEPTHWISE_CONV_2D"
    shape = call.shape(0, 4)
    whole, part = (weights[3], shape[3]) if depthwise else (shape[3], weights[3])
    grouped = weights[0] == 1 if depthwise else not weights[0] % max(whole // max(part, 1), 1)
    fits = min(weights + shape[1:]) > 0 and not whole % part and grouped
    refuse_unless(fits, f"{shown(shape)} does not fit weights {shown(weights)}")
    _check_bias(call, weights[3 if depthwise else 0])
    times = call.option("depth_multiplier")
    if times > 0 and not weights[3] % times and weights[3] != shape[3] * times:
        raise DelegatedError(f"{shape[3]} channels with the option depth_multiplier do not give {weights[3]}")
    return [(shape[0], *_places(call, shape[1:3], weights[1:3]), weights[3 if depthwise else 0])]


def _check_bias(call: Call, channels: int, slot: int = 2) -> None:
    """Refuse a bias of another size; XNNPACK accepts one of rank 1, except in matrix products."""
    bias = call.shapes[slot] if len(call) > slot else None
    is_refused = bias is not None and len(bias) != 1 and call.code == "DEPTHWISE_CONV_2D"
    if bias is not None and (element_count(bias) != channels or is_refused):
        alone = len(bias) == 1 and bias[0] and call.code != "FULLY_CONNECTED"
        words = f"the bias {shown(bias)} does not have one value for each of {channels} channels"
        taken = OverrunError if element_count(bias) < channels else UndelegatedError
        raise (taken if alone else RefusedError)(words, slot)


def pool_2d(call: Call) -> Sequence[Shape]:
    """The layout is NHWC; the options describe the window."""
    if len(call.shape()) > 4 and call.code == "MAX_POOL_2D":
        raise UndelegatedError("input 0 has more than 4 dimensions")
    shape, window = call.shape(0, 4), [call.option("filter_height"), call.option("filter_width")]
    return [(shape[0], *_places(call, shape[1:3], window), shape[3])]


def conv_3d(call: Call) -> Sequence[Shape]:
    """The layout is NDHWC; weights are DHWIO."""
    shape, weights = call.shape(0, 5), call.shape(1, 5)
    refuse_unless(shape[4] == weights[3], f"the channel count, {shape[4]}, does not fit weights {shown(weights)}")
    return [(shape[0], *_places(call, shape[1:4], weights[:3], "dhw"), weights[4])]


def transpose_conv(call: Call) -> Sequence[Shape]:
    """The shape that the first input contains, if a convolution maps it to the shape of the data (input 2)."""
    wanted, weights, shape = tuple(call.numbers(0, 1)), call.shape(1, 4), call.shape(2, 4)
    words = f"{shown(shape)} does not fit the output shape {shown(wanted)}"
    refuse_unless(len(wanted) == 4 and min(wanted + shape[1:]) > 0 and weights[3] == shape[3], words, 0)
    _check_bias(call, weights[0], 3)
    try:
        fits = _places(call, wanted[1:3], weights[1:3]) == [*shape[1:3]]
    except WindowError as error:
        raise RefusedError(words, 0) from error
    if not fits or wanted[0] != shape[0]:
        # XNNPACK compares the sizes only with padding SAME (CalculateTransposeConvPaddings in xnnpack_delegate.cc).
        is_compared = call.options.get("padding") == "SAME" or wanted[3] != weights[0]
        raise (RefusedError if is_compared and not fits else UndelegatedError)(words, 0)
    return [(*wanted[:3], weights[0])]


def resize(call: Call) -> Sequence[Shape]:
    """The layout is NHWC; the second input contains height and width."""
    shape, size = call.shape(0, 4), call.numbers(1, 1)
    fits = len(size) == 2 and (min(size) > 0 or call.code != "RESIZE_BILINEAR")  # resize_bilinear.cc
    refuse_unless(fits, "the size is not a height and a width", 1)
    return [(shape[0], *size, shape[3])]


def fully_connected(call: Call) -> Sequence[Shape]:
    """The weights determine the last dimension; the others are flattened unless kept. LiteRT drops a remainder."""
    weights = call.shape(1, 2)
    _check_bias(call, weights[0])
    shape = call.shape()
    outputs = {"DEFAULT": 1, "SHUFFLED4x16INT8": 2}.get(call.options.get("weights_format", "DEFAULT"))
    refuse_unless(call.results == outputs, f"{call.results} outputs do not match the format of the weights")
    if call.options.get("keep_num_dims"):
        refuse_unless(bool(shape) and shape[-1] == weights[1], f"{shown(shape)} does not fit {shown(weights)}", 1)
        return [(*shape[:-1], weights[0])]
    if not weights[1] or element_count(shape) % weights[1]:
        raise DelegatedError(f"{element_count(shape)} elements do not fit weights {shown(weights)}", 1)
    return [(element_count(shape) // weights[1], weights[0])]


def batch_matmul(call: Call) -> Sequence[Shape]:
    """Matrix products over the last two dimensions; each input is transposed if its option is set."""
    first, second = call.shape(), call.shape(1)
    rows, inner = first[-2:] if not call.options.get("adj_x") else first[:-3:-1]
    other, columns = second[-2:] if not call.options.get("adj_y") else second[:-3:-1]
    refuse_unless(inner == other, f"{shown(first)} cannot be multiplied by {shown(second)}")
    return [(*broadcast(first[:-2], second[:-2]), rows, columns)]


def _check_state(call: Call, slot: int, batch: int, units: int) -> None:
    shape = call.shape(slot)
    refuse_unless(element_count(shape) == batch * units, f"the state {shown(shape)} is not {batch} x {units}", slot)


def _weights(call: Call, slot: int) -> Shape:
    shape, weights = call.shape(), call.shape(slot, 2)
    refuse_unless(bool(shape) and shape[-1] == weights[1], f"{shown(shape)} does not fit {shown(weights)}", slot)
    return weights


def recurrent(rank: int, *cells: tuple[int, ...]) -> Rule:
    """Return the rule for a cell, or for one cell in each direction, given the slots of the weights and states."""

    def rule(call: Call) -> Sequence[Shape]:
        shape = call.shape(0, rank)
        batch, units = shape[1 if call.options.get("time_major") else 0], []
        for weights, *slots in cells:
            size = _weights(call, weights)[0]
            units.append(call.shape(slots[0], 2)[1] if len(slots) == 3 else size)
            for slot, width in zip(slots[-2:], (units[-1], size), strict=False):
                _check_state(call, slot, batch, width)
        if len(cells) == 1 or call.options.get("merge_outputs"):
            return [(*shape[:-1], sum(units))] * call.results
        return [(*shape[:-1], size) for size in units]

    return rule


def full_lstm(call: Call) -> Sequence[Shape]:
    """The full cell: 24 inputs, or 20 without layer normalization (`CheckInputTensorDimensions` in lstm.cc)."""
    fits = len(call) in (20, 24) and call.results == 1
    refuse_unless(fits, f"{len(call)} inputs and {call.results} outputs are not 20 or 24 inputs and 1 output")
    if call.code == "LSTM":  # it reads two dimensions, and ignores others
        call = replace(call, shapes=(call.shape()[:2], *call.shapes[1:]))
    found = recurrent(2 if call.code == "LSTM" else 3, (2, 8, 18, 19))(call)
    refuse_unless(all(call.options.get(name, 0) >= 0 for name in ("cell_clip", "proj_clip")), "a clip is negative")
    cells, units = call.shape(4, 2)[0], call.shape(8, 2)[1]
    wanted = [(cells, call.shape()[-1])] * 4 + [(cells, units)] * 4 + [(cells,)] * 7 + [(units, cells), (units,)]
    for slot, shape in enumerate((*wanted, None, None, *[(cells,)] * 4)[: len(call) - 1], 1):
        has = call.shapes[slot]
        if has is not None and shape is not None:
            start = int(call.code != "LSTM" and slot in (6, 7))  # LiteRT does not check their first dimension
            fits = len(has) == len(shape) and has[start:] == shape[start:]
            refuse_unless(fits, f"input {slot} has the shape {shown(has)}, not {shown(shape)}", slot)
    return found


def lstm(call: Call) -> Sequence[Shape]:
    """The full cell or the basic cell, which has 5 inputs and 4 outputs."""
    if call.options.get("kernel_type") != "BASIC":
        return full_lstm(call)
    refuse_unless(len(call) == 5, f"the number of inputs is {len(call)}, not 5")
    batch, units, weights = call.shape(0, 2)[0], call.shape(4)[-1], call.shape(2)
    for slot in (1, 4):
        _check_state(call, slot, batch, units)
    return [(batch, size) for size in (units, units, weights[-1], weights[0])][: call.results]


def svdf(call: Call) -> Sequence[Shape]:
    """The last output dimension is the number of filters divided by their rank."""
    shape, filters, rank = call.shape(0, 2), _weights(call, 1)[0], call.option("rank")
    times, memory = call.shape(2, 2)
    refuse_unless(rank > 0 and not filters % rank and times == filters, f"{filters} filters do not fit rank {rank}")
    bias = call.shapes[3]
    refuse_unless(bias is None or bias[:1] == (filters // rank,), f"the bias {shown(bias)} does not fit rank {rank}")
    _check_state(call, 4, shape[0], filters * memory)
    return [(shape[0], filters // rank)]


STATES: Mapping[str, Sequence[int]] = schema_document("litert")["states"]
"""The inputs that hold one state for each entry of the batch."""
