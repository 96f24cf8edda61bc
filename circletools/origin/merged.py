"""Finds sources that stand for several modules: litert-torch omits the lists that contain modules from names.

    enc.0.attn.query, dec.0.attn.query      both are `0.attn.query` in tensor names

A module that is called twice reads the same weights twice; two modules have different weights, in unconnected places.
So a source stands for several modules if its operators fall into parts that share no weights. If one does, other
sources below the same outermost module that fall into parts, such as `0.mlp.act`, may do so too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.graph.algorithms import components
from circletools.graph.graph import Graph
from circletools.origin.source import AnySource

_WEIGHTS = 32  # bytes; smaller data may be an axis or a scalar, which many operators read


def merged_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[AnySource]:
    """Return the sources of operators that may stand for several modules, in the order of the operators.

    Raises ModelFormatError for a tensor that does not exist.
    """
    rows: dict[AnySource, list[int]] = {}
    for row, sources in enumerate(named):
        for source in sources:
            rows.setdefault(source, []).append(row)
    values, (readers, read) = graph.values, graph.uses
    weights: dict[int, set[int]] = {}
    givers: dict[int, list[int]] = {}
    heavy = values.is_constant & (values.bytes >= _WEIGHTS)
    for reader, value in zip(readers.tolist(), read.tolist(), strict=True):
        if graph.producer[value] >= 0:
            givers.setdefault(reader, []).append(int(graph.producer[value]))
        elif heavy[value]:
            weights.setdefault(reader, set()).add(int(values.buffers[value]))
    held = {source: _weights_of_parts(own, givers, weights) for source, own in rows.items() if len(own) > 1}
    merged = {source for source, parts in held.items() if _share_none([own for own in parts if own])}
    outermost = {_outermost(source) for source in merged}
    return [source for source, parts in held.items() if len(parts) > 1 and _outermost(source) in outermost]


def _weights_of_parts(rows: list[int], givers: dict[int, list[int]], weights: dict[int, set[int]]) -> list[set[int]]:
    """Return the weights of each connected component of some operators."""
    number = {row: at for at, row in enumerate(rows)}
    edges = [(number[row], number[giver]) for row in rows for giver in givers.get(row, ()) if giver in number]
    label = components(len(rows), *np.array(edges, np.int64).reshape(-1, 2).T.tolist())
    held: dict[int, set[int]] = {}
    for row, part in zip(rows, label, strict=True):
        held.setdefault(part, set()).update(weights.get(row, ()))
    return list(held.values())


def _share_none(held: list[set[int]]) -> bool:
    return any(own.isdisjoint(held[0]) for own in held[1:])


def _outermost(source: AnySource) -> str:
    return (source if isinstance(source, str) else source.name).partition(".")[0]
