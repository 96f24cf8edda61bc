"""TFLITE_METADATA: a flatbuffer that describes a model and its inputs and outputs, for applications.

tflite-support and MediaPipe read it; files such as labels stand in a ZIP archive behind the model. What is changed is
written in front, as an edit of a model is, so that everything else of an entry stays.
Schema: tensorflow_lite_support/metadata/metadata_schema.fbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np

from circletools.edit.members import member_number
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.inert import Inert
from circletools.flatbuf.overlay import FieldValue, NewTable, Overlay, References
from circletools.flatbuf.prefix import write_prefix
from circletools.flatbuf.schema import load_schema
from circletools.flatbuf.verify import check_header, walk
from circletools.metadata.document import to_documents

TFLITE_METADATA = "TFLITE_METADATA"
_PARSER = "1.0.0"  # what reads all that is written here
_SIDES = {"inputs": "input_tensor_metadata", "outputs": "output_tensor_metadata"}


class TFLiteMetadata:
    """The value of the entry, open for changes. `names` are the names of the inputs and the outputs, in order."""

    def __init__(self, data: bytes | None, names: Mapping[str, Sequence[str]]) -> None:
        """Open a value, or a new one. Raises ModelFormatError for one that is broken."""
        self._data, self._names, self._changed = data or _nothing(), names, False
        schema = load_schema("tflite_metadata")
        wire = Wire(memoryview(self._data))
        try:
            self._reachable = walk(wire, schema, max_tables=None)
            root = check_header(wire, schema)
        except ModelFormatError as error:
            raise ModelFormatError(error.message, location=f"metadata {TFLITE_METADATA}") from error
        self._file = Tables(wire, schema.tables[schema.root], np.array([root], np.int64))
        inert = Inert(wire, schema, lambda: self._reachable, 0)
        self._overlay = Overlay(wire, schema, root, 0, {}, inert)
        if data is None:
            self.put(self._overlay.root, "min_parser_version", _PARSER)

    @property
    def root(self) -> NewTable:
        """The description of the model."""
        return self._overlay.root

    def document(self) -> dict[str, Any]:
        """Return what the value had when it was opened, as JSON in the words of flatc."""
        (found,) = to_documents(self._file)
        return found

    def put(self, table: NewTable, name: str, value: FieldValue) -> None:
        """Set a field, unless it has this value."""
        new = NewTable(table.type)
        new.set(name, value)
        old, item = table[name], table.type.by_name[name]
        if isinstance(old, int) and item.kind in {"string", "vector"}:
            old = self._overlay.text(table, name)
        if new[name] != old:
            self._changed = True
            table.set(name, value)

    def tensor(self, side: str, position: int) -> NewTable:
        """Return the description of an input or an output, by position."""
        subgraphs = self._overlay.references(self.root, "subgraph_metadata")
        subgraph = self._element(subgraphs, "SubGraphMetadata", 0)
        tensors = self._overlay.references(subgraph, _SIDES[side])
        for at in range(len(tensors), len(self._names[side])):
            self.put(self._element(tensors, "TensorMetadata", at), "name", self._names[side][at])
        return self._element(tensors, "TensorMetadata", position)

    def _element(self, references: References, kind: str, index: int) -> NewTable:
        if index == len(references):
            references.append(NewTable(self._overlay.schema.tables[kind]))
            self._changed = True
        return self._overlay.own(references, kind, index)

    def attach(self, tensor: NewTable, fields: Mapping[str, FieldValue]) -> None:
        """Name an associated file of a tensor, in place of one of this name, or of its type for the same locale."""
        files = self._overlay.references(tensor, "associated_files")
        tables = [self._element(files, "AssociatedFile", at) for at in range(len(files))]
        new = NewTable(self._overlay.schema.tables["AssociatedFile"])
        for field, value in fields.items():
            new.set(field, value)
        named = [one for one in tables if self._overlay.text(one, "name") == new["name"]]
        alike = [one for one in tables if self._use(one) == self._use(new)]
        table = next(iter(named + alike), None) or self._element(files, "AssociatedFile", len(files))
        for field, value in fields.items():
            self.put(table, field, value)

    def _use(self, file: NewTable) -> tuple[object, bytes]:
        return file["type"], self._overlay.text(file, "locale")

    def state_image(self, tensor: NewTable, colors: str, least: Sequence[float], most: Sequence[float]) -> None:
        """Make an input an image, whose values have these bounds by channel or of all; what it is already stays."""
        schema = self._overlay.schema
        kinds = {name: code for code, name in schema.unions["ContentProperties"].items()}
        content = self._child(tensor, "content", "Content")
        if content["content_properties_type"] in (None, b"\0"):
            image = NewTable(schema.tables["ImageProperties"])
            image.set("color_space", schema.enum_value("ColorSpaceType", colors))
            content.set("content_properties_type", kinds["ImageProperties"])
            content.set("content_properties", image)
            self._changed = True
        stats = self._child(tensor, "stats", "Stats")
        self.put(stats, "min", list(least))
        self.put(stats, "max", list(most))

    def _child(self, table: NewTable, name: str, kind: str) -> NewTable:
        """Return the table of a field, open for changes, and a new one where there is none."""
        child = self._overlay.below(table, name, kind) or NewTable(self._overlay.schema.tables[kind])
        table.set(name, child)
        return child

    def normalize(self, tensor: NewTable, mean: Sequence[float], std: Sequence[float]) -> None:
        """Give an input its normalization: (value - mean) / std, of each channel or of all."""
        units = self._overlay.references(tensor, "process_units")
        kind, schema = "NormalizationOptions", self._overlay.schema
        code = member_number(schema.unions["ProcessUnitOptions"], kind, "process unit")
        known = [self._element(units, "ProcessUnit", at) for at in range(len(units))]
        same = (unit for unit in known if unit["options_type"] == bytes([code]))
        unit = next(same, None) or self._element(units, "ProcessUnit", len(units))
        unit.set("options_type", code)
        options = self._child(unit, "options", kind)
        self.put(options, "mean", list(mean))
        self.put(options, "std", list(std))

    def to_bytes(self) -> bytes:
        """Return the value; where nothing was changed, as it was."""
        root = self._overlay.settle() if self._changed else None
        return self._data if root is None else self.with_root(root)

    def with_root(self, root: NewTable) -> bytes:
        """Return the value with another root in front."""
        return write_prefix(self._overlay, root, self._reachable.end) + self._data


def _nothing() -> bytes:
    builder = flatbuffers.Builder(32)
    builder.StartObject(0)
    builder.Finish(builder.EndObject(), b"M001")
    return bytes(builder.Output())
