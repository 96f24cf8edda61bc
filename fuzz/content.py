"""What is in a model, as plain values: what an edit must not change."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import NamedTuple

from circletools.model import Model


class Content(NamedTuple):
    """A model without the positions of anything; buffers of tensors are named by what they hold."""

    metadata: list[tuple[str, bytes]]
    subgraphs: list[object]
    signatures: list[object]


def content(model: Model) -> Content:
    """Return what is in a model whose indices are in range."""

    @cache
    def data_of(index: int) -> bytes:
        # Buffer 0 means no data, also where there are no buffers.
        return blake2b(model.buffers[index].data if len(model.buffers) else b"", digest_size=16).digest()

    subgraphs: list[object] = []
    for subgraph in model.subgraphs:
        operators = [(op.code.name, op.code.version, op.inputs, op.outputs) for op in subgraph.operators]
        tensors = [
            (t.name, t.type, t.shape, t.shape_signature, t.is_variable, data_of(t.buffer)) for t in subgraph.tensors
        ]
        sides = (tuple(subgraph.inputs.tolist()), tuple(subgraph.outputs.tolist()))
        subgraphs.append((subgraph.name, *sides, operators, tensors))
    metadata = [(entry.name, data_of(entry.buffer)) for entry in model.metadata]
    return Content(metadata, subgraphs, list(model.signatures))
