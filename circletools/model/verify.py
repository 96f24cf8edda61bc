"""The semantic check: a sound structure whose indices lead somewhere.

`circletools.flatbuf.verify` says that every reference stays inside the file; here every *index* is looked at,
for all subgraphs at once: tensors, buffers, operator codes, called subgraphs, signatures, external data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.flatbuf.columns import Tables, Vectors
from circletools.flatbuf.verify import MAX_TABLES
from circletools.model.calls import call_fields
from circletools.model.external import ExternalData, external_data
from circletools.model.model import Model

__all__ = ["check_model"]

_SHOWN = 20  # findings of one kind that are told one by one
OPTIONAL = -1  # an optional input, or one that is left out


def check_model(model: Model) -> list[Finding]:
    """Return everything that is wrong with the indices of a model; raises ModelFormatError for its structure."""
    return [*check_indices(model), *_check_external(model), *_check_sentinel(model), *_check_size(model)]


def check_indices(model: Model) -> list[Finding]:
    """Return a finding `INDEX_OUT_OF_RANGE` for each index that leads nowhere."""
    reachable = model.reachable
    tensors, operators = model.tensor_columns, model.operator_columns
    tensor_counts, operator_counts = np.diff(tensors.splits), np.diff(operators.splits)
    subgraphs = np.arange(len(model.subgraph_tables))
    owner = np.repeat(subgraphs, operator_counts)

    def tensor_at(row: int) -> str:
        return _place("tensors", tensors.splits, row)

    def operator_at(row: int) -> str:
        return _place("operators", operators.splits, row)

    findings = [
        # Buffer 0 means "no data", also in a model that has no buffers at all.
        *_check(tensors.buffers, max(len(model.buffers), 1), "buffer", _field(tensor_at, "buffer")),
        *_check(operators.code_indices, len(model.operator_codes), "operator code", operator_at),
    ]
    for name in ("inputs", "outputs"):
        vectors = model.subgraph_tables.vectors(name)
        findings += _check_vectors(vectors, tensor_counts, "tensor", _field("subgraphs[{}]".format, name))
    for name in ("inputs", "outputs", "intermediates"):
        vectors = operators.tables.vectors(name)
        findings += _check_vectors(vectors, tensor_counts[owner], "tensor", _field(operator_at, name), OPTIONAL)
    for table_type, tables in reachable.tables.items():
        findings += _check_calls(model, table_type, tables, operator_at)
    metadata = np.array([entry.buffer for entry in model.metadata], np.int64)
    findings += _check(metadata, len(model.buffers), "buffer", "metadata[{}].buffer".format)
    further = model.root.vectors("metadata_buffer").row(0)
    findings += _check(further, len(model.buffers), "buffer", "metadata_buffer[{}]".format)
    return findings + _check_signatures(model, tensor_counts)


def _check_signatures(model: Model, tensor_counts: NDArray[np.int64]) -> list[Finding]:
    signatures = model.signatures
    called = np.array([signature.subgraph for signature in signatures], np.int64)
    findings = list(_check(called, len(tensor_counts), "subgraph", "signature_defs[{}].subgraph_index".format))
    for name in ("inputs", "outputs"):
        entries = [
            (f"signature_defs[{signature.index}].{name}[{index}]", signature.subgraph, tensor)
            for signature in signatures
            if signature.subgraph < len(tensor_counts)
            for index, (_, tensor) in enumerate(getattr(signature, name))
        ]
        places = [place for place, _, _ in entries]
        limits = np.array([tensor_counts[subgraph] for _, subgraph, _ in entries], np.int64)
        tensors = np.array([tensor for _, _, tensor in entries], np.int64)
        findings += _check(tensors, limits, "tensor", places.__getitem__)
    return findings


def _check_calls(model: Model, name: str, tables: Tables, operator_at: Callable[[int], str]) -> Iterator[Finding]:
    """Check the options that name subgraphs (If, While, CallOnce, composites, ...)."""
    for item in () if name == "SignatureDef" else call_fields(tables.type):
        if item.kind == "scalar":
            values, owner = tables.scalars(item.name), np.arange(len(tables))
        else:
            vectors = tables.vectors(item.name)
            values, owner = vectors.flat(), np.repeat(np.arange(len(tables)), vectors.count)

        def place(row: int, owner: NDArray[Any] = owner, field: str = item.name) -> str:
            return f"{operator_at(_operator_with(model, int(tables.at[owner[row]])))}.{field}"

        yield from _check(values, len(model.subgraphs), "subgraph", place, OPTIONAL)


def _operator_with(model: Model, options: int) -> int:
    """Return the first operator whose options are the table at this position."""
    operators = model.operator_columns.tables
    uses = (operators.targets("builtin_options") == options) | (operators.targets("builtin_options_2") == options)
    return int(np.argmax(uses))


def _check_external(model: Model) -> Iterator[Finding]:
    """Check that data outside the flatbuffer lies inside the file."""
    splits, limit = model.operator_columns.splits, model.wire.size
    for data in external_data(model):
        end = data.offsets.astype(np.float64) + data.sizes  # in floats, so that hostile values cannot wrap around

        def place(row: int, data: ExternalData = data) -> str:
            index = int(data.rows[row])
            return (
                f"buffers[{index}]" if data.kind == "Buffer" else f"{_place('operators', splits, index)}.{data.kind}"
            )

        def message(row: int, data: ExternalData = data) -> str:
            return f"{data.sizes[row]} bytes at {data.offsets[row]}, but the file ends at {limit}"

        yield from _findings("EXTERNAL_DATA_OUTSIDE_FILE", np.flatnonzero(end > limit), place, message)


def _field(place: Callable[[int], str], name: str) -> Callable[[int], str]:
    return lambda row: f"{place(row)}.{name}"


def _check_sentinel(model: Model) -> Iterator[Finding]:
    if len(model.buffers) and (model.buffers.data.count[0] or model.buffers.offsets[0] > 1):
        yield Finding(
            "SENTINEL_BUFFER_NOT_EMPTY", "warning", "buffers[0]", "buffer 0 must be empty; it means no data"
        )


def _check_size(model: Model) -> Iterator[Finding]:
    if model.reachable.visits > MAX_TABLES:
        yield Finding(
            "TOO_MANY_TABLES", "warning", "model",
            f"{model.reachable.visits} tables; LiteRT refuses more than {MAX_TABLES}",
        )  # fmt: skip


def _place(field: str, splits: NDArray[np.int64], row: int) -> str:
    subgraph = int(np.searchsorted(splits, row, "right")) - 1
    return f"subgraphs[{subgraph}].{field}[{row - int(splits[subgraph])}]"


def _check_vectors(
    vectors: Vectors, limits: NDArray[np.int64], what: str, place: Callable[[int], str], lowest: int = 0
) -> Iterator[Finding]:
    """Check the elements of a vector of indices; `limits` holds the bound of each row."""
    splits = vectors.splits()
    values = vectors.flat().astype(np.int64)

    def element(row: int) -> str:
        owner = int(np.searchsorted(splits, row, "right")) - 1
        return f"{place(owner)}[{row - int(splits[owner])}]"

    yield from _check(values, np.repeat(limits, vectors.count), what, element, lowest)


def _check(
    values: NDArray[Any],
    limit: int | NDArray[np.int64],
    what: str,
    place: Callable[[int], str],
    lowest: int = 0,
) -> Iterator[Finding]:
    values = values.astype(np.int64)
    bad = np.flatnonzero((values < lowest) | (values >= limit))
    limits = np.broadcast_to(limit, values.shape)
    yield from _findings(
        "INDEX_OUT_OF_RANGE",
        bad,
        place,
        lambda row: f"{what} {values[row]} does not exist; there are {limits[row]}",
    )


def _findings(
    code: str, rows: NDArray[np.int64], place: Callable[[int], str], message: Callable[[int], str]
) -> Iterator[Finding]:
    for row in rows[:_SHOWN].tolist():
        yield Finding(code, "error", place(row), message(row))
    if len(rows) > _SHOWN:
        yield Finding(code, "error", place(int(rows[_SHOWN])), f"and {len(rows) - _SHOWN} more like the one before")
