"""Build the graphs of a model; no other module reads them from the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors
from circletools.flatbuf.roles import load_roles
from circletools.graph.columns import Operators, Slots, Values
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model
from circletools.model.options import OPTION_FIELDS, union_tables


@dataclass(frozen=True, slots=True)
class Called:
    """The subgraphs that options of operators refer to, by subgraph and operator; `patterns` are not executed."""

    by_graph: dict[int, dict[int, list[int]]]
    patterns: frozenset[int]


def graph_of(model: Model, index: int) -> Graph:
    """Return the graph of a subgraph, which must exist."""
    return _graph(model, index, cache(lambda: _called(model)))


def model_graph(model: Model) -> ModelGraph:
    """Return the graphs of a model; nothing is read yet."""
    called = cache(lambda: _called(model))
    return ModelGraph(model.source.name, model, lambda: _graphs(model, called), lambda: called().patterns)


def joined_graph(model: Model) -> Graph:
    """Return all subgraphs as one graph; its operators and values are the rows of the model's columns.

    Omitted inputs, outputs and slots stay -1. Raises ModelFormatError.
    """
    operators, tensors = model.operator_columns, model.tensor_columns
    owners = np.repeat(np.arange(len(model.subgraph_tables)), np.diff(operators.splits))
    every = slice(0, len(operators.tables))

    def read(vectors: Vectors, owners: NDArray[np.int64]) -> Slots:
        firsts = np.repeat(tensors.splits[owners], vectors.count)
        values = vectors.flat().astype(np.int64)
        return Slots(np.where(values < 0, values, values + firsts), vectors.splits())

    ends = (
        read(model.subgraph_tables.vectors(name), np.arange(len(model.subgraph_tables)))
        for name in ("inputs", "outputs")
    )
    inputs, outputs = (slots.values for slots in ends)
    return Graph(
        -1,
        Operators(
            operators,
            every,
            model.schema,
            lambda: model.operator_codes,
            lambda: [name for index in range(len(model.subgraph_tables)) for name in model.code_names(index)],
            lambda: [names for index in range(len(model.subgraph_tables)) for names in model.output_names(index)],
        ),
        Values(tensors, slice(0, len(tensors.tables)), model.schema, lambda: model.buffers, "model"),
        inputs,
        outputs,
        lambda: read(operators.inputs, owners),
        lambda: read(operators.outputs, owners),
        dict,
        model.subgraph_tables,
    )


def _graphs(model: Model, called: Callable[[], Called]) -> tuple[Graph, ...]:
    """Return the graphs of all subgraphs. Raises ModelFormatError."""
    return tuple(_graph(model, index, called) for index in range(len(model.subgraph_tables)))


def _graph(model: Model, index: int, called: Callable[[], Called]) -> Graph:
    operators, tensors = model.operator_columns, model.tensor_columns
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
        lambda: called().by_graph.get(index, {}),
        model.subgraph_tables.take(slice(index, index + 1)),
        len(own) / max(len(operators.tables), 1),
    )


def _slots(vectors: Vectors) -> Slots:
    return Slots(vectors.flat().astype(np.int64), vectors.splits())


def _called(model: Model) -> Called:
    """Return the subgraphs in options of If, While, CallOnce, composites etc. Raises ModelFormatError."""
    found: dict[int, dict[int, list[int]]] = {}
    patterns: set[int] = set()
    columns, roles = model.operator_columns, load_roles()
    for field in OPTION_FIELDS:
        for rows, options in union_tables(columns.tables, field, model.schema):
            owners = np.searchsorted(columns.splits, rows, "right") - 1
            places = list(zip(owners.tolist(), (rows - columns.splits[owners]).tolist(), strict=True))
            for item in options.type.fields:
                role = roles.get((options.type.name, item.name))
                if role is None or role.kind != "subgraph":
                    continue
                for (owner, operator), named in zip(places, options.numbers(item), strict=True):
                    found.setdefault(owner, {}).setdefault(operator, []).extend(named)
                    patterns.update(named if role.pattern else ())
    return Called(found, frozenset(patterns))
