"""The metadata entry `debug_metadata`: a flatbuffer of its own, which TFLite's converter can write.

`debug_metadata_index` of subgraphs and operators lead into it.
Schema: tensorflow/compiler/mlir/lite/schema/debug_metadata.fbs.
"""

from __future__ import annotations

import numpy as np

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import load_schema

DEBUG_METADATA = "debug_metadata"


class DebugMetadata:
    """The debug metadata of the first conversion: `subgraphs` has a table for each subgraph that is described."""

    def __init__(self, data: memoryview) -> None:
        """Read the tables at the top. Raises ModelFormatError when there are none."""
        self.wire, self.schema = Wire(data), load_schema("debug_metadata")
        root = self.table(self.schema.root, self.wire.one(0, np.dtype("<u4")))
        conversions, _ = root.children("debug_metadata", self.schema)
        if not len(conversions):
            raise ModelFormatError("no conversion is described")
        self.conversion = conversions.take(slice(0, 1))
        self.subgraphs, _ = self.conversion.children("subgraphs_debug_metadata", self.schema)

    def table(self, name: str, at: int) -> Tables:
        """Return the table at a position."""
        return Tables(self.wire, self.schema.tables[name], np.array([at], np.int64))
