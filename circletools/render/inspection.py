"""What is in a model file, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circletools.inspection import Inspection, SubgraphSummary
from circletools.render.fields import fields_json
from circletools.wording import SCHEMA_VERSION


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
    return {"schema_version": SCHEMA_VERSION} | fields_json(found) | {"signatures": signatures}


def inspection_text(found: Inspection) -> Iterator[str]:
    """Yield the lines of `inspect`."""
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
    counts = f"{subgraph.operator_count} operators, {subgraph.tensors} tensors"
    yield f"subgraph {subgraph.index}{name}: {counts}"
    for direction, tensors in (("input", subgraph.inputs), ("output", subgraph.outputs)):
        for slot, tensor in enumerate(tensors):
            shape = ",".join(str(size) for size in tensor.shape)
            yield f"  {direction:6} {slot}  {tensor.name}  {tensor.type}[{shape}]  (tensor {tensor.tensor})"
