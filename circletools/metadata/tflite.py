"""TFLITE_METADATA: a flatbuffer that describes a model and its inputs and outputs, for applications.

tflite-support and MediaPipe read it; files such as labels stand in a ZIP archive behind the model. What is changed is
written in front, as an edit of a model is, so that everything else of an entry stays.
Schema: tensorflow_lite_support/metadata/metadata_schema.fbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flatbuffers

from circletools.edit.members import member_number
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.inert import Inert
from circletools.flatbuf.overlay import FieldValue, NewTable, Overlay, References
from circletools.flatbuf.prefix import write_prefix
from circletools.flatbuf.schema import load_schema
from circletools.flatbuf.verify import check_header, walk

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
        inert = Inert(wire, schema, lambda: self._reachable, 0)
        self._overlay = Overlay(wire, schema, root, 0, {}, inert)
        if data is None:
            self.put(self._overlay.root, "min_parser_version", _PARSER)

    @property
    def root(self) -> NewTable:
        """The description of the model."""
        return self._overlay.root

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
        """Name an associated file of a tensor; one of this name gets these fields."""
        files = self._overlay.references(tensor, "associated_files")
        tables = [self._element(files, "AssociatedFile", at) for at in range(len(files))]
        name = str(fields["name"]).encode("utf-8", "surrogateescape")
        same = [table for table in tables if self._overlay.text(table, "name") == name]
        table = same[0] if same else self._element(files, "AssociatedFile", len(files))
        for field, value in fields.items():
            self.put(table, field, value)

    def normalize(self, tensor: NewTable, mean: Sequence[float], std: Sequence[float]) -> None:
        """Give an input its normalization: (value - mean) / std, of each channel or of all."""
        units = self._overlay.references(tensor, "process_units")
        kind, schema = "NormalizationOptions", self._overlay.schema
        code = member_number(schema.unions["ProcessUnitOptions"], kind, "process unit")
        known = [self._element(units, "ProcessUnit", at) for at in range(len(units))]
        same = (unit for unit in known if unit["options_type"] == bytes([code]))
        unit = next(same, None) or self._element(units, "ProcessUnit", len(units))
        options = self._overlay.below(unit, "options", kind) or NewTable(schema.tables[kind])
        unit.set("options_type", code)
        unit.set("options", options)
        self.put(options, "mean", list(mean))
        self.put(options, "std", list(std))

    def to_bytes(self) -> bytes:
        """Return the value; where nothing was changed, as it was."""
        root = self._overlay.settle() if self._changed else None
        return self._data if root is None else write_prefix(self._overlay, root, self._reachable.end) + self._data


def _nothing() -> bytes:
    builder = flatbuffers.Builder(32)
    builder.StartObject(0)
    builder.Finish(builder.EndObject(), b"M001")
    return bytes(builder.Output())
