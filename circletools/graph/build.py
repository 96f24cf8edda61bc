"""The graphs of a model: the only place that reads them from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from circletools.flatbuf.budget import SUBGRAPH_BYTES
from circletools.flatbuf.columns import Vectors
from circletools.graph.algorithms import Indices
from circletools.graph.columns import Operators, Slots, Values
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.indices import model_indices
from circletools.model.model import Model

Callees = dict[int, dict[int, list[int]]]
"""By subgraph and operator: the subgraphs that its options name."""


def graph_of(model: Model, index: int) -> Graph:
    """Return the graph of a subgraph, which must exist."""
    return _graph(model, index, cache(lambda: _callees(model)))


def model_graph(model: Model) -> ModelGraph:
    """Return the graphs of a model; nothing is read yet."""
    return ModelGraph(model.source.name, model, lambda: _graphs(model))


def _graphs(model: Model) -> tuple[Graph, ...]:
    """Return the graphs of all subgraphs. Raises ModelFormatError.

    A subgraph that is in many places of the file is charged for each of them: each takes its time.
    """
    tables = model.subgraph_tables
    repeated = len(tables) - len(np.unique(tables.at))
    model.wire.budget.charge("subgraphs in several places", SUBGRAPH_BYTES * repeated)
    callees = cache(lambda: _callees(model))
    return tuple(_graph(model, index, callees) for index in range(len(tables)))


def _graph(model: Model, index: int, callees: Callable[[], Callees]) -> Graph:
    operators, tensors = model.operator_columns.one_by_one(), model.tensor_columns
    own, values = operators.rows_of(index), tensors.rows_of(index)
    rows = slice(own.start, own.stop)
    inputs, outputs = (model.subgraph_tables.vectors(name).row(index) for name in ("inputs", "outputs"))
    place = f"subgraphs[{index}]"
    return Graph(
        index,
        Operators(
            operators,
            rows,
            model.schema,
            lambda: model.operator_codes,
            lambda: model.code_names(index),
            lambda: model.output_names(index),
        ),
        Values(tensors, slice(values.start, values.stop), model.schema, lambda: model.buffers, place),
        inputs.astype(np.int64),
        outputs.astype(np.int64),
        lambda: _slots(operators.inputs.take(rows)),
        lambda: _slots(operators.outputs.take(rows)),
        lambda: callees().get(index, {}),
        model.subgraph_tables.take(slice(index, index + 1)),
        len(own) / max(len(operators.tables), 1),
    )


def _slots(vectors: Vectors) -> Slots:
    return Slots(vectors.flat().astype(np.int64), vectors.splits())


def _callees(model: Model) -> Callees:
    """Return what If, While, CallOnce, composites and the like name. Raises ModelFormatError."""
    found: Callees = {}
    splits = model.operator_columns.splits
    for rows, called in _named(model):
        owners = np.searchsorted(splits, rows, "right") - 1
        operators = rows - splits[owners]
        for owner, operator, index in zip(owners.tolist(), operators.tolist(), called.tolist(), strict=True):
            found.setdefault(owner, {}).setdefault(operator, []).append(index)
    return found


def _named(model: Model) -> Iterator[tuple[Indices, Indices]]:
    for indices in model_indices(model, "subgraph"):
        operators = indices.level.rows_of("Operator")
        if operators is not None:  # a signature names a subgraph too
            yield operators[indices.rows], indices.values
