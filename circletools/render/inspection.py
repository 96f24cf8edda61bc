"""What a model holds and needs, as text and JSON: contents, costs, required releases and digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import PurePath
from typing import Any

from circletools.cost.cost import Cost
from circletools.diff.attestation import Attestation
from circletools.inspection import Inspection, SubgraphSummary
from circletools.model.digests import ContentDigests
from circletools.model.model import Model
from circletools.render.table import document_json, fields_json, number_columns, shorter, table_text
from circletools.requires.requirements import Requirements
from circletools.requires.table import runtime_table, title
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
        (f"{direction:6} {slot}", tensor.name, f"{tensor.type}[{_listed(tensor.shape)}]", f"(tensor {tensor.tensor})")
        for direction, tensors in (("input", subgraph.inputs), ("output", subgraph.outputs))
        for slot, tensor in enumerate(tensors)
    ]
    yield from table_text(rows)


def _tables(what: str, rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> Iterator[str]:
    """Yield a table for each subgraph, which the first cell of each row names; the last cell is never cut."""
    for subgraph, some in groupby(rows, key=lambda row: row[0]):
        cells = [head, *((*(shorter(cell, _WIDEST) for cell in row[1:-1]), row[-1]) for row in some)]
        yield f"{what} of subgraph {subgraph}"
        yield from table_text(cells, right=number_columns(cells))


def _operator_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    options = " ".join(f"{name}={_said(value)}" for name, value in row["options"].items())
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


def _said(value: Any) -> str:
    return f"[{_listed(value)}]" if isinstance(value, list) else str(value)


def _listed(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))


def cost_text(found: Cost) -> Iterator[str]:
    """Yield totals, then the requested table."""
    total = found.total
    unknown = f", plus {counted(total.unknown, 'operator')} with unknown MACs" if total.unknown else ""
    yield f"MACs           {total.macs:,}{unknown}"
    yield f"parameters     {total.parameters:,}"
    yield f"weights        {total.weight_bytes:,} bytes"
    for index, memory in enumerate(found.activations):
        of = f" (subgraph {index})" if len(found.activations) > 1 else ""
        yield f"activations    {memory.peak_bytes:,} bytes at operator {memory.peak_operator}{of}"
        if memory.planned_bytes is not None:
            yield f"arena          {memory.planned_bytes:,} bytes, planned greedily by size{of}"
        if memory.variable_bytes:
            yield f"variables      {memory.variable_bytes:,} bytes{of}"
        if memory.unproduced_bytes:
            yield f"unproduced     {memory.unproduced_bytes:,} bytes, not in the arena (TFLM: fit --on tflm){of}"
    code = found.by == "operator"
    head = [found.by, *["code"] * code, "operators", "MACs", "share", "parameters", "bytes"]
    rows = [
        [
            row.name,
            *[row.code] * code,
            str(row.operators),
            f"{row.macs:,}" + (" + ?" if row.unknown else ""),
            f"{row.macs / total.macs:.1%}" if total.macs else "",
            f"{row.parameters:,}",
            f"{row.weight_bytes:,}",
        ]
        for row in found.rows
    ]
    if rows:
        yield from table_text([head, *rows], right=range(len(head) - 5, len(head)))


def requirements_text(found: Requirements) -> Iterator[str]:
    """Yield the answer, then requirements that older runtimes do not meet, the runtimes, and min_runtime_version."""
    if found.first is None:
        yield "loads in no tested release"
    else:
        since = f"{title(found.first)} and later"
        yield f"loads in every tested release ({since})" if found.is_oldest else f"loads in {since}"
    rows = [
        [
            row.what,
            "none" if row.first is None else title(row.first),
            str(row.count),
            ", ".join([*row.sources[:2], *["..."] * (len(row.sources) > 2)]),
        ]
        for row in found.rows
    ]
    if rows:
        yield from table_text([["needs", "first runtime", "count", "sources"], *rows], right=(2,))
    if len(found.verdicts) < len(runtime_table().runtimes):
        for one in found.verdicts:
            lacking = "loads it" if one.takes else f"does not load it: {', '.join(one.lacking)}"
            yield f"{title(one.runtime)} {lacking}"
    minimum = found.minimum
    declared = "none" if minimum.declared is None else minimum.declared
    needed = "no known TensorFlow release suffices" if minimum.needed is None else f"needed: {minimum.needed}"
    more = " or older" if minimum.is_bound else ""
    more += " without the custom operators" if found.first is None and minimum.needed is not None else ""
    state = "correct" if minimum.state == "true" else minimum.state
    yield f"min_runtime_version: {declared} ({state}; {needed}{more})"


PREDICATE = "urn:circletools:identical-except:1"
"""The predicate type of the in-toto statement."""


def digests_text(found: ContentDigests) -> Iterator[str]:
    """Yield the lines that `inspect --digest` shows."""
    yield f"{found.digest}  {found.format}"
    for part, digest in found.parts.items():
        yield f"{digest}  {part}"


def attestation_statement(found: Attestation, before: Model, after: Model) -> dict[str, Any]:
    """Return the in-toto statement (version 1) about the second model, which contains the attestation as JSON.

    The statement names the files, and has SHA-256 digests of all their bytes.
    """
    old, new = (
        {"name": PurePath(model.source.name).name, "digest": {"sha256": sha256(model.wire.memory).hexdigest()}}
        for model in (before, after)
    )
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [new],
        "predicateType": PREDICATE,
        "predicate": {"from": old, **document_json(found)},
    }


def attestation_text(found: Attestation) -> Iterator[str]:
    """Yield the lines that `attest` shows."""
    for change in found.changes:
        kind = "added" if change.before is None else "removed" if change.after is None else "changed"
        yield f"{kind:8} {change.part}"
    yield f"{counted(found.equal_parts, 'part')} equal, {len(found.changes)} not"
