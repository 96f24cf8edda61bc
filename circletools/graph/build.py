"""Build the graphs of a model; only this module reads them from the file."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from circletools.flatbuf.columns import Vectors
from circletools.graph.algorithms import Indices
from circletools.graph.columns import Operators, Slots, Values
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.model import Model


def graph_of(model: Model, index: int) -> Graph:
    """Return the graph of a subgraph. Raises IndexError if there is none."""
    return Graph(model, model.subgraphs[index].index)


def model_graph(model: Model | ModelGraph) -> ModelGraph:
    """Return the graphs of a model, the same ones each time; nothing is read yet."""
    if isinstance(model, ModelGraph):
        return model
    if model.graph is None:
        model.graph = ModelGraph(model)
    found: ModelGraph = model.graph
    return found


def joined_graph(model: Model) -> Graph:
    """Return all subgraphs as one graph; its operators and values are the rows of the model's columns.

    Omitted inputs, outputs and slots stay -1. Raises ModelFormatError.
    """
    return _Joined(model, -1) if len(model.subgraph_tables) != 1 else model_graph(model).graphs[0]


class _Joined(Graph):
    """All subgraphs as one graph; the values of each subgraph follow those of the subgraph before it."""

    @cached_property
    def operators(self) -> Operators:
        """The operators of all subgraphs."""
        every = slice(0, len(self.model.operator_columns.tables))
        return Operators(self.model, every, range(len(self.model.subgraph_tables)))

    @cached_property
    def values(self) -> Values:
        """The values of all subgraphs."""
        return Values(self.model, slice(0, len(self.model.tensor_columns.tables)), "model")

    @cached_property
    def inputs(self) -> Indices:
        """The input values of all subgraphs."""
        return self._moved(self.model.subgraph_tables.vectors("inputs")).values

    @cached_property
    def outputs(self) -> Indices:
        """The output values of all subgraphs."""
        return self._moved(self.model.subgraph_tables.vectors("outputs")).values

    def _slots(self, vectors: Vectors) -> Slots:
        return self._moved(vectors, np.diff(self.model.operator_columns.splits))

    def _moved(self, vectors: Vectors, rows: Indices | int = 1) -> Slots:
        """Return vectors of tensor indices, `rows` from each subgraph, as slots of the joined graph."""
        firsts = np.repeat(np.repeat(self.model.tensor_columns.splits[:-1], rows), vectors.count)
        values = vectors.flat().astype(np.int64)
        return Slots(np.where(values < 0, values, values + firsts), vectors.splits())
