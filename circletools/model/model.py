"""A model in a file: views by index, created on demand, and columns over all subgraphs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, cached_property
from html import escape
from itertools import pairwise
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from circletools.calls import explained
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import Schema, format_of, load_schema
from circletools.flatbuf.verify import check_header
from circletools.model.bundles import bundle_members, open_member
from circletools.model.columns import ModelColumns
from circletools.model.rows import Buffers, Rows, Subgraph
from circletools.model.views import Metadata, Signature, text
from circletools.storage.files import Source, open_source
from circletools.wording import BufferIndex, Items

# --- recognize files of other formats by their first bytes or archive members, and suggest a remedy -----------
# The first bytes are from the formats' documents. ONNX and TensorFlow write protobufs without a magic number
# that begin with field 1, the version: 1 in a SavedModel, 3 or more in a current ONNX model.


_HEAD_BYTES, _TAIL_BYTES = 512, 1 << 16
_EXPORT = "export it with litert-torch (TFLite) or TICO (Circle)"
_UNPACK = "unpack it and use a model from it"
_UNPACK_LM = "unpack it with litert-lm-peek and use a model from it"
_CONVERT_ONNX = "convert it with onnx2tf (TFLite) or one-import-onnx (Circle)"
_UNCOMPRESS = "decompress it first"
_CONVERT = "convert it with tf.lite.TFLiteConverter"
_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (rb"LITERTLM", "a bundle for LiteRT-LM (.litertlm)", _UNPACK_LM),
    (rb"GGUF", "a GGUF model (llama.cpp)", f"go back to the PyTorch model and {_EXPORT}"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file, an old format of Keras models", _CONVERT),
    (rb"\x80[\x02-\x05]", "a pickle, an old format of PyTorch models", f"load it in PyTorch, then {_EXPORT}"),
    (rb".{4}ET\d\d", "an ExecuTorch program (.pte)", f"go back to the PyTorch model and {_EXPORT}"),
    (rb".{4}\0{4}\{\"", "weights in safetensors", f"load them into the PyTorch model, then {_EXPORT}"),
    (rb"\x1f\x8b", "a file compressed with gzip", _UNCOMPRESS),
    (rb"\x28\xb5\x2f\xfd", "a file compressed with zstd", _UNCOMPRESS),
    (rb"\xfd7zXZ\0", "a file compressed with xz", _UNCOMPRESS),
    (rb"BZh\d1AY", "a file compressed with bzip2", _UNCOMPRESS),
    (rb".{257}ustar", "a tar archive", _UNPACK),
    (rb"version https://git-lfs", "a git-lfs pointer", "fetch the file with `git lfs pull`"),
    (rb"\s*<(?i:!doctype html|html)", "a web page", "download the file itself; the link may lead to a page about it"),
    (rb"\s*<\?xml.*<net", "an OpenVINO model (.xml)", "use the model that it was converted from"),
    (rb"\s*[\[{]\s*[\"{]", "JSON", "name the model that it describes"),
    (rb"[\t\n\r -~]*(unsigned char|uint8_t)\b", "a C array", "write the bytes of the array to a binary file"),
    (rb"\x08\x01\x12", "a TensorFlow SavedModel", _CONVERT),
    (rb"\x08[\x03-\x20][\x12\x1a\x22\x28\x32\x3a\x42]", "an ONNX model", _CONVERT_ONNX),
)  # fmt: skip
_MEMBERS: tuple[tuple[bytes, str, str], ...] = (
    (rb"AndroidManifest\.xml", "an Android package", _UNPACK),
    (rb"model\.weights\.h5", "a Keras model (.keras)", _CONVERT),
    (rb"data\.pkl|archive_format", "a PyTorch model (.pt, .pt2)", f"load it in PyTorch, then {_EXPORT}"),
    (rb"\.tflite|TF_LITE_", "a bundle of models (.task)", _UNPACK),
)


def foreign_format(data: memoryview) -> tuple[str, str] | None:
    """Return the name of a file's format and a remedy, or None if the format is unknown."""
    head = bytes(data[:_HEAD_BYTES])
    if head.startswith(b"PK\x03\x04"):
        names = head + bytes(data[-_TAIL_BYTES:])  # the list of members is near the end of the file
        found = next(((what, how) for name, what, how in _MEMBERS if re.search(name, names)), None)
        return found or ("a ZIP archive", _UNPACK)
    matching = ((what, how) for beginning, what, how in _BEGINNINGS if re.match(beginning, head, re.DOTALL))
    return next(matching, None)


@explained
class Model(ModelColumns):
    """A TFLite or Circle model; use `open_model`. All members raise ModelFormatError if the file is broken.

    Data is read on first use, and the file is never copied. `walk()` checks the whole file.
    """

    def __init__(self, source: Source) -> None:
        """Check the header. Raises ModelFormatError if the file is in neither format."""
        self.source = source
        self.editing: Callable[[], Any] = lambda: None  # returns the last edit, if it still exists
        wire = Wire(source.octets, "" if source.file is None else source.name)
        schema = self._schema(bytes(wire.memory[:8]))
        start = np.array([check_header(wire, schema)], np.int64)
        super().__init__(wire, schema, Tables(wire, schema.tables[schema.root], start))

    def _schema(self, head: bytes) -> Schema:
        name = format_of(head[4:8])
        if name is None:
            message = "neither a TFLite nor a Circle model: no TFL3 or CIR0 at byte 4"
            short = "an empty or truncated file, or another format"
            what, hint = foreign_format(self.source.octets) or (
                "",
                short if len(head) < 8 else "is it another format?",
            )
            if what:
                message = f"{what}, not a TFLite or Circle model"
                hint = _models_in(self.source) or hint
            raise ModelFormatError(message, location=self.source.name, hint=hint)
        return load_schema(name)

    def __repr__(self) -> str:
        return f"<Model {self.source.name!r} {self.format}, {self.wire.size} bytes>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.subgraphs._repr_html_()}"

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; views and arrays that are still in use keep it mapped."""
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
        """The subgraphs; the first is the main subgraph."""
        # A view reads the options of all its operators at once.
        return Rows(len(self.subgraph_tables), cache(lambda index: Subgraph(self, index, lambda: self.buffers)))

    @cached_property
    def buffers(self) -> Buffers:
        """The buffers; the first is always empty and stands for "no data"."""
        return Buffers(self)

    @cached_property
    def metadata(self) -> tuple[Metadata, ...]:
        """The metadata entries."""
        tables, _ = self.root.children("metadata", self.schema)
        names, buffers = tables.strings("name"), tables.scalars("buffer").tolist()
        texts = {name: text(name) for name in set(names)}
        return Items(
            Metadata(index, texts[name], BufferIndex(buffer))
            for index, (name, buffer) in enumerate(zip(names, buffers, strict=True))
        )

    def metadata_value(self, name: str) -> memoryview | None:
        """Return the value of a metadata entry, or None.

        If several entries have the same name, the last one counts, as for LiteRT and the ONE compiler.
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
    """Return the names of the models in a bundle; none if the file is broken or not a bundle."""
    try:
        members = bundle_members(source.octets)
    except ModelFormatError:
        return ""
    names = [one.name for one in members if one.kind == "model" or one.name.endswith((".tflite", "TF_LITE"))]
    return f"name a model in it: {', '.join(f'{source.name}!{name}' for name in names[:5])}" if names else ""


def open_model(source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> Model:
    """Open a model: a path (`-`: standard input), `BUNDLE!MEMBER`, bytes, or a binary file object. Maps files.

    Use the model as a context manager. Raises InvalidInputError if the source cannot be read or is not a model.
    """
    opened = (open_member(os.fspath(source)) if isinstance(source, str | os.PathLike) else None) or open_source(
        source
    )
    try:
        return Model(opened)
    except BaseException:
        opened.close()
        raise
