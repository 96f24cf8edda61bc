"""The contents of a model file: sizes, subgraphs, operators, signatures and metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from circletools.edit.archive import archive_entries
from circletools.edit.members import original_start
from circletools.errors import UsageError
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.model.options import quantizations
from circletools.model.rows import Rows, Subgraph
from circletools.model.views import Signature
from circletools.wording import Attributes, Items, Tabular


@dataclass(frozen=True, slots=True)
class BufferSummary(Attributes):
    """The number of buffers, and the number of their bytes inside the flatbuffer."""

    count: int
    inside_bytes: int


@dataclass(frozen=True, slots=True)
class ExternalSummary(Attributes):
    """Data of one kind that is stored after the flatbuffer."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TensorSummary(Attributes):
    """An input or output, or only its index if it does not exist. In `shape`, -1 means a dynamic dimension.

    `quantization` is the same as in `Tensor.to_row`, or None.
    """

    tensor: int
    name: str
    type: str
    shape: tuple[int, ...]
    quantization: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SubgraphSummary(Attributes):
    """A subgraph; `operators` counts operators by code, the most frequent first."""

    index: int
    name: str
    tensors: int
    operator_count: int
    operators: Mapping[str, int]
    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]


@dataclass(frozen=True, slots=True)
class MetadataSummary(Attributes):
    """A metadata entry; `bytes` is None if its buffer does not exist."""

    name: str
    buffer: int
    bytes: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Inspection(Tabular):
    """The contents of a model file.

    `flatbuffer_bytes` is the offset of the flatbuffer's end, `prefix_bytes` is the size of what edits put in front of
    the original file, and `trailing_bytes` is the size of the data after everything that the model uses. `tables`
    counts a table once for each reference to it.
    """

    format: str
    version: int
    description: str
    file_bytes: int
    flatbuffer_bytes: int
    prefix_bytes: int
    tables: int
    buffers: BufferSummary
    external: tuple[ExternalSummary, ...]
    trailing_bytes: int
    associated_files: tuple[str, ...]
    operators: Mapping[str, int]
    subgraphs: tuple[SubgraphSummary, ...]
    signatures: tuple[Signature, ...]
    metadata: tuple[MetadataSummary, ...]
    operator_rows: tuple[Mapping[str, Any], ...] | None = None
    tensor_rows: tuple[Mapping[str, Any], ...] | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each subgraph."""
        return [
            {
                "index": graph.index,
                "name": graph.name,
                "operators": graph.operator_count,
                "tensors": graph.tensors,
                "inputs": " ".join(tensor.name for tensor in graph.inputs),
                "outputs": " ".join(tensor.name for tensor in graph.outputs),
            }
            for graph in self.subgraphs
        ]


def inspect_model(
    model: Model, *, operators: bool = False, tensors: bool = False, subgraph: int | None = None
) -> Inspection:
    """Return the contents of a model file.

    With `operators` or `tensors`, also return a row for each of them, as `to_rows` does; with `subgraph`, only those
    of this subgraph. Raises ModelFormatError for a broken structure, and UsageError for a missing subgraph.

    >>> with ct.open("in.tflite") as model:
    ...     ct.inspect(model).operators
    {'CONV_2D': 2, 'SOFTMAX': 1}
    """
    reachable, buffers = model.reachable, model.buffers
    external = {data.kind: data for data in external_data(model)}
    ends = [int((data.offsets + data.sizes).max()) for data in external.values()]
    trailing = max(model.wire.size - max([reachable.end, *ends]), 0)
    codes = [code.name for code in model.operator_codes]
    graphs = _chosen(model, subgraph)
    return Inspection(
        format=model.format,
        version=model.version,
        description=model.description,
        file_bytes=model.wire.size,
        flatbuffer_bytes=reachable.end,
        prefix_bytes=original_start(model),
        tables=reachable.visits,
        buffers=BufferSummary(len(buffers), int(buffers.data.count.sum())),
        external=tuple(
            ExternalSummary(kind, len(data.rows), int(data.sizes.sum())) for kind, data in external.items()
        ),
        trailing_bytes=trailing,
        associated_files=tuple(entry.filename for entry in (archive_entries(model) if trailing else None) or ()),
        operators=_histogram(codes, model.operator_columns.code_indices),
        subgraphs=Items(_subgraph(subgraph, codes) for subgraph in model.subgraphs),
        signatures=model.signatures,
        metadata=metadata_summaries(model),
        operator_rows=_rows(model, (graph.operators for graph in graphs)) if operators else None,
        tensor_rows=_rows(model, (graph.tensors for graph in graphs)) if tensors else None,
    )


def _chosen(model: Model, subgraph: int | None) -> list[Subgraph]:
    if subgraph is None:
        return list(model.subgraphs)
    if not 0 <= subgraph < len(model.subgraphs):
        raise UsageError(f"there is no subgraph {subgraph}", hint=f"the model has {len(model.subgraphs)}")
    return [model.subgraphs[subgraph]]


def _rows(model: Model, several: Iterable[Rows[Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(item.to_row() for rows in several for item in rows)


def _histogram(codes: list[str], indices: Any) -> dict[str, int]:
    counted: Counter[str] = Counter()
    distinct, counts = np.unique(indices, return_counts=True)
    for index, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        counted[codes[index] if index < len(codes) else f"UNKNOWN:{index}"] += count
    return dict(counted.most_common())


def _subgraph(subgraph: Subgraph, codes: list[str]) -> SubgraphSummary:
    columns = subgraph.columns.tensor_columns
    columns.names  # noqa: B018 - charges the ends, even if they do not exist
    ends = np.unique(np.concatenate([subgraph.inputs, subgraph.outputs]).astype(np.int64))
    ends = ends[(ends >= 0) & (ends < len(subgraph.tensors))]
    found = quantizations(columns.tables.take(ends + columns.splits[subgraph.index]), subgraph.columns.schema)
    quantized = {int(ends[row]): one.to_row() for row, one in found.items()}
    return SubgraphSummary(
        index=subgraph.index,
        name=subgraph.name,
        tensors=len(subgraph.tensors),
        operator_count=len(subgraph.operators),
        operators=_histogram(codes, subgraph.code_indices()),
        inputs=tuple(_tensor(subgraph, index, quantized) for index in subgraph.inputs.tolist()),
        outputs=tuple(_tensor(subgraph, index, quantized) for index in subgraph.outputs.tolist()),
    )


def _tensor(subgraph: Subgraph, index: int, quantized: Mapping[int, Mapping[str, Any]]) -> TensorSummary:
    if not 0 <= index < len(subgraph.tensors):
        return TensorSummary(index, "(does not exist)", "", ())
    tensor = subgraph.tensors[index]
    shape = tensor.shape if tensor.shape_signature is None else tensor.shape_signature
    return TensorSummary(index, tensor.name, tensor.type, tuple(shape), quantized.get(index))


def metadata_summaries(model: Model) -> tuple[MetadataSummary, ...]:
    """Return the metadata entries of a model in file order."""
    buffers, found = model.buffers, []
    for entry in model.metadata:
        size = len(buffers[entry.buffer].data) if entry.buffer < len(buffers) else None
        found.append(MetadataSummary(entry.name, entry.buffer, size))
    return Items(found)
