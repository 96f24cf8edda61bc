"""A model in its file: lazy views by index, and columns over all subgraphs."""

from __future__ import annotations

import os
from functools import cached_property
from html import escape
from itertools import pairwise
from types import TracebackType
from typing import BinaryIO

import numpy as np

from circletools.calls import explained
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import Schema, format_of, load_schema
from circletools.flatbuf.verify import check_header
from circletools.model.bundles import bundle_members, open_member
from circletools.model.columns import ModelColumns
from circletools.model.foreign import foreign_format
from circletools.model.rows import Buffers, Rows, Subgraph
from circletools.model.views import Metadata, Signature, text
from circletools.storage.files import Source, open_source
from circletools.wording import Items


@explained
class Model(ModelColumns):
    """A TFLite or Circle model; use `open_model`. All members raise ModelFormatError if the file is broken.

    Data is read at first use, and reading never copies the file. `walk()` checks the whole file.
    """

    def __init__(self, source: Source) -> None:
        """Check the header. Raises ModelFormatError if this is neither format."""
        self.source = source
        wire = Wire(source.memory)
        schema = self._schema(bytes(wire.memory[:8]))
        start = np.array([check_header(wire, schema)], np.int64)
        super().__init__(wire, schema, Tables(wire, schema.tables[schema.root], start))

    def _schema(self, head: bytes) -> Schema:
        name = format_of(head[4:8])
        if name is None:
            message = "neither a TFLite nor a Circle model: no TFL3 or CIR0 at byte 4"
            short = "an empty or truncated file, or another format"
            what, hint = foreign_format(self.source.memory) or (
                "",
                short if len(head) < 8 else "is it another format?",
            )
            if what:
                message = f"{what}, not a TFLite or Circle model"
                hint = _models_in(self.source) or hint
            raise ModelFormatError(message, location=self.source.name, hint=hint)
        return load_schema(name)

    def __repr__(self) -> str:
        """Show the file, its format and size."""
        return f"<Model {self.source.name!r} {self.format}, {self.wire.size} bytes>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.subgraphs._repr_html_()}"

    def __enter__(self) -> Model:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; views and arrays still in use keep its mapping alive."""
        self.source.close()

    @cached_property
    def version(self) -> int:
        """The schema version: 3 in TFLite, 0 in Circle."""
        return int(self.root.scalars("version")[0])

    @cached_property
    def description(self) -> str:
        """The model's description."""
        return text(self.root.strings("description")[0])

    @cached_property
    def subgraphs(self) -> Rows[Subgraph]:
        """The subgraphs; the first is the main one."""
        return Rows(len(self.subgraph_tables), lambda index: Subgraph(self, index, lambda: self.buffers))

    @cached_property
    def buffers(self) -> Buffers:
        """The buffers; the first is the empty sentinel."""
        return Buffers(self)

    @cached_property
    def metadata(self) -> tuple[Metadata, ...]:
        """The metadata entries."""
        tables, _ = self.root.children("metadata", self.schema)
        names, buffers = tables.strings("name"), tables.scalars("buffer").tolist()
        texts = {name: text(name) for name in set(names)}
        return Items(
            Metadata(index, texts[name], buffer)
            for index, (name, buffer) in enumerate(zip(names, buffers, strict=True))
        )

    def metadata_value(self, name: str) -> memoryview | None:
        """Return the value of a metadata entry, or None.

        If several entries have the same name, the last one counts, as in LiteRT and the ONE compiler.
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
        return Items(
            Signature(index, text(key), subgraph, inputs[index], outputs[index])
            for index, (key, subgraph) in enumerate(zip(keys, subgraphs, strict=True))
        )

    def _tensor_maps(self, signatures: Tables, field: str) -> list[tuple[tuple[str, int], ...]]:
        maps, vectors = signatures.children(field, self.schema)
        entries = list(zip(map(text, maps.strings("name")), maps.scalars("tensor_index").tolist(), strict=True))
        bounds = vectors.splits().tolist()
        return [Items(entries[start:end]) for start, end in pairwise(bounds)]


def _models_in(source: Source) -> str:
    """Return the names of the models in a bundle; empty if the file is not a bundle, or broken."""
    try:
        members = bundle_members(source.memory)
    except ModelFormatError:
        return ""
    names = [one.name for one in members if one.kind == "model" or one.name.endswith((".tflite", "TF_LITE"))]
    return f"name a model in it: {', '.join(f'{source.name}!{name}' for name in names[:5])}" if names else ""


def open_model(source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> Model:
    """Open a model: a path (mapped, `-` is standard input), `BUNDLE!MEMBER`, bytes, or a binary file object.

    Use the model as a context manager. Raises InvalidInputError if it cannot be read or is not a model.
    """
    opened = (open_member(os.fspath(source)) if isinstance(source, str | os.PathLike) else None) or open_source(
        source
    )
    try:
        return Model(opened)
    except BaseException:
        opened.close()
        raise
