"""Count the multiply-accumulates of operators from the shapes in the file.

Products in convolutions, matrix products and recurrent cells are counted, as in torch's FlopCounterMode (which counts
two FLOPs for each); pooling, elementwise operators, biases and activations count as 0. A dynamic dimension counts as
1. Circle and custom operators whose work does not follow from shapes are `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from circletools.graph.algorithms import Indices
from circletools.graph.columns import Values
from circletools.graph.graph import Graph
from circletools.model.sizes import closed_sizes

UNKNOWN = -1
Numbers = NDArray[np.float64]
_UNKNOWN_CODES = ("STABLEHLO_DOT_GENERAL", "STABLEHLO_CONVOLUTION", "BCQ_FULLY_CONNECTED", "ATTENTION", "DELEGATE")


def macs(graph: Graph) -> Indices:
    """Return the multiply-accumulates of each operator, or UNKNOWN if its shapes do not determine them."""
    shapes = _Shapes(graph)
    found = np.zeros(len(graph), np.int64)
    by_code: dict[str, list[int]] = {}
    for operator, code in enumerate(graph.operators.code_names):
        by_code.setdefault(code, []).append(operator)
    for code, operators in by_code.items():
        count = _COUNTS.get(code)
        if count is not None:
            number = count(shapes, np.array(operators))
            found[operators] = np.where(np.isfinite(number) & (number < 2**62), number, UNKNOWN).astype(np.int64)
        elif code.startswith(("CUSTOM:", "UNKNOWN:")) or code in _UNKNOWN_CODES:
            found[operators] = UNKNOWN
    return found


class _Shapes:
    """Sizes of the values in operator slots, or NaN if there is no such value or dimension."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.sizes: Numbers = closed_sizes(graph.values.shapes, graph.values.shape_signatures)
        self.splits: Indices = graph.values.shapes.splits()
        self.counts: Numbers = elements(graph.values)

    def value(self, operators: Indices, slot: int, *, output: bool = False) -> Indices:
        """Return the value in a slot of each operator, or -1 if there is none."""
        slots = self.graph.results if output else self.graph.operands
        there = slots.counts[operators] > slot
        found = np.full(len(operators), -1, np.int64)
        found[there] = slots.values[slots.splits[operators[there]] + slot]
        return np.where((found >= 0) & (found < len(self.graph.values)), found, -1)

    def elements(self, operators: Indices, slot: int, *, output: bool = False) -> Numbers:
        """Return the number of elements of the value in a slot, or 0 if there is no value."""
        values = self.value(operators, slot, output=output)
        return np.where(values >= 0, self.counts[values], 0) if len(self.counts) else np.zeros(len(operators))

    def size(self, operators: Indices, slot: int, axis: int | Indices) -> Numbers:
        """Return a dimension of the value in a slot, counted from the end if `axis` is negative."""
        values = self.value(operators, slot)
        there = values >= 0
        ranks = np.zeros(len(operators), np.int64)
        ranks[there] = np.diff(self.splits)[values[there]]
        place = np.where(np.less(axis, 0), ranks + axis, axis)
        good = there & (place >= 0) & (place < ranks)
        found = np.full(len(operators), np.nan)
        found[good] = self.sizes[self.splits[values[good]] + place[good]]
        return found


def elements(values: Values) -> Numbers:
    """Return the number of elements of each value; a dynamic dimension counts as 1."""
    shapes = values.shapes
    found = np.ones(len(values))
    some = np.flatnonzero(shapes.count)
    if some.size:
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = closed_sizes(shapes, values.shape_signatures)
            found[some] = np.multiply.reduceat(sizes, shapes.splits()[some])
    return found


Count = Callable[[_Shapes, Indices], Numbers]


def _filtered(data: int, channels: int, *, output: bool = False) -> Count:
    """Return the count of a convolution: the number of elements of `data` times the filter's elements per channel."""

    def count(shapes: _Shapes, operators: Indices) -> Numbers:
        per_element = shapes.elements(operators, 1) / shapes.size(operators, 1, channels)
        return shapes.elements(operators, data, output=output) * per_element

    return count


def _batch_matmul(shapes: _Shapes, operators: Indices) -> Numbers:
    adjoint = shapes.graph.operators.option("adj_x", operators) != 0
    inner = shapes.size(operators, 0, np.where(adjoint, -2, -1))
    return shapes.elements(operators, 0, output=True) * inner


def _recurrent(*weights: int) -> Count:
    """Return the count of a recurrent cell that multiplies each weight once by each vector of input 0."""

    def count(shapes: _Shapes, operators: Indices) -> Numbers:
        steps = shapes.elements(operators, 0) / shapes.size(operators, 0, -1)
        total = np.sum([shapes.elements(operators, slot) for slot in weights], axis=0)
        return np.asarray(steps * total)

    return count


_LSTM = tuple(range(1, 9))
_COUNTS: Mapping[str, Count] = {
    "CONV_2D": _filtered(0, 0, output=True),
    **dict.fromkeys(("DEPTHWISE_CONV_2D", "CONV_3D"), _filtered(0, -1, output=True)),
    **dict.fromkeys(("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE"), _filtered(2, -1)),
    "FULLY_CONNECTED": lambda shapes, rows: shapes.elements(rows, 0, output=True) * shapes.size(rows, 1, -1),
    "BATCH_MATMUL": _batch_matmul,
    **dict.fromkeys(("SVDF", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), _recurrent(1, 2)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent(1, 2, 5, 6),
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), _recurrent(*_LSTM, 16)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(*_LSTM, 16, *range(18, 26), 33),
}
