"""Sources that stand for several modules: names of litert-torch leave out the lists that modules are in.

    enc.0.attn.query, dec.0.attn.query      both are `0.attn.query` in the names of tensors

A module that is called twice has its weights twice; two modules have weights of their own, in places that are not
connected. So a source is of several modules where its operators fall into parts that share no weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.graph.algorithms import components
from circletools.graph.graph import Graph
from circletools.origin.source import AnySource

_WEIGHTS = 32  # bytes; less may be an axis or a scalar, which many operators read


def merged_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[AnySource]:
    """Return the sources of operators that are of several modules, in the order of the operators.

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
    return [source for source, own in rows.items() if len(own) > 1 and _are_apart(own, givers, weights)]


def _are_apart(rows: list[int], givers: dict[int, list[int]], weights: dict[int, set[int]]) -> bool:
    """Say whether some operators fall into parts of which two have weights and none in common."""
    number = {row: at for at, row in enumerate(rows)}
    edges = [(number[row], number[giver]) for row in rows for giver in givers.get(row, ()) if giver in number]
    label = components(len(rows), *np.array(edges, np.int64).reshape(-1, 2).T.tolist())
    held: dict[int, set[int]] = {}
    for row, part in zip(rows, label, strict=True):
        held.setdefault(part, set()).update(weights.get(row, ()))
    found: list[set[int]] = [own for own in held.values() if own]
    return any(own.isdisjoint(found[0]) for own in found[1:])
