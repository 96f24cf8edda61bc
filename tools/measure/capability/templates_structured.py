"""The templates of structured operators: convolutions, pools, matrix products, image and recurrent operators."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from tools.measure.capability.template import Arg, Binding, Shape, Template, d, each, rows
from tools.measure.capability.templates import ACTIVATION, fixed, vector, with_index

_MATRIX = rows(
    "T W B",
    """
    FLOAT32 FLOAT32 FLOAT32
    FLOAT32 FLOAT16 FLOAT32
    FLOAT32 FLOAT16 FLOAT16
    FLOAT32 BFLOAT16 FLOAT32
    FLOAT32 INT8/t FLOAT32
    FLOAT32 INT8/c FLOAT32
    FLOAT32 UINT8/t FLOAT32
    FLOAT32 INT4/t FLOAT32
    FLOAT32 INT4/c FLOAT32
    FLOAT32 INT2/c FLOAT32
    FLOAT32 INT8 FLOAT32
    INT8/t INT8/t INT32/t
    INT8/t INT8/c INT32/c
    INT8/t INT8/c INT32/t
    INT8/t INT8/t INT32
    INT8/t INT8/t INT64/t
    INT8/t INT4/t INT32/t
    INT8/t INT4/c INT32/c
    INT8/t INT2/c INT32/c
    INT8 INT8 INT32
    UINT8/t UINT8/t INT32/t
    UINT8/t INT8/t INT32/t
    UINT8/t UINT8/c INT32/c
    UINT8/t INT8/c INT32/c
    UINT8 UINT8 INT32
    INT16/t INT8/t INT64/t
    INT16/t INT8/c INT64/c
    INT16/t INT8/t INT32/t
    INT16/t INT8/c INT32/c
    INT16/t INT4/c INT64/c
    INT16/t INT16/t INT64/t
    FLOAT16 FLOAT16 FLOAT16
    FLOAT16 FLOAT16 FLOAT32
    FLOAT16 INT8/t FLOAT16
    FLOAT16 INT8/c FLOAT16
    BFLOAT16 BFLOAT16 BFLOAT16
    FLOAT64 FLOAT64 FLOAT64
    INT32 INT32 INT32
    COMPLEX64 COMPLEX64 COMPLEX64
    """,
)
_PADDING = ("padding", (0, 1))


Options = tuple[tuple[str, Any], ...]


def _at(
    code: str,
    inputs: tuple[Arg, ...],
    outputs: tuple[Arg, ...],
    bindings: tuple[Binding, ...],
    table: str,
    options: Options = (),
    vary: tuple[tuple[str, tuple[Any, ...]], ...] = (),
) -> Template:
    """Return a template for an operator on tensors of rank 4."""
    return Template(code, inputs, outputs, bindings, table, options, vary, ranks=(4,), bases=(4,))


def matrices() -> Iterator[Template]:
    """Yield FULLY_CONNECTED, BATCH_MATMUL and the convolutions."""
    weights, bias = Arg("W", fixed(3, 4), "kx"), Arg("B", fixed(3), "kxn-", scale=0.25)
    options = (
        ("fused_activation_function", 0),
        ("weights_format", 0),
        ("keep_num_dims", False),
        ("asymmetric_quantize_inputs", False),
    )
    vary = (*ACTIVATION, ("weights_format", (0, 1)), ("asymmetric_quantize_inputs", (False, True)))
    for keep in (False, True):
        given = tuple((name, keep if name == "keep_num_dims" else value) for name, value in options)
        source = Arg(shape=lambda rank: (*d(rank)[:-1], 4)[:rank])
        kept = Arg(shape=lambda rank: (*d(rank)[:-1], 3)[:rank])
        flat = Arg(shape=lambda rank: (_product(d(rank)[:-1]), 3)[: rank and 2])
        yield Template(
            "FULLY_CONNECTED", (source, weights, bias), (kept if keep else flat,), _MATRIX, "FullyConnectedOptions",
            given, vary, bases=(2,),
        )  # fmt: skip
    yield from _batch_matmul()
    yield from _convolutions()


def _product(sides: tuple[int, ...]) -> int:
    result = 1
    for side in sides:
        result *= side
    return result


def _batch_matmul() -> Iterator[Template]:
    pairs = rows(
        "T W U",
        """
        FLOAT32 FLOAT32 FLOAT32
        FLOAT32 INT8/t FLOAT32
        FLOAT32 INT8/c FLOAT32
        FLOAT32 FLOAT16 FLOAT32
        INT8/t INT8/t INT8/t
        INT8/t INT8/c INT8/t
        INT8/t INT8/t INT32/t
        UINT8/t UINT8/t UINT8/t
        INT16/t INT16/t INT16/t
        INT16/t INT8/t INT16/t
        INT16/t INT8/c INT16/t
        FLOAT16 FLOAT16 FLOAT16
        BFLOAT16 BFLOAT16 BFLOAT16
        INT8 INT8 INT32
        INT32 INT32 INT32
        """,
    )
    names = ("adj_x", "adj_y", "asymmetric_quantize_inputs")
    for adj_x, adj_y, asymmetric in product((False, True), repeat=3):
        options = tuple(zip(names, (adj_x, adj_y, asymmetric), strict=True))
        one = Arg(shape=_pair(4, 2) if adj_x else _pair(2, 4), kinds="xk")
        other = Arg("W", shape=_pair(3, 4) if adj_y else _pair(4, 3), kinds="xk", channel=-2 if adj_y else -1)
        output = Arg("U", shape=lambda rank: (*d(rank)[:-2], 2, 3))
        yield Template(
            "BATCH_MATMUL", (one, other), (output,), pairs, "BatchMatMulOptions", options,
            ranks=tuple(range(2, 9)), bases=(3, 2),
        )  # fmt: skip


def _pair(high: int, wide: int) -> Shape:
    """Return a function from the rank to the shape of a batch of matrices."""
    return lambda rank: (*d(rank)[:-2], high, wide)


def _convolutions() -> Iterator[Template]:
    source, target = Arg(shape=fixed(1, 6, 6, 4)), Arg(shape=fixed(1, 6, 6, 8))
    bias = Arg("B", fixed(8), "kxn-", scale=0.25)
    common = (("padding", 0), ("stride_w", 1), ("stride_h", 1))
    dilation = (("dilation_w_factor", 1), ("dilation_h_factor", 1))
    activation = (("fused_activation_function", 0),)
    vary = (*ACTIVATION, ("dilation_w_factor", (1, 2)), ("dilation_h_factor", (1, 2)))
    weights = Arg("W", fixed(8, 3, 3, 4), "kx")
    given: Options = (*common, *activation, *dilation)
    yield _at("CONV_2D", (source, weights, bias), (target,), _MATRIX, "Conv2DOptions", given, vary)
    grouped = Arg("W", fixed(8, 3, 3, 2), "k")
    yield _at("CONV_2D", (source, grouped, bias), (target,), _MATRIX, "Conv2DOptions", given, vary)
    yield from _strided("CONV_2D", "Conv2DOptions", (source, weights, bias), given)
    weights = Arg("W", fixed(1, 3, 3, 8), "kx", channel=3)
    given = (*common, ("depth_multiplier", 2), *activation, *dilation)
    table = "DepthwiseConv2DOptions"
    yield _at("DEPTHWISE_CONV_2D", (source, weights, bias), (target,), _MATRIX, table, given, vary)
    yield from _strided("DEPTHWISE_CONV_2D", table, (source, weights, bias), given)
    size = Arg("INT32", fixed(4), "kx", data=lambda _: (1, 6, 6, 8))
    weights = Arg("W", fixed(8, 3, 3, 4), "kx")
    given = (*common, *activation)
    inputs = (size, weights, source, bias)
    yield _at("TRANSPOSE_CONV", inputs, (target,), _MATRIX, "TransposeConvOptions", given, ACTIVATION)
    cube, kernel = Arg(shape=fixed(1, 4, 4, 4, 2)), Arg("W", fixed(3, 3, 3, 2, 4), "kx", channel=4)
    out, small = Arg(shape=fixed(1, 4, 4, 4, 4)), Arg("B", fixed(4), "kx-", scale=0.25)
    names = ("stride_d", "stride_w", "stride_h", "dilation_d_factor", "dilation_w_factor", "dilation_h_factor")
    given = (("padding", 0), *activation, *((name, 1) for name in names))
    yield replace(
        _at("CONV_3D", (cube, kernel, small), (out,), _MATRIX, "Conv3DOptions", given, ACTIVATION),
        ranks=(5,),
        bases=(5,),
    )
    size = Arg("INT32", fixed(5), "kx", data=lambda _: (1, 4, 4, 4, 4))
    kernel = Arg("W", fixed(3, 3, 3, 4, 2), "kx")
    inputs = (size, kernel, cube, small)
    yield replace(
        _at("CONV_3D_TRANSPOSE", inputs, (out,), _MATRIX, "Conv3DOptions", given, ACTIVATION), ranks=(5,), bases=(5,)
    )


def _strided(code: str, table: str, inputs: tuple[Arg, ...], options: Options) -> Iterator[Template]:
    """Yield a convolution with other paddings and strides, which lead to other output sizes."""
    for padding, stride in ((1, 1), (0, 2), (1, 2), (0, 3)):
        side = (6 if padding == 0 else 4) // stride + (6 if padding == 0 else 4) % stride
        changed = {"padding": padding, "stride_w": stride, "stride_h": stride}
        given = tuple((name, changed.get(name, value)) for name, value in options)
        output = Arg(shape=fixed(1, side, side, 8))
        yield _at(code, inputs, (output,), _MATRIX, table, given)


def pools() -> Iterator[Template]:
    """Yield the operators on images."""
    names = ("padding", "stride_w", "stride_h", "filter_width", "filter_height", "fused_activation_function")
    for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for padding in (0, 1):
            side = 5 if padding == 0 else 4
            options = tuple(zip(names, (padding, 2, 2, 2, 2, 0), strict=True))
            output = Arg(shape=fixed(1, side, side, 4))
            yield Template(
                code, (Arg(shape=fixed(1, 9, 9, 4)),), (output,), each(), "Pool2DOptions", options, ACTIVATION,
                ranks=(4,), bases=(4,),
            )  # fmt: skip
    size = Arg("INT32", fixed(2), "kx", data=lambda _: (4, 4))
    small, large = Arg(shape=fixed(1, 2, 2, 3)), Arg(shape=fixed(1, 4, 4, 3))
    for code, table in (
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    ):
        for align, half in ((False, False), (True, False), (False, True)):
            options = (("align_corners", align), ("half_pixel_centers", half))
            yield _at(code, (small, size), (large,), each(), table, options)
    block = (("block_size", 2),)
    deep, wide = Arg(shape=fixed(1, 2, 2, 8)), Arg(shape=fixed(1, 4, 4, 2))
    yield _at("DEPTH_TO_SPACE", (deep,), (wide,), each(), "DepthToSpaceOptions", block)
    yield _at("SPACE_TO_DEPTH", (wide,), (deep,), each(), "SpaceToDepthOptions", block)
    blocks = Arg("INT32", fixed(2), "kx", data=lambda _: (2, 2))
    pads = Arg("INT32", fixed(2, 2), "kx", data=lambda _: (0, 0, 0, 0))
    many = Arg(shape=fixed(4, 2, 2, 2))
    yield _at("SPACE_TO_BATCH_ND", (wide, blocks, pads), (many,), each(), "SpaceToBatchNDOptions")
    yield _at("BATCH_TO_SPACE_ND", (many, blocks, pads), (wide,), each(), "BatchToSpaceNDOptions")
    norm = (("radius", 2), ("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))
    table = "LocalResponseNormalizationOptions"
    yield Template("LOCAL_RESPONSE_NORMALIZATION", (Arg(),), (Arg(),), each(), table, norm)
    length = Arg("INT32", fixed(2), "kx", data=lambda _: (4, 4))
    signal, waves = (Arg(kind, lambda rank, n=n: (*d(rank - 2), 4, n)) for kind, n in (("T", 4), ("U", 3)))  # type: ignore[misc]
    types = rows("T U", "FLOAT32 COMPLEX64")
    yield Template("RFFT2D", (signal, length), (waves,), types, "Rfft2dOptions", ranks=tuple(range(2, 7)))


def joints() -> Iterator[Template]:
    """Yield the operators with any number of inputs or outputs."""
    for count in (1, 2, 3, 4, 5, 6, 9):
        same = (Arg(),) * count
        joined = Arg(shape=lambda rank, n=count: (d(rank)[0] * n, *d(rank)[1:]))  # type: ignore[misc]
        stacked = Arg(shape=lambda rank, n=count: (n, *d(rank)))  # type: ignore[misc]
        cases = [same] if count == 1 else [same, (Arg(kinds="k"), *same[1:]), (*same[1:], Arg(kinds="k"))]
        axis = (("axis", 0), ("fused_activation_function", 0))
        packed = (("values_count", count), ("axis", 0))
        ranked = tuple(range(1, 9))
        types = each()
        for inputs in cases:
            vary = ACTIVATION if count == 2 else ()
            yield Template(
                "CONCATENATION",
                inputs,
                (joined,),
                types,
                "ConcatenationOptions",
                axis,
                vary,
                ranks=ranked,
                variadic=True,
            )
            yield Template(
                "PACK", inputs, (stacked,), types, "PackOptions", packed, ranks=tuple(range(8)), variadic=True
            )
            yield Template("ADD_N", inputs, (Arg(),), types, "AddNOptions", variadic=True)
        parts = (("num", count), ("axis", 0))
        yield Template(
            "UNPACK", (stacked,), same, types, "UnpackOptions", parts, ranks=tuple(range(8)), variadic=True
        )
        zero = Arg("INT32", fixed(), "kx", data=lambda _: (0,))
        splits = (("num_splits", count),)
        yield Template("SPLIT", (zero, joined), same, types, "SplitOptions", splits, ranks=ranked, variadic=True)
        sizes = Arg("INT32", fixed(count), "kx", data=lambda rank, n=count: (d(rank)[0],) * n)  # type: ignore[misc]
        yield Template(
            "SPLIT_V", (joined, sizes, zero), same, types, "SplitVOptions", splits, ranks=ranked, variadic=True
        )


def choices() -> Iterator[Template]:
    """Yield the operators that select, count, scatter and create elements."""
    condition = Arg("BOOL")
    for code, table in (("SELECT", "SelectOptions"), ("SELECT_V2", "SelectV2Options")):
        for kinds in (("x", "xk"), ("k", "xk")):
            inputs = (condition, *(Arg(kinds=kind) for kind in kinds))
            yield Template(code, inputs, (Arg(),), each(), table)
    yield Template("WHERE", (Arg(),), (Arg("INT64", lambda rank: (_product(d(rank)), rank)),), each(), "WhereOptions")
    depth, scalar = Arg("INT32", fixed(), "kx", data=lambda _: (3,)), Arg(shape=fixed(), kinds="kx")
    hot = Arg(shape=lambda rank: (*d(rank), 3))
    inputs = (Arg("I", d), depth, scalar, scalar)
    yield Template(
        "ONE_HOT", inputs, (hot,), with_index(each()), "OneHotOptions", (("axis", -1),), ranks=tuple(range(8))
    )
    sides = Arg("I", vector(lambda rank: rank), "xk", data=d)
    yield Template("FILL", (sides, scalar), (Arg(),), with_index(each()), "FillOptions", ranks=tuple(range(1, 9)))
    ends = tuple(Arg(shape=fixed(), kinds="x", data=lambda _, v=v: (v,)) for v in (0, 4, 1))  # type: ignore[misc]
    yield Template("RANGE", ends, (Arg(shape=fixed(4)),), each(), "RangeOptions", ranks=(0,))
    points, updates = Arg("I", fixed(2, 1), "xk", data=lambda _: (0, 1)), Arg(shape=lambda rank: (2, *d(rank)[1:]))
    ranked = tuple(range(1, 9))
    sizes = Arg("I", vector(lambda rank: rank), "kx", data=d)
    yield Template(
        "SCATTER_ND", (points, updates, sizes), (Arg(),), with_index(each()), "ScatterNdOptions", ranks=ranked
    )
    names = with_index(each())
    groups = Arg("I", fixed(2), "xk", data=lambda _: (0, 1))
    yield Template("SEGMENT_SUM", (Arg(), groups), (Arg(),), names, "SegmentSumOptions", ranks=ranked)
    number = Arg("I", fixed(), "kx", data=lambda _: (2,))
    for word in ("MAX", "MIN", "PROD", "SUM"):
        table = f"UnsortedSegment{word.capitalize()}Options"
        inputs = (Arg(), groups, number)
        yield Template(f"UNSORTED_SEGMENT_{word}", inputs, (Arg(),), names, table, ranks=ranked)
    diagonal = Arg(shape=lambda rank: (*d(rank)[:-2], min(d(rank)[-2:])))
    more = tuple(range(2, 9))
    yield Template("MATRIX_SET_DIAG", (Arg(), diagonal), (Arg(),), each(), "MatrixSetDiagOptions", ranks=more)
    yield Template(
        "UNIQUE", (Arg(shape=fixed(3)),), (Arg(shape=fixed(1)), Arg("I", fixed(3))), names, "UniqueOptions",
        (("idx_out_type", 2),), ranks=(1,),
    )  # fmt: skip
    list_ = Arg("I", fixed(2), "xk", data=lambda _: (1, 1))
    yield Template(
        "BROADCAST_ARGS", (list_, list_), (Arg("I", fixed(2)),), each("I", types=["INT32", "INT64"]), ranks=(1,)
    )
    bounds = (("boundaries", [0.0, 1.0]),)
    yield Template("BUCKETIZE", (Arg(),), (Arg("INT32"),), each(), "BucketizeOptions", bounds)
    yield from _random()


def _random() -> Iterator[Template]:
    shape = Arg("INT32", vector(lambda rank: rank), "xk", data=d)
    seeds = (("seed", 1), ("seed2", 1))
    for code in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"):
        for binding in each(types=["FLOAT32", "FLOAT16"]):
            yield Template(code, (shape,), (Arg(),), (binding,), "RandomOptions", seeds, ranks=tuple(range(1, 9)))
    count = Arg("INT32", fixed(), "kx", data=lambda _: (2,))
    chances, drawn = Arg(shape=fixed(2, 3)), Arg("I", fixed(2, 2))
    yield Template(
        "MULTINOMIAL",
        (chances, count),
        (drawn,),
        with_index(each(types=["FLOAT32"])),
        "RandomOptions",
        seeds,
        ranks=(2,),
    )
    boxes, scores = Arg("FLOAT32", fixed(5, 4)), Arg("FLOAT32", fixed(5))
    most, limit = (
        Arg("INT32", fixed(), "kx", data=lambda _: (3,)),
        Arg("FLOAT32", fixed(), "kx", data=lambda _: (0.5,)),
    )
    found, good, valid = Arg("INT32", fixed(3)), Arg("FLOAT32", fixed(3)), Arg("INT32", fixed())
    four, five = (boxes, scores, most, limit, limit), (boxes, scores, most, limit, limit, limit)
    nothing: tuple[Binding, ...] = ({},)
    table = "NonMaxSuppressionV4Options"
    yield Template("NON_MAX_SUPPRESSION_V4", four, (found, valid), nothing, table, ranks=(2,))
    table = "NonMaxSuppressionV5Options"
    yield Template("NON_MAX_SUPPRESSION_V5", five, (found, good, valid), nothing, table, ranks=(2,))


def recurrences() -> Iterator[Template]:
    """Yield the operators with state."""
    state = ("FLOAT32 FLOAT32 FLOAT32", "FLOAT32 INT8/t FLOAT32", "FLOAT32 UINT8/t FLOAT32", "INT8/t INT8/t INT32/t")
    types = rows("T W B", "\n".join(state))
    features, rank = Arg("W", fixed(4, 3), "k"), Arg("W", fixed(4, 5), "k")
    hidden = Arg("T", fixed(2, 20), "v")
    inputs = (Arg(shape=fixed(2, 3)), features, rank, Arg("B", fixed(4), "kn"), hidden)
    options = (("rank", 1), ("fused_activation_function", 0))
    yield Template("SVDF", inputs, (Arg(shape=fixed(2, 4)),), types, "SVDFOptions", options, ranks=(2,))
    yield _lstm()
    inputs = (
        Arg(shape=fixed(2, 3)), Arg("W", fixed(4, 3), "k"), Arg("W", fixed(4, 4), "k"), Arg("B", fixed(4), "k"),
        Arg(shape=fixed(2, 4), kinds="v"),
    )  # fmt: skip
    given = (("fused_activation_function", 4),)
    yield Template("RNN", inputs, (Arg(shape=fixed(2, 4)),), types, "RNNOptions", given, ranks=(2,))


def _lstm() -> Template:
    """Return UNIDIRECTIONAL_SEQUENCE_LSTM without peepholes, projection and normalization."""
    left_out = Arg("FLOAT32", fixed(4), "n")
    inner, outer, bias = Arg("W", fixed(4, 3), "k"), Arg("W", fixed(4, 4), "k"), Arg("FLOAT32", fixed(4), "k")
    state = Arg("FLOAT32", fixed(2, 4), "v")
    inputs = (
        Arg("FLOAT32", fixed(5, 2, 3)), *(inner,) * 4, *(outer,) * 4, *(left_out,) * 3, *(bias,) * 4,
        *(left_out,) * 2, state, state, *(left_out,) * 4,
    )  # fmt: skip
    names = (("fused_activation_function", 4), ("cell_clip", 0.0), ("proj_clip", 0.0), ("time_major", True))
    output = Arg("FLOAT32", fixed(5, 2, 4))
    types = each("W", types=["FLOAT32", "INT8/t", "UINT8/t"])
    table = "UnidirectionalSequenceLSTMOptions"
    return Template("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (output,), types, table, names, ranks=(3,))
