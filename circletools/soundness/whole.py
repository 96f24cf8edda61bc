"""All subgraphs of a model as one graph, with facts for findings: paths, first producers, and presence of data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circletools.flatbuf.columns import distinct
from circletools.flatbuf.schema import schema_document
from circletools.graph.algorithms import Indices
from circletools.graph.build import joined_graph, model_graph
from circletools.graph.columns import Mask, Slots
from circletools.graph.graph import Graph
from circletools.model.columns import OperatorColumns, TensorColumns
from circletools.model.model import Model
from circletools.model.verify import place_of


@dataclass(frozen=True, eq=False)
class Whole:
    """The graph of all subgraphs of a model whose indices are in range (`check_indices`)."""

    model: Model

    @cached_property
    def graph(self) -> Graph:
        """The graph; its operators and values have the same numbers as the rows of the columns."""
        return joined_graph(self.model)

    @property
    def tensors(self) -> TensorColumns:
        """The tensors of all subgraphs."""
        return self.model.tensor_columns

    @property
    def operators(self) -> OperatorColumns:
        """The operators of all subgraphs."""
        return self.model.operator_columns

    @cached_property
    def first_producer(self) -> Indices:
        """The first operator that produces each tensor, or -1 if there is none."""
        makers, made = self.graph.definitions
        producers = np.full(len(self.graph.values), -1, np.int64)
        producers[made[::-1]] = makers[::-1]
        return producers

    @cached_property
    def is_input(self) -> Mask:
        """For each tensor, whether it is an input of its subgraph."""
        is_input = np.zeros(len(self.graph.values), np.bool_)
        is_input[self.graph.inputs[self.graph.inputs < len(is_input)]] = True
        return is_input

    @cached_property
    def is_kept(self) -> Mask:
        """For each operator, whether its kernel keeps the type that the file gives its output; false for -1.

        Such kernels run with an output of any type, and do not set it (`keeping` in schema/litert.json).
        """
        keeping = schema_document("litert")["keeping"].split()
        keeps = np.array([code.name in keeping for code in self.model.operator_codes], np.bool_)
        return np.append(keeps[self.operators.code_indices], False)

    @cached_property
    def is_retyped(self) -> Mask:
        """For each tensor, whether its producer is SHAPE, or its first input has another type or is omitted."""
        makers, types = self.first_producer, self.tensors.types
        sources = np.append(first_slots(self.graph, np.arange(len(self.operators.tables)), 1)[:, 0], -1)[makers]
        by_option = np.append(self.graph.operators.is_code("SHAPE"), False)[makers]  # shape.cc
        return np.append((makers >= 0) & ((sources < 0) | (types[sources] != types) | by_option), False)

    @cached_property
    def is_rewritten(self) -> Mask:
        """For each tensor, whether LiteRT may change its type (see the function `is_rewritten`); false for -1."""
        kept = self.is_kept[np.append(self.first_producer, -1)]
        found: Mask = np.append(self.is_passed, False) | (self.is_retyped & ~kept)
        return found

    @cached_property
    def is_passed(self) -> Mask:
        """For each tensor, whether it is an input of a subgraph that an operator calls."""
        found, splits = np.zeros(len(self.graph.values), np.bool_), self.tensors.splits
        callees = model_graph(self.model).callees.values() if len(self.model.subgraphs) > 1 else ()
        for index in set().union(*callees):
            found[splits[index] : splits[index + 1]] = True
        return found & self.is_input

    @cached_property
    def has_data(self) -> Mask:
        """For each tensor, whether it has data in the file or in an external buffer."""
        values, buffers = self.graph.values, self.model.buffers
        if not len(buffers):
            return np.zeros(len(values), np.bool_)
        found: Mask = buffers.filled[values.buffers] & (values.buffers > 0)
        if "external_buffer" in values.tables.type.by_name:
            known = self.model.root.children("external_buffers", self.model.schema)[0].scalars("id")
            found |= np.isin(values.tables.scalars("external_buffer"), known[known > 0])
        return found

    def operator(self, row: int) -> str:
        """Return the path of an operator."""
        return place_of("operators", self.operators.splits, row)

    def tensor(self, row: int) -> str:
        """Return the path of a tensor."""
        return place_of("tensors", self.tensors.splits, row)

    def input_(self, at: int) -> str:
        """Return the path of an input of a subgraph."""
        return self.tensor(int(self.graph.inputs[at]))

    def index_of(self, row: int) -> int:
        """Return the index of an operator in its subgraph."""
        return row - int(self.operators.splits[np.searchsorted(self.operators.splits, row, "right") - 1])


def lacking(slots: Slots) -> Indices:
    """Return the operators that have an omitted slot, in ascending order."""
    return distinct(np.searchsorted(slots.splits, np.flatnonzero(slots.values < 0), "right") - 1)


def first_slots(graph: Graph, operators: Indices, count: int) -> Indices:
    """Return the values in the first `count` input slots and the first output slot of operators, or -1 for none."""
    found = np.full((len(operators), count + 1), -1, np.int64)
    columns = [(graph.operands, slot) for slot in range(count)] + [(graph.results, 0)]
    for at, (slots, slot) in enumerate(columns):
        places = slots.splits[operators] + slot
        there = places < slots.splits[operators + 1]
        found[there, at] = np.maximum(slots.values[places[there]], -1)
    return found


def is_rewritten(whole: Whole, tensors: Indices, kept: bool = False) -> Mask:
    """Return the tensors whose type LiteRT may change, since many kernels set the type of their output.

    These are the outputs of operators whose first input has another type, and the inputs of subgraphs that operators
    call, which get the types of the operator's inputs. With `kept`, the outputs of the kernels that keep the type in
    the file are included.
    """
    found: Mask = (whole.is_rewritten | whole.is_retyped if kept else whole.is_rewritten)[tensors]
    return found
