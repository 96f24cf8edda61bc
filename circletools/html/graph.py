"""The columns of operators and tensors of a subgraph, and their layout in a picture.

Levels go from top to bottom, and groups (partitions) are separate bands:

    level    the longest path from an input; an operator that depends only on constants is just above its reader
    column   the order within a level, by the mean position of the neighbors above, then below, a few times
    lane     a vertical line next to the operators, for a tensor that is read more than one level below

A picture of n operators and e edges takes O(n + e log e) time. Units are levels and columns; the script that draws
the picture converts them to pixels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.tables import NONE, SubgraphAffinity
from circletools.cost.macs import macs
from circletools.errors import ModelFormatError
from circletools.graph.algorithms import dag_from_edges
from circletools.graph.columns import Values
from circletools.graph.graph import Graph
from circletools.model.views import text
from circletools.origin.modules import ROOT, ModuleTree
from circletools.origin.read import Origins

Numbers = NDArray[np.int64]
_SWEEPS = 8
_MOST_LANES = 48
"""The maximum number of lanes; if there are more tensors, they share lanes."""

STRAIGHT = -1
"""The lane number of edges that need no lane."""


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of a subgraph: `target` reads `tensor`, which `source` produces. All have the shape (edges,)."""

    source: Numbers
    target: Numbers
    tensor: Numbers

    def where(self, chosen: NDArray[np.bool_]) -> Edges:
        """Return the chosen edges."""
        return Edges(self.source[chosen], self.target[chosen], self.tensor[chosen])


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture of a subgraph.

    For each operator: `group`; `level`, from 0 within the group; and `column`, in half positions with 0 in the
    middle. For each edge: `lane`, which belongs to the group if the edge is within one, otherwise to the picture. For
    each group: `row`, which is equal for groups side by side.
    """

    group: Numbers
    level: Numbers
    column: Numbers
    lane: Numbers
    row: Numbers


def lay_out(groups: Numbers, edges: Edges, fed: NDArray[np.bool_]) -> Layout:
    """Lay out operators; `groups` holds the group of each, and `fed` marks those that read an input."""
    count, parts = len(groups), int(groups.max(initial=-1)) + 1
    inside = groups[edges.source] == groups[edges.target]
    within, across = edges.where(inside), edges.where(~inside)
    fed = fed.copy()
    fed[across.target] = True
    level = _from_zero(groups, levels(count, within, fed))
    row = levels(parts, Edges(groups[across.source], groups[across.target], across.tensor), np.ones(parts, bool))
    lane = np.full(len(edges.tensor), STRAIGHT, np.int64)
    lane[inside] = _lanes(level[within.source], level[within.target], within.tensor, groups[within.source])
    first, last = row[groups[across.source]], row[groups[across.target]]
    lane[~inside] = _lanes(first, last, across.tensor, np.zeros(len(first), np.int64))
    return Layout(groups, level, _columns(groups, level, within), lane, row)


def levels(count: int, edges: Edges, fed: NDArray[np.bool_]) -> Numbers:
    """Return the level of each of `count` operators; edges that close a cycle are ignored."""
    rank = _ranks(count, edges)
    forward = rank[edges.source] < rank[edges.target]
    by_rank = np.argsort(rank[edges.source[forward]], kind="stable")
    pairs = list(zip(edges.source[forward][by_rank].tolist(), edges.target[forward][by_rank].tolist(), strict=True))
    level, reached = [0] * count, fed.tolist()
    for source, target in pairs:
        if level[target] <= level[source]:
            level[target] = level[source] + 1
        reached[target] = reached[target] or reached[source]
    lowered: set[int] = set()
    for source, target in reversed(pairs):
        if not reached[source] and (source not in lowered or level[target] - 1 < level[source]):
            level[source] = level[target] - 1
            lowered.add(source)
    return np.array(level, np.int64)


def _ranks(count: int, edges: Edges) -> Numbers:
    """Return the position of each operator in an execution order, or its index if there is no such order."""
    try:
        order = dag_from_edges(count, edges.source, edges.target).order
    except ModelFormatError:
        return np.arange(count)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    return rank


def _from_zero(groups: Numbers, level: Numbers) -> Numbers:
    """Renumber the levels of each group from 0, without gaps."""
    key = groups * len(level) + level
    distinct = np.unique(key)
    return np.searchsorted(distinct, key) - np.searchsorted(distinct, groups * len(level))


def _columns(groups: Numbers, level: Numbers, edges: Edges) -> Numbers:
    count = len(level)
    rows = np.unique(groups * count + level, return_inverse=True)[1]
    sizes = np.bincount(rows)
    starts = np.cumsum(sizes) - sizes
    column = np.zeros(count)
    wish = np.zeros(count)
    for sweep in range(_SWEEPS + 1):
        order = np.lexsort((np.arange(count), wish, rows))
        column[order] = np.arange(count) - starts[rows[order]] - (sizes[rows[order]] - 1) / 2
        here, there = (edges.target, edges.source) if sweep % 2 == 0 else (edges.source, edges.target)
        degree = np.bincount(here, minlength=count)
        mean = np.bincount(here, column[there], count) / np.maximum(degree, 1)
        wish = np.where(degree > 0, mean, column)
    return np.rint(column * 2).astype(np.int64)


def _lanes(first: Numbers, last: Numbers, tensors: Numbers, groups: Numbers) -> Numbers:
    """Return the lane of each edge from level `first` to `last`; edges of one tensor within a group share a lane."""
    far = np.flatnonzero(last - first > 1)
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    keys = list(zip(groups[far].tolist(), tensors[far].tolist(), strict=True))
    for key, start, end in zip(keys, first[far].tolist(), last[far].tolist(), strict=True):
        spans[key] = max((start, end), spans.get(key, (start, end)))  # a tensor has one producer: one start level
    order = sorted(spans, key=lambda key: (key[0], spans[key]))
    chosen: dict[tuple[int, int], int] = {}
    for _, group in groupby(order, itemgetter(0)):
        same = list(group)
        chosen |= zip(same, _greedy([spans[key] for key in same]), strict=True)
    lane = np.full(len(first), STRAIGHT, np.int64)
    lane[far] = [chosen[key] for key in keys]
    return lane


def _greedy(spans: Sequence[Sequence[int]]) -> list[int]:
    """Assign the first free lane to each span; spans are sorted by start."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used, numbers = 0, []
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, used = used, used + 1
        heappush(busy, (end, lane))
        numbers.append(lane % _MOST_LANES)
    return numbers


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
        """Start with the size of each buffer (-1 without data), and columns that share their `types` and `shapes`."""
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
        """Return [first scale, first zero point, number of scales] of quantized tensors, by index."""
        tables, owners = values.quantization
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


def partition_layout(graph: Graph, affinity: SubgraphAffinity | None) -> dict[str, Any]:
    """Return the layout of a subgraph by partition."""
    given = affinity or SubgraphAffinity(*[np.full(len(graph), NONE, np.uint32)] * 2)
    found = np.unique(given.partitions, return_index=True, return_inverse=True, return_counts=True)
    numbers, first, groups, sizes = found
    parts = [
        {"partition": or_none(number), "module": None, "device": or_none(device), "operators": size}
        for number, device, size in zip(numbers.tolist(), given.devices[first].tolist(), sizes.tolist(), strict=True)
    ]
    return _layout_of(graph, groups, parts)


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


def module_layout(graph: Graph, modules: Sequence[int]) -> dict[str, Any]:
    """Return the layout of a subgraph by module."""
    numbers, groups = np.unique(np.array(modules, np.int64), return_inverse=True)
    return _layout_of(graph, groups, module_parts(numbers, groups))


def _layout_of(graph: Graph, groups: Numbers, parts: list[dict[str, Any]]) -> dict[str, Any]:
    edges, groups = edges_of(graph), groups.astype(np.int64)
    return layout_json(lay_out(groups, edges, fed(graph)), edges, parts)


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
    ends = {name: getattr(edges, name).tolist() for name in ("source", "target", "tensor")}
    return {
        **{name: getattr(layout, name).tolist() for name in ("group", "level", "column")},
        "edges": ends | {"lane": layout.lane.tolist()},
        "groups": [part | {"row": row} for part, row in zip(parts, layout.row.tolist(), strict=True)],
    }
