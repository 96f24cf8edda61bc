"""Digests of what operators compute, independent of indices, names and positions in the file.

The digest of an operator covers its code, its options, the forms of its outputs, the digests of its inputs and, if it
uses a resource, the digest of the resource's previous user. The digest of a tensor covers the operator that produces
it, or its data (a Merkle tree). Two models with equal operator digests have the same operators and connections. A
tensor's type, shape and quantization are its *form*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

import numpy as np

from circletools.edit.members import check_editable
from circletools.errors import ModelFormatError
from circletools.flatbuf.digest import Digests, digest
from circletools.flatbuf.schema import Field, keys_with_role
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.resources import Resources
from circletools.model.external import external_ranges
from circletools.model.indices import model_indices
from circletools.model.model import Model

_LEFT_OUT = {
    *keys_with_role("tensor", "buffer", "operator_code", "subgraph"),
    ("Tensor", "name"),
    *(("Operator", name) for name in ("large_custom_options_offset", "large_custom_options_size")),
}

_number = Struct("<q").pack
_MAX_DEPTH = 64  # the maximum nesting depth of calls


@dataclass(frozen=True, slots=True)
class Computed:
    """The digests of a graph's operators and tensors, by index; operators are in execution order.

    `reads` holds the inputs of each operator, except constants.
    """

    operators: Mapping[int, bytes]
    reads: Mapping[int, tuple[bytes, ...]]
    tensors: Mapping[int, bytes]


class ModelDigests:
    """The digests of one model. Raises the errors of `check_editable`, and ModelFormatError for a cycle."""

    def __init__(self, model: Model) -> None:
        """Read everything except the operators and tensors."""
        check_editable(model)
        self.graph: ModelGraph = model_graph(model)
        self.resources = Resources(self.graph)
        self._memory, self._buffers = model.wire.memory, model.buffers
        self._digests = Digests(model.wire, model.schema, _LEFT_OUT, self._instead)
        self._codes = [
            digest(_number(code.code), code.custom_code.encode("utf-8", "surrogateescape"), _number(code.version))
            for code in model.operator_codes
        ]
        self._first: list[int] = model.operator_columns.splits.tolist()
        self._external = external_ranges(model)
        options = model.operator_columns.tables.vectors("custom_options")
        self._programs = {
            options.row(row).tobytes(): place for (kind, row), place in self._external.items() if kind == "bytecode"
        }
        self._charge = model.wire.budget.tally("compiled programs")
        self._named = _named_by_tensors(model)
        self._data: dict[int, bytes] = {}
        self._subgraphs: dict[int, bytes] = {}
        self._depth = 0

    def form(self, index: int, tensor: int) -> bytes:
        """Return the digest of a tensor's declaration: everything but its name and its data.

        The digest covers the tensors in its quantization, with their data.
        """
        at, named = self.graph.graphs[index].values.tables.at, self._named.get((index, tensor), ())
        forms = [self._digests.table("Tensor", int(at[one])) if one >= 0 else b"" for one in (tensor, *named)]
        data = [self._data_of(index, one) if one >= 0 else b"" for one in named]
        return digest(*forms, *data) if named else forms[0]

    def inputs(self, index: int) -> dict[int, bytes]:
        """Return the digests of a graph's inputs, by tensor."""
        return {
            tensor: digest(b"input", _number(slot), self.form(index, tensor))
            for slot, tensor in enumerate(self.graph.graphs[index].inputs.tolist())
        }

    def computed(self, index: int, given: Mapping[int, bytes]) -> Computed:
        """Return the digests of a graph; `given` are the digests of its inputs, by tensor."""
        graph, state = self.graph.graphs[index], self.resources.state(index)
        first, positions = self._first[index], graph.operators.tables.at.tolist()
        made, constants = dict(given), {-1: b""}
        names: dict[int, bytes] = {}
        reads: dict[int, tuple[bytes, ...]] = {}

        def read(tensor: int) -> bytes:
            if tensor in made:
                return made[tensor]
            if tensor not in constants:
                constants[tensor] = digest(b"data", self.form(index, tensor), self._data_of(index, tensor))
            return constants[tensor]

        used = defaultdict[int, list[str]](list)
        for resource, users in state.users.items():
            for user in users:
                used[user].append(resource)
        before: dict[str, bytes] = {}  # the last user of each resource, whose values the next user sees
        setting = defaultdict[int, list[int]](list)
        for operator, some in state.copied.items():
            for user in used.keys() & set(some):
                setting[user].append(operator)
        for operator in graph.dag.order:
            inputs, outputs = graph.operands.of(operator), graph.results.of(operator)
            reads[operator] = tuple(made[tensor] for tensor in inputs if tensor in made)
            name = names[operator] = digest(
                self._codes[int(graph.operators.code_indices[operator])],
                self._digests.table("Operator", positions[operator]),
                self._memory[slice(*self._external.get(("large_custom_options", first + operator), (0, 0)))],
                _number(len(inputs)),
                *map(read, inputs),
                *(self.form(index, tensor) if tensor >= 0 else b"" for tensor in outputs),
                *map(self._called, graph.callees.get(operator, ())),
                *sorted({before[resource] for resource in used[operator] if resource in before}),
                *sorted(names[one] for one in setting[operator] if one in names),
            )
            before |= dict.fromkeys(used[operator], name)
            for slot, tensor in enumerate(outputs):
                if tensor >= 0:
                    made[tensor] = digest(name, _number(slot))
        for tensor in graph.outputs.tolist():
            read(tensor)
        return Computed(names, reads, constants | made)

    def _data_of(self, index: int, tensor: int) -> bytes:
        buffer = int(self.graph.graphs[index].values.buffers[tensor])
        if buffer not in self._data:
            self._data[buffer] = digest(self._buffers[buffer].data if buffer < len(self._buffers) else b"")
        return self._data[buffer]

    def _instead(self, table: str, item: Field, value: bytes) -> bytes | None:
        """Return the digest of a compiled program, to replace its position in the file."""
        if table == "Operator" and item.name == "custom_options" and value in self._programs:
            start, end = self._programs[value]
            self._charge(end - start)
            return digest(self._memory[start:end])
        return None

    def _called(self, index: int) -> bytes:
        """Return the digest of a called subgraph; that of a recursive call is a fixed value."""
        if not 0 <= index < len(self.graph.graphs):
            return bytes(16)
        if index not in self._subgraphs:
            if self._depth == _MAX_DEPTH:
                raise ModelFormatError("calls of subgraphs are nested too deeply", location=f"subgraphs[{index}]")
            self._depth += 1
            self._subgraphs[index] = b"calls itself...."
            found = self.computed(index, self.inputs(index))
            outputs = [found.tensors[tensor] for tensor in self.graph.graphs[index].outputs.tolist()]
            self._subgraphs[index] = digest(*sorted(found.operators.values()), *outputs)
            self._depth -= 1
        return self._subgraphs[index]


def _named_by_tensors(model: Model) -> dict[tuple[int, int], list[int]]:
    """Return the tensors that tensors refer to, by subgraph and tensor, in the order of the fields."""
    named: dict[tuple[int, int], list[int]] = {}
    splits = model.tensor_columns.splits
    for indices in model_indices(model, "tensor"):
        tensors = indices.level.rows_of("Tensor")
        if tensors is not None:
            rows = tensors[indices.rows]
            owners = np.searchsorted(splits, rows, "right") - 1
            keys = zip(owners.tolist(), (rows - splits[owners]).tolist(), strict=True)
            for key, other in zip(keys, indices.values.tolist(), strict=True):
                named.setdefault(key, []).append(other)
    return named
