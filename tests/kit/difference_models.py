"""Models to compare, and the same in another order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.flatbuf.comparison import Difference, Kind
from circletools.outputs.rewrite import fix_outputs
from tests.kit.build import Build
from tests.kit.support import packed, unpacked


def twice_listed(kind: str = "circle") -> bytes:
    """Return a model with a chain of three operators that lists its output twice."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    a = graph.compute("ADD", [x, graph.constant("one", np.ones((2, 2), np.float32))], "a")
    b = graph.compute("MUL", [a, graph.constant("two", np.full((2, 2), 2, np.float32))], "b")
    c = graph.compute("TANH", [b], "c")
    graph.ends([x], [c, c])
    build.signature("main", [("x", x)], [("first", c), ("second", c)])
    return build.to_bytes(kind)


def fix_all(edit: ModelEdit) -> object:
    return fix_outputs(edit, [0])


def renumbered(data: bytes, chosen: random.Random) -> bytes:
    """Return the model with tensors, buffers and operator codes in another order, by the object API."""
    model = unpacked(data)
    buffers = [0, *shuffled(range(1, len(model.buffers)), chosen)]
    codes = shuffled(range(len(model.operatorCodes)), chosen)
    model.buffers = [model.buffers[index] for index in buffers]
    model.operatorCodes = [model.operatorCodes[index] for index in codes]
    for entry in model.metadata or ():
        entry.buffer = buffers.index(entry.buffer)
    for number, graph in enumerate(model.subgraphs):
        tensors = shuffled(range(len(graph.tensors)), chosen)
        graph.tensors = [graph.tensors[index] for index in tensors]
        for tensor in graph.tensors:
            tensor.buffer = buffers.index(tensor.buffer)
        for operator in graph.operators or ():
            operator.opcodeIndex = codes.index(operator.opcodeIndex)
        for owner in (graph, *(graph.operators or ())):
            for field in ("inputs", "outputs"):
                indices = getattr(owner, field)
                if indices is not None:
                    setattr(owner, field, np.array([tensors.index(i) if i >= 0 else i for i in indices], np.int32))
        for signature in model.signatureDefs or ():
            if signature.subgraphIndex == number:
                for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
                    entry.tensorIndex = tensors.index(entry.tensorIndex)
    return packed(model, data[4:8])


def shuffled(values: range, chosen: random.Random) -> list[int]:
    return chosen.sample(list(values), len(values))


def at(kind: Kind, path: str, before: Any, after: Any) -> Difference:
    """Return a difference at one path in both models."""
    return Difference(kind, path, path, before, after)
