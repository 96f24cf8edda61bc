"""C++ that registers exactly the operators of some models with TensorFlow Lite Micro's MicroMutableOpResolver."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.affinity.capability.file import load_capability
from circletools.errors import UsageError
from circletools.graph.build import model_graph
from circletools.model.model import Model

_METHODS = {
    "AVERAGE_POOL_2D": "AveragePool2D",
    "BATCH_MATMUL": "BatchMatMul",
    "CONV_2D": "Conv2D",
    "CUMSUM": "CumSum",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "L2_POOL_2D": "L2Pool2D",
    "MAX_POOL_2D": "MaxPool2D",
    "PADV2": "PadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
    "CUSTOM:CIRCULAR_BUFFER": "CircularBuffer",
    "CUSTOM:TFLite_Detection_PostProcess": "DetectionPostprocess",
    "CUSTOM:TFLM_DECODE": "Decode",
    "CUSTOM:ethos-u": "EthosU",
    "CUSTOM:SignalPCAN": "PCAN",
}
"""Methods of MicroMutableOpResolver, after `Add`, that the code's words do not give (micro_mutable_op_resolver.h)."""
_SIGNAL = ("Delay", "Energy", "FftAutoScale", "FilterBank", "FilterBankLog", "FilterBankSquareRoot",
           "FilterBankSpectralSubtraction", "Framer", "OverlapAdd", "Stacker", "Window")  # fmt: skip


def method_of(code: str) -> str | None:
    """Return the resolver's method for an operator code, None for a custom operator that TFLM does not have.

    Raises UsageError for a builtin operator that TFLM does not have.
    """
    if code in _METHODS:
        return f"Add{_METHODS[code]}"
    if code.startswith("CUSTOM:"):
        name = code.removeprefix("CUSTOM:Signal")
        return f"Add{name}" if name in _SIGNAL else None
    if code not in load_capability("tflm").operators:
        raise UsageError(f"TFLM has no kernel for {code}", hint="`circletool fit --on tflm` shows where it is used")
    return "Add" + "".join(map(str.capitalize, code.split("_")))


def resolver_code(models: Iterable[Model]) -> str:
    """Return a C++ header with a function that registers the operators of all these models, and no others.

    A custom operator that TFLM does not have is registered with `Register_<NAME>()`, which the program supplies.
    Raises UsageError for a Circle model and for a builtin operator that TFLM does not have, ModelFormatError.
    """
    codes: set[str] = set()
    names = []
    for model in models:
        if model.format != "tflite":
            raise UsageError("TFLM reads TFLite models, and this is a Circle model")
        names.append(model.source.name)
        codes.update(code for graph in model_graph(model).graphs for code in graph.operators.code_names)
    calls = sorted(filter(None, map(_call, sorted(codes))))
    signature = f"tflite::MicroMutableOpResolver<{max(1, len(calls))}>& resolver"
    return "\n".join(
        [
            *(f"// The operators of {_comment(name)}." for name in names),
            "#pragma once",
            "",
            '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"',
            "",
            f"inline TfLiteStatus RegisterOps({signature}) {{",
            *(f"  TF_LITE_ENSURE_STATUS(resolver.{call});" for call in calls),
            "  return kTfLiteOk;",
            "}",
            "",
        ]
    )


def _call(code: str) -> str:
    method = method_of(code)
    if method is not None:
        return f"{method}()"
    name = code.removeprefix("CUSTOM:")
    word = "".join(char if char.isascii() and char.isalnum() else "_" for char in name).upper()
    quoted = "".join(
        char if char.isascii() and char.isprintable() and char not in '"\\' else _octal(char) for char in name
    )
    return f'AddCustom("{quoted}", Register_{word}())'


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def _comment(name: str) -> str:
    return "".join(char if char.isprintable() and char != "\\" else "?" for char in name)
