"""TFLITE_METADATA: a flatbuffer that describes a model and its inputs and outputs, for applications.

tflite-support and MediaPipe read it; files such as labels are in a ZIP archive appended to the model. It is read as a
JSON document, and rewritten from one. Schema: tensorflow_lite_support/metadata/metadata_schema.fbs.
"""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.description import described
from circletools.flatbuf.inert import Inert
from circletools.flatbuf.overlay import NewTable, Overlay
from circletools.flatbuf.prefix import write_prefix
from circletools.flatbuf.schema import load_schema
from circletools.flatbuf.verify import check_header, walk
from circletools.metadata.document import leaves

TFLITE_METADATA = "TFLITE_METADATA"


def decoded(data: bytes) -> dict[str, Any]:
    """Decode an entry. Raises ModelFormatError if it is broken, EditError for a newer schema."""
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
    """Return the encoded entry with this root."""
    builder = flatbuffers.Builder(32)
    builder.StartObject(0)
    builder.Finish(builder.EndObject(), b"M001")
    data, schema = bytes(builder.Output()), load_schema("tflite_metadata")
    wire = Wire(memoryview(data))
    reachable = walk(wire, schema)
    inert = Inert(wire, schema, lambda: reachable, 0)
    overlay = Overlay(wire, schema, check_header(wire, schema), 0, {}, inert)
    return write_prefix(overlay, root, reachable.end) + data
