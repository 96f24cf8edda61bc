"""Rows: the subgraphs, operators, tensors and buffers of a model by index, made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def __init__(self, count: int, make: Callable[[int], _Row]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | Sequence[_Row]:
        """Return an item, or a list of items; raises IndexError."""
        picked = range(len(self))[index]
        return self._make(picked) if isinstance(picked, int) else [self._make(item) for item in picked]


class Subgraph:
    """One subgraph. `operators` and `tensors` are made one by one when indexed; `columns` has those of the model."""

    def __init__(self, model: ModelColumns, index: int) -> None:
        self.columns: ModelColumns = model
        self.index: int = index
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
    def operators(self) -> Rows[Operator]:
        """The operators, in file order."""
        rows = self.columns.operator_columns.rows_of(self.index)
        return Rows(len(rows), lambda index: self._operator(index, rows[index]))

    def code_indices(self) -> list[int]:
        """Return the index into the operator code list of each operator."""
        columns = self.columns.operator_columns
        rows = columns.rows_of(self.index)
        return list(columns.code_indices[rows.start : rows.stop].tolist())

    @cached_property
    def tensors(self) -> Rows[Tensor]:
        """The tensors."""
        rows = self.columns.tensor_columns.rows_of(self.index)
        return Rows(len(rows), lambda index: self._tensor(index, rows[index]))

    def _operator(self, index: int, row: int) -> Operator:
        columns, codes = self.columns.operator_columns, self.columns.operator_codes
        code = int(columns.code_indices[row])
        if code >= len(codes):
            location = f"subgraphs[{self.index}].operators[{index}]"
            raise ModelFormatError(f"operator code {code} does not exist", location=location)
        return Operator(
            self.index,
            index,
            codes[code],
            tuple(columns.inputs.row(row).tolist()),
            tuple(columns.outputs.row(row).tolist()),
        )

    def _tensor(self, index: int, row: int) -> Tensor:
        columns = self.columns.tensor_columns
        kind = int(columns.types[row])
        return Tensor(
            self.index,
            index,
            text(columns.names[row]),
            self.columns.schema.enums["TensorType"].get(kind, f"UNKNOWN:{kind}"),
            tuple(columns.shapes.row(row).tolist()),
            tuple(columns.shape_signatures.row(row).tolist()) if columns.signed[row] else None,
            int(columns.buffers[row]),
            bool(columns.variable[row]),
        )


class Buffers(Rows[Buffer]):
    """The buffers of a model, and their columns; the first is the empty sentinel."""

    def __init__(self, model: ModelColumns) -> None:
        self._memory = model.wire.memory
        self.tables: Tables = model.root.children("buffers", model.schema)[0]
        super().__init__(len(self.tables), self._buffer)

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

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Which have data, wherever it is."""
        filled: NDArray[np.bool_] = (self.data.count > 0) | (self.external & (self.sizes > 0))
        return filled

    def place(self, index: int) -> tuple[int, int]:
        """Return where a buffer's data starts in the file, and how many bytes it has: buffers may share it."""
        if self.external[index]:
            return int(self.offsets[index]), int(self.sizes[index])
        return int(self.data.start[index]), int(self.data.count[index])

    def _buffer(self, index: int) -> Buffer:
        start, size = self.place(index)
        if start + size > len(self._memory):
            location = f"buffers[{index}]"
            raise ModelFormatError("the buffer's data lies outside the file", offset=start, location=location)
        return Buffer(index, self._memory[start : start + size], bool(self.external[index]))
