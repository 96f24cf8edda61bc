"""Match a runtime's name for an operator with the operator code in the model.

names.json maps each runtime's names to operator codes, if they differ from the codes' names in more than spelling.
Those of `onert` come from runtime/onert/core/src/loader/BaseLoader.h (the operation that each code becomes) and
`name()` in runtime/onert/core/src/ir/operation/ (its name, such as `Squre`). Those of `openvino` are layer types;
`Reorder` belongs to no code. Those of `xnnpack` are rows like `Convolution (NHWC, F32) IGEMM` (kind, layout and
types, kernel), seen in LiteRT 2.3.0 (tflite/delegates/xnnpack/xnnpack_delegate.cc). `delegates` holds patterns of
what logs state about delegates, with clearer words for each; `figures`, those of figures (`#` is a number), with
the fields of `Whole` and the units; `programs`, words in logs of other programs; `lines`, the forms of other lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from circletools.trace.operators.profile import Runtime

CUSTOM = "CUSTOM:"
NAMES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_ONERT, _OPENVINO = NAMES["onert"], NAMES["openvino"]
_CODES: dict[str, list[str]] = _OPENVINO | NAMES["xnnpack"]
MANY, ELIDED, CLAMPING = (frozenset(NAMES[name]) for name in ("many", "elided", "clamping"))
"""MANY: codes of operators that may become several rows of a kind. ELIDED: those that may have no row, since other
rows do the work or none is left. CLAMPING: those whose row clamps its results, so no row for activation follows."""

KINDS = frozenset(_CODES)
"""The kinds of XNNPACK's rows that are not names of codes."""

KERNEL_NUMBERS = re.compile(r" \d+(?= ->|$)")
"""The numbers in the names of a GPU's kernels, such as `convolution_2d 0 -> relu 1`; types have none."""

_HEAD = re.compile(r"[^(\[]*[^(\[\s]")


def agrees(runtime: Runtime, name: str, code: str, builtin: Collection[str]) -> bool | None:
    """Return whether `name` is an operator of `code`, or None if that is not known.

    `code` is the code in the model (`CONV_2D`, `CUSTOM:<custom code>`); `builtin` holds the names of all codes.
    """
    if runtime == "onert":
        if code.startswith(CUSTOM):
            return None  # the loader converts some custom operators to onert operations
        same = code in _ONERT[name] if name in _ONERT else _plain(name) == _plain(code)
    elif runtime == "openvino":
        known = name in _OPENVINO
        return code in _OPENVINO[name] if known else True if _plain(name) == _plain(code) else None
    else:
        custom = code.removeprefix(CUSTOM)
        # The report writes `<name>/<kernel description>`; a custom code may itself contain a slash.
        same = name == custom or (runtime == "benchmark_model" and name.startswith(f"{custom}/"))
    return True if same else None if not is_builtin(runtime, name, builtin) else False


def is_builtin(runtime: Runtime, name: str, builtin: Collection[str]) -> bool:
    """Return whether `name` is a builtin operator; `builtin` holds the names of all codes."""
    if runtime == "onert":
        return name in _ONERT or _plain(name) in map(_plain, builtin)
    return name in builtin or (runtime == "benchmark_model" and name.split("/", 1)[0] in builtin)


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def kind_of(row: str) -> str:
    """Return the kind of an XNNPACK row, without layout, types and kernel: one of KINDS, or perhaps a code name."""
    match = _HEAD.match(row)
    head = match[0] if match else row
    return head if head in _CODES else head.upper().replace(" ", "_")


@cache
def kinds_of(code: str) -> frozenset[str]:
    """Return the kinds of rows that may do the work of an operator."""
    return frozenset({code, *(kind for kind, codes in _CODES.items() if code in codes)})


@cache
def kinds_before(code: str, *, flattened: bool) -> frozenset[str]:
    """Return the kinds of rows that prepare an operator's inputs; FULLY_CONNECTED may have `flattened` inputs."""
    reshaped = {"Static Reshape"} if flattened and code == "FULLY_CONNECTED" else set[str]()
    return frozenset(NAMES["before"].get(code, ())) | reshaped
