"""A model as it lies in its file: lazy views by index, and columns over all subgraphs."""

from __future__ import annotations

import os
from functools import cached_property
from itertools import pairwise
from types import TracebackType
from typing import BinaryIO, Literal

import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Vectors, Wire
from circletools.flatbuf.schema import Schema, format_of, load_schema
from circletools.flatbuf.verify import Reachable, check_header, walk
from circletools.model.rows import Buffers, OperatorColumns, Subgraphs, TensorColumns
from circletools.model.views import Metadata, OperatorCode, Signature, text
from circletools.storage.files import Source, open_source


class Model:
    """A TFLite or Circle model; use `open_model`. Raises ModelFormatError wherever the file turns out broken.

    Nothing is read before it is asked for, and reading never copies the file. `walk()` checks all of it.
    """

    def __init__(self, source: Source) -> None:
        """Look at the header; raise ModelFormatError when this is neither format."""
        self.source = source
        self.wire = Wire(source.memory)
        self._output_names: dict[int, list[tuple[bytes, ...]]] = {}
        self.schema = self._schema(bytes(self.wire.memory[:8]))
        self.root = Tables(
            self.wire,
            self.schema.tables[self.schema.root],
            np.array([check_header(self.wire, self.schema)], np.int64),
        )

    def _schema(self, head: bytes) -> Schema:
        name = format_of(head[4:8])
        if name is None:
            raise ModelFormatError(
                "neither a TFLite nor a Circle model: no TFL3 or CIR0 at byte 4",
                location=self.source.name,
                hint="an empty or cut file, or another format" if len(head) < 8 else "is it another format?",
            )
        return load_schema(name)

    def __enter__(self) -> Model:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the file."""
        self.close()

    def close(self) -> None:
        """Let go of the file; views and arrays that are still held keep its mapping alive."""
        self.source.close()

    @property
    def format(self) -> Literal["circle", "tflite"]:
        """Which of the two formats the file is in."""
        return "circle" if self.schema.format == "circle" else "tflite"

    @cached_property
    def version(self) -> int:
        """The schema version: 3 in TFLite, 0 in Circle."""
        return int(self.root.scalars("version")[0])

    @cached_property
    def description(self) -> str:
        """The model's description."""
        return text(self.root.strings("description")[0])

    @cached_property
    def reachable(self) -> Reachable:
        """All that can be reached in the file, its structure checked; raises ModelFormatError."""
        return walk(self.wire, self.schema, max_tables=None)

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
        return self.root.children("subgraphs", self.schema)[0]

    @cached_property
    def tensor_columns(self) -> TensorColumns:
        """The tensors of all subgraphs."""
        return TensorColumns(*self.subgraph_tables.children("tensors", self.schema))

    @cached_property
    def operator_columns(self) -> OperatorColumns:
        """The operators of all subgraphs."""
        return OperatorColumns(*self.subgraph_tables.children("operators", self.schema))

    @cached_property
    def subgraphs(self) -> Subgraphs:
        """The subgraphs; the first is the main one."""
        return Subgraphs(self)

    @cached_property
    def buffers(self) -> Buffers:
        """The buffers; the first is the empty sentinel."""
        return Buffers(self)

    @cached_property
    def metadata(self) -> tuple[Metadata, ...]:
        """The metadata entries."""
        tables, _ = self.root.children("metadata", self.schema)
        names, buffers = tables.strings("name"), tables.scalars("buffer").tolist()
        return tuple(
            Metadata(index, text(name), buffer)
            for index, (name, buffer) in enumerate(zip(names, buffers, strict=True))
        )

    def metadata_value(self, name: str) -> memoryview | None:
        """Return the value of a metadata entry, None where there is none.

        Of several entries of one name the last counts, as it does in LiteRT and in the ONE compiler.
        """
        entry = next((entry for entry in reversed(self.metadata) if entry.name == name), None)
        if entry is None:
            return None
        if entry.buffer >= len(self.buffers):
            location = f"metadata[{entry.index}].buffer"
            raise ModelFormatError(f"buffer {entry.buffer} does not exist", location=location)
        return self.buffers[entry.buffer].data

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures."""
        tables, _ = self.root.children("signature_defs", self.schema)
        keys = tables.strings("signature_key")
        subgraphs = tables.scalars("subgraph_index").tolist()
        inputs, outputs = (self._tensor_maps(tables, name) for name in ("inputs", "outputs"))
        return tuple(
            Signature(index, text(key), subgraph, inputs[index], outputs[index])
            for index, (key, subgraph) in enumerate(zip(keys, subgraphs, strict=True))
        )

    def _tensor_maps(self, signatures: Tables, field: str) -> list[tuple[tuple[str, int], ...]]:
        maps, vectors = signatures.children(field, self.schema)
        entries = list(zip(map(text, maps.strings("name")), maps.scalars("tensor_index").tolist(), strict=True))
        bounds = vectors.splits().tolist()
        return [tuple(entries[start:end]) for start, end in pairwise(bounds)]

    def code_names(self, subgraph: int) -> list[str]:
        """Return the code name of each operator of a subgraph.

        Raises ModelFormatError for a code that does not exist.
        """
        first, end = self.operator_columns.splits[subgraph : subgraph + 2].tolist()
        indices = self.operator_columns.code_indices[first:end]
        names = [code.name for code in self.operator_codes]
        if indices.size and int(indices.max()) >= len(names):
            raise ModelFormatError(f"operator code {indices.max()} does not exist", location=f"subgraphs[{subgraph}]")
        return [names[index] for index in indices.tolist()]

    def output_names(self, subgraph: int) -> list[tuple[bytes, ...]]:
        """Return the names of the output tensors of each operator of a subgraph; -1 has the empty name.

        Raises ModelFormatError for a tensor that does not exist.
        """
        known = self._output_names.get(subgraph)
        if known is None:
            known = self._output_names[subgraph] = self._read_output_names(subgraph)
        return known

    def _read_output_names(self, subgraph: int) -> list[tuple[bytes, ...]]:
        first, end = self.operator_columns.splits[subgraph : subgraph + 2].tolist()
        outputs, (low, high) = (
            self.operator_columns.outputs,
            self.tensor_columns.splits[subgraph : subgraph + 2],
        )
        names = [*self.tensor_columns.names[low:high], b""]
        flat = Vectors(self.wire, outputs.dtype, outputs.start[first:end], outputs.count[first:end])
        tensors = flat.flat()
        if tensors.size and (tensors.min() < -1 or tensors.max() >= high - low):
            raise ModelFormatError("an operator's output does not exist", location=f"subgraphs[{subgraph}]")
        values = [names[tensor] for tensor in tensors.tolist()]
        if (flat.count == 1).all():
            return list(zip(values, strict=True))
        return [tuple(values[start:stop]) for start, stop in pairwise(flat.splits().tolist())]


def _code_name(name: str | None, code: int, custom_code: str) -> str:
    if name == "CUSTOM":
        return f"CUSTOM:{custom_code}"
    return name if name is not None else f"UNKNOWN:{code}"


def open_model(source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> Model:
    """Open a model: a path (mapped, `-` is standard input), bytes, or a binary file object.

    Use it as a context manager. Raises InvalidInputError when it cannot be read or is no model.
    """
    opened = open_source(source)
    try:
        return Model(opened)
    except BaseException:
        opened.close()
        raise
