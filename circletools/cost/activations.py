"""Activation memory: the values that are live while operators run in order, and a plan for sharing memory.

    order      in ------x
               a  ---------x            peak: the most bytes that are live at one operator
               b     ---------x
    plan       the largest value first, each at the lowest offset that is free during its lifetime

This is the plan of the greedy-by-size offline planner in LiteRT's arena (Pisarchyk and Lee, Efficient Memory
Management for Deep Neural Net Inference, 2020). TFLM's planner orders equal sizes differently (`micro`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circletools.errors import ModelFormatError
from circletools.graph.algorithms import Indices
from circletools.graph.graph import Graph

_LARGEST = 1 << 40  # a limit in bytes; only a hostile shape needs more
MOST_PLANNED = 20_000
"""The largest number of values that are planned: planning time grows with the square of the number."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes of the activations of a graph.

    `peak_bytes` is the largest number of bytes live at one operator, and `peak_operator` the first such operator (-1
    if there are none). `planned_bytes` is the size of the planned arena, with values aligned to `alignment` bytes, or
    None if there are too many values. Neither size includes `variable_bytes` (tensors kept between runs) or
    `unproduced_bytes` (tensors that operators read but nothing produces, such as scratch memory planned by Vela).
    """

    peak_bytes: int
    peak_operator: int
    planned_bytes: int | None
    variable_bytes: int
    alignment: int
    unproduced_bytes: int = 0


def activations(graph: Graph, alignment: int = 16) -> Activations:
    """Return the memory of a graph's activations. Raises ModelFormatError for a tensor that does not exist.

    A value lives from the operator that produces it to the last one that reads it; inputs live from the first
    operator, outputs to the last. Constants and variables are not included. A dynamic dimension counts as 1.
    """
    first, last = lifetimes(graph)
    sizes = graph.values.bytes
    variable = graph.values.is_variable
    alive = np.flatnonzero((first <= last) & (sizes > 0) & ~variable)
    begins, ends, bytes_ = first[alive], last[alive], np.minimum(sizes[alive], _LARGEST).astype(np.int64)
    steps = np.zeros(len(graph) + 1, np.int64)
    np.add.at(steps, begins, bytes_)
    np.add.at(steps, ends + 1, -bytes_)
    load = np.cumsum(steps[:-1])
    can_plan = len(alive) <= MOST_PLANNED and load.max(initial=0) < _LARGEST
    sizes_in_plan = -(-bytes_ // alignment) * alignment
    planned = plan(begins, ends, sizes_in_plan, np.lexsort((begins, -sizes_in_plan))) if can_plan else None
    return Activations(
        int(load.max()) if load.size else 0,
        int(load.argmax()) if load.size else -1,
        planned,
        int(sizes[variable].sum()),
        alignment,
        int(np.minimum(sizes[(first > last) & (last >= 0) & ~variable & ~graph.values.is_constant], _LARGEST).sum()),
    )


def lifetimes(graph: Graph) -> tuple[Indices, Indices]:
    """For each value, return the first and last operator at which it is live; if there is none, last < first."""
    graph.check_values()
    count = len(graph.values)
    if max(graph.inputs.max(initial=-1), graph.outputs.max(initial=-1)) >= count:
        raise ModelFormatError("an input or output does not exist", location=graph.place())
    first = np.full(count, len(graph), np.int64)
    last = np.full(count, -1, np.int64)
    np.minimum.at(first, graph.definitions.values, graph.definitions.operators)
    np.maximum.at(last, graph.definitions.values, graph.definitions.operators)
    np.maximum.at(last, graph.uses.values, graph.uses.operators)
    first[graph.inputs[graph.inputs >= 0]] = 0
    made = first < len(graph)
    outputs = graph.outputs[graph.outputs >= 0]
    last[outputs] = np.where(made[outputs], len(graph) - 1, last[outputs])
    return first, last


def plan(begins: Indices, ends: Indices, sizes: Indices, order: Indices, fixed: Indices | None = None) -> int:
    """Return the size of an arena in bytes; values are placed in this order, each at the lowest free offset.

    `fixed` holds prescribed offsets, or -1 for values without one.
    """
    placed = np.zeros((4, len(order)), np.int64)  # offset, end, first and last operator; sorted by offset
    top, given = 0, [-1] * len(order) if fixed is None else fixed[order].tolist()
    columns = (begins[order].tolist(), ends[order].tolist(), sizes[order].tolist(), given)
    for count, (begin, end, size, place) in enumerate(zip(*columns, strict=True)):
        offset = place
        if place < 0:
            lows, highs, first, last = placed[:, :count]
            is_live = (first <= end) & (begin <= last)
            free = np.maximum.accumulate(np.append(0, highs[is_live]))  # the end of all values placed below
            fits = np.append(lows[is_live] - free[:-1] >= size, True)
            offset = int(free[fits.argmax()])
        at = int(np.searchsorted(placed[0, :count], offset))
        placed[:, at + 1 : count + 1] = placed[:, at:count]
        placed[:, at] = offset, offset + size, begin, end
        top = max(top, offset + size)
    return top
