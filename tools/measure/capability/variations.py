"""Properties that may matter besides types, ranks and single options: scales, sizes, constants, pairs of options."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from tools.measure.capability.single import Operand, Probe
from tools.measure.capability.variation import Variation

_FLOATS = ("FLOAT32", "FLOAT16")
_BYTES = ("INT8/t", "UINT8/t")
_SOME = (*_FLOATS, *_BYTES, "INT16/t", "INT32")


def computed(name: str, *shape: int, scale: float = 0.5, zero_point: int = 0) -> Operand:
    """Return a computed tensor."""
    return Operand(name, shape, scale=scale, zero_point=zero_point)


def constant(name: str, *shape: int, data: Sequence[float] | None = None, **more: Any) -> Operand:
    """Return a constant with these values, or with ones."""
    return Operand(name, shape, "constant", None if data is None else tuple(data), **more)


def indices(*data: int) -> Operand:
    """Return an INT32 constant with a list of numbers."""
    return constant("INT32", len(data), data=data)


def equal_scales() -> Iterator[Variation]:
    """Yield operators that may need the same scale and zero point for input and output."""
    per_code: dict[str, tuple[Sequence[int], Sequence[int], Sequence[Operand], tuple[tuple[str, Any], ...], str]] = {
        "RESHAPE": ((1, 4, 4, 2), (1, 32), [indices(1, 32)], (("new_shape", [1, 32]),), "ReshapeOptions"),
        "RESHAPE ": ((1, 4, 4, 2), (1, 32), [], (("new_shape", [1, 32]),), "ReshapeOptions"),
        "TRANSPOSE": ((1, 4, 4, 2), (1, 4, 2, 4), [indices(0, 1, 3, 2)], (), "TransposeOptions"),
        "SLICE": ((1, 4, 4, 2), (1, 2, 2, 2), [indices(0, 0, 0, 0), indices(1, 2, 2, 2)], (), "SliceOptions"),
        "PAD": (
            (1, 4, 4, 2),
            (1, 6, 6, 2),
            [constant("INT32", 4, 2, data=(0, 0, 1, 1, 1, 1, 0, 0))],
            (),
            "PadOptions",
        ),
        "MAX_POOL_2D": ((1, 4, 4, 2), (1, 2, 2, 2), [], _pool(2, 2, 2, 2), "Pool2DOptions"),
        "AVERAGE_POOL_2D": ((1, 4, 4, 2), (1, 2, 2, 2), [], _pool(2, 2, 2, 2), "Pool2DOptions"),
        "DEPTH_TO_SPACE": ((1, 4, 4, 4), (1, 8, 8, 1), [], (("block_size", 2),), "DepthToSpaceOptions"),
        "SPACE_TO_DEPTH": ((1, 4, 4, 2), (1, 2, 2, 8), [], (("block_size", 2),), "SpaceToDepthOptions"),
        "RESIZE_BILINEAR": ((1, 4, 4, 2), (1, 8, 8, 2), [indices(8, 8)], (), "ResizeBilinearOptions"),
        "RESIZE_NEAREST_NEIGHBOR": ((1, 4, 4, 2), (1, 8, 8, 2), [indices(8, 8)], (), "ResizeNearestNeighborOptions"),
        "MEAN": ((1, 4, 4, 2), (1, 2), [indices(1, 2)], (), "ReducerOptions"),
        "SUM": ((1, 4, 4, 2), (1, 2), [indices(1, 2)], (), "ReducerOptions"),
        "REDUCE_MAX": ((1, 4, 4, 2), (1, 2), [indices(1, 2)], (), "ReducerOptions"),
        "REDUCE_MIN": ((1, 4, 4, 2), (1, 2), [indices(1, 2)], (), "ReducerOptions"),
        "EXPAND_DIMS": ((1, 4, 4), (1, 1, 4, 4), [constant("INT32", data=(0,))], (), "ExpandDimsOptions"),
        "SQUEEZE": ((1, 4, 4), (4, 4), [], (("squeeze_dims", [0]),), "SqueezeOptions"),
        "GATHER": ((4, 4), (2, 4), [indices(0, 1)], (("axis", 0),), "GatherOptions"),
        "RELU": ((1, 4), (1, 4), [], (), ""),
        "RELU6": ((1, 4), (1, 4), [], (), ""),
        "RELU_N1_TO_1": ((1, 4), (1, 4), [], (), ""),
        "ABS": ((1, 4), (1, 4), [], (), "AbsOptions"),
        "NEG": ((1, 4), (1, 4), [], (), "NegOptions"),
        "ELU": ((1, 4), (1, 4), [], (), ""),
        "HARD_SWISH": ((1, 4), (1, 4), [], (), "HardSwishOptions"),
        "EXP": ((1, 4), (1, 4), [], (), "ExpOptions"),
        "RSQRT": ((1, 4), (1, 4), [], (), ""),
        "GELU": ((1, 4), (1, 4), [], (), "GeluOptions"),
        "LOGISTIC": ((1, 4), (1, 4), [], (), ""),
        "TANH": ((1, 4), (1, 4), [], (), ""),
        "SOFTMAX": ((1, 4), (1, 4), [], (("beta", 1.0),), "SoftmaxOptions"),
    }
    same = ("input0.scale == output0.scale", "input0.zero_point == output0.zero_point")
    fixed_scale = tuple(f"output0.scale == 2^-{power}" for power in (7, 8, 15))
    fixed_zero = tuple(f"output0.zero_point == {value}" for value in (0, 128, -128))
    for code, (source, target, more, options, table) in per_code.items():
        probes = tuple(
            Probe(
                code.strip(),
                (computed(name, *source, scale=one, zero_point=zero), *more),
                (computed(name, *target, scale=other, zero_point=after),),
                options,
                table,
            )
            for name in (*_BYTES, "INT16/t")
            for one, other in ((0.5, 0.5), (0.5, 0.25), (2**-8, 2**-8), (0.5, 2**-8), (0.5, 2**-7), (0.5, 2**-15))
            for zero, after in ((0, 0), (0, 3), (128, 128), (-128, -128), (0, 128), (0, -128))
            if (name != "UINT8/t" or min(zero, after) >= 0) and (name != "INT8/t" or max(zero, after) < 128)
        )
        yield Variation(probes, (*same, *fixed_scale, *fixed_zero))


_POWERS = (-32, -17, -16, -15, -11, -10, -9, -8, -7, 0, 6, 7, 8, 9, 16)


def ratios() -> Iterator[Variation]:
    """Yield operators that may need a certain ratio of scales."""
    scales = [factor * 2.0**power for power in _POWERS for factor in (0.99, 1)]
    for code, table in (
        ("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions"),
        ("MAXIMUM", "MaximumMinimumOptions"), ("MINIMUM", "MaximumMinimumOptions"),
        ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions"),
    ):  # fmt: skip
        options = (("fused_activation_function", 0),) if code in {"ADD", "SUB", "MUL", "DIV"} else ()
        probes = [
            Probe(
                code,
                (replace(computed(name, 2, 3, scale=one), kind=kind), computed(name, 2, 3, scale=other)),
                (computed(name, 2, 3),),
                options,
                table,
            )
            for name in (*_BYTES, "INT16/t")
            for scale in scales
            for kind, one, other in (
                ("computed", 0.5, 0.5 * scale),
                ("computed", 0.5 * scale, 0.5),
                ("constant", 0.5 * scale, 0.5),
                ("computed", 2.0, 0.25 * scale),
            )
        ]
        probes += [
            replace(probe, inputs=probe.inputs[::-1]) for probe in probes if probe.inputs[0].kind == "constant"
        ]
        together = _bounds("input0.scale * input1.scale / output0.scale")
        equal = ["inputs.scale == output0.scale", "inputs.zero_point == output0.zero_point"]
        each = _bounds("inputs.scale / output0.scale")
        yield Variation(tuple(probes), (*equal, *(together + each if code == "MUL" else each + together)))
    for name, other in product((*_BYTES, "INT16/t", "INT32/t"), repeat=2):
        requantized = [
            replace(probe, outputs=(computed(other, 2, 3),), options=(), code="QUANTIZE", table="QuantizeOptions")
            for probe in _shifted("", (name,), scales, (0, 3))
            if "INT8" in name or not probe.inputs[0].zero_point
        ]
        equal = ["input0.scale == output0.scale", "input0.zero_point == output0.zero_point"]
        yield Variation(tuple(requantized), (*equal, *_bounds("input0.scale / output0.scale")))
    leaky = [
        replace(probe, options=(("alpha", alpha),), table="LeakyReluOptions")
        for probe in _shifted("LEAKY_RELU", (*_BYTES, "INT16/t", "FLOAT32"), scales, (0,))
        for alpha in (0.125, 1.0, 4.0, -0.5, -2.0)
    ]
    terms = ("input0.scale / output0.scale", "alpha * input0.scale / output0.scale")
    square = "alpha * alpha * input0.scale * input0.scale / output0.scale / output0.scale >= 2^-16"
    yield Variation(
        tuple(leaky),
        (
            "alpha > 0",
            square,
            "alpha * input0.scale / output0.scale > -128",
            *(text for term in terms for text in _bounds(term)),
        ),
    )


def _bounds(term: str) -> list[str]:
    return [f"{term} {sign} 2^{power}" for power in _POWERS for sign in (">=", ">", "<", "<=")]


def _shifted(code: str, names: Sequence[str], scales: Sequence[float], zeros: Sequence[int]) -> Iterator[Probe]:
    for name, scale, zero in product(names, scales, zeros):
        yield Probe(code, (computed(name, 2, 3, scale=0.5 * scale, zero_point=zero),), (computed(name, 2, 3),))


def joined_scales() -> Iterator[Variation]:
    """Yield CONCATENATION and PACK of quantized tensors."""
    equal = ("inputs.scale == output0.scale", "inputs.zero_point == output0.zero_point")
    for code, table in (("CONCATENATION", "ConcatenationOptions"), ("PACK", "PackOptions")):
        for name in (*_BYTES, "INT16/t"):
            probes = []
            for count, which in product((2, 3, 4, 5), (0, -1)):
                for scale, zero in ((0.5, 0), (0.25, 0), (0.5, 3), (0.25, 3), (1.0, 0)):
                    inputs = [computed(name, 2, 3)] * count
                    inputs[which] = computed(name, 2, 3, scale=scale, zero_point=zero)
                    joins = code == "CONCATENATION"
                    shape = (2 * count, 3) if joins else (count, 2, 3)
                    options = (
                        (("axis", 0), ("fused_activation_function", 0))
                        if joins
                        else (("values_count", count), ("axis", 0))
                    )
                    outputs = (computed(name, *shape),)
                    probes.append(Probe(code, tuple(inputs), outputs, options, table, variadic=True))
                    # All inputs have the same scale, and the output has another.
                    alike = (computed(name, 2, 3, scale=scale, zero_point=zero),) * count
                    probes.append(Probe(code, alike, outputs, options, table, variadic=True))
            yield Variation(tuple(probes), equal)


def _pool(stride_w: int, stride_h: int, width: int, height: int, padding: int = 1) -> tuple[tuple[str, Any], ...]:
    names = ("padding", "stride_w", "stride_h", "filter_width", "filter_height", "fused_activation_function")
    return tuple(zip(names, (padding, stride_w, stride_h, width, height, 0), strict=True))


def pools() -> Iterator[Variation]:
    """Yield pools with other windows and strides."""
    candidates = [
        "stride_w <= filter_width",
        "stride_h <= filter_height",
        "filter_width * filter_height > 1",
        "stride_w * stride_h == 1",
        "filter_width > 1",
        "filter_height > 1",
        "input0.dim0 == 1",
        "stride_w == stride_h",
        "filter_width == filter_height",
        "padding == 0",
        "padding == 1",
        *(
            f"{name} <= {most}"
            for name in ("stride_w", "stride_h", "filter_width", "filter_height")
            for most in (1, 2, 3, 8)
        ),
    ]
    for code, name in product(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _SOME):
        probes = [
            Probe(
                code,
                (computed(name, batch, 9, 11, 4),),
                (computed(name, batch, *_pooled(padding, (9, 11), (window_h, window_w), (stride_h, stride_w)), 4),),
                _pool(stride_w, stride_h, window_w, window_h, padding),
                "Pool2DOptions",
            )
            for padding, batch in ((0, 1), (1, 1), (1, 2))
            for stride_w, stride_h in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 4), (3, 1), (1, 3))
            for window_w, window_h in ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (3, 3), (4, 4), (9, 9), (5, 2))
        ]
        yield Variation(tuple(probes), tuple(candidates))


def _pooled(padding: int, sides: Sequence[int], windows: Sequence[int], strides: Sequence[int]) -> list[int]:
    return [
        -(-(side if padding == 0 else side - window + 1) // stride)
        for side, window, stride in zip(sides, windows, strides, strict=True)
    ]
