"""The source locations that TFLite's converter can leave in a model (`serialize_debug_metadata`).

`debug_metadata_index` of subgraphs and operators lead into the debug metadata, and from there into a list of MLIR
locations that refer to each other.
"""

from __future__ import annotations

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Tables
from circletools.model.debug_metadata import DEBUG_METADATA, DebugMetadata
from circletools.model.model import Model
from circletools.model.views import text

_LOCATION = 1  # the union code of a Location among the attributes; the other is a dictionary item


def operator_locations(model: Model) -> list[list[str]]:
    """Return the names of the locations of each operator of subgraph 0; empty lists where there are none.

    Raises ModelFormatError when the debug metadata is broken.
    """
    count = len(model.subgraphs[0].operators)
    data = model.metadata_value(DEBUG_METADATA)
    if data is None or not len(data):
        return [[] for _ in range(count)]
    try:
        return _Locations(DebugMetadata(data)).of_subgraph(model, count)
    except ModelFormatError as error:
        raise ModelFormatError(f"the locations are broken: {error}", location=f"metadata {DEBUG_METADATA}") from error


class _Locations:
    """One debug metadata flatbuffer."""

    def __init__(self, metadata: DebugMetadata) -> None:
        self.metadata, self.schema, self.conversion = metadata, metadata.schema, metadata.conversion
        self.kinds = self.conversion.vectors("attributes_type").row(0).tolist()
        self.locations, _ = self.conversion.children("attributes", self.schema)
        self.types = self.locations.scalars("location_type").tolist() if self.kinds else []
        self.targets = self.locations.targets("location").tolist()

    def of_subgraph(self, model: Model, count: int) -> list[list[str]]:
        subgraphs = self.metadata.subgraphs
        subgraph = int(model.subgraph_tables.scalars("debug_metadata_index")[0])
        if not 0 <= subgraph < len(subgraphs):
            return [[] for _ in range(count)]
        described, _ = subgraphs.take(slice(subgraph, subgraph + 1)).children("operators_debug_metadata", self.schema)
        attributes = described.vectors("attribute_metadata_indexes")
        indices = model.operator_columns.tables.scalars("debug_metadata_index")[:count].tolist()
        return [
            self.names(attributes.row(index).tolist()) if 0 <= index < len(described) else [] for index in indices
        ]

    def names(self, pending: list[int]) -> list[str]:
        """Name the locations that these lead to; each is visited once, so that a cycle ends."""
        names: dict[str, None] = {}
        seen: set[int] = set()
        pending = pending[::-1]
        while pending:
            index = pending.pop()
            if index in seen or index >= len(self.kinds) or self.kinds[index] != _LOCATION:
                continue
            seen.add(index)
            member = self.schema.unions["LocationType"].get(self.types[index])
            if member is None or not self.targets[index]:
                continue
            location = self.metadata.table(member, self.targets[index])
            if member == "NameLoc":
                names[_text(location, "name")] = None
            elif member == "FileLineColLoc":
                line, column = (int(location.scalars(name)[0]) for name in ("line", "column"))
                names[f"{_text(location, 'filename')}:{line}:{column}"] = None
            elif member == "FusedLoc":
                pending += location.vectors("location_indexes").row(0).tolist()[::-1]
            elif member == "CallSiteLoc":
                pending.append(int(location.scalars("callee_index")[0]))
            elif member == "OpaqueLoc":
                pending.append(int(location.scalars("fallback_location_index")[0]))
        # The importer puts the operator's type before its name: fused["MatMul:", "dense/MatMul@main"].
        plain = [name for name in names if name and not name.endswith(":")]
        return plain or [name for name in names if name]


def _text(location: Tables, field: str) -> str:
    return text(location.strings(field)[0])
