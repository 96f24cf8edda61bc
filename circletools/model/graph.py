"""Which operator feeds which: the directed graph of a subgraph's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Vectors
from circletools.model.model import Model

Indices = NDArray[np.int64]
_CONTROL_FLOW = ("IF", "WHILE", "CALL_ONCE")


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Operators 0..n-1; `successors` and `predecessors` of each ascend and name nobody twice.

    `order` is a valid execution order: the operators' own where that is one.
    """

    successors: list[list[int]]
    predecessors: list[list[int]]
    order: list[int]

    def __len__(self) -> int:
        """Return the number of operators."""
        return len(self.successors)


def graph_from_edges(count: int, sources: Indices, targets: Indices) -> OperatorGraph:
    """Return the graph of `count` operators with these edges. Raises ModelFormatError for a cycle."""
    edges = np.unique(sources * count + targets) if count else np.empty(0, np.int64)
    sources, targets = edges // max(count, 1), edges % max(count, 1)
    back = np.argsort(targets, kind="stable")
    successors = _rows(count, sources, targets)
    predecessors = _rows(count, targets[back], sources[back])
    forward = bool((sources < targets).all())
    order = list(range(count)) if forward else _execution_order(successors, predecessors)
    if len(order) < count:
        stuck = min(set(range(count)).difference(order))
        raise ModelFormatError("the operators wait for each other", location=f"operators[{stuck}]")
    return OperatorGraph(successors, predecessors, order)


def _rows(count: int, keys: Indices, values: Indices) -> list[list[int]]:
    """Return the values of each key; keys ascend."""
    bounds = np.searchsorted(keys, np.arange(count + 1)).tolist()
    flat: list[int] = values.tolist()
    return [flat[start:end] for start, end in pairwise(bounds)]


def _execution_order(successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Return the operators in an order in which they can run; those in a cycle are left out."""
    waiting = [len(row) for row in predecessors]
    order = [operator for operator, count in enumerate(waiting) if count == 0]
    for operator in order:
        for successor in successors[operator]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                order.append(successor)
    return order


def operator_graph(model: Model, subgraph: int) -> OperatorGraph:
    """Return who feeds whom in a subgraph.

    Operators with side effects (those that touch a resource or call a subgraph) also keep their order, as in LiteRT
    (`Subgraph::OpMightHaveSideEffect`): each is fed by the one before it. Raises ModelFormatError for a tensor that
    does not exist or has two producers, and for a cycle.
    """
    count = int(np.diff(model.operator_columns.splits[subgraph : subgraph + 2])[0])
    producers, made = operator_tensors(model, subgraph, "outputs")
    consumers, read = operator_tensors(model, subgraph, "inputs")
    tensors = int(np.diff(model.tensor_columns.splits[subgraph : subgraph + 2])[0])
    place = f"subgraphs[{subgraph}]"
    for indices in (made, read):
        if indices.size and int(indices.max()) >= tensors:
            raise ModelFormatError(f"tensor {indices.max()} does not exist; there are {tensors}", location=place)
    producer = np.full(tensors, -1, np.int64)
    producer[made] = producers
    if (producer[made] != producers).any():
        double = int(made[producer[made] != producers][0])
        raise ModelFormatError("two operators produce the tensor", location=f"{place}.tensors[{double}]")
    sources = producer[read]
    fed = sources >= 0
    effects = _with_side_effects(model, subgraph, (producers, made), (consumers, read))
    try:
        return graph_from_edges(
            count,
            np.concatenate([sources[fed], effects[:-1]]),
            np.concatenate([consumers[fed], effects[1:]]),
        )
    except ModelFormatError as error:
        raise ModelFormatError(error.message, location=f"{place}.{error.location}") from error


def operator_tensors(model: Model, subgraph: int, direction: Literal["inputs", "outputs"]) -> tuple[Indices, Indices]:
    """Return operator and tensor of each input or output slot that is not left out, slots in order."""
    columns = model.operator_columns
    first, end = columns.splits[subgraph : subgraph + 2].tolist()
    vectors: Vectors = getattr(columns, direction)
    rows = Vectors(vectors.wire, vectors.dtype, vectors.start[first:end], vectors.count[first:end])
    tensors = rows.flat().astype(np.int64)
    operators = np.repeat(np.arange(end - first), rows.count)
    present = tensors >= 0
    return operators[present], tensors[present]


def _with_side_effects(model: Model, subgraph: int, *uses: tuple[Indices, Indices]) -> Indices:
    low, high = model.tensor_columns.splits[subgraph : subgraph + 2].tolist()
    types = model.schema.enums["TensorType"]
    resource = next(value for value, name in types.items() if name == "RESOURCE")
    holds = model.tensor_columns.types[low:high] == resource
    names = model.code_names(subgraph)
    calling = [index for index, name in enumerate(names) if name in _CONTROL_FLOW]
    touching = [operators[holds[tensors]] for operators, tensors in uses]
    return np.unique(np.concatenate([np.array(calling, np.int64), *touching]))
