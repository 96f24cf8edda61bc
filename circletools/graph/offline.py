"""The metadata entry OfflineMemoryAllocation: where TensorFlow Lite Micro (TFLM) places the tensors in its arena.

    [version][subgraph][number of tensors]([offset] for each tensor of all subgraphs)        little-endian i32

TFLM chooses the place of a tensor with the offset -1, around the others, and moves no other tensor, even if two
overlap. It refuses a plan with another number of tensors (micro_allocation_info.cc). The commands in Vela's
`ethos-u` operators contain offsets, so their tensors cannot move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

import numpy as np

from circletools.findings import Finding
from circletools.graph.algorithms import Indices
from circletools.graph.build import graph_of
from circletools.model.model import Model

OFFLINE_PLAN = "OfflineMemoryAllocation"
_HEAD_BYTES = 12


class PlannedTensors(NamedTuple):
    """The tensors of a subgraph in an edited model, by index in the old one; a higher index is a new tensor.

    `moved` holds those whose size or lifetime changes, and `operators` the old operators that remain.
    """

    subgraph: int
    tensors: Iterable[int]
    moved: Set[int] = frozenset()
    operators: Sequence[int] = ()


def planned_offsets(model: Model) -> Indices | None:
    """Return the offset of each tensor of all subgraphs, or None without a plan that TFLM accepts."""
    value = bytes(model.metadata_value(OFFLINE_PLAN) or b"")
    count = len(model.tensor_columns.tables)
    if len(value) < _HEAD_BYTES + 4 * count or int.from_bytes(value[8:_HEAD_BYTES], "little") != count:
        return None
    return np.frombuffer(value, "<i4", count, _HEAD_BYTES).astype(np.int64)


def plan_findings(model: Model) -> Iterator[Finding]:
    """Yield a finding if TFLM refuses the plan."""
    value = model.metadata_value(OFFLINE_PLAN)
    if value is not None and planned_offsets(model) is None:
        named, count = int.from_bytes(value[8:_HEAD_BYTES], "little"), len(model.tensor_columns.tables)
        message = f"its {len(value):,} bytes are for {named:,} tensors, but the model has {count:,}; TFLM refuses it"
        yield Finding("OFFLINE_PLAN", "warning", f"metadata {OFFLINE_PLAN}", message)


def edited_plan(model: Model, kept: Iterable[PlannedTensors]) -> bytes | None:
    """Return the plan of an edited model, in which tensors that move or are new have no offset.

    Returns None if the model has no plan that TFLM accepts, or nothing changes.
    """
    offsets = planned_offsets(model)
    if offsets is None:
        return None
    splits, found = model.tensor_columns.splits.tolist(), list[int]()
    for subgraph, tensors, moved, operators in kept:
        old = dict(enumerate(offsets[splits[subgraph] : splits[subgraph + 1]].tolist()))
        graph = graph_of(model, subgraph)
        fixed = {
            tensor
            for operator in operators
            if graph.operators.code_names[operator] == "CUSTOM:ethos-u"
            for tensor in (*graph.operands.of(operator), *graph.results.of(operator))
        }
        found += [-1 if tensor in moved - fixed else old.get(tensor, -1) for tensor in tensors]
    old_value = bytes(model.metadata_value(OFFLINE_PLAN) or b"")
    new = old_value[:8] + np.array([len(found), *found], "<i4").tobytes()
    return None if new == old_value else new
