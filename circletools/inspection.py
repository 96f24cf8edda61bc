"""What is in a model file: sizes, subgraphs, operators, signatures, metadata."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from circletools.edit.editable import original_start
from circletools.model import Model, Subgraph
from circletools.model.external import external_data
from circletools.wording import SCHEMA_VERSION

__all__ = ["inspect_model"]


def inspect_model(model: Model) -> dict[str, Any]:
    """Return the JSON document of `inspect`. Raises ModelFormatError when the structure is broken."""
    reachable, buffers = model.reachable, model.buffers
    external = {data.kind: data for data in external_data(model)}
    ends = [int((data.offsets + data.sizes).max()) for data in external.values()]
    trailing = max(model.wire.size - max(reachable.end, *ends, 0), 0)
    codes = [code.name for code in model.operator_codes]
    return {
        "schema_version": SCHEMA_VERSION,
        "format": model.format,
        "version": model.version,
        "description": model.description,
        "file_bytes": model.wire.size,
        "flatbuffer_bytes": reachable.end,
        "prefix_bytes": original_start(model),
        "tables": reachable.visits,
        "buffers": {"count": len(buffers), "inside_bytes": int(buffers.data.count.sum())},
        "external": [
            {"kind": kind, "count": len(data.rows), "bytes": int(data.sizes.sum())} for kind, data in external.items()
        ],
        "trailing_bytes": trailing,
        "associated_files": _members(model, trailing),
        "operators": _histogram(codes, model.operator_columns.code_indices),
        "subgraphs": [_subgraph(model, subgraph, codes) for subgraph in model.subgraphs],
        "signatures": [
            {
                "key": signature.key,
                "subgraph": signature.subgraph,
                "inputs": [{"name": name, "tensor": tensor} for name, tensor in signature.inputs],
                "outputs": [{"name": name, "tensor": tensor} for name, tensor in signature.outputs],
            }
            for signature in model.signatures
        ],
        "metadata": [
            {"name": entry.name, "buffer": entry.buffer, "bytes": _value_bytes(model, entry.buffer)}
            for entry in model.metadata
        ],
    }


def _histogram(codes: list[str], indices: Any) -> dict[str, int]:
    counted: Counter[str] = Counter()
    distinct, counts = np.unique(indices, return_counts=True)
    for index, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        counted[codes[index] if index < len(codes) else f"UNKNOWN:{index}"] += count
    return dict(counted.most_common())


def _subgraph(model: Model, subgraph: Subgraph, codes: list[str]) -> dict[str, Any]:
    return {
        "index": subgraph.index,
        "name": subgraph.name,
        "tensors": len(subgraph.tensors),
        "operator_count": len(subgraph.operators),
        "operators": _histogram(codes, np.array(subgraph.operators.code_indices(), np.int64)),
        "inputs": [_tensor(subgraph, index) for index in subgraph.inputs.tolist()],
        "outputs": [_tensor(subgraph, index) for index in subgraph.outputs.tolist()],
    }


def _tensor(subgraph: Subgraph, index: int) -> dict[str, Any]:
    if not 0 <= index < len(subgraph.tensors):
        return {"tensor": index, "name": "(does not exist)", "type": "", "shape": []}
    tensor = subgraph.tensors[index]
    shape = tensor.shape if tensor.shape_signature is None else tensor.shape_signature
    return {"tensor": index, "name": tensor.name, "type": tensor.type, "shape": list(shape)}


def _value_bytes(model: Model, buffer: int) -> int | None:
    return len(model.buffers[buffer].data) if buffer < len(model.buffers) else None


def _members(model: Model, trailing: int) -> list[str]:
    """Name the files in a ZIP archive behind the flatbuffer, where TFLite metadata keeps labels and the like."""
    if not trailing:
        return []
    try:
        file = model.source.path or io.BytesIO(model.wire.memory)
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return []


def inspection_text(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of `inspect`."""
    buffers = document["buffers"]
    yield f"format        {document['format']}, schema version {document['version']}"
    if document["description"]:
        yield f"description   {document['description']}"
    yield f"size          {document['file_bytes']} bytes, flatbuffer {document['flatbuffer_bytes']}"
    if document["prefix_bytes"]:
        yield f"edited        {document['prefix_bytes']} bytes in front of the original file"
    yield f"buffers       {buffers['count']}, {buffers['inside_bytes']} bytes inside the flatbuffer"
    for external in document["external"]:
        yield f"external      {external['count']} x {external['kind']}, {external['bytes']} bytes"
    if document["trailing_bytes"]:
        files = ", ".join(document["associated_files"])
        yield f"trailing      {document['trailing_bytes']} bytes" + (f", a ZIP archive: {files}" if files else "")
    for name, count in document["operators"].items():
        yield f"operator      {count:6}  {name}"
    for subgraph in document["subgraphs"]:
        name = f" {subgraph['name']}" if subgraph["name"] else ""
        counts = f"{subgraph['operator_count']} operators, {subgraph['tensors']} tensors"
        yield f"subgraph {subgraph['index']}{name}: {counts}"
        for direction in ("inputs", "outputs"):
            for slot, tensor in enumerate(subgraph[direction]):
                shape = ",".join(str(size) for size in tensor["shape"])
                kind = f"{tensor['type']}[{shape}]"
                yield f"  {direction[:-1]:6} {slot}  {tensor['name']}  {kind}  (tensor {tensor['tensor']})"
    for signature in document["signatures"]:
        inputs, outputs = (
            ", ".join(entry["name"] for entry in signature[direction]) for direction in ("inputs", "outputs")
        )
        yield f"signature     {signature['key']} (subgraph {signature['subgraph']}): {inputs} -> {outputs}"
    for entry in document["metadata"]:
        yield f"metadata      {entry['name']}  {entry['bytes']} bytes (buffer {entry['buffer']})"
