"""Constant folding of the integers from which models compute shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circletools.model.sizes import element_count
from circletools.shapes.call import Call, RefusedError, Shape, Value
from circletools.shapes.layout import slices

MOST_VALUES = 256
"""The maximum number of dimensions in a shape."""

_REDUCE: dict[str, Callable[..., Value]] = {
    "REDUCE_PROD": np.prod,
    "SUM": np.sum,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "FLOOR_DIV": np.floor_divide, "FLOOR_MOD": np.mod,
    "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LESS": np.less,
    "GREATER": np.greater, "DIV": lambda one, other: (np.abs(one) // np.abs(other)) * np.sign(one) * np.sign(other),
}  # fmt: skip


def folded(call: Call, results: Sequence[Shape | None]) -> Value | None:
    """Return the value of an operator's only output if it follows from known values, or else None."""
    if call.code in {"SHAPE", "RANK"} and call.shapes:
        shape = call.shapes[0]
        return None if shape is None else np.array(shape if call.code == "SHAPE" else len(shape), np.int64)
    values = [value for value in call.values if value is not None]
    if len(values) != len(call) or not 0 < len(values) <= MOST_VALUES:
        return None
    if len(results) != 1 or results[0] is None or element_count(results[0]) > MOST_VALUES:
        return None
    try:
        found = _compute(call, values, results[0])
    except (ValueError, IndexError, ZeroDivisionError, RefusedError):
        return None
    return found if found is not None and found.shape == results[0] else None


def _compute(call: Call, values: Sequence[Value], shape: Shape) -> Value | None:
    code, first, options = call.code, values[0], call.options
    with np.errstate(all="ignore"):
        if code in _BINARY and options.get("fused_activation_function", "NONE") == "NONE":
            return np.asarray(_BINARY[code](first, values[1]))
        if code in _REDUCE:
            axes = tuple(int(axis) for axis in values[1].reshape(-1))
            return np.asarray(_REDUCE[code](first, axis=axes, keepdims=bool(options.get("keep_dims"))))
    rule = _RULES.get(code)
    return None if rule is None else np.asarray(rule(call, values, shape))


def _gathered(call: Call, values: Sequence[Value], _: Shape) -> Value:
    if call.options.get("batch_dims") or values[1].min(initial=0) < 0:
        raise ValueError
    return np.take(values[0], values[1], axis=call.option("axis"))


def _range(values: Sequence[Value]) -> range:
    return range(*(int(value.reshape(-1)[0]) for value in values[:3]))


_RULES: dict[str, Callable[[Call, Sequence[Value], Shape], Value]] = {
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), lambda _, values, shape: values[0].reshape(shape)),
    **dict.fromkeys(("SELECT", "SELECT_V2"), lambda _, values, __: np.where(values[0] != 0, values[1], values[2])),
    "PACK": lambda call, values, _: np.stack(list(values), axis=call.option("axis")),
    "CONCATENATION": lambda call, values, _: np.concatenate(list(values), axis=call.option("axis")),
    "GATHER": _gathered,
    "SLICE": lambda call, values, shape: values[0][tuple(map(slice, at := call.numbers(1), np.add(at, shape)))],
    "STRIDED_SLICE": lambda call, values, _: values[0][slices(call)],
    "TRANSPOSE": lambda call, values, _: values[0].transpose(call.numbers(1)),
    "CAST": lambda _, values, __: values[0],
    "FILL": lambda _, values, shape: np.full(shape, values[1]),
    "BROADCAST_TO": lambda _, values, shape: np.broadcast_to(values[0], shape),
    "BROADCAST_ARGS": lambda _, values, __: np.array(np.broadcast_shapes(*map(tuple, values)), np.int64),
    "RANGE": lambda _, values, __: np.array(_range(values)[: MOST_VALUES + 1], np.int64),  # too many for any shape
}
