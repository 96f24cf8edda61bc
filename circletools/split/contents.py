"""Digests of what operators compute, independent of indices, names and positions in the file.

The digest of an operator covers its code, its options, the forms of its outputs and the digests of its inputs, and
where it uses what is kept from run to run, that of the operator that used it before; that
of a tensor covers the operator that produces it, or its data. Two models whose operators have the same digests have
the same operators, connected alike. A tensor's type, shape and quantization are its *form*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from circletools.edit.editable import check_editable
from circletools.errors import ModelFormatError
from circletools.flatbuf.digest import Digests, digest
from circletools.flatbuf.roles import keys_with_role
from circletools.flatbuf.schema import Field
from circletools.graph.build import graph_of
from circletools.model.external import external_data
from circletools.model.indices import model_indices
from circletools.model.model import Model
from circletools.split.state import state_of
from circletools.split.uses import UsesReader

_LEFT_OUT = {
    *keys_with_role("tensor", "buffer", "operator_code", "subgraph"),
    ("Tensor", "name"),
    *(("Operator", name) for name in ("large_custom_options_offset", "large_custom_options_size")),
}

_number = Struct("<q").pack
_MAX_DEPTH = 64  # of calls in calls
_MAX_NAMED = 4  # tensors that name tensors; scales name none


@dataclass(frozen=True, slots=True)
class Flow:
    """The digests of a subgraph's operators and tensors, by index; operators in the order they run.

    `reads` has the inputs of each operator, without constants.
    """

    operators: Mapping[int, bytes]
    reads: Mapping[int, tuple[bytes, ...]]
    tensors: Mapping[int, bytes]


class Contents:
    """The digests of one model. Raises what `check_editable` does, ModelFormatError for operators in a circle."""

    def __init__(self, model: Model) -> None:
        self.model = model
        check_editable(model)
        self.digests = Digests(model.wire, model.schema, _LEFT_OUT, self._instead)
        self.codes = [
            digest(_number(code.code), code.custom_code.encode("utf-8", "surrogateescape"), _number(code.version))
            for code in model.operator_codes
        ]
        self.external = {
            (data.kind, row): (start, start + size)
            for data in external_data(model)
            for row, start, size in zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True)
        }
        self.programs = {
            model.operator_columns.tables.vectors("custom_options").row(row).tobytes(): place
            for (kind, row), place in self.external.items()
            if kind == "bytecode"
        }
        self.uses = UsesReader(model)
        self.named = _named_by_tensors(model)
        self.data: dict[int, bytes] = {}
        self.subgraphs: dict[int, bytes] = {}
        self.depth = 0

    def form(self, subgraph: int, tensor: int, deep: int = _MAX_NAMED) -> bytes:
        """Return the digest of a tensor's declaration: all but its name and its data.

        It covers the tensors that its quantization names, with their data, to a depth of `deep`.
        """
        first = int(self.model.tensor_columns.splits[subgraph])
        row = first + tensor
        own = self.digests.table("Tensor", int(self.model.tensor_columns.tables.at[row]))
        if row not in self.named or not deep:
            return own

        def whole(other: int) -> bytes:
            data = self._data(int(self.model.tensor_columns.buffers[first + other]))
            return digest(self.form(subgraph, other, deep - 1), data)

        return digest(own, *(b"" if other < 0 else whole(other) for other in self.named[row]))

    def flow(self, subgraph: int, given: Mapping[int, bytes]) -> Flow:
        """Return the digests of a subgraph; `given` has those of its inputs, by tensor."""
        model, view = self.model, self.model.subgraphs[subgraph]
        first = int(model.operator_columns.splits[subgraph])
        low = int(model.tensor_columns.splits[subgraph])
        positions = model.operator_columns.tables.at[first:].tolist()
        made, constants = dict(given), {-1: b""}
        names: dict[int, bytes] = {}
        reads: dict[int, tuple[bytes, ...]] = {}

        def read(tensor: int) -> bytes:
            if tensor in made:
                return made[tensor]
            if tensor not in constants:
                buffer = int(model.tensor_columns.buffers[low + tensor])
                constants[tensor] = digest(b"data", self.form(subgraph, tensor), self._data(buffer))
            return constants[tensor]

        operators, state = view.operators, state_of(self.uses, subgraph)
        used = defaultdict[int, list[str]](list)
        for kept, users in state.users.items():
            for user in users:
                used[user].append(kept)
        before: dict[str, bytes] = {}  # who used, or first set, what is kept: what the next finds there depends on it
        set_before: dict[str, bytes] = {}
        for index in graph_of(model, subgraph).dag.order:
            operator = operators[index]
            reads[index] = tuple(made[tensor] for tensor in operator.inputs if tensor in made)
            name = names[index] = digest(
                self.codes[operator.code.index],
                self.digests.table("Operator", positions[index]),
                model.wire.memory[slice(*self.external.get(("large_custom_options", first + index), (0, 0)))],
                _number(len(operator.inputs)),
                *map(read, operator.inputs),
                *(self.form(subgraph, tensor) if tensor >= 0 else b"" for tensor in operator.outputs),
                *map(self._subgraph, self.uses.calls.by_row.get(first + index, ())),
                *sorted(before[kept] for kept in used[index] if kept in before),
                *sorted(set_before[kept] for kept in state.giving.get(index, ()) if kept in set_before),
            )
            before |= dict.fromkeys((*used[index], *state.giving.get(index, ())), name)
            set_before |= dict.fromkeys(state.giving.get(index, ()), name)
            for slot, tensor in enumerate(operator.outputs):
                if tensor >= 0:
                    made[tensor] = digest(name, _number(slot))
        for tensor in view.outputs.tolist():
            read(tensor)
        return Flow(names, reads, constants | made)

    def inputs(self, subgraph: int) -> dict[int, bytes]:
        """Return the digests of the inputs of a subgraph, by tensor."""
        return {
            tensor: digest(b"input", _number(slot), self.form(subgraph, tensor))
            for slot, tensor in enumerate(self.model.subgraphs[subgraph].inputs.tolist())
        }

    def _data(self, buffer: int) -> bytes:
        if buffer not in self.data:
            self.data[buffer] = digest(self.model.buffers[buffer].data if buffer < len(self.model.buffers) else b"")
        return self.data[buffer]

    def _instead(self, table: str, item: Field, value: bytes) -> bytes | None:
        """Return the digest that replaces the position of a compiled program."""
        if table == "Operator" and item.name == "custom_options" and value in self.programs:
            start, end = self.programs[value]
            return digest(self.model.wire.memory[start:end])
        return None

    def _subgraph(self, index: int) -> bytes:
        """Return the digest of a subgraph that is called; recursive calls get a fixed one."""
        if not 0 <= index < len(self.model.subgraphs):
            return bytes(16)
        if index not in self.subgraphs:
            if self.depth == _MAX_DEPTH:
                raise ModelFormatError("subgraphs call each other too deep", location=f"subgraphs[{index}]")
            self.depth += 1
            self.subgraphs[index] = b"calls itself...."
            flow = self.flow(index, self.inputs(index))
            outputs = [flow.tensors[tensor] for tensor in self.model.subgraphs[index].outputs.tolist()]
            self.subgraphs[index] = digest(*sorted(flow.operators.values()), *outputs)
            self.depth -= 1
        return self.subgraphs[index]


def _named_by_tensors(model: Model) -> dict[int, list[int]]:
    """Return the tensors that tensors name, by their row in the columns, in the order of the fields."""
    named: dict[int, list[int]] = {}
    for indices in model_indices(model, "tensor"):
        tensors = indices.level.rows_of("Tensor")
        if tensors is not None:
            for row, other in zip(tensors[indices.rows].tolist(), indices.values.tolist(), strict=True):
                named.setdefault(row, []).append(other)
    return named
