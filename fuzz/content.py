"""What is in a model, as plain values: what an edit must not change."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import NamedTuple

from circletools.model import Model
from circletools.model.views import Signature


class Graph(NamedTuple):
    """A subgraph; operators and tensors as tuples of what the views say of them."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[tuple[object, ...]]
    tensors: list[tuple[object, ...]]


class Content(NamedTuple):
    """A model without the positions of anything; buffers of tensors are named by what they hold."""

    metadata: list[tuple[str, bytes]]
    subgraphs: list[Graph]
    signatures: list[Signature]


def content(model: Model) -> Content:
    """Return what is in a model whose indices are in range."""

    @cache
    def data_of(index: int) -> bytes:
        # Buffer 0 means no data, also where there are no buffers.
        return blake2b(model.buffers[index].data if len(model.buffers) else b"", digest_size=16).digest()

    subgraphs: list[Graph] = []
    for subgraph in model.subgraphs:
        operators: list[tuple[object, ...]] = [
            (op.code.name, op.code.version, op.inputs, op.outputs) for op in subgraph.operators
        ]
        tensors: list[tuple[object, ...]] = [
            (t.name, t.type, t.shape, t.shape_signature, t.is_variable, data_of(t.buffer)) for t in subgraph.tensors
        ]
        inputs, outputs = (tuple(side.tolist()) for side in (subgraph.inputs, subgraph.outputs))
        subgraphs.append(Graph(subgraph.name, inputs, outputs, operators, tensors))
    metadata = [(entry.name, data_of(entry.buffer)) for entry in model.metadata]
    return Content(metadata, subgraphs, list(model.signatures))
