"""The columns of operators and tensors of a subgraph, and their layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.tables import NONE, SubgraphAffinity
from circletools.cost.macs import macs
from circletools.graph.columns import Values
from circletools.graph.graph import Graph
from circletools.html.layout import Edges, Layout, lay_out
from circletools.model.views import text
from circletools.origin.modules import ROOT, ModuleTree
from circletools.origin.read import Origins

_MOST_AT_ONCE = 32
NAME_LENGTH = 1000
"""The length to which names are truncated, so that the size of the page is proportional to that of the model."""


def short(name: str) -> str:
    """Return a name, truncated if it is very long."""
    return name if len(name) <= NAME_LENGTH else f"{name[:NAME_LENGTH]}… ({len(name)} characters)"


class Interned:
    """Numbers values in order of first appearance."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        """Return the number assigned to a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Columns:
    """Makes the columns of subgraphs; their types and shapes are indices into `types` and `shapes`."""

    def __init__(self, buffer_sizes: NDArray[np.int64], alike: Columns | None = None) -> None:
        """Take the size of each buffer (-1 without data), and columns with which to share `types` and `shapes`."""
        self.types: Interned = alike.types if alike else Interned()
        self.shapes: Interned = alike.shapes if alike else Interned()
        self._constant = np.append(buffer_sizes, -1)
        self._constant[:1] = -1  # buffer 0 means no data

    def tensors(self, values: Values) -> dict[str, Any]:
        """Return the columns of tensors. `constant_bytes` is -1 for tensors that are not constant."""
        shapes, signatures = values.shapes.lists(), values.shape_signatures.lists()
        signed = values.tables.has("shape_signature").tolist()
        shown = [after if known else before for before, after, known in zip(shapes, signatures, signed, strict=True)]
        return {
            "name": [short(text(name)) for name in values.names],
            "type": [self.types(name) for name in values.types],
            "shape": [self.shapes(tuple(shape)) for shape in shown],
            "constant_bytes": self._constant[np.minimum(values.buffers, len(self._constant) - 1)].tolist(),
            "variable": np.flatnonzero(values.is_variable).tolist(),
            "quantization": self._quantization(values),
        }

    def _quantization(self, values: Values) -> dict[str, list[Any]]:
        """Return [first scale, first zero point, number of scales] by the indices of quantized tensors."""
        tables, owners = values.tables.child("quantization", values.schema)
        scales, zeros = tables.vectors("scale"), tables.vectors("zero_point")
        some = np.flatnonzero(scales.count)
        first = scales.wire.gather(scales.start[some], scales.dtype)
        shown = [float(scale) if np.isfinite(scale) else str(scale) for scale in first]
        offset = np.zeros(len(some), np.int64)
        present = zeros.count[some] > 0
        offset[present] = zeros.wire.gather(zeros.start[some][present], zeros.dtype)
        columns = (owners[some].tolist(), shown, offset.tolist(), scales.count[some].tolist())
        return {str(owner): [*own] for owner, *own in zip(*columns, strict=True)}

    def operators(self, graph: Graph) -> dict[str, Any]:
        """Return the columns of operators: codes, inputs, outputs and MACs. Unknown MACs are -1."""
        return {
            "code": graph.operators.code_indices.tolist(),
            "inputs": graph.operands.lists(),
            "outputs": graph.results.lists(),
            "macs": macs(graph).tolist(),
        }


def edges_of(graph: Graph) -> Edges:
    """Return the edges from producers to readers; out-of-range indices are left out."""
    tensors, (makers, made), (readers, read) = len(graph.values), graph.definitions, graph.uses
    producer = np.full(tensors + 1, -1, np.int64)
    known = made < tensors
    producer[made[known]] = makers[known]
    source = producer[np.minimum(read, tensors)]
    fed = (source >= 0) & (source != readers)
    reads = np.unique(readers[fed] * tensors + read[fed])  # an operator may read a tensor twice
    target, tensor = reads // tensors, reads % tensors
    return Edges(producer[tensor], target, tensor)


def picture(graph: Graph, affinity: SubgraphAffinity | None) -> tuple[Layout, Edges, list[dict[str, Any]]]:
    """Return the layout of a subgraph by partition, its edges, and the partitions."""
    count = len(graph)
    partitions = np.full(count, NONE, np.uint32) if affinity is None else affinity.partitions
    numbers, groups, sizes = np.unique(partitions, return_inverse=True, return_counts=True)
    groups = groups.astype(np.int64)
    edges = edges_of(graph)
    first = np.unique(groups, return_index=True)[1]
    devices = np.full(count, NONE, np.uint32) if affinity is None else affinity.devices
    parts = [
        {"partition": or_none(number), "module": None, "device": or_none(device), "operators": size}
        for number, device, size in zip(numbers.tolist(), devices[first].tolist(), sizes.tolist(), strict=True)
    ]
    return lay_out(groups, edges, fed(graph)), edges, parts


def fed(graph: Graph) -> NDArray[np.bool_]:
    """Return which operators read an input of the graph."""
    readers, read = graph.uses
    marked = np.zeros(len(graph), bool)
    marked[readers[np.isin(read, graph.inputs)]] = True
    return marked


def module_groups(graphs: Sequence[Graph], origins: Origins, modules: ModuleTree) -> list[list[int]]:
    """Return a module for each operator: the outermost one that is small enough to be shown completely, or ROOT.

    The graphs must be variants of one graph with the same modules.
    """
    inside: Counter[int] = Counter()
    chains = []
    for graph in graphs:
        firsts = [min(origins.of(graph.index, one), default=None) for one in range(len(graph))]
        ways = ([] if one is None else [*modules.upwards(modules.of_source[one][0])] for one in firsts)
        chains.append([way[::-1] for way in ways])  # the outermost module first
        inside.update(module for chain in chains[-1] for module in chain)
    few = _MOST_AT_ONCE * len(graphs)
    return [
        [next((module for module in chain if inside[module] <= few), chain[-1] if chain else ROOT) for chain in rows]
        for rows in chains
    ]


def module_picture(graph: Graph, modules: Sequence[int]) -> tuple[Layout, Edges, list[dict[str, Any]]]:
    """Return the layout of a subgraph by module, its edges, and the modules."""
    numbers, groups = np.unique(np.array(modules, np.int64), return_inverse=True)
    edges = edges_of(graph)
    return lay_out(groups.astype(np.int64), edges, fed(graph)), edges, module_parts(numbers, groups)


def module_parts(numbers: NDArray[np.int64], groups: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return the groups of a layout by module; `numbers` holds the module of each group."""
    sizes = np.bincount(groups, minlength=len(numbers)).tolist()
    return [
        {"partition": None, "module": None if module == ROOT else module, "device": None, "operators": size}
        for module, size in zip(numbers.tolist(), sizes, strict=True)
    ]


def or_none(number: int) -> int | None:
    """Return the number of a device or partition, or None for NONE."""
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
