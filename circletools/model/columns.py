"""The tables of a model, and their fields as arrays: all tensors, and all operators, one subgraph after the other."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.budget import OBJECT_BYTES, PLACE_BYTES
from circletools.flatbuf.columns import Tables, Vectors, Wire
from circletools.flatbuf.schema import Schema
from circletools.model.views import OperatorCode, text

Indices = NDArray[np.int32]

MOST_SUBGRAPHS = 10_000
"""Each costs time of its own."""


_Self = TypeVar("_Self", bound="_Columns")


class _Columns:
    def __init__(self, tables: Tables, rows: Vectors) -> None:
        self.tables = tables
        self.splits: NDArray[np.int64] = rows.splits()
        steps = np.diff(tables.at)
        once = (steps > 0).all() or (steps < 0).all()
        self._repeated: int = 0 if once else len(tables) - len(np.unique(tables.at))
        tables.wire.budget.charge(self._what, PLACE_BYTES * self._repeated)

    @property
    def _what(self) -> str:
        return f"tables {self.tables.type.name} in several places"

    def one_by_one(self: _Self) -> _Self:
        """Return self, for who makes something of each table: one in many places is charged for each of them."""
        self.tables.wire.budget.charge(self._what, OBJECT_BYTES * self._repeated)
        return self

    def rows_of(self, subgraph: int) -> range:
        """Return the rows of a subgraph."""
        return range(*self.splits[subgraph : subgraph + 2].tolist())


class TensorColumns(_Columns):
    """The tensors of all subgraphs, one subgraph after the other; `splits[i]:splits[i + 1]` is subgraph i."""

    @cached_property
    def names(self) -> list[bytes]:
        """The names, as they are in the file."""
        return self.tables.strings("name")

    @cached_property
    def buffers(self) -> NDArray[np.uint32]:
        """The buffer index of each tensor."""
        return self.tables.scalars("buffer")

    @cached_property
    def types(self) -> NDArray[np.int8]:
        """The TensorType value of each tensor."""
        return self.tables.scalars("type")

    @cached_property
    def variable(self) -> NDArray[np.uint8]:
        """Whether the runtime keeps each tensor's value between runs; 0 is no."""
        return self.tables.scalars("is_variable")

    @cached_property
    def signed(self) -> NDArray[np.bool_]:
        """Whether each tensor has a shape signature."""
        return self.tables.has("shape_signature")

    @cached_property
    def shapes(self) -> Vectors:
        """The shape of each tensor."""
        return self.tables.vectors("shape").check_total()

    @cached_property
    def shape_signatures(self) -> Vectors:
        """The shape signature of each tensor, empty where it has none."""
        return self.tables.vectors("shape_signature").check_total()


class OperatorColumns(_Columns):
    """The operators of all subgraphs, one subgraph after the other; `splits` as in TensorColumns."""

    @cached_property
    def code_indices(self) -> NDArray[np.uint32]:
        """The index into the operator code list of each operator."""
        return self.tables.scalars("opcode_index")

    @cached_property
    def inputs(self) -> Vectors:
        """The input tensor indices of each operator."""
        return self.tables.vectors("inputs").check_total()

    @cached_property
    def outputs(self) -> Vectors:
        """The output tensor indices of each operator."""
        return self.tables.vectors("outputs").check_total()

    @cached_property
    def first_outputs(self) -> NDArray[np.int64]:
        """The tensor index of output 0 of each operator, -1 where it has none."""
        outputs = self.outputs
        first = np.full(len(self.tables), -1, np.int64)
        some = outputs.count > 0
        first[some] = outputs.wire.gather(outputs.start[some], outputs.dtype)
        return first


class ModelColumns:
    """A model's tables by type; `Model` adds views of single ones.

    `root` is the Model table, of length 1. Everything is read when it is asked for, and then kept.
    """

    def __init__(self, wire: Wire, schema: Schema, root: Tables) -> None:
        self.wire: Wire = wire
        self.schema: Schema = schema
        self.root: Tables = root
        self._output_names: dict[int, list[tuple[bytes, ...]]] = {}

    @property
    def format(self) -> Literal["circle", "tflite"]:
        """Which of the two formats the file is in."""
        return "circle" if self.schema.format == "circle" else "tflite"

    @cached_property
    def operator_codes(self) -> tuple[OperatorCode, ...]:
        """The operator code list."""
        tables, _ = self.root.children("operator_codes", self.schema)
        old = tables.scalars("deprecated_builtin_code").astype(np.int64)
        new = tables.scalars("builtin_code").astype(np.int64)
        # Codes from 127 on only fit the new field, which old files lack; Circle's own codes are negative.
        negative = (np.minimum(old, new) < 0) & (self.format == "circle")
        codes = np.where(negative, np.minimum(old, new), np.maximum(old, new)).tolist()
        names = self.schema.enums["BuiltinOperator"]
        custom = [text(raw) for raw in tables.strings("custom_code")]
        return tuple(
            OperatorCode(index, code, custom_code, version, _code_name(names.get(code), code, custom_code))
            for index, (code, custom_code, version) in enumerate(
                zip(codes, custom, tables.scalars("version").tolist(), strict=True)
            )
        )

    @cached_property
    def subgraph_tables(self) -> Tables:
        """The SubGraph tables, by index."""
        tables, _ = self.root.children("subgraphs", self.schema)
        if len(tables) > MOST_SUBGRAPHS:
            raise ModelFormatError(f"{len(tables)} subgraphs", hint=f"{MOST_SUBGRAPHS} are the most")
        for field in ("inputs", "outputs"):
            tables.vectors(field).check_total()
        return tables

    @cached_property
    def tensor_columns(self) -> TensorColumns:
        """The tensors of all subgraphs."""
        return TensorColumns(*self.subgraph_tables.children("tensors", self.schema))

    @cached_property
    def operator_columns(self) -> OperatorColumns:
        """The operators of all subgraphs."""
        return OperatorColumns(*self.subgraph_tables.children("operators", self.schema))

    def code_names(self, subgraph: int) -> list[str]:
        """Return the code name of each operator of a subgraph.

        Raises ModelFormatError for a code that does not exist.
        """
        rows = self.operator_columns.rows_of(subgraph)
        indices = self.operator_columns.code_indices[rows.start : rows.stop]
        if indices.size and int(indices.max()) >= len(self.operator_codes):
            raise ModelFormatError(f"operator code {indices.max()} does not exist", location=f"subgraphs[{subgraph}]")
        return self._code_names[rows.start : rows.stop]

    @cached_property
    def _code_names(self) -> list[str]:
        """The code name of each operator of all subgraphs, empty where the code does not exist."""
        names = [*(code.name for code in self.operator_codes), ""]
        indices = self.operator_columns.one_by_one().code_indices
        found = [names[index] for index in np.minimum(indices, len(names) - 1).tolist()]
        self.wire.budget.charge("the names of operators", sum(map(len, found)))
        return found

    def output_names(self, subgraph: int) -> list[tuple[bytes, ...]]:
        """Return the names of the output tensors of each operator of a subgraph; -1 has the empty name.

        Raises ModelFormatError for a tensor that does not exist.
        """
        known = self._output_names.get(subgraph)
        if known is None:
            known = self._output_names[subgraph] = self._read_output_names(subgraph)
        return known

    def first_outputs(self, subgraph: int) -> list[str]:
        """Return the name of the first output of each operator of a subgraph, empty where it has none.

        Raises ModelFormatError for a tensor that does not exist.
        """
        raw = [names[0] if names else b"" for names in self.output_names(subgraph)]
        texts = {name: text(name) for name in set(raw)}  # of many operators with one long name, there is one text
        return [texts[name] for name in raw]

    def _read_output_names(self, subgraph: int) -> list[tuple[bytes, ...]]:
        operators, rows = self.operator_columns.one_by_one().rows_of(subgraph), self.tensor_columns.rows_of(subgraph)
        names = [*self.tensor_columns.names[rows.start : rows.stop], b""]
        outputs = self.operator_columns.outputs.take(slice(operators.start, operators.stop))
        tensors = outputs.flat()
        if tensors.size and (tensors.min() < -1 or tensors.max() >= len(rows)):
            raise ModelFormatError("an operator's output does not exist", location=f"subgraphs[{subgraph}]")
        values = [names[tensor] for tensor in tensors.tolist()]
        if (outputs.count == 1).all():
            return list(zip(values, strict=True))
        return [tuple(values[start:stop]) for start, stop in pairwise(outputs.splits().tolist())]


def _code_name(name: str | None, code: int, custom_code: str) -> str:
    if name == "CUSTOM":
        return f"CUSTOM:{custom_code}"
    return name if name is not None else f"UNKNOWN:{code}"
