"""Predict the arena size of TensorFlow Lite Micro (TFLM) from the layout that its allocators use.

    head    activations and scratch buffers of kernels, placed by GreedyMemoryPlanner (micro_allocation_info.cc) or at
            the offsets in OfflineMemoryAllocation; before that, while the model is prepared, planning lists or copies
            of one operator's tensors, which need more memory than the activations if there are few operators
    tail    persistent structures: tensors, nodes, kernel data, variables

The plan is the same on every processor. The sizes of structures (micro.json) were measured in the 64-bit build of the
package `tflite_micro` by `tools/measure/micro_memory.py`; with 32-bit pointers they are about half as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from circletools.cost.activations import MOST_PLANNED, lifetimes, plan
from circletools.graph.algorithms import Indices
from circletools.graph.columns import Values
from circletools.graph.graph import Graph, ModelGraph
from circletools.graph.offline import planned_offsets
from circletools.model.sizes import element_count
from circletools.storage.documents import packaged

_ALIGNMENT = 16
_CALLS = ("IF", "WHILE", "CALL_ONCE")
_LARGEST = 1 << 40
_REQUEST, _MOST_REQUESTS, _ALLOCATION, _PLANNED = 16, 12, 32, 40
"""sizeof ScratchBufferRequest, requests per operator, sizeof AllocationInfo, and the planner's per_buffer_size."""
_AGAIN = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), (0, 1, -1)),
    "TRANSPOSE_CONV": (1, 2, -1),
    **dict.fromkeys(("CONCATENATION", "TANH"), (0,)),
}
"""The slots whose tensors are copied twice, by two functions of a kernel, while the kernel is prepared."""


@dataclass(frozen=True, slots=True)
class MicroMemory:
    """The memory of a model under TensorFlow Lite Micro, in bytes.

    `arena_bytes`, a multiple of 16, is the sum of the head, `activation_bytes`, and the tail, `persistent_bytes`.
    `unknown` lists the operator codes whose share is unknown and missing from the sums; `is_measured` means that the
    sums were measured by TFLM's allocator. `flash_bytes` is the size of the model file, which TFLM reads in place;
    it excludes code. `is_open` means that sizes in the file were used for tensors with dynamic dimensions.
    """

    activation_bytes: int
    persistent_bytes: int
    flash_bytes: int
    unknown: tuple[str, ...] = ()
    is_measured: bool = False
    is_open: bool = False

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena."""
        return self.activation_bytes + self.persistent_bytes

    def measured(self, arena_bytes: int) -> MicroMemory:
        """Return a copy with this arena size, as measured by TFLM's own allocator."""
        tail = arena_bytes - self.activation_bytes
        return replace(self, persistent_bytes=tail, unknown=(), is_measured=True)


def micro_memory(model: ModelGraph, file_bytes: int) -> MicroMemory | None:
    """Return the memory of a model, or None if it has too many values to plan. Raises ModelFormatError."""
    graphs = model.graphs
    if not graphs or sum(len(graph.values) for graph in graphs) > MOST_PLANNED:
        return None
    scopes = _scopes_of(graphs)
    tensors = np.concatenate([_tensors(graph, scopes.get(graph.index)) for graph in graphs], axis=1)
    planned = planned_offsets(model.source)  # the model's own plan, such as Vela's
    offsets = (np.full(tensors.shape[1], -1) if planned is None else planned)[tensors[2] > 0]
    scratch = np.array(list(_scratch(graphs, scopes)), np.int64).reshape(-1, 3).T
    if tensors.shape[1] + scratch.shape[1] > MOST_PLANNED:
        return None
    begins, ends, sizes = np.concatenate((tensors[:, tensors[2] > 0], scratch), axis=1)
    fixed = np.concatenate((offsets, np.full(scratch.shape[1], -1)))
    order = np.lexsort((-np.arange(len(sizes)), np.where(fixed < 0, -sizes, 0), fixed < 0))
    tail, last, unknown = _persistent(graphs)
    preparing = _preparing(graphs, scratch.shape[1], len(sizes)) - last
    return MicroMemory(
        max(plan(begins, ends, sizes, order, fixed), _aligned(preparing)),
        _aligned(tail),
        file_bytes,
        tuple(sorted(unknown)),
        is_open=any(bool((graph.values.shape_signatures.flat() < 0).any()) for graph in graphs),
    )


def _preparing(graphs: tuple[Graph, ...], scratch: int, buffers: int) -> int:
    """Return the number of bytes used in the head before the plan is made, with 64-bit pointers.

    These bytes hold requests for scratch buffers, and either copies of an operator's tensors for its kernel
    (AllocateTempInputTensor) or the lists of tensors and buffers for planning.
    """
    requests = _REQUEST * (scratch + _MOST_REQUESTS)
    tensors, copies = scratch + sum(len(graph.values) for graph in graphs), 0
    for graph in graphs:
        each = _tensor_bytes(graph.values)
        for operator, code in enumerate(graph.operators.code_names):
            slots = [*graph.operands.of(operator), *graph.results.of(operator)]
            slots += [slots[at] for at in _AGAIN.get(code, ()) if -len(slots) <= at < len(slots)]
            copies = max(copies, int(each[[value for value in slots if value >= 0]].sum()))
    lists = _aligned(requests + 8 * len(graphs) + _ALLOCATION * tensors) + _aligned(_PLANNED * buffers)
    return max(requests + copies, lists)


def _scopes_of(graphs: tuple[Graph, ...]) -> dict[int, tuple[Indices, Indices, int]]:
    """Number the scopes of each subgraph that runs: one per operator, and those of subgraphs that operators call."""
    scopes: dict[int, tuple[Indices, Indices, int]] = {}
    pending = [_enter(graphs, 0, [0], scopes)]  # a generator: calls may nest deeper than Python's limit
    while pending:
        callee = next(pending[-1], None)
        if callee is None:
            pending.pop()
        else:
            pending.append(_enter(graphs, *callee, scopes))
    return scopes


def _enter(
    graphs: tuple[Graph, ...], index: int, scope: list[int], scopes: dict[int, tuple[Indices, Indices, int]]
) -> Iterator[tuple[int, list[int]]]:
    """Number the scopes of a subgraph; yield each subgraph to enter next. `scope` holds only the last number used."""
    graph = graphs[index]
    starts, ends = np.zeros(len(graph), np.int64), np.zeros(len(graph), np.int64)
    scopes[index] = starts, ends, scope[0]
    for operator, code in enumerate(graph.operators.code_names):
        scope[0] += 1
        starts[operator] = scope[0]
        for callee in graph.callees.get(operator, ()) if code in _CALLS else ():
            if 0 <= callee < len(graphs) and callee not in scopes:
                scope[0] += 1
                yield callee, scope
            elif callee in scopes:  # called again: its tensors may live until now
                scopes[callee][1][:] = scope[0]
        ends[operator] = scope[0]


def _tensors(graph: Graph, scope: tuple[Indices, Indices, int] | None) -> Indices:
    """Return the first and the last scope of each tensor, and its size in the head in bytes.

    A tensor that nothing produces, such as the scratch memory of an NPU, lives from the beginning (-1).
    """
    first, last = lifetimes(graph)
    begins, ends = np.full(len(first), -1, np.int64), np.full(len(first), -1, np.int64)
    if scope is not None:
        starts, stops, enter = scope
        made, used = first < len(graph), last >= 0
        begins[made], ends[used] = starts[first[made]], stops[last[used]]
        given = graph.inputs[graph.inputs >= 0]
        begins[given], ends[given] = enter, np.maximum(ends[given], enter)
    sizes = np.minimum(graph.values.bytes, _LARGEST).astype(np.int64)
    sizes = np.where(graph.values.is_constant | graph.values.is_variable, 0, -(-sizes // _ALIGNMENT) * _ALIGNMENT)
    return np.array((begins, ends, sizes))


def _scratch(
    graphs: tuple[Graph, ...], scopes: dict[int, tuple[Indices, Indices, int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield the first and the last scope of each scratch buffer, and its size in bytes."""
    for index, (starts, ends, _) in sorted(scopes.items()):
        graph = graphs[index]
        for operator, code in enumerate(graph.operators.code_names):
            if code in _SCRATCH:
                for size in _SCRATCH[code](Slots(graph, operator)):
                    yield int(starts[operator]), int(ends[operator]), _aligned(size)


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
        return int(rows.child("quantization", self._values.model.schema)[0].vectors("scale").count.sum())

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


def _persistent(graphs: tuple[Graph, ...]) -> tuple[int, int, set[str]]:
    """Return the bytes of persistent structures, how many of these are allocated last, and the unknown codes."""
    table = packaged(__package__, "micro.json")
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
    last = ends_bytes(graphs[0])
    return total + last, last, unknown


def ends_bytes(graph: Graph) -> int:
    """Return the bytes of the input and output tensors of a model, and of the pointers to them."""
    each, sides = _tensor_bytes(graph.values), (graph.inputs, graph.outputs)
    return sum(int(each[side[side >= 0]].sum()) + _aligned(8 * len(side)) for side in sides)


def _tensor_bytes(values: Values) -> Indices:
    """Return the bytes of the TfLiteTensor of each tensor, including its quantization (4 bytes per channel)."""
    quantization, owners = values.quantization
    channels = np.zeros(len(values), np.int64)
    channels[owners] = np.where(quantization.vectors("zero_point").count, quantization.vectors("scale").count, 0)
    table = packaged(__package__, "micro.json")
    affine = table["affine"] + -(-(4 + 4 * channels) // 8) * 8
    sizes: Indices = table["end"] + np.where(channels, affine, 0)
    return sizes


def more_bytes(code: str, slots: Slots) -> int:
    """Return the shape-dependent bytes of a kernel's data: multipliers and shifts per channel, and copies."""
    if code in ("CONV_2D", "TRANSPOSE_CONV") or (code == "FULLY_CONNECTED" and slots.scales(1) > 1):
        return 2 * _aligned(4 * slots.size(1, 0))
    if code == "DEPTHWISE_CONV_2D":
        return 2 * _aligned(4 * slots.size(1, -1))
    if code == "BATCH_MATMUL":
        transposed = [slot for slot, name in ((0, "adj_x"), (1, "adj_y")) if bool(slots.option(name)) == (slot == 0)]
        return sum(32 + _aligned(4 + 4 * len(slots.shape(slot))) + _aligned(slots.bytes(slot)) for slot in transposed)
    return 0
