"""The contents of a model file as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from circletools.inspection import Inspection, SubgraphSummary
from circletools.render.table import fields_json, number_columns, shorter, table_text
from circletools.wording import SCHEMA_VERSION, counted

_WIDEST = 80  # the maximum width of a cell, since a column is as wide as its longest cell
_OPERATOR_HEAD = ("operator", "code", "version", "inputs", "outputs", "options")
_TENSOR_HEAD = ("tensor", "type", "shape", "kind", "producer", "consumers", "quantization", "name")


def inspection_json(found: Inspection) -> dict[str, Any]:
    """Return the JSON document."""
    signatures = [
        {
            "key": signature.key,
            "subgraph": signature.subgraph,
            "inputs": [{"name": name, "tensor": tensor} for name, tensor in signature.inputs],
            "outputs": [{"name": name, "tensor": tensor} for name, tensor in signature.outputs],
        }
        for signature in found.signatures
    ]
    document = {"schema_version": SCHEMA_VERSION} | fields_json(found) | {"signatures": signatures}
    rows = ("operator_rows", "tensor_rows")  # left out unless requested
    return {name: value for name, value in document.items() if value is not None or name not in rows}


def inspection_text(found: Inspection) -> Iterator[str]:
    """Yield the lines that `inspect` shows: a summary, or the tables of operators and tensors if requested."""
    if found.operator_rows is None and found.tensor_rows is None:
        yield from _summary_text(found)
    yield from _tables("operators", [_operator_cells(row) for row in found.operator_rows or ()], _OPERATOR_HEAD)
    yield from _tables("tensors", [_tensor_cells(row) for row in found.tensor_rows or ()], _TENSOR_HEAD)


def _summary_text(found: Inspection) -> Iterator[str]:
    yield f"format        {found.format}, schema version {found.version}"
    if found.description:
        yield f"description   {found.description}"
    yield f"size          {found.file_bytes} bytes, flatbuffer {found.flatbuffer_bytes}"
    if found.prefix_bytes:
        yield f"edited        {found.prefix_bytes} bytes in front of the original file"
    yield f"buffers       {found.buffers.count}, {found.buffers.inside_bytes} bytes inside the flatbuffer"
    for external in found.external:
        yield f"external      {external.count} x {external.kind}, {external.bytes} bytes"
    if found.trailing_bytes:
        files = ", ".join(found.associated_files)
        yield f"trailing      {found.trailing_bytes} bytes" + (f", a ZIP archive: {files}" if files else "")
    for name, count in found.operators.items():
        yield f"operator      {count:6}  {name}"
    for subgraph in found.subgraphs:
        yield from _subgraph_text(subgraph)
    for signature in found.signatures:
        inputs, outputs = (
            ", ".join(name for name, _ in entries) for entries in (signature.inputs, signature.outputs)
        )
        yield f"signature     {signature.key} (subgraph {signature.subgraph}): {inputs} -> {outputs}"
    for entry in found.metadata:
        yield f"metadata      {entry.name}  {entry.bytes} bytes (buffer {entry.buffer})"


def _subgraph_text(subgraph: SubgraphSummary) -> Iterator[str]:
    name = f" {subgraph.name}" if subgraph.name else ""
    counts = f"{counted(subgraph.operator_count, 'operator')}, {counted(subgraph.tensors, 'tensor')}"
    yield f"subgraph {subgraph.index}{name}: {counts}"
    rows = [
        (
            f"{direction:6} {slot}",
            tensor.name,
            f"{tensor.type}[{_listed(tensor.shape)}]",
            f"(tensor {tensor.tensor})  {_quantization(tensor.quantization)}".rstrip(),
        )
        for direction, tensors in (("input", subgraph.inputs), ("output", subgraph.outputs))
        for slot, tensor in enumerate(tensors)
    ]
    yield from table_text(rows)


def _tables(what: str, rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> Iterator[str]:
    """Yield a table for each subgraph; the first cell of a row names the subgraph, and the last is never cut."""
    for subgraph, some in groupby(rows, key=lambda row: row[0]):
        cells = [head, *((*(shorter(cell, _WIDEST) for cell in row[1:-1]), row[-1]) for row in some)]
        yield f"{what} of subgraph {subgraph}"
        yield from table_text(cells, right=number_columns(cells))


def _operator_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    options = " ".join(
        f"{name}={f'[{_listed(value)}]' if isinstance(value, list) else value}"
        for name, value in row["options"].items()
    )
    ends = (_listed(row["inputs"]), _listed(row["outputs"]))
    return (str(row["subgraph"]), str(row["index"]), row["code"], str(row["version"]), *ends, options)


def _tensor_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    kind = "constant" if row["is_constant"] else "variable" if row["is_variable"] else "computed"
    producer = "" if row["producer"] is None else str(row["producer"])
    shape, consumers = f"[{_listed(row['shape'])}]", _listed(row["consumers"])
    head = (str(row["subgraph"]), str(row["index"]), row["type"], shape, kind, producer, consumers)
    return (*head, _quantization(row["quantization"]), row["name"])


def _quantization(quantization: Mapping[str, Any] | None) -> str:
    """Return a formula such as `0.5 * (q + 3)` for a single scale, otherwise the number of scales."""
    if quantization is None:
        return ""
    scales, zeros = quantization["scale"], quantization["zero_point"]
    if len(scales) == 1 and len(zeros) <= 1:
        zero = sum(zeros)
        return f"{scales[0]:.6g} * {f'(q - {zero})' if zero > 0 else f'(q + {-zero})' if zero else 'q'}"
    if scales:
        return f"{len(scales)} scales, axis {quantization['axis']}"
    return str(quantization.get("kind") or "range only")


def _listed(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))
