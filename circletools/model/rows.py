"""Rows: the subgraphs, operators, tensors and buffers of a model by index, made when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Vectors
from circletools.model.columns import Indices, ModelColumns
from circletools.model.views import Buffer, Operator, Tensor, text

_Row = TypeVar("_Row")


class Rows(Sequence[_Row]):
    """A sequence whose items are made when asked for."""

    def make(self, index: int) -> _Row:
        """Return the item at an index that is in range."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | Sequence[_Row]:
        """Return an item, or a list of items; raises IndexError."""
        picked = range(len(self))[index]
        return self.make(picked) if isinstance(picked, int) else [self.make(item) for item in picked]


class Subgraphs(Rows["Subgraph"]):
    """The subgraphs of a model; the first is the main one."""

    def __init__(self, model: ModelColumns) -> None:
        self._model = model

    def __len__(self) -> int:
        return len(self._model.subgraph_tables)

    def make(self, index: int) -> Subgraph:
        return Subgraph(self._model, index)


class Subgraph:
    """One subgraph. `operators` and `tensors` are made one by one when indexed; `columns` has those of the model."""

    def __init__(self, model: ModelColumns, index: int) -> None:
        self.index: int
        self.columns: ModelColumns
        self.columns, self.index = model, index
        self._table = model.subgraph_tables.take(slice(index, index + 1))

    @cached_property
    def name(self) -> str:
        """The subgraph's name, often empty."""
        return text(self._table.strings("name")[0])

    @cached_property
    def inputs(self) -> Indices:
        """The tensor indices of the inputs."""
        return self._table.vectors("inputs").row(0)

    @cached_property
    def outputs(self) -> Indices:
        """The tensor indices of the outputs; a tensor may stand in several slots."""
        return self._table.vectors("outputs").row(0)

    @cached_property
    def operators(self) -> Operators:
        """The operators, in file order."""
        return Operators(self)

    @cached_property
    def tensors(self) -> Tensors:
        """The tensors."""
        return Tensors(self)


class Operators(Rows[Operator]):
    """The operators of a subgraph."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph, self._columns = subgraph, subgraph.columns.operator_columns
        self._rows = range(*self._columns.splits[subgraph.index : subgraph.index + 2].tolist())

    def __len__(self) -> int:
        return len(self._rows)

    def code_indices(self) -> list[int]:
        """Return the index into the operator code list of each operator."""
        return list(self._columns.code_indices[self._rows.start : self._rows.stop].tolist())

    def make(self, index: int) -> Operator:
        row, codes = self._rows[index], self._subgraph.columns.operator_codes
        code = int(self._columns.code_indices[row])
        if code >= len(codes):
            location = f"subgraphs[{self._subgraph.index}].operators[{index}]"
            raise ModelFormatError(f"operator code {code} does not exist", location=location)
        return Operator(
            self._subgraph.index,
            index,
            codes[code],
            tuple(self._columns.inputs.row(row).tolist()),
            tuple(self._columns.outputs.row(row).tolist()),
        )


class Tensors(Rows[Tensor]):
    """The tensors of a subgraph."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph, self._columns = subgraph, subgraph.columns.tensor_columns
        self._rows = range(*self._columns.splits[subgraph.index : subgraph.index + 2].tolist())

    def __len__(self) -> int:
        return len(self._rows)

    def make(self, index: int) -> Tensor:
        row, columns = self._rows[index], self._columns
        kind = int(columns.types[row])
        return Tensor(
            self._subgraph.index,
            index,
            text(columns.names[row]),
            self._subgraph.columns.schema.enums["TensorType"].get(kind, f"UNKNOWN:{kind}"),
            tuple(columns.shapes.row(row).tolist()),
            tuple(columns.shape_signatures.row(row).tolist()) if columns.signed[row] else None,
            int(columns.buffers[row]),
            bool(columns.variable[row]),
        )


class Buffers(Rows[Buffer]):
    """The buffers of a model, and their columns; the first is the empty sentinel."""

    def __init__(self, model: ModelColumns) -> None:
        self._model = model
        self.tables: Tables = model.root.children("buffers", model.schema)[0]

    def __len__(self) -> int:
        return len(self.tables)

    @cached_property
    def data(self) -> Vectors:
        """The data inside the flatbuffer."""
        return self.tables.vectors("data")

    @cached_property
    def offsets(self) -> NDArray[np.uint64]:
        """Where data outside the flatbuffer starts in the file; 0 and 1 mean that there is none."""
        return self.tables.scalars("offset")

    @cached_property
    def external(self) -> NDArray[np.bool_]:
        """Which have their data outside the flatbuffer."""
        return self.offsets > 1

    @cached_property
    def sizes(self) -> NDArray[np.uint64]:
        """How many bytes lie outside the flatbuffer."""
        return self.tables.scalars("size")

    def make(self, index: int) -> Buffer:
        memory, offset, size = self._model.wire.memory, int(self.offsets[index]), int(self.sizes[index])
        if not self.external[index]:
            start = int(self.data.start[index])
            return Buffer(index, memory[start : start + int(self.data.count[index])], False)
        if offset + size > len(memory):
            location = f"buffers[{index}]"
            raise ModelFormatError("the buffer's data lies outside the file", offset=offset, location=location)
        return Buffer(index, memory[offset : offset + size], True)
