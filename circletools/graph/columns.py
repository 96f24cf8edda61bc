"""The operators and values of a graph as columns; each column is read on first use and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Vectors, distinct_rows, row_numbers
from circletools.graph.algorithms import Indices
from circletools.model.model import Model
from circletools.model.options import Members, members_of, options_of
from circletools.model.sizes import least_bytes, size_bytes
from circletools.model.views import text

Mask = NDArray[np.bool_]
_LONG_NAME = 200


class Uses(NamedTuple):
    """The operator and value of each slot, in slot order."""

    operators: Indices
    values: Indices


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The value in each slot of all operators, or -1 if omitted; the slots of operator i begin at `splits[i]`."""

    values: Indices
    splits: Indices

    def of(self, operator: int) -> list[int]:
        """Return the values of one operator."""
        return list(self.values[self.splits[operator] : self.splits[operator + 1]].tolist())

    def lists(self) -> list[list[int]]:
        """Return the values of each operator."""
        flat = self.values.tolist()
        return [flat[start:end] for start, end in pairwise(self.splits.tolist())]

    @property
    def counts(self) -> Indices:
        """The number of slots of each operator."""
        return np.diff(self.splits)

    def uses(self) -> Uses:
        """Return the operator and value of each slot that is not omitted."""
        operators = np.repeat(np.arange(len(self.splits) - 1), self.counts)
        present = self.values >= 0
        return Uses(operators[present], self.values[present])


def alike(heads: Sequence[Indices], slots: Sequence[tuple[Slots, Indices]]) -> tuple[Indices, Indices]:
    """Return the first operator of each kind, and the kind of each operator.

    Two operators are of the same kind if all columns of `heads` and all slot values agree.
    """
    return distinct_rows(np.column_stack([*heads, *(row_numbers(words, each.counts) for each, words in slots)]))


@dataclass(frozen=True, eq=False)
class Operators:
    """The operators 0..n-1 of a graph: those of `subgraphs`, which are the slice `rows` of the model's operators."""

    model: Model
    rows: slice
    subgraphs: Sequence[int]

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @cached_property
    def tables(self) -> Tables:
        """The operator tables in the file."""
        return self.model.operator_columns.tables.take(self.rows)

    @cached_property
    def code_indices(self) -> Indices:
        """The operator code index of each operator."""
        return self.model.operator_columns.code_indices[self.rows].astype(np.int64)

    def is_code(self, *names: str) -> Mask:
        """Return a mask of the operators with one of these code names. Raises ModelFormatError, as `code_names`."""
        known = self.model.operator_codes
        if self.code_indices.size and int(self.code_indices.max()) >= len(known):
            _ = self.code_names  # names the subgraph
        wanted = np.array([*(code.name in names for code in known), False], np.bool_)
        return wanted[self.code_indices] if wanted.any() else np.zeros(len(self), np.bool_)

    @cached_property
    def code_names(self) -> list[str]:
        """The code name of each operator. Raises ModelFormatError if a code does not exist."""
        return list(chain.from_iterable(map(self.model.code_names, self.subgraphs)))

    @cached_property
    def result_names(self) -> list[tuple[bytes, ...]]:
        """The names of each operator's outputs; an omitted output has an empty name. Raises ModelFormatError."""
        return list(chain.from_iterable(map(self.model.output_names, self.subgraphs)))

    @cached_property
    def first_result_names(self) -> list[str]:
        """The name of each operator's first output, or an empty name if there is none. Raises ModelFormatError."""
        raw = [names[0] if names else b"" for names in self.result_names]
        long = {name: text(name) for name in raw if len(name) > _LONG_NAME}  # one string, shared by all operators
        return [name.decode("utf-8", "surrogateescape") if len(name) <= _LONG_NAME else long[name] for name in raw]

    @cached_property
    def records(self) -> list[bytes]:
        """The part of each operator that a stamp covers: its code name and output names, each terminated by a NUL."""
        begin = {name: name.encode("utf-8", "surrogateescape") + b"\0" for name in set(self.code_names)}
        rows = zip(self.code_names, self.result_names, strict=True)
        return [begin[name] + b"\0".join((*outputs, b"")) for name, outputs in rows]

    def option(self, name: str, chosen: Indices | slice = slice(None)) -> NDArray[np.float64]:
        """Return an option of each operator, or 0 if the operator lacks it; strings are returned as numbers."""
        if name not in self._options:
            self._options[name] = options_of(self.options, len(self), name)
        return self._options[name][chosen]

    @cached_property
    def options(self) -> Members:
        """The options tables in the file."""
        return members_of(self.tables, self.model.schema)

    @cached_property
    def _options(self) -> dict[str, NDArray[np.float64]]:
        return {}


@dataclass(frozen=True, eq=False)
class Values:
    """The values 0..n-1 of a graph: the slice `rows` of the model's tensors. Errors name the path `place`."""

    model: Model
    rows: slice
    place: str

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @cached_property
    def tables(self) -> Tables:
        """The tensor tables in the file."""
        return self.model.tensor_columns.tables.take(self.rows)

    @cached_property
    def quantization(self) -> tuple[Tables, Indices]:
        """The quantization tables in the file, and the values that have one."""
        return self.tables.child("quantization", self.model.schema)

    @cached_property
    def names(self) -> list[bytes]:
        """The name of each value, as the bytes in the file."""
        return self.model.tensor_columns.names[self.rows]

    def name(self, value: int) -> str:
        """Return the name of one value, as text."""
        return text(self.names[value])

    @cached_property
    def type_numbers(self) -> Indices:
        """The type number of each value."""
        return self.model.tensor_columns.types[self.rows].astype(np.int64)

    @cached_property
    def types(self) -> list[str]:
        """The type name of each value."""
        names = self.model.schema.enums["TensorType"]
        return [names.get(number, f"UNKNOWN:{number}") for number in self.type_numbers.tolist()]

    def is_type(self, *names: str) -> Mask:
        """Return a mask of the values that have one of these types."""
        numbers = [number for number, name in self.model.schema.enums["TensorType"].items() if name in names]
        return np.isin(self.model.tensor_columns.types[self.rows], numbers)

    @cached_property
    def shapes(self) -> Vectors:
        """The shape of each value."""
        return self.model.tensor_columns.shapes.take(self.rows)

    @cached_property
    def shape_signatures(self) -> Vectors:
        """The shape signature of each value, or an empty one if the tensor has none."""
        return self.model.tensor_columns.shape_signatures.take(self.rows)

    @cached_property
    def bytes(self) -> NDArray[np.float64]:
        """The size of each value in bytes; a dynamic dimension counts as 1, a type of unknown size as 0 bytes."""
        types, names = self.model.tensor_columns.types[self.rows], self.model.schema.enums["TensorType"]
        return least_bytes(self.shapes, self.shape_signatures, types, names)

    def size_bytes(self, value: int) -> int | None:
        """Return the size of one value in bytes, or None if its shape or element size is unknown."""
        kind = self.model.schema.enums["TensorType"].get(int(self.type_numbers[value]), "")
        return size_bytes(kind, self.shapes.row(value).tolist(), self.shape_signatures.row(value).tolist())

    @cached_property
    def buffers(self) -> Indices:
        """The buffer index of each value."""
        return self.model.tensor_columns.buffers[self.rows].astype(np.int64)

    @cached_property
    def is_variable(self) -> Mask:
        """Whether each value is kept between runs."""
        variable: Mask = self.model.tensor_columns.variable[self.rows] != 0
        return variable

    @cached_property
    def is_constant(self) -> Mask:
        """Whether each value has data in the file and is not a variable: LiteRT treats such a value as a constant.

        Raises ModelFormatError for a buffer that does not exist.
        """
        buffers, indices = self.model.buffers, self.buffers
        if not len(buffers) and not indices.any():
            return np.zeros(indices.shape, np.bool_)  # buffer 0 counts as empty even if it is missing
        if indices.size and int(indices.max()) >= len(buffers):
            raise ModelFormatError(f"buffer {indices.max()} does not exist", location=self.place)
        constant: Mask = buffers.filled[indices] & ~self.is_variable
        return constant
