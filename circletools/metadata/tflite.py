"""TFLITE_METADATA: a flatbuffer that describes a model, its inputs and its outputs to applications.

tflite-support and MediaPipe read it; files such as labels are in a ZIP archive appended to the model. This module
converts the flatbuffer to and from a JSON document. Schema: tensorflow_lite_support/metadata/metadata_schema.fbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.errors import EditError, ModelFormatError, UsageError
from circletools.flatbuf.columns import Tables, Wire, unknown_slots, vectors_at
from circletools.flatbuf.description import described
from circletools.flatbuf.schema import OFFSET, Field, TableType, load_schema
from circletools.flatbuf.tables import NewTable, OldTables
from circletools.flatbuf.verify import check_header, walk
from circletools.flatbuf.writer import Writer
from circletools.wording import suggestion

_Version = tuple[int, int, int]

_ENUMS = {
    "AssociatedFile.type": "AssociatedFileType",
    "BoundingBoxProperties.type": "BoundingBoxType",
    "BoundingBoxProperties.coordinate_type": "CoordinateType",
    "ImageProperties.color_space": "ColorSpaceType",
    "ScoreCalibrationOptions.score_transformation": "ScoreTransformationType",
}
_KINDS: Mapping[Any, str] = {Mapping: "an object", list: "a list", str: "text", int | float: "a number"}
_TEXTS = {"TensorGroup.tensor_names", "TensorMetadata.dimension_names"}
_SINCE = {
    "AssociatedFile.type=VOCABULARY": (1, 0, 1),
    "SubGraphMetadata.input_process_units": (1, 1, 0),
    "SubGraphMetadata.output_process_units": (1, 1, 0),
    "ProcessUnit.options_type=BertTokenizerOptions": (1, 1, 0),
    "ProcessUnit.options_type=SentencePieceTokenizerOptions": (1, 1, 0),
    "SubGraphMetadata.input_tensor_groups": (1, 2, 0),
    "SubGraphMetadata.output_tensor_groups": (1, 2, 0),
    "ProcessUnit.options_type=RegexTokenizerOptions": (1, 2, 1),
    "Content.content_properties_type=AudioProperties": (1, 3, 0),
    "AssociatedFile.type=SCANN_INDEX_FILE": (1, 4, 0),
    "AssociatedFile.version": (1, 4, 1),
}
"""The schema versions that introduced fields and enum members; those not listed are in 1.0.0."""


def leaves(tables: Tables, item: Field) -> list[Any]:
    """Return the values of a field that contains no tables. Raises EditError for fields of a newer schema."""
    if unknown_slots(tables).any():
        raise EditError(f"{tables.type.name} has fields of a newer schema", hint="`metadata set` accepts any value")
    if item.kind == "scalar":
        members = _members(tables.type, item)
        return [members.get(number, number) for number in _plain(tables.scalars(item.name))]
    if item.kind == "string":
        return [text.decode("utf-8", "surrogateescape") for text in tables.strings(item.name)]
    vectors = tables.vectors(item.name)
    if item.target is not None:
        schema = load_schema("tflite_metadata")
        flat: list[Any] = described(tables.children(item.name, schema)[0], schema, leaves)
    elif f"{tables.type.name}.{item.name}" in _TEXTS:
        at = vectors.element_positions()
        texts = vectors_at(tables.wire, at + tables.wire.gather(at, OFFSET), np.dtype("u1")).check_total()
        flat = [texts.row(row).tobytes().decode("utf-8", "surrogateescape") for row in range(len(at))]
    else:
        flat = _plain(vectors.flat())
    return [flat[start:end] for start, end in pairwise(vectors.splits().tolist())]


def _plain(numbers: NDArray[Any]) -> list[Any]:
    """Return Python numbers; 32-bit floats get the fewest digits that identify them."""
    return [float(str(one)) for one in numbers] if numbers.dtype == np.float32 else numbers.tolist()


def _members(owner: TableType, item: Field) -> Mapping[int, str]:
    """Return the enum names of a field's possible values."""
    schema, enum = load_schema("tflite_metadata"), _ENUMS.get(f"{owner.name}.{item.name}")
    if enum is not None:
        return schema.enums[enum]
    union = next((one for one in owner.fields if one.kind == "union" and one.type_slot == item.slot), None)
    return {} if union is None else {0: "NONE", **schema.unions[str(union.target)]}


def from_document(document: Any) -> tuple[NewTable, list[str]]:
    """Return the root table for a document, and the names of the files in it.

    The root contains the minimum parser version. Raises UsageError with the location of a field or value that is not
    in the schema.
    """
    versions, files = [(1, 0, 0)], list[str]()
    root = _table(load_schema("tflite_metadata").root, document, "", (versions, files))
    root.set("min_parser_version", ".".join(map(str, max(versions))))
    return root, files


def _table(kind: str, document: Any, place: str, needs: tuple[list[_Version], list[str]]) -> NewTable:
    table = NewTable(load_schema("tflite_metadata").tables[kind])
    for name, value in _checked(document, Mapping, place).items():
        where = f"{place}.{name}".lstrip(".")
        if name not in table.type.by_name:
            raise UsageError(f"{kind} has no such field", location=where, hint=suggestion(name, table.type.by_name))
        item = table.type.by_name[name]
        keys = (f"{kind}.{name}", f"{kind}.{name}={value}")
        needs[0].extend(_SINCE[key] for key in keys if key in _SINCE)
        needs[1].extend([str(value)] if keys[0] == "AssociatedFile.name" else ())
        if item.kind == "vector" and (item.target is not None or f"{kind}.{name}" in _TEXTS):
            places = ((one, f"{where}[{at}]") for at, one in enumerate(_checked(value, list, where)))
            table.fields[item.slot] = (
                tuple(str(_checked(one, str, at)).encode("utf-8", "surrogateescape") for one, at in places)
                if item.target is None
                else [_table(item.target, one, at, needs) for one, at in places]
            )
        elif item.kind in ("table", "union"):
            owner = next((one.name for one in table.type.fields if one.slot == item.type_slot), "")
            target = item.target if item.kind == "table" else document.get(owner)
            if target not in load_schema("tflite_metadata").tables:
                raise UsageError(f"{owner} must name the type of this value", location=where)
            table.set(name, _table(str(target), value, where, needs))
        else:
            numbers = {member: number for number, member in _members(table.type, item).items()}
            if numbers and isinstance(value, str) and value not in numbers:
                raise UsageError(f"{value!r} is not known", location=where, hint=suggestion(value, numbers))
            number = numbers.get(value, value) if isinstance(value, str) else value
            table.set(name, _checked(number, {"string": str, "vector": list}.get(item.kind, int | float), where))
    return table


def _checked(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, kind):
        raise UsageError(f"this must be {_KINDS[kind]}", location=place or None)
    return value


TFLITE_METADATA = "TFLITE_METADATA"


def decoded(data: bytes) -> dict[str, Any]:
    """Decode an entry. Raises ModelFormatError if the entry is broken, and EditError if its schema is newer."""
    schema, wire = load_schema("tflite_metadata"), Wire(memoryview(data))
    try:
        walk(wire, schema)
        root = Tables(wire, schema.tables[schema.root], np.array([check_header(wire, schema)]))
        (found,) = described(root, schema, leaves)
    except ModelFormatError as error:
        message = error.message.replace("the file", f"the entry ({len(data):,} bytes)", 1)
        raise ModelFormatError(message, location=f"metadata {TFLITE_METADATA}") from error
    return found


def encoded(root: NewTable) -> bytes:
    """Encode an entry with this root."""
    (data,) = Writer(OldTables(Wire(b""), load_schema("tflite_metadata"))).write(root)
    assert isinstance(data, bytes)
    return data
