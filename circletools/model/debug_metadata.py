"""The `debug_metadata` metadata entry: a separate flatbuffer, which TFLite's converter can write.

The `debug_metadata_index` field of subgraphs and operators refers to its tables. Schema:
tensorflow/compiler/mlir/lite/schema/debug_metadata.fbs.
"""

from __future__ import annotations

import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import load_schema

DEBUG_METADATA = "debug_metadata"


class DebugMetadata:
    """The debug metadata of the first conversion; `subgraphs` holds a table for each subgraph that it describes."""

    def __init__(self, data: memoryview) -> None:
        """Read the top-level tables. Raises ModelFormatError if there are no tables."""
        self.wire, self.schema = Wire(data), load_schema("debug_metadata")
        root = self.table(self.schema.root, self.wire.one(0, np.dtype("<u4")))
        conversions, _ = root.children("debug_metadata", self.schema)
        if not len(conversions):
            raise ModelFormatError("it does not describe a conversion")
        self.conversion = conversions.take(slice(0, 1))
        self.subgraphs, _ = self.conversion.children("subgraphs_debug_metadata", self.schema)

    def table(self, name: str, at: int) -> Tables:
        """Return the table at a position."""
        return Tables(self.wire, self.schema.tables[name], np.array([at], np.int64))
