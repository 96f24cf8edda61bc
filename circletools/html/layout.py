"""Lay out operators in a picture: levels from top to bottom, and groups (partitions) as separate bands.

    level    the longest path from an input; an operator that depends only on constants is just above its reader
    column   the order within a level, by the mean position of the neighbours above, then below, a few times
    lane     a vertical line next to the operators, for a tensor that is read more than one level below

A picture of n operators and e edges takes O(n + e log e) time. Units are levels and columns; the script that draws
the picture converts them to pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.graph.algorithms import dag_from_edges

Numbers = NDArray[np.int64]
_SWEEPS = 8
_MOST_LANES = 48
"""The maximum number of lanes; more tensors than that share them."""

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
    """Return the column of each operator, in half positions."""
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
