"""The source locations that TFLite's converter can leave in a model (`serialize_debug_metadata`).

The `debug_metadata_index` field of subgraphs and operators is an index into the debug metadata, which refers to a
list of MLIR locations that refer to each other:

    CallSiteLoc     callee: the called function    caller: its call stack, the outermost line first
    FusedLoc        several locations; if the first is a name such as `MatMul:`, it is the type of the operator
    NameLoc         a name, `dense/MatMul@function`; its child is the place where the function was traced
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from circletools.errors import ModelFormatError
from circletools.graph.graph import ModelGraph
from circletools.model.options import named_fields
from circletools.model.verify import DEBUG_METADATA, DebugMetadata
from circletools.origin.source import NOTHING, AnySource, Source, SourceDetails, line_of, relative_file

_LOCATION = 1  # the code of Location in the union Attribute; DictItem is its other member
_MOST_FRAMES = 1000  # Python's default recursion limit
_STEP_BYTES = 64  # charged to the budget for each location of each operator, and for each frame


def operator_locations(model: ModelGraph, subgraph: int = 0) -> list[list[AnySource]]:
    """Return the sources named by the locations of each operator of a subgraph; empty lists if there are none.

    Raises ModelFormatError if the debug metadata is broken.
    """
    indices = model.graphs[subgraph].operators.tables.scalars("debug_metadata_index").tolist()
    data = model.metadata_value(DEBUG_METADATA)
    if data is None or not len(data):
        return [[] for _ in indices]
    described = int(model.source.subgraph_tables.scalars("debug_metadata_index")[subgraph])
    try:
        return _Locations(DebugMetadata(data)).of_operators(described, indices)
    except ModelFormatError as error:
        raise ModelFormatError(f"the locations are broken: {error}", location=f"metadata {DEBUG_METADATA}") from error


Location = dict[str, Any]


class _Step(NamedTuple):
    """A location to visit, and the context from the locations above it."""

    at: int
    line: tuple[str, int, str] = ("", 0, "")
    call: str = ""


class _Locations:
    """One debug metadata flatbuffer."""

    def __init__(self, metadata: DebugMetadata) -> None:
        self.metadata, self.schema, self.conversion = metadata, metadata.schema, metadata.conversion
        self.kinds = self.conversion.vectors("attributes_type").row(0).tolist()
        self.locations, _ = self.conversion.children("attributes", self.schema)
        self.types = self.locations.scalars("location_type").tolist() if self.kinds else []
        self.targets = self.locations.targets("location").tolist()
        self.at, self.lines = cache(self._read), cache(self._line_of)
        self.charge = self.conversion.wire.budget.tally("the locations of operators")

    def of_operators(self, subgraph: int, indices: Iterable[int]) -> list[list[AnySource]]:
        """Return the sources of a subgraph's operators, given their indices in the debug metadata."""
        subgraphs = self.metadata.subgraphs
        if not 0 <= subgraph < len(subgraphs):
            return [[] for _ in indices]
        described, _ = subgraphs.take(slice(subgraph, subgraph + 1)).children("operators_debug_metadata", self.schema)
        attributes = described.vectors("attribute_metadata_indexes")
        return [
            self.sources(attributes.row(index).tolist()) if 0 <= index < len(described) else [] for index in indices
        ]

    def sources(self, indices: list[int]) -> list[AnySource]:
        """Return the sources reached from these locations; each location is visited once, so cycles are harmless."""
        found: dict[AnySource, None] = {}
        types: dict[AnySource, None] = {}
        seen: set[int] = set()
        pending = [_Step(index) for index in reversed(indices)]
        while pending:
            step = pending.pop()
            self.charge(_STEP_BYTES)
            member, location = self.at(step.at)
            if location is None or step.at in seen:
                continue
            seen.add(step.at)
            if member == "NameLoc":
                name = location["name"]
                if name:
                    (types if name.endswith(":") else found)[_named(name, step)] = None
            elif member == "FileLineColLoc":
                file, line, column = location["filename"], location["line"], location["column"]
                place = f"{relative_file(file, os.getcwd())}:{line}:{column}"
                found[_source(place, SourceDetails(file=file, line=line))] = None
            elif member == "FusedLoc":
                pending += self._parts(location, step)
            elif member == "CallSiteLoc":
                line_above = self.lines(location["caller_index"])
                callee = location["callee_index"]
                pending.append(step._replace(at=callee, line=line_above or step.line))
            elif member == "OpaqueLoc":
                pending.append(step._replace(at=location["fallback_location_index"]))
        return list(found or types)

    def _read(self, index: int) -> tuple[str | None, Location | None]:
        """Return the kind of a location and the location, or None for both if there is no location."""
        there = index < len(self.kinds) and self.kinds[index] == _LOCATION and self.targets[index]
        member = self.schema.unions["LocationType"].get(self.types[index]) if there else None
        if member is None:
            return None, None
        return member, named_fields(self.metadata.table(member, self.targets[index]), self.schema)[0]

    def _parts(self, fused: Location, step: _Step) -> list[_Step]:
        """Return the parts of a fused location in reverse order; a leading operator type applies to all of them."""
        indices = fused["location_indexes"]
        member, first = self.at(indices[0]) if indices else (None, None)
        name = first["name"] if first is not None and member == "NameLoc" else ""
        call = name[:-1] if name.endswith(":") else step.call
        return [step._replace(at=index, call=call) for index in reversed(indices)]

    def _line_of(self, index: int) -> tuple[str, int, str] | None:
        """Return the innermost line of a call stack, and its caller (see `line_of`); None if it has no line."""
        frames: list[tuple[str, int]] = []
        for _ in range(_MOST_FRAMES):  # locations may form a cycle
            self.charge(_STEP_BYTES)
            member, location = self.at(index)
            if location is not None and member == "CallSiteLoc":
                index = location["caller_index"]
                member, location = self.at(location["callee_index"])
            if location is None or member != "FileLineColLoc":
                break
            frames.append((location["filename"], location["line"]))
        found = line_of(frames)
        return found if found[0] else None


def _named(name: str, step: _Step) -> AnySource:
    """Return a source, given its name and function, as in `dense/MatMul@function`."""
    call = "" if name.endswith(":") else step.call
    details = SourceDetails(file=step.line[0], line=step.line[1], call=call, caller=step.line[2])
    return _source(name.partition("@")[0] or name, details)


def _source(name: str, details: SourceDetails) -> AnySource:
    return name if details == NOTHING else Source(name, details)
