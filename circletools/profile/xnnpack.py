"""XNNPACK's names for the operators to which it lowers a model's operators.

A row is named `Convolution (NHWC, F32) IGEMM`: kind, layout and types, kernel. The rows of each operator were
observed with LiteRT 2.3.0; its delegate defines operators in tflite/delegates/xnnpack/xnnpack_delegate.cc.
"""

from __future__ import annotations

import re
from functools import cache

from circletools.trace.operators.names import NAMES

_CODES: dict[str, list[str]] = NAMES["openvino"] | NAMES["xnnpack"]
MANY, ELIDED, CLAMPING = (frozenset(NAMES[name]) for name in ("many", "elided", "clamping"))
"""Codes of operators: those that may become several rows of one kind; those that may have no row, because another's
row does their work or there is none; those whose row clamps its results, so no row for their activation follows."""

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
    return frozenset({code, *(kind for kind, codes in _CODES.items() if code in codes)})


@cache
def kinds_before(code: str, *, flattened: bool) -> frozenset[str]:
    """Return the kinds of rows that prepare an operator's inputs; those of FULLY_CONNECTED may be `flattened`."""
    reshaped = {"Static Reshape"} if flattened and code == "FULLY_CONNECTED" else set[str]()
    return frozenset(NAMES["before"].get(code, ())) | reshaped
