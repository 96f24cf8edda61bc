"""Origins, devices, partitions, MACs and times as node data for Model Explorer (docs/model-explorer.md).

Node data is a dict with `name` and `results`; `circletools.affinity.exports.pictures` explains the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from circletools.affinity.exports.pictures import (
    by_key,
    colored,
    colors,
    current_affinity,
    device_data,
    graph_ids,
    placement,
)
from circletools.cost.macs import macs
from circletools.errors import UsageError
from circletools.graph.graph import Graph, ModelGraph
from circletools.origin.modules import module_tree
from circletools.planning.reproject import fresh_origins
from circletools.profile.attribution import attribute_to
from circletools.trace.operators.profile import OperatorTrace

NodeData = dict[str, Any]

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff7f6e"}]


def subgraph_of(model: ModelGraph, graph_id: str) -> int:
    """Return the index of the subgraph that Model Explorer shows as a graph, or raise UsageError if there is none."""
    known = {"main": 0} if len(model) == 1 else graph_ids(model)
    if len(model) == 1:
        known[model.graphs[0].name] = 0
    if graph_id not in known:
        raise UsageError(f"the model has no graph {graph_id!r}", hint=f"it has {', '.join(sorted(known))}")
    return known[graph_id]


def origin_data(model: ModelGraph, subgraph: int, _trace: str = "") -> list[NodeData]:
    """Return the names, modules and, if known, lines of each operator's sources.

    Raises EditError if origins are missing or stale.
    """
    origins = fresh_origins(model)
    tree = module_tree(origins)
    described: dict[str, Callable[[int], str]] = {
        "origin": lambda source: origins.sources[source],
        "module": lambda source: ", ".join(tree.paths[row] for row in tree.of_source[source]),
        "line": lambda source: origins.details_of(source).place,
    }
    found = []
    for name, of in described.items():
        values = {
            index: ", ".join(sorted({of(source) for source in origin} - {""}))
            for index, origin in origins.operators[subgraph].items()
        }
        known = {index: value for index, value in values.items() if value}
        if known or name == "origin":
            found.append(_colored(model.graphs[subgraph], name, known))
    return found


def affinity_data(model: ModelGraph, subgraph: int, _trace: str = "") -> list[NodeData]:
    """Return the device and partition of each operator. Raises EditError if affinity is missing or stale."""
    affinity = current_affinity(model)
    rows = enumerate(zip(*placement(model.graphs[subgraph], affinity), strict=True))
    known = [(number, index, device) for index, (device, number) in rows if number is not None]
    in_order = {index: f"{number} {device}" for number, index, device in sorted(known, key=itemgetter(0, 1))}
    return [device_data(model.graphs[subgraph], affinity), _colored(model.graphs[subgraph], "partition", in_order)]


def cost_data(model: ModelGraph, subgraph: int, _trace: str = "") -> list[NodeData]:
    """Return the MACs of each operator; operators with more MACs are redder."""
    graph = model.graphs[subgraph]
    results = {index: {"value": number} for index, number in enumerate(macs(graph).tolist()) if number > 0}
    return [{"name": "macs", "results": by_key(graph, results), "gradient": _GRADIENT}]


def time_data(model: ModelGraph, subgraph: int, trace: OperatorTrace) -> list[NodeData]:
    """Return the mean time per execution of each operator, in microseconds; slower operators are redder.

    Raises InvalidInputError if the trace belongs to another model.
    """
    found = attribute_to(model, trace, None)
    results = {
        row.index: {"value": row.time.total_ns / found.executions / 1000}
        for row in found.operators
        if row.subgraph == subgraph and row.time is not None
    }
    return [{"name": "time_us", "results": by_key(model.graphs[subgraph], results), "gradient": _GRADIENT}]


def _colored(graph: Graph, name: str, values: dict[int, str]) -> NodeData:
    chosen = colors(values.values())
    results = {index: colored(value, chosen[value]) for index, value in values.items()}
    return {"name": name, "results": by_key(graph, results)}
