"""XNNPACK's names for the operators to which it lowers a model's operators.

A row is named `Convolution (NHWC, F32) IGEMM`: kind, layout and types, kernel. The rows of each operator were
observed with LiteRT 2.3.0; its delegate defines operators in tflite/delegates/xnnpack/xnnpack_delegate.cc.
"""

from __future__ import annotations

import re
from functools import cache

from circletools.trace.operators.names import OPENVINO

# Names that differ from the code's by more than spelling (unlike `Squared Difference`).
_CODES = {
    "Add": "ADD",
    "Average Pooling": "AVERAGE_POOL_2D MEAN",
    "Bankers Rounding": "ROUND",
    "Batch Matrix Multiply": "BATCH_MATMUL FULLY_CONNECTED",
    "Ceiling": "CEIL",
    "Clamp": "RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 MAXIMUM MINIMUM",
    "Constant Pad": "PAD PADV2",
    "Convert": "CAST DEQUANTIZE QUANTIZE",
    "Convolution": "CONV_2D DEPTHWISE_CONV_2D",
    "Copy": "ASSIGN_VARIABLE CONCATENATION EXPAND_DIMS PACK READ_VARIABLE RESHAPE SPLIT SQUEEZE",
    "Cosine": "COS",
    "Deconvolution": "TRANSPOSE_CONV CUSTOM:Convolution2DTransposeBias",
    "Divide": "DIV",
    "Dynamic Fully Connected": "BATCH_MATMUL FULLY_CONNECTED",
    "Fully Connected": "BATCH_MATMUL CONV_2D FULLY_CONNECTED",
    "Global Average Pooling": "AVERAGE_POOL_2D MEAN",
    "HardSwish": "HARD_SWISH",
    "Leaky ReLU": "LEAKY_RELU",
    "Max Pooling": "MAX_POOL_2D CUSTOM:MaxPoolingWithArgmax2D",
    "Multiply": "MUL",
    "Negate": "NEG",
    "PReLU": "PRELU",
    "Reciprocal Square Root": "RSQRT",
    "Reduce Max": "REDUCE_MAX",
    "Reduce Min": "REDUCE_MIN",
    "Sigmoid": "LOGISTIC",
    "Sine": "SIN",
    "Slice": "SLICE SPLIT STRIDED_SLICE",
    "Square": "MUL POW SQUARE",
    "Square Root": "SQRT",
    "Static Reshape": "EXPAND_DIMS RESHAPE SQUEEZE",
    "Subtract": "SUB",
    "Sum": "MEAN SUM",
} | {
    kind: " ".join(codes)
    for kind, codes in OPENVINO.items()
    if kind not in ("Add", "Clamp", "Convert", "Convolution")
}
_BEFORE = {
    "BATCH_MATMUL": {"Convert", "Static Reshape", "Transpose"},
    "CONV_2D": {"Constant Pad", "Convert"},
    "DEPTHWISE_CONV_2D": {"Constant Pad"},
    "FULLY_CONNECTED": {"Convert"},
    "TRANSPOSE_CONV": {"Convert"},
}
MANY = frozenset({"CONCATENATION", "SPLIT", "STABLEHLO_COMPOSITE"})
"""The codes of operators that may become several rows of one kind."""

ELIDED = frozenset(
    {"ASSIGN_VARIABLE", "DENSIFY", "DEQUANTIZE", "EXPAND_DIMS", "PAD", "PADV2", "QUANTIZE", "READ_VARIABLE", "RELU"}
    | {"RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RESHAPE", "SQUEEZE", "VAR_HANDLE"}
)
"""The codes of operators that may have no row: another's row does their work, or there is none."""

CLAMPING = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "TRANSPOSE_CONV"})
"""The codes of operators whose row clamps its results, so no row for their activation follows."""

KINDS = frozenset(_CODES)
"""The kinds of rows that are not the name of a code."""

_HEAD = re.compile(r"[^(\[]*[^(\[\s]")


def kind_of(row: str) -> str:
    """Return the kind of a row, without layout, types and kernel: one of KINDS, else possibly a code's name."""
    match = _HEAD.match(row)
    head = match[0] if match else row
    return head if head in _CODES else head.upper().replace(" ", "_")


@cache
def kinds_of(code: str) -> frozenset[str]:
    """Return the kinds of rows that may do the work of an operator."""
    return frozenset({code, *(kind for kind, codes in _CODES.items() if code in codes.split())})


@cache
def kinds_before(code: str, *, flattened: bool) -> frozenset[str]:
    """Return the kinds of rows that prepare an operator's inputs; those of FULLY_CONNECTED may be `flattened`."""
    reshaped = {"Static Reshape"} if flattened and code == "FULLY_CONNECTED" else set[str]()
    return frozenset(_BEFORE.get(code, set())) | reshaped
