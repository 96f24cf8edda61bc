"""The operators and tensors of a subgraph as columns, with their layout."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from circletools.affinity.tables import NONE, SubgraphAffinity
from circletools.flatbuf.columns import Vectors
from circletools.graph.build import graph_of
from circletools.html.layout import Edges, Layout, lay_out
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.model.views import text

NAME_LENGTH = 1000
"""Names are cut here, so that the page stays in proportion to the model."""


def short(name: str) -> str:
    """Return a name, cut when it is very long."""
    return name if len(name) <= NAME_LENGTH else f"{name[:NAME_LENGTH]}… ({len(name)} characters)"


class Interned:
    """Values numbered by their first appearance."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        """Return the number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Columns:
    """Makes the columns of subgraphs; `types` and `shapes` are what the numbers in them stand for."""

    def __init__(self, model: Model) -> None:
        """Look at the buffers."""
        self._model = model
        self.types: Interned = Interned()
        self.shapes: Interned = Interned()
        self._constant = _constant_bytes(model)

    def tensors(self, subgraph: int) -> dict[str, Any]:
        """Return the tensors. `constant_bytes` is -1 for what is no constant."""
        columns = self._model.tensor_columns
        rows = slice(*columns.splits[subgraph : subgraph + 2].tolist())
        names = self._model.schema.enums["TensorType"]
        shapes, signatures = (_lists(vectors, rows) for vectors in (columns.shapes, columns.shape_signatures))
        signed = columns.signed[rows].tolist()
        shown = [after if known else before for before, after, known in zip(shapes, signatures, signed, strict=True)]
        buffers = np.minimum(columns.buffers[rows], len(self._constant) - 1)
        return {
            "name": [short(text(name)) for name in columns.names[rows]],
            "type": [self.types(names.get(kind, f"UNKNOWN:{kind}")) for kind in columns.types[rows].tolist()],
            "shape": [self.shapes(tuple(shape)) for shape in shown],
            "constant_bytes": self._constant[buffers].tolist(),
            "variable": np.flatnonzero(columns.variable[rows]).tolist(),
            "quantization": self._quantization(rows),
        }

    def _quantization(self, rows: slice) -> dict[str, list[Any]]:
        """Return [first scale, first zero point, number of scales] of the tensors that have some, by index."""
        tables, owners = self._model.tensor_columns.tables.take(rows).child("quantization", self._model.schema)
        scales, zeros = tables.vectors("scale"), tables.vectors("zero_point")
        some = np.flatnonzero(scales.count)
        first = scales.wire.gather(scales.start[some], scales.dtype)
        shown = [float(scale) if np.isfinite(scale) else str(scale) for scale in first]
        offset = np.zeros(len(some), np.int64)
        present = zeros.count[some] > 0
        offset[present] = zeros.wire.gather(zeros.start[some][present], zeros.dtype)
        columns = (owners[some].tolist(), shown, offset.tolist(), scales.count[some].tolist())
        return {str(owner): [*values] for owner, *values in zip(*columns, strict=True)}

    def operators(self, subgraph: int) -> dict[str, Any]:
        """Return code, inputs and outputs of the operators."""
        columns = self._model.operator_columns
        rows = slice(*columns.splits[subgraph : subgraph + 2].tolist())
        return {
            "code": columns.code_indices[rows].tolist(),
            "inputs": _lists(columns.inputs, rows),
            "outputs": _lists(columns.outputs, rows),
        }


def _lists(vectors: Vectors, rows: slice) -> list[list[int]]:
    some = Vectors(vectors.wire, vectors.dtype, vectors.start[rows], vectors.count[rows])
    flat = some.flat().tolist()
    return [flat[start:end] for start, end in pairwise(some.splits().tolist())]


def _constant_bytes(model: Model) -> Any:
    """Return the size of each buffer's data, -1 where it has none, and -1 for a buffer that does not exist."""
    sizes = np.append(model.buffers.data.count, -1)
    sizes[sizes == 0] = -1
    for data in external_data(model):
        if data.kind == "Buffer":
            sizes[data.rows] = np.minimum(data.sizes, 2**53).astype(np.int64)
    sizes[:1] = -1  # buffer 0 means no data
    return sizes


def edges_of(model: Model, subgraph: int) -> Edges:
    """Return who feeds whom; what leads nowhere is left out."""
    facts = graph_of(model, subgraph)
    tensors, (makers, made), (readers, read) = len(facts.values), facts.definitions, facts.uses
    producer = np.full(tensors + 1, -1, np.int64)
    known = made < tensors
    producer[made[known]] = makers[known]
    source = producer[np.minimum(read, tensors)]
    fed = (source >= 0) & (source != readers)
    reads = np.unique(readers[fed] * tensors + read[fed])  # an operator may read a tensor twice
    target, tensor = reads // tensors, reads % tensors
    return Edges(producer[tensor], target, tensor)


def picture(
    model: Model, subgraph: int, affinity: SubgraphAffinity | None
) -> tuple[Layout, Edges, list[dict[str, Any]]]:
    """Return the layout of a subgraph by partition, its edges, and the partitions."""
    count = len(model.subgraphs[subgraph].operators)
    partitions = np.full(count, NONE, np.uint32) if affinity is None else affinity.partitions
    numbers, groups, sizes = np.unique(partitions, return_inverse=True, return_counts=True)
    groups = groups.astype(np.int64)
    edges = edges_of(model, subgraph)
    readers, read = graph_of(model, subgraph).uses
    fed = np.zeros(count, bool)
    fed[readers[np.isin(read, model.subgraphs[subgraph].inputs)]] = True
    first = np.unique(groups, return_index=True)[1]
    devices = np.full(count, NONE, np.uint32) if affinity is None else affinity.devices
    parts = [
        {"partition": or_none(number), "device": or_none(device), "operators": size}
        for number, device, size in zip(numbers.tolist(), devices[first].tolist(), sizes.tolist(), strict=True)
    ]
    return lay_out(groups, edges, fed), edges, parts


def or_none(number: int) -> int | None:
    """Return the number of a device or a partition, None for none."""
    return None if number == NONE else number


def layout_json(layout: Layout, edges: Edges, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the layout as columns."""
    return {
        "group": layout.group.tolist(),
        "level": layout.level.tolist(),
        "column": layout.column.tolist(),
        "edges": {
            "source": edges.source.tolist(),
            "target": edges.target.tolist(),
            "tensor": edges.tensor.tolist(),
            "lane": layout.lane.tolist(),
        },
        "groups": [part | {"row": row} for part, row in zip(parts, layout.row.tolist(), strict=True)],
    }
