"""Input sizes, axes, strides, paddings and other constants that may matter."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from tools.measure.capability.single import Operand, Probe
from tools.measure.capability.variation import Variation
from tools.measure.capability.variations import computed, constant, indices

NAMES = ("FLOAT32", "FLOAT16", "INT8/t", "UINT8/t", "INT16/t", "INT32")
_WEIGHTS = (
    ("FLOAT32", "FLOAT32", "FLOAT32"),
    ("FLOAT32", "INT8/t", "FLOAT32"),
    ("FLOAT32", "INT8/c", "FLOAT32"),
    ("FLOAT32", "UINT8/t", "FLOAT32"),
    ("FLOAT32", "FLOAT16", "FLOAT16"),
    ("FLOAT16", "FLOAT16", "FLOAT16"),
    ("INT8/t", "INT8/t", "INT32/t"),
    ("INT8/t", "INT8/c", "INT32/c"),
    ("UINT8/t", "UINT8/t", "INT32/t"),
    ("INT16/t", "INT8/c", "INT64/c"),
)
KINDS = ("computed", "constant")
_CONVOLUTION = (
    "input0.dim-1 == input1.dim-1",
    "input0.dim0 == 1",
    "input1.zero_point == 0",
    "stride_w == stride_h",
    *(f"{name} <= {most}" for name in ("stride_w", "stride_h") for most in (1, 2, 3)),
    *(f"{name} <= {most}" for name in ("dilation_w_factor", "dilation_h_factor") for most in (1, 2)),
    *(f"{name} <= {most}" for name in ("input1.dim1", "input1.dim2") for most in (3, 64)),
    "input1.dim1 * input1.dim2 <= 4096",
    "padding == 0",
    "padding == 1",
    "depth_multiplier == 1",
    "input0.dim-1 * depth_multiplier == input1.dim-1",
    *(f"input0.scale * input1.scale / output0.scale {sign} 2^{power}" for power in (0, 8) for sign in ("<", "<=")),
)


def broadcasts() -> Iterator[Variation]:
    """Yield operators on two inputs with other shapes."""
    codes = {
        **{f"{code}": f"{code.capitalize()}Options" for code in ("ADD", "SUB", "MUL", "DIV")},
        "MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions", "POW": "PowOptions",
        "SQUARED_DIFFERENCE": "SquaredDifferenceOptions", "FLOOR_DIV": "FloorDivOptions",
        "FLOOR_MOD": "FloorModOptions", "PRELU": "",
        "EQUAL": "EqualOptions", "NOT_EQUAL": "NotEqualOptions", "GREATER": "GreaterOptions", "LESS": "LessOptions",
        "GREATER_EQUAL": "GreaterEqualOptions", "LESS_EQUAL": "LessEqualOptions",
    }  # fmt: skip
    full = (1, 4, 3, 2)
    shapes = [
        full,
        (4, 3, 2),
        (1, 1, 1, 2),
        (2,),
        (1,),
        (),
        (1, 4, 1, 1),
        (1, 4, 3, 1),
        (1, 1, 3, 2),
        (1, 1, 1, 1),
        (3, 2),
    ]
    candidates = [
        "input1.size == 1", "input0.rank == input1.rank", "input1.rank <= input0.rank", "input0.size == input1.size",
        "input1.size <= input0.size", "input0.dim0 == 1", "inputs.rank > 0", "input1.rank > 0", "input0.rank > 0",
        "input1.dim-1 == input0.dim-1", "input0.dim-1 == input1.dim-1", "input1.size == input1.dim-1",
        "input0.size == output0.size", "input1.size == output0.size", "input1.rank <= 1", "input1.rank == 3",
        "input0.rank >= input1.rank",
    ]  # fmt: skip
    for code, table in codes.items():
        options = (("fused_activation_function", 0),) if code in {"ADD", "SUB", "MUL", "DIV"} else ()
        logical = table[:-7].upper() in {"EQUAL", "NOTEQUAL", "GREATER", "LESS", "GREATEREQUAL", "LESSEQUAL"}
        probes = [
            Probe(code, sides, (computed("BOOL" if logical else name, *target),), options, table)
            for name in NAMES
            for batch, shape, kind in product((1, 2), shapes, ("computed", "constant"))
            for target in ((batch, *full[1:]),)
            for one in (Operand(name, target),)
            for other in (Operand(name, (batch, *shape[1:]) if len(shape) == 4 else shape, kind),)
            for sides in (((one, other), (other, one)) if code != "PRELU" else ((one, other),))
        ]  # fmt: skip
        yield Variation(tuple(probes), tuple(candidates))


def convolutions() -> Iterator[Variation]:
    """Yield convolutions with other strides, dilations, windows, groups and batches."""
    one, three = (1, 1), (3, 3)
    windows = (one, (2, 2), (1, 3), (3, 1), (5, 2), (8, 8))
    settings: list[_Setting] = [
        *((1, 0, one, one, three, channels) for channels in (1, 2)),
        (1, 0, (2, 2), (2, 2), three, 4),
        (1, 0, one, one, (65, 1), 4),
        (1, 0, one, one, (1, 65), 4),
    ]
    for padding in (0, 1):
        settings += [(1, padding, strides, one, three, 4) for strides in product((1, 2, 3, 4), repeat=2)]
        settings += [(1, padding, one, dilations, three, 4) for dilations in product((1, 2, 3), repeat=2)]
        settings += [(1, padding, one, one, window, 4) for window in windows]
        settings.append((2, padding, one, one, three, 4))
    for code in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        probes = [
            _convolution(code, (*types[:2], bias), setting)
            for types in _WEIGHTS
            for bias in (types[2], "")
            for setting in settings
            if code == "CONV_2D" or setting[-1] != 2
        ]
        yield Variation(tuple(probes), _CONVOLUTION)


_Setting = tuple[int, int, Sequence[int], Sequence[int], Sequence[int], int]
"""Batch, padding, strides and dilations (along the width first), window, and channels of the weights."""


def _convolution(code: str, types: Sequence[str], setting: _Setting) -> Probe:
    batch, padding, strides, dilations, window, channels = setting
    high, wide = window
    reach = [(side - 1) * by + 1 for side, by in zip((wide, high), dilations, strict=True)]
    side = [-(-(12 if padding == 0 else 13 - size) // stride) for size, stride in zip(reach, strides, strict=True)]
    deep = code == "DEPTHWISE_CONV_2D"
    weights = (1, high, wide, 4 * (2 if channels == 1 else 1)) if deep else (8, high, wide, channels)
    filters = weights[3] if deep else 8
    options: list[tuple[str, Any]] = [("padding", padding), ("stride_w", strides[0]), ("stride_h", strides[1])]
    options += [("depth_multiplier", filters // 4)] if deep else []
    options += [
        ("fused_activation_function", 0), ("dilation_w_factor", dilations[0]), ("dilation_h_factor", dilations[1]),
    ]  # fmt: skip
    inputs = (
        computed(types[0], batch, 12, 12, 4),
        constant(types[1], *weights, channel=3 if deep else 0),
        _bias(types[2], filters),
    )
    table = "DepthwiseConv2DOptions" if deep else "Conv2DOptions"
    outputs = (computed(types[0], batch, max(side[1], 1), max(side[0], 1), filters),)
    return Probe(code, inputs, outputs, tuple(options), table)


def transposed() -> Iterator[Variation]:
    """Yield TRANSPOSE_CONV with other strides, windows and heights."""
    settings = list(product((0, 1), product((1, 2, 3), repeat=2), ((3, 3), (1, 3)), (6, 1)))
    probes = [
        _transposed((*types[:2], bias), kind, setting)
        for types in _WEIGHTS
        for bias, kind in product((types[2], ""), ("constant", "computed"))
        for setting in settings
    ]
    sides = ("stride_w == stride_h", *(f"stride_{side} <= {most}" for side in "wh" for most in (1, 2)))
    reach = ("stride_w <= input1.dim2", "stride_h <= input1.dim1")
    yield Variation(tuple(probes), (*sides, *reach, "input2.dim1 == 1", "input1.dim1 == 1", "padding == 0"))


def _transposed(types: Sequence[str], kind: str, setting: tuple[int, Sequence[int], Sequence[int], int]) -> Probe:
    """Return a probe for a padding, strides (width first), a window (height first) and a height."""
    padding, strides, window, height = setting
    steps = zip((height, 6), reversed(strides), window, strict=True)
    target = (1, *((side * by if padding == 0 else (side - 1) * by + reach) for side, by, reach in steps), 8)
    inputs = (
        Operand("INT32", (4,), kind, target),
        constant(types[1], 8, *window, 4),
        computed(types[0], 1, height, 6, 4),
        _bias(types[2], 8),
    )
    given = {"padding": padding, "stride_w": strides[0], "stride_h": strides[1], "fused_activation_function": 0}
    options = tuple(given.items())
    return Probe("TRANSPOSE_CONV", inputs, (computed(types[0], *target),), options, "TransposeConvOptions")


def _bias(kind: str, size: int) -> Operand:
    """Return a bias, or an omitted input."""
    return constant(kind, size, scale=0.25) if kind else Operand("FLOAT32", (size,), "none")


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
_CUTS: tuple[tuple[Any, ...], ...] = (
    ((0, 0, 0, 0), (1, 4, 4, 4), (1, 2, 2, 1), (1, 2, 2, 4), ()),
    ((0, 0, 0, 0), (1, 4, 4, 4), (1, 1, 1, 2), (1, 4, 4, 2), ()),
    ((0, 1, 1, 0), (1, 3, 3, 4), (1, 1, 1, 1), (1, 2, 2, 4), ()),
    ((0, -3, 1, 0), (1, -1, 3, 4), (1, 1, 1, 1), (1, 2, 2, 4), ()),
    ((0, 3, 3, 0), (1, 0, 0, 4), (1, -1, -1, 1), (1, 3, 3, 4), ()),
    ((0, 1, 1, 0), (1, 3, 3, 4), (1, 1, 1, 1), (1, 3, 3, 4), (("begin_mask", 6),)),
    ((0, 1, 1, 0), (1, 3, 3, 4), (1, 1, 1, 1), (1, 3, 3, 4), (("end_mask", 6),)),
    ((0, 1, 1, 0), (1, 2, 3, 4), (1, 1, 1, 1), (1, 2, 4), (("shrink_axis_mask", 2),)),
    ((0, 1, 1, 0), (0, 3, 3, 0), (1, 1, 1, 1), (1, 2, 2, 4), (("begin_mask", 9), ("end_mask", 9))),
    ((0, 0, 0, 1), (1, 4, 4, 3), (1, 1, 1, 1), (1, 4, 4, 2), ()),
)  # fmt: skip
"""The begin, end, strides, output shape and options of STRIDED_SLICE on [1, 4, 4, 4]."""
_PARTS: tuple[tuple[Sequence[int], Sequence[int]], ...] = (
    ((0, 0, 0, 0), (1, 2, 2, 2)),
    ((0, 1, 1, 1), (1, 2, 2, 2)),
    ((0, 1, 1, 0), (1, -1, 2, 4)),
    ((0, 0, 0, 0), (-1, -1, -1, -1)),
)
_AMOUNTS = (
    (0, 0, 1, 1, 1, 1, 0, 0),
    (0, 0, 0, 1, 0, 1, 0, 0),
    (1, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 0, 0, 0, 0, 1, 2),
    (0, 0, -1, 0, 0, 0, 0, 0),
    (0, 0, 9, 9, 0, 0, 0, 0),
)


def slices() -> Iterator[Variation]:
    """Yield STRIDED_SLICE, SLICE and PAD with other positions."""
    values = [
        f"input{at}.value {sign} {number}"
        for at in (1, 2, 3)
        for sign, number in ((">=", 0), ("==", 1), ("==", 0), (">", 0), ("<=", 1))
    ]
    values += [f"input1.value{place} == 0" for place in (0, 1, -1, -2)]
    values += ["begin_mask == 0", "end_mask == 0", "input0.dim0 == 1", "input3.value0 == 1", "input3.value-1 == 1"]
    for name in NAMES:
        source, strided, sliced = computed(name, 1, 4, 4, 4), [], []
        for begin, end, step, target, given in _CUTS:
            options = tuple((mask, dict(given).get(mask, 0)) for mask in _MASKS)
            inputs = (source, indices(*begin), indices(*end), indices(*step))
            strided.append(Probe("STRIDED_SLICE", inputs, (computed(name, *target),), options, "StridedSliceOptions"))
        for begin, size in _PARTS:
            whole = zip(source.shape, begin, size, strict=True)
            target = tuple(full - one if side < 0 else side for full, one, side in whole)
            cut = (source, indices(*begin), indices(*size))
            sliced.append(Probe("SLICE", cut, (computed(name, *target),), (), "SliceOptions"))
        for probes in (strided, sliced, *_paddings(name)):
            yield Variation(tuple(probes), tuple(values))


def _paddings(name: str) -> Iterator[list[Probe]]:
    for code, table in (("PAD", "PadOptions"), ("MIRROR_PAD", "MirrorPadOptions"), ("PADV2", "PadV2Options")):
        more = (constant(name, data=(0,)),) if code == "PADV2" else ()
        options = (("mode", 0),) if code == "MIRROR_PAD" else ()
        probes = []
        for amounts in _AMOUNTS:
            sides = zip((1, 4, 4, 4), amounts[::2], amounts[1::2], strict=True)
            target = computed(name, *(side + low + high for side, low, high in sides))
            inputs = (computed(name, 1, 4, 4, 4), constant("INT32", 4, 2, data=amounts), *more)
            probes.append(Probe(code, inputs, (target,), options, table))
        yield probes


def images() -> Iterator[Variation]:
    """Yield resize and rearrangement operators with other factors."""
    for code, table in (
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    ):
        probes = [
            Probe(
                code,
                (computed(name, batch, 4, 4, 2), indices(high, wide)),
                (computed(name, batch, high, wide, 2),),
                (("align_corners", align), ("half_pixel_centers", half)),
                table,
            )
            for name, batch in product(NAMES, (1, 2))
            for align, half in ((False, False), (True, False), (False, True), (True, True))
            for high, wide in (
                (8, 8),
                (4, 4),
                (7, 7),
                (2, 2),
                (8, 4),
                (16, 16),
                (5, 5),
                (1, 1),
                (25, 25),
                (12, 12),
                (32, 32),
            )
        ]
        candidates = [
            "input0.dim0 == 1",
            "align_corners == 0",
            "half_pixel_centers == 0",
            "align_corners * half_pixel_centers == 0",
            "input1.value > 1",
            *(f"output0.dim1 / input0.dim1 == {factor}" for factor in (1, 2, 4, 8)),
            "output0.dim1 >= input0.dim1",
            "output0.dim1 == output0.dim2",
            "input1.value <= 16",
            "input1.value >= 2",
            "output0.dim1 / input0.dim1 <= 2",
            "input1.value == 8",
        ]
        yield Variation(tuple(probes), tuple(candidates))
    for code, table in (("DEPTH_TO_SPACE", "DepthToSpaceOptions"), ("SPACE_TO_DEPTH", "SpaceToDepthOptions")):
        probes = []
        for name, block, batch in product(NAMES, (1, 2, 3, 4), (1, 2)):
            deep, wide = (
                computed(name, batch, 2, 2, 2 * block * block),
                computed(name, batch, 2 * block, 2 * block, 2),
            )
            pair = (deep, wide) if code == "DEPTH_TO_SPACE" else (wide, deep)
            probes.append(Probe(code, pair[:1], pair[1:], (("block_size", block),), table))
        yield Variation(
            tuple(probes),
            ("block_size > 1", "block_size == 2", "input0.dim0 == 1", "block_size <= 2", "block_size >= 2"),
        )


def products() -> Iterator[Variation]:
    """Yield BATCH_MATMUL and FULLY_CONNECTED with other batches and constants."""
    names = (
        ("FLOAT32", "FLOAT32"),
        ("FLOAT16", "FLOAT16"),
        ("INT8/t", "INT8/t"),
        ("FLOAT32", "INT8/t"),
        ("FLOAT32", "INT8/c"),
        ("INT16/t", "INT16/t"),
    )
    shapes = (
        ((1, 2, 4), (1, 4, 3)),
        ((2, 2, 4), (2, 4, 3)),
        ((2, 2, 4), (1, 4, 3)),
        ((1, 2, 4), (2, 4, 3)),
        ((2, 4), (4, 3)),
        ((2, 2, 4), (4, 3)),
        ((3, 2, 2, 4), (3, 2, 4, 3)),
        ((1, 2, 2, 4), (1, 2, 4, 3)),
        ((3, 2, 2, 4), (1, 1, 4, 3)),
        ((1, 2, 2, 4), (2, 4, 3)),
        ((2, 1, 2, 4), (1, 2, 4, 3)),
    )
    candidates = (
        "input0.rank == input1.rank",
        "input1.rank == 2",
        "input1.dim0 == 1",
        "input0.dim0 == input1.dim0",
        "input0.dim0 == 1",
        "inputs.dim0 == 1",
        "input1.size == 12",
        "input0.rank >= input1.rank",
        "input0.rank >= 3",
        "input1.rank >= 3",
        "input1.dim1 == 1",
        "output0.rank <= 3",
        "output0.dim0 == input0.dim0",
    )
    given = (("adj_x", False), ("adj_y", False), ("asymmetric_quantize_inputs", False))
    probes = []
    for (one, other), (left, right), kind, turned in product(names, shapes, KINDS, (False, True)):
        swapped = (*right[:-2], right[-1], right[-2]) if turned else right
        outer = np.broadcast_shapes(left[:-2], right[:-2])
        channel = len(swapped) - (2 if turned else 1)
        inputs = (computed(one, *left), Operand(other, swapped, kind, channel=channel))
        options = (given[0], ("adj_y", turned), given[2])
        probes.append(Probe("BATCH_MATMUL", inputs, (computed(one, *outer, 2, 3),), options, "BatchMatMulOptions"))
    yield Variation(tuple(probes), candidates)
    yield from _fully_connected()


def _fully_connected() -> Iterator[Variation]:
    names = ("fused_activation_function", "weights_format", "keep_num_dims", "asymmetric_quantize_inputs")
    options = tuple((name, 0) for name in names)
    shapes = (((1, 4), (1, 3)), ((2, 4), (2, 3)), ((2, 2, 4), (4, 3)), ((1, 1, 4), (1, 3)), ((8,), (2, 3)))
    probes = []
    for types, (source, target), zero in product(_WEIGHTS, shapes, (0, 3)):
        weights = constant(types[1], 3, 4, zero_point=zero if types[1][-1] == "t" else 0)
        inputs = (computed(types[0], *source), weights, constant(types[2], 3, scale=0.25))
        outputs = (computed(types[0], *target),)
        probes.append(Probe("FULLY_CONNECTED", inputs, outputs, options, "FullyConnectedOptions"))
    candidates = (
        *("input1.zero_point == 0", "input0.dim-1 == input1.dim-1", "input0.dim0 == 1", "input0.rank >= 2"),
        *("input0.rank == 2", "input0.rank == output0.rank"),
    )
    yield Variation(tuple(probes), candidates)
