"""Predicts the arena of TensorFlow Lite Micro, following the layout of its allocators.

    head    activations and scratch buffers of kernels, placed by its GreedyMemoryPlanner (micro_allocation_info.cc)
    tail    persistent structures: tensors, nodes, data of kernels, variables

The head is the same on every processor. The sizes of structures (micro.json) were measured in the 64-bit build of the
package `tflite_micro` by `tools/measure/micro_memory.py`; with 32-bit pointers they are about half.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from circletools.cost.activations import MOST_PLANNED, lifetimes, plan
from circletools.graph.algorithms import Indices
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.sizes import element_count

_ALIGNMENT = 16
_OFFLINE = "OfflineMemoryAllocation"
_CALLS = ("IF", "WHILE", "CALL_ONCE")
_LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class MicroMemory:
    """The memory of a model under TensorFlow Lite Micro, in bytes.

    `arena_bytes` is the sum of the head, `activation_bytes`, and the tail, `persistent_bytes`. `unknown` lists the
    operator codes, and the metadata, whose share is not known and missing in the sums; `is_measured` means measured
    with TFLM's own allocator. `flash_bytes` is the size of the model file, which TFLM reads in place, without code.
    """

    activation_bytes: int
    persistent_bytes: int
    flash_bytes: int
    unknown: tuple[str, ...] = ()
    is_measured: bool = False

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena."""
        return self.activation_bytes + self.persistent_bytes

    def measured(self, arena_bytes: int) -> MicroMemory:
        """Return the memory with the size of an arena that TFLM's own allocator laid out."""
        tail = arena_bytes - self.activation_bytes
        return replace(self, persistent_bytes=tail, unknown=(), is_measured=True)


def micro_memory(model: ModelGraph, file_bytes: int) -> MicroMemory | None:
    """Return the memory of a model, None if it has too many values to plan. Raises ModelFormatError."""
    graphs = model.graphs
    if not graphs or sum(len(graph.values) for graph in graphs) > MOST_PLANNED:
        return None
    scopes: dict[int, tuple[Indices, Indices, int]] = {}
    _enter(graphs, 0, 0, scopes)
    buffers = list(_activations(graphs, scopes))
    tail, unknown = _persistent(graphs)
    if model.metadata_value(_OFFLINE) is not None:
        unknown.add(_OFFLINE)
    begins, ends, sizes = (np.array([one[at] for one in buffers], np.int64) for at in range(3))
    order = np.lexsort((-np.arange(len(sizes)), -sizes))
    return MicroMemory(plan(begins, ends, sizes, order), tail, file_bytes, tuple(sorted(unknown)))


def _enter(graphs: tuple[Graph, ...], index: int, scope: int, scopes: dict[int, tuple[Indices, Indices, int]]) -> int:
    """Number the scopes of a subgraph: one for each operator, and those of subgraphs it calls. Return the last."""
    graph, first = graphs[index], scope
    starts, ends = np.zeros(len(graph), np.int64), np.zeros(len(graph), np.int64)
    scopes[index] = starts, ends, first
    for operator, code in enumerate(graph.operators.code_names):
        scope += 1
        starts[operator] = scope
        for callee in graph.callees.get(operator, ()) if code in _CALLS else ():
            if 0 <= callee < len(graphs) and callee not in scopes:
                scope = _enter(graphs, callee, scope + 1, scopes)
        ends[operator] = scope
    return scope


def _activations(
    graphs: tuple[Graph, ...], scopes: dict[int, tuple[Indices, Indices, int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield the first and the last scope of each buffer in the head, and its bytes; scratch buffers come last."""
    scratch = []
    for index, graph in enumerate(graphs):
        if index not in scopes:
            continue
        starts, ends, enter = scopes[index]
        first, last = lifetimes(graph)
        given = np.zeros(len(first), np.bool_)
        given[graph.inputs[graph.inputs >= 0]] = True
        used = (first < len(graph)) & (last >= 0)
        alive = (used | given) & ~graph.values.is_constant & ~graph.values.is_variable & (graph.values.bytes > 0)
        for value in np.flatnonzero(alive).tolist():
            begin = enter if given[value] else int(starts[first[value]])
            yield begin, int(ends[last[value]]) if used[value] else enter, _aligned(graph.values.bytes[value])
        for operator, code in enumerate(graph.operators.code_names):
            if code in _SCRATCH:
                sizes = _SCRATCH[code](Slots(graph, operator))
                scratch += [(int(starts[operator]), int(ends[operator]), _aligned(size)) for size in sizes]
    yield from scratch


def _aligned(size: float) -> int:
    return -(-int(min(size, _LARGEST)) // _ALIGNMENT) * _ALIGNMENT


class Slots:
    """Types and shapes of the values in an operator's slots; a slot without a value has no type."""

    def __init__(self, graph: Graph, operator: int) -> None:
        self._graph, self._operator, self._values = graph, operator, graph.values
        self._slots = graph.operands.of(operator), graph.results.of(operator)

    def value(self, slot: int, *, output: bool = False) -> int:
        slots = self._slots[output]
        return slots[slot] if slot < len(slots) else -1

    def kind(self, slot: int, *, output: bool = False) -> str:
        value = self.value(slot, output=output)
        return self._values.types[value] if value >= 0 else ""

    def shape(self, slot: int, *, output: bool = False) -> list[int]:
        value = self.value(slot, output=output)
        return list(self._values.shapes.row(value).tolist()) if value >= 0 else []

    def size(self, slot: int, axis: int) -> int:
        return (self.shape(slot) or [0])[axis]

    def elements(self, slot: int, *, output: bool = False) -> int:
        return min(element_count(self.shape(slot, output=output)), _LARGEST)

    def bytes(self, slot: int) -> int:
        value = self.value(slot)
        return int(min(self._values.bytes[value], _LARGEST)) if value >= 0 else 0

    def option(self, name: str) -> float:
        return float(self._graph.operators.option(name, np.array([self._operator]))[0])

    def scales(self, slot: int) -> int:
        value = self.value(slot)
        rows = self._values.tables.take(np.array([value] if value >= 0 else [], np.int64))
        return int(rows.child("quantization", self._values.schema)[0].vectors("scale").count.sum())

    def count(self) -> int:
        return len(self._slots[0])


def _reduced(slots: Slots) -> list[int]:
    return [4 * len(slots.shape(0)), 4 * slots.elements(1)]


def _summed(slots: Slots) -> list[int]:
    sums = [4 * slots.elements(0, output=True)] if slots.kind(0) in ("INT8", "INT16") else []
    return [*sums, *_reduced(slots)]


def _svdf(slots: Slots) -> list[int]:
    batch, filters = slots.size(0, 0), slots.size(1, 0)
    units = (slots.shape(0, output=True) or [0])[-1]
    return [4 * batch * filters, *([4 * batch * units] if slots.kind(1) == "INT8" else [])]


def _transpose_conv(slots: Slots) -> list[int]:
    each = {"INT8": 4, "INT16": 8}.get(slots.kind(2))
    sums = [each * slots.elements(0, output=True)] if each else []
    return [*sums, *([8 * slots.elements(3)] if slots.kind(2) == slots.kind(3) == "INT16" else [])]


_SCRATCH: Mapping[str, Callable[[Slots], list[int]]] = {
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL"), _reduced),
    **dict.fromkeys(("MEAN", "SUM"), _summed),
    **dict.fromkeys(
        ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"),
        lambda slots: [slots.elements(1)] if slots.kind(1) == "INT4" else [],
    ),
    "MIRROR_PAD": lambda slots: [4 * len(slots.shape(0))] * 2,
    "ADD_N": lambda slots: [8 * slots.count()],
    "SVDF": _svdf,
    "TRANSPOSE_CONV": _transpose_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lambda slots: [(2 if slots.kind(19) == "INT16" else 4) * slots.elements(19)] * 4,
}
"""The bytes of the buffers that reference kernels request for themselves, in the order of the requests."""


def _persistent(graphs: tuple[Graph, ...]) -> tuple[int, set[str]]:
    """Return the bytes of persistent structures, and the operator codes whose share is not known."""
    table = _table()
    total, unknown = table["model"] + table["subgraph"] * (len(graphs) - 1), set()
    for graph in graphs:
        values = graph.values
        total += table["tensor"] * len(values) + table["node"] * len(graph)
        total += sum(_aligned(size) for size in values.bytes[values.is_variable].tolist())
        for operator, code in enumerate(graph.operators.code_names):
            found = table["operators"].get(code)
            slots = Slots(graph, operator)
            if isinstance(found, dict):
                found = found.get(slots.kind(0, output=True), found["*"])
            if found is None:
                unknown.add(code)
            total += (found or 0) + more_bytes(code, slots)
    total += _ends_bytes(graphs[0], table)
    return total, unknown


def _ends_bytes(graph: Graph, table: dict[str, Any]) -> int:
    """Return the bytes of the model's input and output tensors, with their quantization: 4 for each zero point."""
    ends = np.concatenate((graph.inputs, graph.outputs))
    ends = ends[ends >= 0]
    quantization, _ = graph.values.tables.take(ends).child("quantization", graph.values.schema)
    scales, zeros = quantization.vectors("scale").count, quantization.vectors("zero_point").count
    affine = (scales > 0) & (zeros > 0)
    extra = table["affine"] * int(affine.sum()) + int((-(-(4 + 4 * zeros[affine]) // 8) * 8).sum())
    return int(table["end"] * len(ends) + extra)


def more_bytes(code: str, slots: Slots) -> int:
    """Return the shape-dependent bytes of a kernel's data: multipliers and shifts by channel, and copies."""
    if code in ("CONV_2D", "TRANSPOSE_CONV") or (code == "FULLY_CONNECTED" and slots.scales(1) > 1):
        return 8 * slots.size(1, 0)
    if code == "DEPTHWISE_CONV_2D":
        return 8 * slots.size(1, -1)
    if code == "BATCH_MATMUL":
        transposed = [slot for slot, name in ((0, "adj_x"), (1, "adj_y")) if bool(slots.option(name)) == (slot == 0)]
        return sum(28 + 4 * len(slots.shape(slot)) + slots.bytes(slot) for slot in transposed)
    return 0


@cache
def _table() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((resources.files(__package__) / "micro.json").read_text("utf-8"))
    return raw
