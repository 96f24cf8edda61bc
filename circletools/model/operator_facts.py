"""What the operators of a subgraph read and make: read once, for whoever plans, splits, compares or draws them.

    facts = OperatorFacts(model, 0)
    facts.code_names[3]                 # "ADD"
    operators, tensors = facts.inputs   # who reads what
    facts.graph.successors[3]           # the operators that read what operator 3 makes

Nothing is read before it is asked for, and each fact once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.budget import SUBGRAPH_BYTES
from circletools.flatbuf.columns import Vectors
from circletools.model.graph import Indices, OperatorGraph, graph_from_edges
from circletools.model.model import Model
from circletools.model.sizes import least_bytes

_CONTROL_FLOW = ("IF", "WHILE", "CALL_ONCE")
_HELD = ("RESOURCE", "VARIANT")
NAMING = {"VAR_HANDLE": "VarHandleOptions", "HASHTABLE": "HashtableOptions"}
"""Operators that name what the runtime holds, with the options that have the name."""
_BY_NAME = ("READ_VARIABLE", "ASSIGN_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE")
_OTHER_EACH_TIME = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "CUSTOM", "DELEGATE")


class Uses(NamedTuple):
    """Operator and tensor of each input or output slot that is not left out, slots in order."""

    operators: Indices
    tensors: Indices


@dataclass(frozen=True, slots=True)
class Slots:
    """The tensor of each slot of all operators, -1 where it is left out; `splits[i]` is where operator i begins."""

    tensors: Indices
    splits: Indices

    def of(self, operator: int) -> list[int]:
        """Return the tensors of one operator."""
        return list(self.tensors[self.splits[operator] : self.splits[operator + 1]].tolist())


class OperatorFacts:
    """The operators of one subgraph, 0..len-1, and its tensors, 0..tensor_count-1.

    A tensor index that is out of range stays in `inputs` and `outputs`; what needs it raises ModelFormatError.
    """

    def __init__(self, model: Model, subgraph: int) -> None:
        """Look at a subgraph, which must exist."""
        self.model: Model = model
        self.subgraph: int = subgraph
        operators = model.operator_columns.one_by_one().rows_of(subgraph)
        tensors = model.tensor_columns.rows_of(subgraph)
        self.rows: slice[int, int, None] = slice(operators.start, operators.stop)
        self.tensor_rows: slice[int, int, None] = slice(tensors.start, tensors.stop)
        self.tensor_count: int = len(tensors)

    def __len__(self) -> int:
        """Return the number of operators."""
        return int(self.rows.stop - self.rows.start)

    def place(self, operator: int | None = None) -> str:
        """Return the path of the subgraph, or of one of its operators."""
        return f"subgraphs[{self.subgraph}]" + ("" if operator is None else f".operators[{operator}]")

    @cached_property
    def code_names(self) -> list[str]:
        """The operator code name of each operator."""
        return self.model.code_names(self.subgraph)

    @cached_property
    def tensor_names(self) -> list[bytes]:
        """The name of each tensor."""
        return self.model.tensor_columns.names[self.tensor_rows]

    @cached_property
    def input_slots(self) -> Slots:
        """The tensor of each input slot."""
        return self._slots(self.model.operator_columns.inputs)

    @cached_property
    def output_slots(self) -> Slots:
        """The tensor of each output slot."""
        return self._slots(self.model.operator_columns.outputs)

    @cached_property
    def inputs(self) -> Uses:
        """Who reads which tensor; an operator may read a tensor twice."""
        return _uses(self.input_slots)

    @cached_property
    def outputs(self) -> Uses:
        """Who makes which tensor."""
        return _uses(self.output_slots)

    def _slots(self, vectors: Vectors) -> Slots:
        rows = vectors.take(self.rows)
        return Slots(rows.flat().astype(np.int64), rows.splits())

    def check_tensors(self) -> None:
        """Raise ModelFormatError for an operator whose tensor does not exist."""
        for operators, tensors in (self.outputs, self.inputs):
            beyond = np.flatnonzero(tensors >= self.tensor_count)
            if beyond.size:
                message = f"tensor {tensors[beyond[0]]} does not exist; there are {self.tensor_count}"
                raise ModelFormatError(message, location=self.place(int(operators[beyond[0]])))

    @cached_property
    def producers(self) -> Indices:
        """The operator that makes each tensor, -1 where none does; of several the last. Raises ModelFormatError."""
        self.check_tensors()
        producers = np.full(self.tensor_count, -1, np.int64)
        producers[self.outputs.tensors] = self.outputs.operators
        return producers

    @cached_property
    def reads(self) -> Uses:
        """Who reads which tensor, no pair twice, tensors ascending. Raises ModelFormatError."""
        self.check_tensors()
        pairs = np.unique(np.stack([self.inputs.tensors, self.inputs.operators], axis=1), axis=0)
        return Uses(pairs[:, 1], pairs[:, 0])

    @cached_property
    def least_bytes(self) -> NDArray[np.float64]:
        """The bytes of each tensor, an open dimension counting as 1 and a type of unknown size as nothing."""
        return least_bytes(self.model.tensor_columns, self.tensor_rows, self.model.schema.enums["TensorType"])

    @cached_property
    def operand_bytes(self) -> NDArray[np.float64]:
        """The bytes of all inputs and outputs of each operator, as `least_bytes` has them."""
        found = np.zeros(len(self), np.float64)
        for operators, tensors in (self.inputs, self.outputs):
            there = tensors < self.tensor_count
            found += np.bincount(operators[there], self.least_bytes[tensors[there]], len(self))
        return found

    @cached_property
    def is_held(self) -> NDArray[np.bool_]:
        """Whether each tensor has no values of its own, but names what the runtime holds.

        By its type (RESOURCE, VARIANT), or because operators take it for that: LiteRT reads INT32 there too.
        """
        types = self.model.schema.enums["TensorType"]
        named = [number for number, name in types.items() if name in _HELD]
        held: NDArray[np.bool_] = np.isin(self.model.tensor_columns.types[self.tensor_rows], named)
        if not {*NAMING, *_BY_NAME}.isdisjoint(self.code_names):
            self.check_tensors()
            for operator, code in enumerate(self.code_names):
                made = self.output_slots.of(operator) if code in NAMING else []
                taken = self.input_slots.of(operator)[:1] if code in _BY_NAME else []
                held[[tensor for tensor in (*made, *taken) if tensor >= 0]] = True
        return held

    @cached_property
    def is_variable(self) -> NDArray[np.bool_]:
        """Whether each tensor keeps its value from run to run."""
        variable: NDArray[np.bool_] = self.model.tensor_columns.variable[self.tensor_rows] != 0
        return variable

    @cached_property
    def has_data(self) -> NDArray[np.bool_]:
        """Whether each tensor has data in the file and is no variable: then LiteRT takes it for a constant.

        Raises ModelFormatError for a buffer that does not exist.
        """
        columns, buffers = self.model.tensor_columns, self.model.buffers
        indices: Indices = columns.buffers[self.tensor_rows].astype(np.int64)
        if not len(buffers) and not indices.any():
            return np.zeros(indices.shape, np.bool_)  # buffer 0 is the empty one, whether it is there or not
        if indices.size and int(indices.max()) >= len(buffers):
            raise ModelFormatError(f"buffer {indices.max()} does not exist", location=self.place())
        constant: NDArray[np.bool_] = buffers.filled[indices] & ~self.is_variable
        return constant

    @cached_property
    def graph(self) -> OperatorGraph:
        """Who feeds whom.

        Operators with side effects (those that touch a resource or call a subgraph) also keep their order, as in
        LiteRT (`Subgraph::OpMightHaveSideEffect`): each is fed by the one before it. Raises ModelFormatError for a
        tensor that does not exist or has two producers, and for a cycle.
        """
        makers, made = self.outputs
        twice = np.flatnonzero(self.producers[made] != makers)
        if twice.size:
            place = f"{self.place()}.tensors[{made[twice[0]]}]"
            raise ModelFormatError("two operators produce the tensor", location=place)
        sources = self.producers[self.inputs.tensors]
        fed = sources >= 0
        effects = self._with_side_effects
        try:
            graph = graph_from_edges(
                len(self),
                np.concatenate([sources[fed], effects[:-1]]),
                np.concatenate([self.inputs.operators[fed], effects[1:]]),
            )
        except ModelFormatError as error:
            raise ModelFormatError(error.message, location=f"{self.place()}.{error.location}") from error
        share = len(self) / max(len(self.model.operator_columns.code_indices), 1)
        return replace(graph, constants=self._of_constants(graph), share=share)

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """The operators that depend on constants only (`OperatorGraph.constants`), none where there is no graph."""
        try:
            return self.graph.constants
        except ModelFormatError:
            return ()

    def _of_constants(self, graph: OperatorGraph) -> tuple[int, ...]:
        """Return the operators that depend on constants only and have readers, such as DEQUANTIZE of weights.

        What a runtime does once, before it runs anything. An output of the subgraph is work, and so is what has side
        effects, is custom or gives other numbers each time.
        """
        try:
            fixed = self.has_data & (self.producers < 0)
        except ModelFormatError:  # of a buffer that does not exist nothing is known
            return ()
        view = self.model.subgraphs[self.subgraph]
        inputs, outputs = (np.array(row.tolist(), np.int64) for row in (view.inputs, view.outputs))
        fixed[inputs[(inputs >= 0) & (inputs < self.tensor_count)]] = False
        readers, read = self.inputs
        able = np.zeros(len(self), np.bool_)
        able[readers] = True
        able[readers[~fixed[read] & (self.producers[read] < 0)]] = False
        able[self._with_side_effects] = False
        able[self.outputs.operators[np.isin(self.outputs.tensors, outputs)]] = False
        if all(graph.predecessors[operator] for operator in np.flatnonzero(able).tolist()):
            return ()
        found: set[int] = set()
        for operator in graph.order:
            ready = able[operator] and found.issuperset(graph.predecessors[operator])
            if ready and graph.successors[operator] and not self.code_names[operator].startswith(_OTHER_EACH_TIME):
                found.add(operator)
        return tuple(sorted(found))

    @cached_property
    def _with_side_effects(self) -> Indices:
        resource = self.model.schema.enum_value("TensorType", "RESOURCE")
        holds = self.model.tensor_columns.types[self.tensor_rows] == resource
        calling = [index for index, name in enumerate(self.code_names) if name in _CONTROL_FLOW]
        touching = [operators[holds[tensors]] for operators, tensors in (self.outputs, self.inputs)]
        return np.unique(np.concatenate([np.array(calling, np.int64), *touching]))


def _uses(slots: Slots) -> Uses:
    operators = np.repeat(np.arange(len(slots.splits) - 1), np.diff(slots.splits))
    present = slots.tensors >= 0
    return Uses(operators[present], slots.tensors[present])


def facts_of(model: Model) -> tuple[OperatorFacts, ...]:
    """Return the facts of every subgraph. One in many places is charged for each of them: each takes its time."""
    tables = model.subgraph_tables
    repeated = len(tables) - len(np.unique(tables.at))
    model.wire.budget.charge("subgraphs in several places", SUBGRAPH_BYTES * repeated)
    return tuple(OperatorFacts(model, subgraph) for subgraph in range(len(model.subgraphs)))


def operator_graph(model: Model, subgraph: int) -> OperatorGraph:
    """Return who feeds whom in a subgraph. Raises ModelFormatError; see `OperatorFacts.graph`."""
    return OperatorFacts(model, subgraph).graph
