"""Find operators whose window (of a filter or pool) is larger than the input, so they compute nothing.

With padding VALID, a window of `1 + (size - 1) * dilation` values on each axis must lie within the input.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.model.verify import findings_at
from circletools.soundness.graph_findings import CORRECT
from circletools.soundness.whole import first_slots

_FIRST_AXIS = {"CONV_2D": 1, "DEPTHWISE_CONV_2D": 1, "CONV_3D": 0} | dict.fromkeys(
    ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D")
)
"""The first window axis in the filter's shape (input 1); None for a pool, whose options contain the window size."""


def window_findings(model: Model) -> Iterator[Finding]:
    """Yield findings about windows that are too large, with severity info if the input has a dynamic dimension."""
    if not any(code.name in _FIRST_AXIS for code in model.operator_codes):
        return
    empty = "the window is larger than the input, so nothing is computed"
    message = f"{empty}; the input has dynamic dimensions, which count as 1: resize it before the model runs"
    for facts in model_graph(model).graphs:
        rows, is_open = large_windows(facts)
        yield from findings_at("WINDOW_TOO_LARGE", rows[~is_open], facts.place, lambda _: f"{empty}; {CORRECT}")
        yield from findings_at("WINDOW_TOO_LARGE", rows[is_open], facts.place, lambda _: message, "info")


def large_windows(facts: Graph) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the operators whose windows are too large (in order), and whether each exceeds only dynamic sizes.

    Raises ModelFormatError if an operator's tensor does not exist.
    """
    facts.check_values()
    codes, found = facts.operators.code_indices, [np.zeros((0, 2), np.int64)]
    for code in facts.operators.model.operator_codes:
        if code.name in _FIRST_AXIS:
            found.append(_large(facts, np.flatnonzero(codes == code.index), _FIRST_AXIS[code.name]))
    every = np.concatenate(found)
    operators, is_open = every[np.argsort(every[:, 0])].T
    return operators, is_open > 0


def _large(facts: Graph, operators: NDArray[np.int64], first: int | None) -> NDArray[np.int64]:
    """Return the operators of one code whose windows are too large, and whether each exceeds only dynamic sizes."""
    tensors = first_slots(facts, operators, 1 if first is None else 2)[:, :-1]
    there = (tensors >= 0).all(axis=1)
    operators, tensors = operators[there], tensors[there]
    shapes, signatures = facts.values.shapes, facts.values.shape_signatures.take(tensors[:, 0])

    def option(name: str) -> NDArray[np.float64]:
        return facts.operators.option(name, operators)

    is_large, is_closed = np.zeros((2, len(operators)), np.bool_)
    for at, letter in enumerate("hw" if first != 0 else "dhw"):
        if first is None:
            window = option("filter_height" if letter == "h" else "filter_width")
        else:
            window = shapes.take(tensors[:, 1]).element(first + at)
            dilation = np.maximum(option(f"dilation_{letter}_factor"), 1)
            window = 1 + (window - 1) * dilation
        excess = window - shapes.take(tensors[:, 0]).element(1 + at)
        is_large |= excess > 0
        is_closed |= ~(signatures.element(1 + at) < 0) & (excess > 0)
    is_large &= option("padding") == facts.operators.model.schema.enum_value("Padding", "VALID")
    return np.column_stack([operators, ~is_closed])[is_large]
