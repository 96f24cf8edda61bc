"""What the tests share: models, a reader that nobody here wrote, and ways to build broken files."""

from __future__ import annotations

import importlib
import io
import os
import struct
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from flatbuffers import flexbuffers

from circletools.edit.edit import ModelEdit
from circletools.model.model import Model, open_model
from fuzz.limits import limited
from tests.kit.presence import need

ROOT = Path(__file__).parents[2]
TESTDATA = ROOT / "testdata"
ENDINGS = {b"TFL3": "tflite", b"CIR0": "circle"}
EXTERNAL = ("circle/mlp_external", "circle/cnn_external", "tflite/cnn_external", "tflite/custom_options_external")
"""Models with data behind the flatbuffer."""


# --- models -------------------------------------------------------------------------------------------------


def own_models() -> list[Path]:
    """Return all models of `testdata`."""
    models = sorted(path for kind in ENDINGS.values() for path in TESTDATA.glob(f"{kind}/*.{kind}"))
    assert len(models) > 40
    return models


def title(path: Path) -> str:
    """Name a model in the ids of tests: `circle/mlp`."""
    return f"{path.parent.name}/{path.stem}"


def path_of(name: str) -> Path:
    """Return the path of the test model `circle/mlp`."""
    return TESTDATA / f"{name}.{name.split('/', maxsplit=1)[0]}"


def bytes_of(name: str) -> bytes:
    """Return the bytes of the test model `circle/mlp`."""
    return path_of(name).read_bytes()


def edited(data: bytes, *changes: Callable[[ModelEdit], object]) -> bytes:
    """Return `data` after one edit that makes all of `changes`."""
    with open_model(data) as model:
        edit = ModelEdit(model)
        for change in changes:
            change(edit)
        return edit.to_bytes()


def ends_with(after: bytes, data: bytes) -> bool:
    """Return whether a file ends with another one, but for offsets of a ZIP archive, which count from the start."""
    tail = after[-len(data) :]
    if tail == data or not zipfile.is_zipfile(io.BytesIO(data)):
        return tail == data
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
        same = [(old.read(one), new.read(two)) for one, two in zip(old.namelist(), new.namelist(), strict=True)]
        by = {two.header_offset - one.header_offset for one, two in zip(old.infolist(), new.infolist(), strict=True)}
        start = old.start_dir
    return tail[:start] == data[:start] and by == {len(after) - len(data)} and all(one == two for one, two in same)


def noted(data: bytes, name: str = "note", value: bytes = b"a value") -> bytes:
    """Return `data` with one metadata entry set."""
    return edited(data, lambda edit: edit.set_metadata(name, value))


def value_of(model: Model, name: str) -> bytes | None:
    """Return the value of a metadata entry as bytes of its own."""
    value = model.metadata_value(name)
    return None if value is None else bytes(value)


def read_everything(model: Model) -> None:
    """Look at every view of a model."""
    _ = model.version, model.description, model.operator_codes, model.metadata, model.signatures
    for buffer in model.buffers:
        bytes(buffer.data[:1])
    for entry in model.metadata:
        model.metadata_value(entry.name)
    for subgraph in model.subgraphs:
        _ = subgraph.name, subgraph.inputs.tolist(), subgraph.outputs.tolist()
        _ = list(subgraph.operators), subgraph.code_indices(), list(subgraph.tensors)
        model.output_names(subgraph.index)
    _ = model.tensor_columns.names, model.tensor_columns.types, model.operator_columns.first_outputs


def with_root() -> str:
    """Return a `PYTHONPATH` for children that import `tests`: what there is stays, so that it counts for them too."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


# --- a reader that nobody here wrote ------------------------------------------------------------------------


def generated(name: str, identifier: bytes) -> Any:
    """Return a class of the published generated code: of ai-edge-litert for TFL3, of circle-schema for CIR0."""
    module = published(identifier)
    if identifier == b"TFL3":
        return getattr(module, name)
    table = name.removesuffix("T") if name not in ("Int32Vector",) else name
    return getattr(getattr(module, table), name)


@cache
def published(identifier: bytes) -> Any:
    """Return the module of the published classes for a format."""
    name = "ai_edge_litert.schema_py_generated" if identifier == b"TFL3" else "circle_schema.v0_10.circle"
    need(name.partition(".")[0])
    return importlib.import_module(name)


@cache
def published_names(enum: str) -> dict[int, str]:
    """Return the members of an enum by value, as the published classes of TFLite have them."""
    return {value: name for name, value in vars(generated(enum, b"TFL3")).items() if name.isupper()}


def unpacked(data: bytes) -> Any:
    """Return a model as the objects of the published object API."""
    return generated("ModelT", data[4:8]).InitFromPackedBuf(data, 0)


def packed(model: Any, identifier: bytes) -> bytes:
    """Return the file for objects of the published object API."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), identifier)
    return bytes(builder.Output())


def read(data: bytes) -> dict[str, Any]:
    """Return a whole model as plain nested data, as the published object API sees it.

    Places in the file become the bytes there, so that they can be compared between files.
    """
    model: dict[str, Any] = plain(unpacked(data))
    for buffer in model["buffers"] or ():
        _resolve(buffer, "offset", "size", data)
    for subgraph in model["subgraphs"] or ():
        for operator in subgraph["operators"] or ():
            _resolve(operator, "largeCustomOptionsOffset", "largeCustomOptionsSize", data)
            _resolve_program(operator, data)
    return model


def _resolve_program(operator: dict[str, Any], data: bytes) -> None:
    """LiteRT appends compiled programs to the file; a map in the custom options gives their positions."""
    options = operator["customOptions"]
    if options and b"bytecode_offset" in options:
        try:
            fields = flexbuffers.Loads(options)
        except (KeyError, ValueError, IndexError, TypeError, RecursionError, struct.error):
            return  # hostile; no program can be meant
        start, size = fields["bytecode_offset"], fields["bytecode_size"]
        operator["customOptions"] = (len(options), {**fields, "bytecode_offset": data[start : start + size]})


def _resolve(table: dict[str, Any], offset: str, size: str, data: bytes) -> None:
    start = table[offset]
    if start > 1:
        table[offset] = data[start : start + table[size]]


def plain(value: Any) -> Any:
    """Turn objects of the object API into dicts, vectors into tuples, bytes or lists of dicts."""
    if isinstance(value, np.ndarray):
        return tuple(value.tolist()) if value.dtype.kind == "i" else value.tobytes()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return struct.pack("<d", value)  # NaN equals itself
    if hasattr(value, "__dict__"):
        return {"": type(value).__name__, **{name: plain(item) for name, item in vars(value).items()}}
    return value


def blank(name: str, identifier: bytes) -> dict[str, Any]:
    """Return a table as `plain` shows it when no field is set."""
    table: dict[str, Any] = plain(generated(f"{name}T", identifier)())
    return table


def by_content(model: dict[str, Any]) -> dict[str, Any]:
    """Name buffers by what they hold: for edits that may choose a buffer's index as they like."""
    contents = [(buffer["data"] or b"", buffer["offset"], buffer["size"]) for buffer in model["buffers"]]
    model = {**model, "buffers": None}
    model["metadata"] = [(entry["name"], contents[entry["buffer"]]) for entry in model["metadata"] or ()]
    model["subgraphs"] = [
        {
            **subgraph,
            "tensors": [{**tensor, "buffer": contents[tensor["buffer"]]} for tensor in subgraph["tensors"] or ()],
        }
        for subgraph in model["subgraphs"]
    ]
    return model


def with_entry(model: dict[str, Any], name: bytes, value: bytes) -> dict[str, Any]:
    """Return what `read` gives after a new metadata entry was appended to `model`."""
    buffers = model["buffers"] or [blank("Buffer", b"TFL3")]  # buffer 0 means no data
    buffer = {**blank("Buffer", b"TFL3"), "data": value}
    entry = {**blank("Metadata", b"TFL3"), "name": name, "buffer": len(buffers)}
    return {**model, "buffers": [*buffers, buffer], "metadata": [*(model["metadata"] or ()), entry]}


# --- single bytes -------------------------------------------------------------------------------------------

_TABLE_VECTORS = {
    "operator_codes": 1,
    "subgraphs": 2,
    "buffers": 4,
    "metadata": 6,
    "signature_defs": 7,
    "tensors": 0,
    "operators": 3,
}


def u32(data: bytes, at: int) -> int:
    """Read four bytes."""
    return int.from_bytes(data[at : at + 4], "little")


def put(data: bytes, at: int, new: bytes) -> bytes:
    """Return `data` with `new` written over it at `at`."""
    assert 0 <= at <= len(data) - len(new)
    return data[:at] + new + data[at + len(new) :]


def put_u32(data: bytes, at: int, value: int) -> bytes:
    """Return `data` with four bytes replaced."""
    return put(data, at, value.to_bytes(4, "little"))


def locate(data: bytes, *steps: str | int) -> int:
    """Return the position of a table: `locate(data, "subgraphs", 0, "operators", 2)`; no steps give the root."""
    at = u32(data, 0)
    for name, index in zip(steps[::2], steps[1::2], strict=True):
        element = target(data, field_at(data, at, _TABLE_VECTORS[str(name)])) + 4 + 4 * int(index)
        at = target(data, element)
    return at


def target(data: bytes, at: int) -> int:
    """Follow the reference at `at`."""
    return at + u32(data, at)


def vtable_of(data: bytes, table: int) -> int:
    """Return the position of a table's vtable."""
    return table - int.from_bytes(data[table : table + 4], "little", signed=True)


def entry_at(data: bytes, table: int, slot: int) -> int:
    """Return where a table's vtable keeps the offset of the field in `slot`; 0 if the vtable is too short."""
    vtable, entry = vtable_of(data, table), 4 + 2 * slot
    return vtable + entry if entry < int.from_bytes(data[vtable : vtable + 2], "little") else 0


def find_field(data: bytes, table: int, slot: int) -> int:
    """Return the position of the field in `slot` of a table; 0 if it is absent."""
    entry = entry_at(data, table, slot)
    offset = int.from_bytes(data[entry : entry + 2], "little") if entry else 0
    return table + offset if offset else 0


def field_at(data: bytes, table: int, slot: int) -> int:
    """Return the position of the field in `slot` of a table, which must be present."""
    at = find_field(data, table, slot)
    assert at, f"slot {slot} is absent"
    return at


# --- time ---------------------------------------------------------------------------------------------------


def within(seconds: float) -> AbstractContextManager[None]:
    """Fail when the block takes more time of the processor."""
    return limited(seconds, AssertionError)
