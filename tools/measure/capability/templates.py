"""The templates of the builtin operators: those that work element by element, move elements, or reduce them."""

from collections.abc import Callable, Iterator
from typing import Any

from tools.measure.capability.template import EVERY, Arg, Binding, Shape, Template, d, each, rows

ACTIVATION = (("fused_activation_function", (0, 1, 2, 3, 4, 5)),)
NO_ACTIVATION = (("fused_activation_function", 0),)
_UNIT = {"INT8": (1 / 256, -128), "UINT8": (1 / 256, 0), "INT16": (1 / 32768, 0)}
_SIGNED = {"INT8": (1 / 128, 0), "UINT8": (1 / 128, 128), "INT16": (1 / 32768, 0)}
_LOGARITHM = {"INT8": (16 / 256, 127), "UINT8": (16 / 256, 255)}

_UNARY: dict[str, tuple[str, dict[str, Any], dict[str, tuple[float, int]]]] = {
    **dict.fromkeys(
        [
            "CEIL",
            "ELU",
            "FLOOR",
            "LOG",
            "RELU",
            "RELU6",
            "RELU_N1_TO_1",
            "RELU_0_TO_1",
            "ROUND",
            "RSQRT",
            "SIN",
            "SQRT",
        ],
        ("", {}, {}),
    ),
    "ABS": ("AbsOptions", {}, {}),
    "COS": ("CosOptions", {}, {}),
    "EXP": ("ExpOptions", {}, {}),
    "GELU": ("GeluOptions", {"approximate": (False, True)}, {}),
    "HARD_SWISH": ("HardSwishOptions", {}, {}),
    "LEAKY_RELU": ("LeakyReluOptions", {"alpha": (0.125, 2.0, -0.5)}, {}),
    "LOGICAL_NOT": ("LogicalNotOptions", {}, {}),
    "LOGISTIC": ("", {}, _UNIT),
    "LOG_SOFTMAX": ("LogSoftmaxOptions", {}, _LOGARITHM),
    "L2_NORMALIZATION": ("L2NormOptions", {"fused_activation_function": (0, 1, 2, 3, 4, 5)}, _SIGNED),
    "NEG": ("NegOptions", {}, {}),
    "SIGN": ("SignOptions", {}, {}),
    "SOFTMAX": ("SoftmaxOptions", {"beta": (1.0, 2.0)}, _UNIT),
    "SQUARE": ("SquareOptions", {}, {}),
    "TANH": ("", {}, _SIGNED),
    "ZEROS_LIKE": ("ZerosLikeOptions", {}, {}),
    "MATRIX_DIAG": ("MatrixDiagOptions", {}, {}),
    "CUMSUM": ("CumsumOptions", {"exclusive": (False, True), "reverse": (False, True)}, {}),
}
_STABLEHLO_UNARY = ["ABS", "CBRT", "COSINE", "EXPONENTIAL", "FLOOR", "LOG", "LOGISTIC", "NEGATE", "RSQRT", "TANH"]
_STABLEHLO_BINARY = [
    "ADD",
    "AND",
    "DIVIDE",
    "MAXIMUM",
    "MINIMUM",
    "MULTIPLY",
    "OR",
    "POWER",
    "REMAINDER",
    "SHIFT_LEFT",
    "SUBTRACT",
]
_BINARY = {
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "DIV": "DivOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "POW": "PowOptions",
    "SQUARED_DIFFERENCE": "SquaredDifferenceOptions",
    "FLOOR_DIV": "FloorDivOptions",
    "FLOOR_MOD": "FloorModOptions",
    "ATAN2": "ATan2Options",
    "BITWISE_XOR": "BitwiseXorOptions",
    "RIGHT_SHIFT": "RightShiftOptions",
}
_COMPARE = {
    "EQUAL": "EqualOptions",
    "NOT_EQUAL": "NotEqualOptions",
    "LESS": "LessOptions",
    "LESS_EQUAL": "LessEqualOptions",
    "GREATER": "GreaterOptions",
    "GREATER_EQUAL": "GreaterEqualOptions",
    "LOGICAL_AND": "LogicalAndOptions",
    "LOGICAL_OR": "LogicalOrOptions",
}
_FUSED = ("ADD", "SUB", "MUL", "DIV")


def fixed(*shape: int) -> Shape:
    """Return a shape that does not depend on the rank."""
    return lambda _: shape


def vector(length: Callable[[int], int]) -> Shape:
    """Return the shape of a list."""
    return lambda rank: (length(rank),)


INDEX = each("I", types=["INT32", "INT64"])


def with_index(types: tuple[Binding, ...], index: tuple[Binding, ...] = INDEX) -> tuple[Binding, ...]:
    """Return each binding with each type of index."""
    return tuple({**one, **other} for one in types for other in index)


def elementwise() -> Iterator[Template]:
    """Yield the operators that preserve the shape."""
    for code, (table, options, ranges) in _UNARY.items():
        extra = (Arg("INT32", fixed(), "kx", data=lambda _: (0,)),) if code == "CUMSUM" else ()
        first = tuple((name, values[0]) for name, values in options.items())
        outputs = (Arg(range=ranges, shape=_diagonal if code == "MATRIX_DIAG" else d),)
        yield Template(code, (Arg(), *extra), outputs, each(), table, first, tuple(options.items()))
    wider = rows("T U", "INT8/t INT16/t\nUINT8/t INT16/t\nINT16/t INT8/t\nINT8/t FLOAT32")
    target = Arg("U", range={"INT8": (1 / 256, -128), "INT16": (1 / 65536, -32768)})
    yield Template("SOFTMAX", (Arg(),), (target,), wider, "SoftmaxOptions", (("beta", 1.0),))
    for code in _STABLEHLO_UNARY:
        yield Template(f"STABLEHLO_{code}", (Arg(),), (Arg(),), each())
    for code in _STABLEHLO_BINARY:
        table = "StablehloShiftLeftOptions" if code == "SHIFT_LEFT" else ""
        yield Template(f"STABLEHLO_{code}", (Arg(), Arg()), (Arg(),), each(), table)
    for code, table in _BINARY.items():
        fused = code in _FUSED
        for kinds in (("x", "xk"), ("k", "x")):
            inputs = tuple(Arg(kinds=kind) for kind in kinds)
            none: tuple[tuple[str, Any], ...] = ()
            given, vary = (NO_ACTIVATION, ACTIVATION) if fused else (none, none)
            yield Template(code, inputs, (Arg(),), each(), table, given, vary)
    for code, table in _COMPARE.items():
        for kinds in (("x", "xk"), ("k", "x")):
            yield Template(code, tuple(Arg(kinds=kind) for kind in kinds), (Arg("BOOL"),), each(), table)
    slope = Arg("S", shape=lambda rank: (*(1,) * (rank - 2), d(rank)[-1]) if rank > 1 else (), kinds="kx")
    yield Template("PRELU", (Arg(), slope), (Arg(),), each("T", "S"), ranks=tuple(range(1, 9)))


def _diagonal(rank: int) -> tuple[int, ...]:
    return (*d(rank), *d(rank)[-1:])


def conversions() -> Iterator[Template]:
    """Yield the operators that convert between types."""
    pairs = tuple({"T": one, "U": other} for one in EVERY for other in EVERY if "/" not in one + other)
    cast = (("in_data_type", 0), ("out_data_type", 0))
    yield Template("CAST", (Arg(),), (Arg("U"),), pairs)
    yield Template("CAST", (Arg(),), (Arg("U"),), rows("T U", "FLOAT32 INT32\nINT32 FLOAT32"), "CastOptions", cast)
    small = ["INT8/t", "UINT8/t", "INT16/t", "INT32/t", "INT4/t", "INT2/t", "INT8/c"]
    requantize = tuple({"T": one, "U": other} for one in ["FLOAT32", "FLOAT16", *small] for other in small)
    yield Template("QUANTIZE", (Arg(),), (Arg("U"),), requantize, "QuantizeOptions")
    wide = tuple({"T": one, "U": other} for one in EVERY for other in ("FLOAT32", "FLOAT16"))
    yield Template("DEQUANTIZE", (Arg(kinds="xk"),), (Arg("U"),), wide, "DequantizeOptions")
    fake = (("min", -1.0), ("max", 1.0), ("num_bits", 8), ("narrow_range", False))
    yield Template("FAKE_QUANT", (Arg(),), (Arg(),), each(), "FakeQuantOptions", fake)
    same = rows("T U", "FLOAT32 INT32\nINT32 FLOAT32\nUINT32 FLOAT32\nINT8 UINT8\nINT16 FLOAT16\nUINT16 BFLOAT16")
    yield Template("BITCAST", (Arg(),), (Arg("U"),), same, "BitcastOptions")
    for code, table in (("SHAPE", "ShapeOptions"), ("RANK", "RankOptions")):
        shape = fixed() if code == "RANK" else vector(lambda rank: rank)
        bindings = with_index(each(), each("O", types=["INT32", "INT64"])) if code == "SHAPE" else each("T")
        output = Arg("O" if code == "SHAPE" else "INT32", shape)
        for binding in bindings:
            out = (("out_type", 4 if binding.get("O") == "INT64" else 2),) if code == "SHAPE" else ()
            yield Template(code, (Arg(),), (output,), (binding,), table, out)
    for code in ("REAL", "IMAG", "COMPLEX_ABS"):
        yield Template(code, (Arg(),), (Arg("U"),), rows("T U", "COMPLEX64 FLOAT32\nCOMPLEX128 FLOAT64"))


def reductions() -> Iterator[Template]:
    """Yield the operators that combine many elements into one."""
    axis = Arg("I", vector(lambda _: 1), "kx", data=lambda rank: (max(rank - 1, 0),))
    drop = Arg(shape=lambda rank: d(rank)[:-1])
    keep = Arg(shape=lambda rank: (*d(rank)[:-1], 1) if rank else ())
    positive = tuple(range(1, 9))
    sides = Arg("I", fixed(2), "kx", data=lambda _: (1, 2))
    codes = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
    for code in codes:
        image = Arg(shape=fixed(1, 4, 4, 2))
        for kept, shape in ((True, (1, 1, 1, 2)), (False, (1, 2))):
            given: tuple[tuple[str, Any], ...] = (("keep_dims", kept),)
            made = (Arg(shape=fixed(*shape)),)
            yield Template(code, (image, sides), made, with_index(each()), "ReducerOptions", given, ranks=(4,))
        for output, kept in ((drop, False), (keep, True)):
            options: tuple[tuple[str, Any], ...] = (("keep_dims", kept),)
            yield Template(
                code, (Arg(), axis), (output,), with_index(each()), "ReducerOptions", options, ranks=positive
            )
    for code, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        for name, value in (("INT32", 2), ("INT64", 4)):
            output = Arg(name, lambda rank: d(rank)[:-1])
            at = Arg("I", fixed(), "kx", data=lambda rank: (rank - 1,))
            options = (("output_type", value),)
            yield Template(code, (Arg(), at), (output,), with_index(each()), table, options, ranks=positive)
    count = Arg("INT32", fixed(), "kx", data=lambda _: (1,))
    one = Arg(shape=lambda rank: (*d(rank)[:-1], 1))
    where = Arg("INT32", lambda rank: (*d(rank)[:-1], 1))
    yield Template("TOPK_V2", (Arg(), count), (one, where), each(), "TopKV2Options", ranks=positive)


def movements() -> Iterator[Template]:
    """Yield the operators that move elements."""
    flat = Arg(shape=lambda rank: (_size(d(rank)),))
    size = Arg("INT32", fixed(1), "kxn-", data=lambda rank: (_size(d(rank)),))
    new_shape = (("new_shape", lambda rank: [_size(d(rank))]),)
    yield Template("RESHAPE", (Arg(), size), (flat,), each(), "ReshapeOptions", new_shape)
    no_options = Arg("INT32", fixed(1), "kx", data=lambda rank: (_size(d(rank)),))
    yield Template("RESHAPE", (Arg(), no_options), (flat,), each())
    permutation = Arg("I", vector(lambda rank: rank), "kx", data=lambda rank: range(rank)[::-1])
    backwards = Arg(shape=lambda rank: d(rank)[::-1])
    ranked = tuple(range(1, 9))
    yield Template(
        "TRANSPOSE", (Arg(), permutation), (backwards,), with_index(each()), "TransposeOptions", ranks=ranked
    )
    unit = Arg(shape=lambda rank: (1, *d(rank)))
    first = Arg("I", fixed(), "kx", data=lambda _: (0,))
    yield Template(
        "EXPAND_DIMS", (Arg(), first), (unit,), with_index(each()), "ExpandDimsOptions", ranks=tuple(range(8))
    )
    squeeze = (("squeeze_dims", [0]),)
    yield Template("SQUEEZE", (unit,), (Arg(),), each(), "SqueezeOptions", squeeze, ranks=tuple(range(8)))
    amounts = Arg("I", lambda rank: (rank, 2), "kx", data=lambda rank: (1, 0) * rank)
    wider = Arg(shape=lambda rank: tuple(side + 1 for side in d(rank)))
    value = Arg(shape=fixed(), kinds="kx")
    both = with_index(each())
    yield Template("PAD", (Arg(), amounts), (wider,), both, "PadOptions", ranks=ranked)
    yield Template("PADV2", (Arg(), amounts, value), (wider,), both, "PadV2Options", ranks=ranked)
    mode = (("mode", 0),)
    vary = (("mode", (0, 1)),)
    yield Template("MIRROR_PAD", (Arg(), amounts), (wider,), both, "MirrorPadOptions", mode, vary, ranks=ranked)
    zeros = Arg("I", vector(lambda rank: rank), "kx", data=lambda rank: (0,) * rank)
    ones = Arg("I", vector(lambda rank: rank), "kx", data=lambda rank: (1,) * rank)
    units = Arg(shape=lambda rank: (1,) * rank)
    yield Template("SLICE", (Arg(), zeros, ones), (units,), both, "SliceOptions", ranks=ranked)
    yield from _strided()
    yield Template("TILE", (Arg(), ones), (Arg(),), both, "TileOptions", ranks=ranked)
    target = Arg("I", vector(lambda rank: rank), "kx", data=d)
    for version in (1, 2):  # no runtime has a kernel for version 1, but some require that version
        yield Template(
            "BROADCAST_TO", (units, target), (Arg(),), both, "BroadcastToOptions", ranks=ranked, version=version
        )
    last = Arg("INT32", fixed(1), "kx", data=lambda rank: (rank - 1,))
    yield Template("REVERSE_V2", (Arg(), last), (Arg(),), each(), "ReverseV2Options", ranks=ranked)
    lengths = Arg("I", fixed(2), "kx", data=lambda _: (1, 1))
    axes = (("seq_dim", 1), ("batch_dim", 0))
    more = tuple(range(2, 9))
    yield Template("REVERSE_SEQUENCE", (Arg(), lengths), (Arg(),), both, "ReverseSequenceOptions", axes, ranks=more)
    start = Arg("I", vector(lambda rank: rank), "kx", data=lambda rank: (0,) * rank)
    inputs = (Arg(), Arg(shape=lambda rank: (1,) * rank, kinds="xk"), start)
    yield Template("DYNAMIC_UPDATE_SLICE", inputs, (Arg(),), both, "DynamicUpdateSliceOptions", ranks=ranked)
    yield from _gathers()


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


def _strided() -> Iterator[Template]:
    ends = Arg("INT32", vector(lambda rank: rank), "k", data=lambda rank: (1,) * rank)
    steps = Arg("INT32", vector(lambda rank: rank), "k", data=lambda rank: (1,) * rank)
    begins = Arg("INT32", vector(lambda rank: rank), "kx", data=lambda rank: (0,) * rank)
    units = Arg(shape=lambda rank: (1,) * rank)
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
    options = tuple((name, 0) for name in names)
    ranked = tuple(range(1, 9))
    table = "StridedSliceOptions"
    yield Template("STRIDED_SLICE", (Arg(), begins, ends, steps), (units,), each(), table, options, ranks=ranked)
    # A mask changes the shape of the output, so each list of sizes fits one mask.
    for name, shape in (
        ("begin_mask", units.shape),
        ("end_mask", lambda rank: (d(rank)[0], *(1,) * (rank - 1))),
        ("ellipsis_mask", lambda rank: (d(rank)[0], *(1,) * (rank - 1))),
        ("shrink_axis_mask", lambda rank: (1,) * (rank - 1)),
        ("new_axis_mask", lambda rank: (1, *(1,) * (rank - 1), d(rank)[-1])),
    ):
        masked = tuple((key, int(key == name)) for key in names)
        known = (Arg(), Arg("INT32", begins.shape, "k", begins.data), ends, steps)
        yield Template("STRIDED_SLICE", known, (Arg(shape=shape),), each(), table, masked, ranks=ranked)


def _gathers() -> Iterator[Template]:
    ranked = tuple(range(1, 9))
    indices = Arg("I", fixed(2), "xk", data=lambda _: (0, 1))
    taken = Arg(shape=lambda rank: (2, *d(rank)[1:]))
    types = with_index(each(), each("I", types=["INT32", "INT64", "INT16"]))
    options = (("axis", 0), ("batch_dims", 0))
    for kinds in ("x", "k"):
        yield Template("GATHER", (Arg(kinds=kinds), indices), (taken,), types, "GatherOptions", options, ranks=ranked)
    one, part = Arg("I", fixed(), "xk", data=lambda _: (1,)), Arg(shape=lambda rank: d(rank)[1:])
    yield Template("GATHER", (Arg(), one), (part,), types, "GatherOptions", options, ranks=ranked)
    points = Arg("I", fixed(2, 1), "xk", data=lambda _: (0, 1))
    yield Template("GATHER_ND", (Arg(), points), (taken,), types, "GatherNdOptions", ranks=ranked)
    rows_ = Arg("INT32", fixed(2), "xk", data=lambda _: (0, 1))
    for kinds in ("x", "k"):
        table = (rows_, Arg(kinds=kinds))
        yield Template("EMBEDDING_LOOKUP", table, (taken,), each(), ranks=ranked)
