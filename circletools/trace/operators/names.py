"""Match a runtime's name of an operator with the operator code in the model."""

from __future__ import annotations

from collections.abc import Collection

from circletools.trace.operators.profile import Runtime

CUSTOM = "CUSTOM:"

_ONERT = {
    "ArgMinMax": ("ARG_MAX", "ARG_MIN"),
    "AvgPool2D": ("AVERAGE_POOL_2D",),
    "Bulk": ("RUN_MODEL",),
    "Comparison": ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
    "Concat": ("CONCATENATION",),
    "LSTM": ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    "Max": ("MAXIMUM",),
    "Min": ("MINIMUM",),
    "Pad": ("PAD", "PADV2"),
    "ReLU": ("RELU", "RELU6", "RELU_N1_TO_1"),
    "ReduceMean": ("MEAN",),
    "ReduceSUM": ("SUM",),
    "Reverse": ("REVERSE_V2",),
    "Select": ("SELECT", "SELECT_V2"),
    "Squre": ("SQUARE",),
}
"""onert's operator names that differ from the code's by more than spelling:
runtime/onert/core/src/loader/BaseLoader.h has the operation that each code becomes, `name()` in
runtime/onert/core/src/ir/operation/ the operation's name (`Squre` too)."""


OPENVINO = {
    "Add": ("ADD",),
    "AvgPool": ("AVERAGE_POOL_2D", "MEAN"),
    "Clamp": ("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"),
    "Concatenation": ("CONCATENATION",),
    "Concat": ("CONCATENATION", "PACK"),
    "Convert": ("CAST", "DEQUANTIZE", "QUANTIZE"),
    "Convolution": ("CONV_2D",),
    "Deconvolution": ("TRANSPOSE_CONV",),
    "Divide": ("DIV",),
    "FullyConnected": ("FULLY_CONNECTED", "BATCH_MATMUL"),
    "GroupConvolution": ("DEPTHWISE_CONV_2D", "CONV_2D"),
    "MatMul": ("FULLY_CONNECTED", "BATCH_MATMUL"),
    "MaxPool": ("MAX_POOL_2D",),
    "Multiply": ("MUL",),
    "Pad": ("PAD", "PADV2", "MIRROR_PAD"),
    "ReduceMean": ("MEAN",),
    "ReduceSum": ("SUM",),
    "Relu": ("RELU",),
    "Reorder": (),
    "Reshape": ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"),
    "Sigmoid": ("LOGISTIC",),
    "Subtract": ("SUB",),
}
"""OpenVINO's layer types that differ from the code's name by more than spelling, and the codes whose work they do.
`Reorder` belongs to no code."""


def agrees(runtime: Runtime, name: str, code: str, builtin: Collection[str]) -> bool | None:
    """Return whether `name` is an operator of `code`; None if that is not known.

    `code` is the model's (`CONV_2D`, `CUSTOM:<custom code>`), `builtin` the names of all codes.
    """
    if runtime == "onert":
        if code.startswith(CUSTOM):
            return None  # the loader converts some custom operators to onert operations
        same = code in _ONERT[name] if name in _ONERT else _plain(name) == _plain(code)
    elif runtime == "openvino":
        known = name in OPENVINO
        return code in OPENVINO[name] if known else True if _plain(name) == _plain(code) else None
    else:
        custom = code.removeprefix(CUSTOM)
        # The report has `<name>/<the kernel's description>`; a custom code may itself contain a slash.
        same = name == custom or (runtime == "benchmark_model" and name.startswith(f"{custom}/"))
    return True if same else None if not is_builtin(runtime, name, builtin) else False


def is_builtin(runtime: Runtime, name: str, builtin: Collection[str]) -> bool:
    """Return whether `name` is a builtin operator; `builtin` are the names of all codes."""
    if runtime == "onert":
        return name in _ONERT or _plain(name) in map(_plain, builtin)
    return name in builtin or (runtime == "benchmark_model" and name.split("/", 1)[0] in builtin)


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()
