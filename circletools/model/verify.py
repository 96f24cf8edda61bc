"""The semantic check: whether all indices in a well-formed file are in range.

`circletools.flatbuf.verify` checks that every reference stays inside the file; this module checks every *index*, in
all subgraphs at once. schema/roles.json lists the index fields and what they refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.findings import Finding, Findings, Severity
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import RoleKind, load_schema
from circletools.flatbuf.verify import MAX_TABLES
from circletools.model.external import ExternalData, external_data
from circletools.model.indices import Indices, model_indices
from circletools.model.model import Model

SHOWN = 20  # the maximum number of findings of one kind that are listed individually


def place_of(field: str, splits: NDArray[np.int64], row: int) -> str:
    """Return the path of a row among all operators or tensors: `subgraphs[0].operators[5]`."""
    subgraph = int(np.searchsorted(splits, row, "right")) - 1
    return f"subgraphs[{subgraph}].{field}[{row - int(splits[subgraph])}]"


def findings_at(
    code: str,
    rows: NDArray[np.int64],
    place: Callable[[int], str],
    message: Callable[[int], str],
    severity: Severity = "warning",
) -> Iterator[Finding]:
    """Yield a finding for each of the first 20 rows, and one with the number of remaining rows."""
    for row in rows[:SHOWN].tolist():
        yield Finding(code, severity, place(row), message(row))
    if len(rows) > SHOWN:
        row = int(rows[SHOWN])
        yield Finding(code, severity, place(row), f"and {len(rows) - SHOWN} more of the same kind: {message(row)}")


_INDEX, _EXTERNAL = "INDEX_OUT_OF_RANGE", "EXTERNAL_DATA_OUTSIDE_FILE"
OPTIONAL = -1  # an optional or omitted input
_INDICES: tuple[RoleKind, ...] = (
    "buffer", "operator_code", "tensor", "subgraph", "external_buffer", "external_buffer_group"
)  # fmt: skip
_ANY = np.iinfo(np.int64).max


def check_model(model: Model) -> Findings:
    """Return all findings about the indices of a model. Raises ModelFormatError for a broken structure."""
    found = [*check_indices(model), *_check_external(model), *_check_sentinel(model)]
    if (count := model.reachable.visits) > MAX_TABLES:
        message = f"{count} tables; LiteRT refuses more than {MAX_TABLES}"
        found.append(Finding("TOO_MANY_TABLES", "warning", "model", message))
    return Findings(found)


def check_indices(model: Model, *, as_read: bool = False) -> list[Finding]:
    """Return an `INDEX_OUT_OF_RANGE` finding for each index that is out of range.

    The severity is `warning`: LiteRT refuses most of these models, but onert uses the index anyway, and runs some of
    them. With `as_read`, debug metadata is left out, and the structure is checked only where indices are stored.
    Raises ModelFormatError if the structure there is broken.
    """
    found = model_indices(model, *(_INDICES if as_read else (*_INDICES, "debug_metadata")), as_read=as_read)
    bounds = _Bounds(model)
    return [finding for indices in found for finding in bounds.check(indices)]


def is_index(finding: Finding) -> bool:
    """Return whether a finding is about an out-of-range index other than one into debug metadata."""
    return finding.code == _INDEX and not finding.location.endswith("debug_metadata_index")


def breaks_graph(finding: Finding) -> bool:
    """Return whether a finding is about an out-of-range index in a subgraph (not in a signature or metadata)."""
    unread = "external_" in finding.location or ".details." in finding.location
    return is_index(finding) and finding.location.startswith("subgraphs[") and not unread


def is_dangling(finding: Finding) -> bool:
    """Return whether a finding is about an out-of-range index or file position (an edit could make it valid)."""
    return is_index(finding) or finding.code == _EXTERNAL


class _Bounds:
    """The number of objects to which each kind of index can refer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tensors = np.diff(model.tensor_columns.splits)
        groups, known = "external_buffer_groups", model.root.type.by_name  # Circle has no groups
        self.counts: dict[RoleKind, int] = {
            "buffer": len(model.buffers),
            "operator_code": len(model.operator_codes),
            "subgraph": len(model.subgraphs),
            "external_buffer_group": int(model.root.vectors(groups).count[0]) if groups in known else 0,
        }
        self.described = _described(model)

    def check(self, indices: Indices) -> Iterator[Finding]:
        """Yield findings for the out-of-range indices of one field."""
        kind = indices.role.kind
        if kind == "external_buffer":
            yield from self._check_identifiers(indices)
        elif kind == "debug_metadata":
            yield from self._check_debug_metadata(indices)
        else:
            limit = _bounds(indices, self.tensors) if kind == "tensor" else self.counts[kind]
            yield from _check(indices, limit)

    def _check_identifiers(self, indices: Indices) -> Iterator[Finding]:
        """Check that tensors refer only to external buffers that exist."""
        values = indices.values
        if not values.any():
            return
        known = self.model.root.children("external_buffers", self.model.schema)[0].scalars("id")
        bad = np.flatnonzero(~np.isin(values, known) & ~np.isin(values, indices.role.none))
        data = np.isin(self.model.tensor_columns.buffers, np.flatnonzero(self.model.buffers.filled))

        def message(at: int) -> str:
            refused = "; LiteRT refuses a tensor that also has data" * bool(data[at])
            return f"external buffer {values[at]} does not exist{refused}"

        yield from findings_at(_INDEX, bad, indices.place, message)

    def _check_debug_metadata(self, indices: Indices) -> Iterator[Finding]:
        """Check the indices into the debug metadata, if there are any and the metadata can be read."""
        described = self.described
        if described is None:
            return
        if indices.key[0] == "SubGraph":
            yield from _check(indices, len(described))
            return
        of_subgraph = self.model.subgraph_tables.scalars("debug_metadata_index").astype(np.int64)
        known = (of_subgraph >= 0) & (of_subgraph < len(described))
        counts = np.append(described, _ANY)[np.where(known, of_subgraph, -1)]
        yield from _check(indices, _bounds(indices, counts))


def _bounds(indices: Indices, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of objects in the subgraph of each index; a missing subgraph is reported separately."""
    owners = indices.subgraphs
    assert owners is not None
    known = (owners >= 0) & (owners < len(counts))
    return np.append(counts, _ANY)[np.where(known, owners, -1)]


def _described(model: Model) -> NDArray[np.int64] | None:
    """Return the number of operators of each subgraph in the debug metadata; None if it cannot be read."""
    try:
        data = model.metadata_value(DEBUG_METADATA)
        return DebugMetadata(data).subgraphs.vectors("operators_debug_metadata").count if data else None
    except ModelFormatError:
        return None


def _check_external(model: Model) -> Iterator[Finding]:
    """Check that data outside the flatbuffer is inside the file; runtimes read it for custom operators only."""
    operators, limit = model.operator_columns, model.wire.size
    custom = np.array([*(one.name.startswith("CUSTOM:") for one in model.operator_codes), True])
    for data in external_data(model):
        end = data.offsets.astype(np.float64) + data.sizes  # as floats, so that hostile values cannot wrap around
        ignored = np.zeros(len(data.rows), np.bool_)
        if data.kind != "Buffer":
            ignored = ~custom[np.minimum(operators.code_indices[data.rows], len(custom) - 1)]
        if data.kind == "large_custom_options":  # options in the flatbuffer come first
            ignored |= operators.tables.vectors("custom_options").count[data.rows] > 0

        def place(row: int, data: ExternalData = data) -> str:
            index = int(data.rows[row])
            owner = f"{place_of('operators', operators.splits, index)}.{data.kind}"
            return f"buffers[{index}]" if data.kind == "Buffer" else owner

        def message(row: int, data: ExternalData = data, ignored: NDArray[np.bool_] = ignored) -> str:
            index = int(data.rows[row])
            read = data.kind == "large_custom_options" and not ignored[row]
            if data.kind == "Buffer":
                read = 0 < index in model.tensor_columns.buffers and not model.buffers.data.count[index]
            ending = "; LiteRT refuses the model" * read + "; no runtime reads them" * bool(ignored[row])
            return f"{data.sizes[row]} bytes at {data.offsets[row]}, but the file ends at {limit}{ending}"

        yield from findings_at(_EXTERNAL, np.flatnonzero((end > limit) & ~ignored), place, message)
        yield from findings_at(_EXTERNAL, np.flatnonzero((end > limit) & ignored), place, message, "info")


def _check_sentinel(model: Model) -> Iterator[Finding]:
    first = model.buffers.tables.take(slice(0, 1))
    if model.buffers.data.count[:1].any() or any(first.scalars(name).any() for name in ("offset", "size")):
        message = "buffer 0 stands for no data, so it must be empty"
        yield Finding("SENTINEL_BUFFER_NOT_EMPTY", "warning", "buffers[0]", message)


def _check(indices: Indices, limit: int | NDArray[np.int64]) -> Iterator[Finding]:
    values, limits = indices.values, np.broadcast_to(limit, indices.values.shape)
    bad = (values < 0) | (values >= limits)
    for none in indices.role.none:
        bad &= values != none
    what = indices.role.kind.replace("_", " ")

    def message(at: int) -> str:
        return f"{what} {values[at]} does not exist; the count is {limits[at]}"

    yield from findings_at(_INDEX, np.flatnonzero(bad), indices.place, message)


# --- the `debug_metadata` entry: a separate flatbuffer, which TFLite's converter can write ---------------------
# The `debug_metadata_index` field of subgraphs and operators refers to its tables. Schema:
# tensorflow/compiler/mlir/lite/schema/debug_metadata.fbs.


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
