"""Write C++ code that registers exactly the operators of given models with TFLM's MicroMutableOpResolver."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import Model
from circletools.storage.documents import packaged

_VARIABLES = "// VAR_HANDLE: pass a tflite::MicroResourceVariables to the MicroInterpreter."


def method_of(code: str) -> str | None:
    """Return the resolver's method for an operator code, or None for an operator without a kernel in TFLM."""
    method = packaged(__package__, "micro.json")["methods"].get(code)  # made by tools/measure/micro_resolver.py
    return method and f"Add{method}"


def resolver_code(models: Iterable[Model]) -> str:
    """Return a C++ header with a function that registers the operators of all these models, and no others.

    A custom operator without a kernel in TFLM is registered with `Register_<NAME>()`, which the program supplies.
    Raises ModelFormatError, UsageError for a Circle model, and EditError for builtin operators that TFLM lacks.
    """
    codes: set[str] = set()
    names = []
    for model in models:
        read = {code for graph in model_graph(model).graphs for code in graph.operators.code_names}
        if model.format != "tflite":
            raise UsageError("TFLM reads only TFLite models; this is a Circle model", location=model.source.name)
        if lacking := sorted(code for code in read if method_of(code) is None and not code.startswith("CUSTOM:")):
            message = f"TFLM has no kernel for {', '.join(lacking)}"
            raise EditError(message, location=model.source.name, hint="`circletool fit --on tflm` shows where")
        names.append(model.source.name)
        codes |= read
    own: set[str] = set()
    calls = sorted([_call(code, own) for code in sorted(codes)])
    signature = f"tflite::MicroMutableOpResolver<{max(1, len(calls))}>& resolver"
    return "\n".join(
        [
            *(f"// The operators of {_comment(name)}." for name in names),
            "#pragma once",
            "",
            '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"',
            "",
            *(f"TFLMRegistration* {one}();  // your program defines it" for one in sorted(own)),
            *[_VARIABLES] * ("VAR_HANDLE" in codes),
            f"static inline TfLiteStatus RegisterOps({signature}) {{",
            *(f"  TF_LITE_ENSURE_STATUS(resolver.{call});" for call in calls),
            "  return kTfLiteOk;",
            "}",
            "",
        ]
    )


def _call(code: str, own: set[str]) -> str:
    """Return the call that registers an operator; a function of the program gets a name that `own` lacks."""
    if (method := method_of(code)) is not None:
        return f"{method}()"
    name = code.removeprefix("CUSTOM:")
    word = "Register_" + "".join(char if char.isascii() and char.isalnum() else "_" for char in name).upper()
    while word in own:
        word += "_2"
    own.add(word)
    quoted = "".join(
        chr(byte) if chr(byte).isprintable() and byte < 128 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f'AddCustom("{quoted}", {word}())'


def _comment(name: str) -> str:
    return "".join(char if char.isprintable() and char != "\\" else "?" for char in name)
