"""The graph of a subgraph as columns: operators, values, producers and readers.

    graph = graph_of(model, 0)
    graph.operators.code_names[3]       # "ADD"
    graph.producer[5]                   # the operator that produces value 5, or -1
    graph.readers[5]                    # the operators that read it
    graph.dag.successors[3]             # the operators that read outputs of operator 3

A value is a tensor in the file. Everything is read or computed on first use, and only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Vectors, distinct, grouped
from circletools.graph.algorithms import Dag, Indices, dag_from_edges, distinct_edges, reachable
from circletools.graph.columns import Mask, Operators, Slots, Uses, Values
from circletools.model.model import Model
from circletools.model.views import text

_CONTROL_FLOW = ("IF", "WHILE", "CALL_ONCE")
NAMING = {"VAR_HANDLE": "VarHandleOptions", "HASHTABLE": "HashtableOptions"}
"""Operators that name a resource of the runtime, each with the options table that contains the name."""
_BY_NAME = ("READ_VARIABLE", "ASSIGN_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE")
_OTHER_EACH_TIME = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "CUSTOM", "DELEGATE")


@dataclass(frozen=True, eq=False)
class Graph:
    """The operators of subgraph `index` of a model, 0..len-1, and its values, 0..len(values)-1.

    `inputs` and `outputs` are the indices of the graph's input and output values, as in the file: they may be -1 or
    out of range, as may the values in slots; methods that need existing values raise ModelFormatError. `callees`
    lists the subgraphs that each operator's options name, in the order of the option fields; -1 means none.
    """

    model: Model
    index: int

    def __post_init__(self) -> None:
        """Read the columns that make up the graph. Raises ModelFormatError."""
        _ = self.operators, self.values, self.inputs, self.outputs

    @cached_property
    def operators(self) -> Operators:
        """The operators of the graph."""
        return Operators(self.model, self.model.operator_columns.slice_of(self.index), (self.index,))

    @cached_property
    def values(self) -> Values:
        """The values of the graph."""
        return Values(self.model, self.model.tensor_columns.slice_of(self.index), self.place())

    @cached_property
    def inputs(self) -> Indices:
        """The graph's input values."""
        return self.model.subgraph_tables.vectors("inputs").row(self.index).astype(np.int64)

    @cached_property
    def outputs(self) -> Indices:
        """The graph's output values."""
        return self.model.subgraph_tables.vectors("outputs").row(self.index).astype(np.int64)

    @property
    def share(self) -> float:
        """The graph's fraction of the model's operators."""
        return len(self) / max(len(self.model.operator_columns.tables), 1)

    def __len__(self) -> int:
        return len(self.operators)

    def place(self, operator: int | None = None) -> str:
        """Return the path of the subgraph, or of one of its operators."""
        return f"subgraphs[{self.index}]" + ("" if operator is None else f".operators[{operator}]")

    @property
    def name(self) -> str:
        """The name of the subgraph, often empty."""
        return text(self.model.subgraph_tables.take(slice(self.index, self.index + 1)).strings("name")[0])

    @cached_property
    def operands(self) -> Slots:
        """The value in each input slot."""
        return self._slots(self.model.operator_columns.inputs)

    @cached_property
    def results(self) -> Slots:
        """The value in each output slot."""
        return self._slots(self.model.operator_columns.outputs)

    def _slots(self, vectors: Vectors) -> Slots:
        own = vectors.take(self.operators.rows)
        return Slots(own.flat().astype(np.int64), own.splits())

    @cached_property
    def callees(self) -> Mapping[int, Sequence[int]]:
        """The subgraphs that operators refer to, by operator. Raises ModelFormatError for a broken structure."""
        return self.model.callees.get(self.index, {})

    def called(self, operators: Iterable[int]) -> set[int]:
        """Return the subgraphs that these operators call."""
        return {index for operator in operators for index in self.callees.get(operator, ()) if index >= 0}

    @cached_property
    def uses(self) -> Uses:
        """Pairs (reader, value); an operator may read a value twice."""
        return self.operands.uses()

    @cached_property
    def definitions(self) -> Uses:
        """Pairs (producer, value)."""
        return self.results.uses()

    def check_values(self) -> None:
        """Raise ModelFormatError if an operator's tensor does not exist."""
        for operators, values in (self.definitions, self.uses):
            beyond = np.flatnonzero(values >= len(self.values))
            if beyond.size:
                message = f"tensor {values[beyond[0]]} does not exist; the count is {len(self.values)}"
                raise ModelFormatError(message, location=self.place(int(operators[beyond[0]])))

    @cached_property
    def producer(self) -> Indices:
        """The last producer of each value, or -1 if there is none. Raises ModelFormatError."""
        self.check_values()
        producer = np.full(len(self.values), -1, np.int64)
        producer[self.definitions.values] = self.definitions.operators
        return producer

    @cached_property
    def reads(self) -> Uses:
        """Distinct pairs (reader, value) in ascending order of value. Raises ModelFormatError."""
        self.check_values()
        values, operators = distinct_edges(len(self), self.uses.values, self.uses.operators)
        return Uses(operators, values)

    @cached_property
    def readers(self) -> list[list[int]]:
        """The operators that read each value, in ascending order, without duplicates. Raises ModelFormatError."""
        return grouped(len(self.values), self.reads.values, self.reads.operators.tolist())

    @cached_property
    def operand_bytes(self) -> NDArray[np.float64]:
        """The total size of each operator's inputs and outputs in bytes, according to `values.bytes`."""
        found = np.zeros(len(self), np.float64)
        for operators, values in (self.uses, self.definitions):
            there = values < len(self.values)
            found += np.bincount(operators[there], self.values.bytes[values[there]], len(self))
        return found

    @cached_property
    def first_results(self) -> Indices:
        """The value in the first output slot of each operator, or -1 if the operator has no output slot."""
        splits, values = self.results.splits, self.results.values
        first = np.full(len(self), -1, np.int64)
        some = splits[1:] > splits[:-1]
        first[some] = values[splits[:-1][some]]
        return first

    @cached_property
    def is_handle(self) -> Mask:
        """Whether each value is a handle of a resource in the runtime rather than data.

        A handle is recognized by its type (RESOURCE, VARIANT) or by the operators that use it, since LiteRT also
        accepts INT32 handles. Raises ModelFormatError.
        """
        held = self.values.is_type("RESOURCE", "VARIANT")
        if self.operators.is_code(*NAMING, *_BY_NAME).any():
            self.check_values()
            for operator, code in enumerate(self.operators.code_names):
                made = self.results.of(operator) if code in NAMING else []
                taken = self.operands.of(operator)[:1] if code in _BY_NAME else []
                held[[value for value in (*made, *taken) if value >= 0]] = True
        return held

    @cached_property
    def effects(self) -> Indices:
        """The operators with side effects, in order: those that use a resource or call a subgraph.

        These operators keep their order, as in LiteRT (`Subgraph::OpMightHaveSideEffect`).
        """
        holds = self.values.is_type("RESOURCE")
        calling = np.flatnonzero(self.operators.is_code(*_CONTROL_FLOW))
        touching = [operators[holds[values]] for operators, values in (self.definitions, self.uses)]
        return distinct(np.concatenate([calling, *touching]))

    @cached_property
    def dag(self) -> Dag:
        """The order of operators: producers precede readers, and operators with side effects keep their file order.

        Raises ModelFormatError if a tensor does not exist or has two producers, or if there is a cycle.
        """
        sources, targets = self._edges
        try:
            dag = dag_from_edges(len(self), sources, targets)
        except ModelFormatError as error:
            raise ModelFormatError(error.message, location=f"{self.place()}.{error.location}") from error
        return replace(dag, constants=self._folded(dag), share=self.share)

    @cached_property
    def _edges(self) -> Uses:
        """The producer and the reader of each operand, and consecutive operators with side effects; see `dag`."""
        makers, made = self.definitions
        twice = np.flatnonzero(self.producer[made] != makers)
        if twice.size:
            place = f"{self.place()}.tensors[{made[twice[0]]}]"
            raise ModelFormatError("two operators produce the tensor", location=place)
        sources, effects = self.producer[self.uses.values], self.effects
        fed = sources >= 0
        return Uses(
            np.concatenate([sources[fed], effects[:-1]]),
            np.concatenate([self.uses.operators[fed], effects[1:]]),
        )

    @cached_property
    def disorder(self) -> ModelFormatError | None:
        """The error that `dag` raises, if any."""
        try:
            sources, targets = self._edges
            if (sources >= targets).any():  # otherwise, file order is valid
                _ = self.dag
        except ModelFormatError as error:
            return error
        return None

    @property
    def folded(self) -> tuple[int, ...]:
        """The operators that depend only on constants (`Dag.constants`); empty if the graph has no valid order."""
        return () if self.disorder else self.dag.constants

    def _folded(self, dag: Dag) -> tuple[int, ...]:
        """Return the operators that depend only on constants and have readers, such as DEQUANTIZE of weights.

        A runtime runs them once, before all others. Operators that produce graph outputs, have side effects, are
        custom or are not deterministic count as work.
        """
        try:
            fixed: Mask = self.values.is_constant & (self.producer < 0)
        except ModelFormatError:  # nothing is known about a missing buffer
            return ()
        fixed[self.inputs[(self.inputs >= 0) & (self.inputs < len(self.values))]] = False
        readers, read = self.uses
        able = np.zeros(len(self), np.bool_)
        able[readers] = True
        able[readers[~fixed[read] & (self.producer[read] < 0)]] = False
        able[self.effects] = False
        able[self.definitions.operators[np.isin(self.definitions.values, self.outputs)]] = False
        if all(dag.predecessors[operator] for operator in np.flatnonzero(able).tolist()):
            return ()
        found: set[int] = set()
        for operator in dag.order:
            ready = able[operator] and found.issuperset(dag.predecessors[operator])
            name = self.operators.code_names[operator]
            if ready and dag.successors[operator] and not name.startswith(_OTHER_EACH_TIME):
                found.add(operator)
        return tuple(sorted(found))


@dataclass(frozen=True, eq=False)
class ModelGraph:
    """The graphs of the model `source`, one for each subgraph, and the model's other contents."""

    source: Model

    def __len__(self) -> int:
        return len(self.source.subgraph_tables)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.source.source.name

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs; the first is the main one. Raises ModelFormatError."""
        return tuple(Graph(self.source, index) for index in range(len(self)))

    def metadata_value(self, name: str) -> memoryview | None:
        """Return the value of a metadata entry, or None. Raises ModelFormatError."""
        return self.source.metadata_value(name)

    @property
    def entries(self) -> list[int]:
        """The graphs that users of the model call: the main graph, and the graphs of signatures."""
        named = {signature.subgraph for signature in self.source.signatures}
        return [index for index in range(len(self)) if index == 0 or index in named]

    @cached_property
    def callees(self) -> dict[int, set[int]]:
        """The graphs that each graph calls; graphs that call none are omitted. Raises ModelFormatError."""
        return {graph.index: graph.called(graph.callees) for graph in self.graphs if graph.callees}

    def reached(self, graphs: Iterable[int]) -> set[int]:
        """Return these graphs, and all graphs that they call directly or indirectly."""
        return reachable(graphs, self.callees)

    def reaching(self, graphs: Iterable[int]) -> set[int]:
        """Return these graphs, and all graphs that call one of them directly or indirectly."""
        callers: dict[int, list[int]] = {}
        for caller, called in self.callees.items():
            for graph in called:
                callers.setdefault(graph, []).append(caller)
        return reachable(graphs, callers)
