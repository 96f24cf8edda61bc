"""Rows: the subgraphs, operators, tensors and buffers of a model by index, created on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from circletools.calls import explained
from circletools.errors import ModelFormatError, UsageError
from circletools.flatbuf.columns import Tables, grouped
from circletools.model.arrays import Ends, array_of
from circletools.model.columns import ModelColumns, scalars_column, vectors_column
from circletools.model.options import enum_names, named_options, quantizations
from circletools.model.views import Buffer, Operator, Quantization, Tensor, attach, text
from circletools.wording import (
    Attributes,
    BufferIndex,
    Items,
    SubgraphIndex,
    TensorIndex,
    counted,
    html_table,
    refuse_index,
    refuse_words,
)


class _HasRow(Protocol):
    def to_row(self) -> dict[str, Any]: ...


_Row = TypeVar("_Row", bound=_HasRow)

_OMITTED = (
    "-1 marks an omitted input: [tensors[one] for one in operator.inputs if one >= 0]; "
    "the last tensor is tensors[len(tensors) - 1]"
)
_SHOWN = 5
_NOT_QUANTIZED = Quantization(Items(), Items(), 0)
_RECENT = 4096


class Rows(Attributes, Sequence[_Row]):
    """A sequence whose items are created on demand; `negative` explains negative indices if these are errors."""

    def __init__(self, count: int, make: Callable[[int], _Row], negative: str | None = None) -> None:
        self._count, self._make, self._negative = count, make, negative
        self.named_first: Callable[[], Sequence[_Row]] = tuple  # the items that errors name first

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | Sequence[_Row]:
        """Return an item, or the items of a slice. Raises IndexError, or TypeError for a wrong index type."""
        refuse_index(self, index, self._negative)
        picked = range(len(self))[index]
        return self._make(picked) if isinstance(picked, int) else Items(map(self._make, picked))

    if not TYPE_CHECKING:  # a type checker reports these errors before the program runs
        __contains__ = refuse_words(Sequence.__contains__)
        index, count = refuse_words(Sequence.index), refuse_words(Sequence.count)

    def __repr__(self) -> str:
        shown = [*map(repr, islice(self, _SHOWN)), *(["…"] if len(self) > _SHOWN else [])]
        return f"<{counted(len(self), 'item')}: {', '.join(shown)}>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return each item as a dict of plain values, as `pandas.DataFrame` accepts them."""
        return [item.to_row() for item in self]

    def _repr_html_(self) -> str:
        return html_table((item.to_row() for item in self), len(self))


@explained
class Subgraph(Attributes):
    """One subgraph. Operators and tensors are created when indexed; `columns` holds the columns of the model."""

    def __init__(self, model: ModelColumns, index: int, buffers: Callable[[], Buffers]) -> None:
        self.columns: ModelColumns = model
        self.index: int = index
        self._buffers = buffers
        self._table = model.subgraph_tables.take(slice(index, index + 1))

    @cached_property
    def name(self) -> str:
        """The subgraph's name, which is often empty."""
        return text(self._table.strings("name")[0])

    @cached_property
    def inputs(self) -> Ends:
        """The tensor indices of the inputs."""
        return self._table.vectors("inputs").row(0).view(Ends)

    @cached_property
    def outputs(self) -> Ends:
        """The tensor indices of the outputs; a tensor may occur several times."""
        return self._table.vectors("outputs").row(0).view(Ends)

    @cached_property
    def operators(self) -> Rows[Operator]:
        """The operators, in file order."""
        rows = self.columns.operator_columns.rows_of(self.index)
        # An operator with thousands of outputs is read once, not once for each output.
        return Rows(len(rows), lru_cache(_RECENT)(lambda index: self._operator(index, rows[index])))

    def code_indices(self) -> list[int]:
        """Return each operator's index into the operator code list."""
        columns = self.columns.operator_columns
        return list(columns.code_indices[columns.slice_of(self.index)].tolist())

    @cached_property
    def tensors(self) -> Rows[Tensor]:
        """The tensors."""
        rows = self.columns.tensor_columns.rows_of(self.index)
        found = Rows(len(rows), lambda index: self._tensor(index, rows[index]), _OMITTED)
        found.named_first = lambda: [found[one] for one in (*self.inputs, *self.outputs) if 0 <= one < len(found)]
        return found

    def _operator(self, index: int, row: int) -> Operator:
        columns, codes = self.columns.operator_columns, self.columns.operator_codes
        code = int(columns.code_indices[row])
        if code >= len(codes):
            location = f"subgraphs[{self.index}].operators[{index}]"
            raise ModelFormatError(f"operator code {code} does not exist", location=location)
        view = Operator(
            SubgraphIndex(self.index),
            index,
            codes[code],
            Items(map(TensorIndex, columns.inputs.row(row).tolist())),
            Items(map(TensorIndex, columns.outputs.row(row).tolist())),
        )
        return attach(view, self)

    def _tensor(self, index: int, row: int) -> Tensor:
        columns = self.columns.tensor_columns
        kind = int(columns.types[row])
        view = Tensor(
            SubgraphIndex(self.index),
            index,
            text(columns.names[row]),
            enum_names(self.columns.schema, "TensorType").get(kind, f"UNKNOWN:{kind}"),
            tuple(columns.shapes.row(row).tolist()),
            tuple(columns.shape_signatures.row(row).tolist()) if columns.signed[row] else None,
            BufferIndex(columns.buffers[row]),
            bool(columns.variable[row]),
        )
        return attach(view, self)

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.operators), 'operator')}, {counted(len(self.tensors), 'tensor')}"
        return f"<Subgraph {self.index} {self.name!r}: {sizes}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.operators._repr_html_()}"

    def to_row(self) -> dict[str, Any]:
        """Return the index, the name, the numbers of operators and tensors, the inputs and the outputs."""
        return {
            "index": self.index,
            "name": self.name,
            "operators": len(self.operators),
            "tensors": len(self.tensors),
            "inputs": self.inputs.tolist(),
            "outputs": self.outputs.tolist(),
        }

    def options_of(self, operator: int) -> Mapping[str, Any]:
        """Return the options of an operator."""
        return self._options[operator]

    def quantization_of(self, tensor: int) -> Quantization:
        """Return the quantization of a tensor."""
        return self._quantizations.get(tensor, _NOT_QUANTIZED)

    def producer_of(self, tensor: int) -> Operator | None:
        """Return the operator that produces a tensor (the last one, if several do)."""
        makers = self._users[1][tensor]
        return self.operators[makers[-1]] if makers else None

    def consumers_of(self, tensor: int) -> tuple[Operator, ...]:
        """Return the operators that read a tensor, in ascending order."""
        return Items(self.operators[index] for index in self._users[0][tensor])

    def has_data(self, tensor: int) -> bool:
        """Return whether the file contains a tensor's values."""
        buffer, outside = self.tensors[tensor].buffer, self._outside(tensor)
        if not outside and buffer >= max(len(self._buffers()), 1):
            location = f"subgraphs[{self.index}].tensors[{tensor}]"
            raise ModelFormatError(f"buffer {buffer} does not exist", location=location)
        return outside or (buffer > 0 and bool(self._buffers().filled[buffer]))

    def array_of(self, tensor: int) -> NDArray[Any]:
        """Return the values of a tensor; see `Tensor.numpy`."""
        view, location = self.tensors[tensor], f"subgraphs[{self.index}].tensors[{tensor}]"
        if self._outside(tensor):
            raise UsageError("the values are in another file (external_buffer)", location=location)
        if not self.has_data(tensor):
            raise UsageError(
                "the file has no values for this tensor",
                location=location,
                hint="the tensor is computed; `expose` makes it an output, so a run returns its value",
            )
        return array_of(view, self._buffers()[view.buffer].data, self._tensor_table(tensor), self.columns.schema)

    def _outside(self, tensor: int) -> bool:
        """Return whether a tensor's buffer is in another file."""
        table = self._tensor_table(tensor)
        return "external_buffer" in table.type.by_name and bool(table.scalars("external_buffer")[0])

    def _tensor_table(self, tensor: int) -> Tables:
        columns = self.columns.tensor_columns
        row = columns.rows_of(self.index)[tensor]
        return columns.tables.take(slice(row, row + 1))

    @cached_property
    def _options(self) -> list[dict[str, Any]]:
        columns = self.columns.operator_columns
        return named_options(columns.tables.take(columns.slice_of(self.index)), self.columns.schema)

    @cached_property
    def _quantizations(self) -> dict[int, Quantization]:
        columns = self.columns.tensor_columns
        return quantizations(columns.tables.take(columns.slice_of(self.index)), self.columns.schema)

    @cached_property
    def _users(self) -> tuple[Items[list[int]], ...]:
        """The operators that read each tensor, and those that produce it, without duplicates."""
        columns, found = self.columns.operator_columns, []
        for vectors in (columns.inputs, columns.outputs):
            slots = vectors.take(columns.slice_of(self.index))
            users = np.repeat(np.arange(len(slots.count)), slots.count)
            pairs = np.unique(np.stack([slots.flat().astype(np.int64), users], axis=1), axis=0)
            found.append(Items(grouped(len(self.tensors), pairs[:, 0], pairs[:, 1].tolist())))
        return tuple(found)


class Buffers(Rows[Buffer]):
    """The buffers of a model, and their columns; buffer 0 is always empty and stands for "no data".

    `data` is the data inside the flatbuffer; `offsets` are the positions in the file (0 and 1: none) and `sizes` the
    sizes of data outside.
    """

    def __init__(self, model: ModelColumns) -> None:
        self._memory = model.wire.memory
        self.tables: Tables = model.root.children("buffers", model.schema)[0]
        super().__init__(len(self.tables), self._buffer)

    data = vectors_column("data")
    offsets = scalars_column("offset")
    sizes = scalars_column("size")

    @cached_property
    def external(self) -> NDArray[np.bool_]:
        """For each buffer, whether its data is outside the flatbuffer."""
        return self.offsets > 1

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """For each buffer, whether it has data inside or outside the flatbuffer."""
        filled: NDArray[np.bool_] = (self.data.count > 0) | (self.external & (self.sizes > 0))
        return filled

    def place(self, index: int) -> tuple[int, int]:
        """Return the start and size of a buffer's data in the file; buffers may share data."""
        if self.external[index]:
            return int(self.offsets[index]), int(self.sizes[index])
        return int(self.data.start[index]), int(self.data.count[index])

    def places(self, indices: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the places of several buffers; see `place`. Raises ModelFormatError for data outside the file."""
        external = self.external[indices]
        columns = ((self.offsets, self.data.start), (self.sizes, self.data.count))
        starts, sizes = (np.where(external, far[indices], near[indices].astype(np.uint64)) for far, near in columns)
        end = np.uint64(len(self._memory))
        outside = indices[(starts > end) | (sizes > end - np.minimum(starts, end))]
        if len(outside):
            self._buffer(int(outside[0]))
        return list(zip(starts.tolist(), sizes.tolist(), strict=True))

    def read(self, index: int) -> memoryview | NDArray[np.uint8]:
        """Return the data that LiteRT reads: that inside, if any (`get_readonly_data` in interpreter_builder.cc)."""
        return self.data.row(index) if self.tables.has("data")[index] else self[index].data

    def _buffer(self, index: int) -> Buffer:
        start, size = self.place(index)
        if start + size > len(self._memory):
            location = f"buffers[{index}]"
            raise ModelFormatError("the buffer's data lies outside the file", offset=start, location=location)
        return Buffer(index, self._memory[start : start + size], bool(self.external[index]))
