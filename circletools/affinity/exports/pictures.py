"""Read the affinity for all exports; export it as a Graphviz picture or as node data for Model Explorer.

Model Explorer looks up a key first among the names of all tensors of a graph, then among the ids of its nodes; the id
of an operator is its index. Its TFLite adapter names a graph after the subgraph, or `main` if it is an unnamed first
subgraph; the Circle adapter shows only subgraph 0, as `main`. (Model Explorer 0.1.34, model-explorer-circle 0.1.4.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from circletools.affinity.tables import NONE, Affinity, check_freshness, read_affinity
from circletools.errors import EditError
from circletools.graph.graph import Graph, ModelGraph
from circletools.model.views import text

ANNOTATE = "annotate-affinity"


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor, the operator that produces it, and an operator that reads it."""

    tensor: int
    producer: int
    reader: int


def current_affinity(model: ModelGraph) -> Affinity:
    """Return the affinity in a model. Raises EditError if the model has no affinity, or a stale one."""
    affinity = read_affinity(model)
    if affinity is None:
        raise EditError("the model has no affinity", hint=f"{ANNOTATE} adds it, or ct.affinity.annotate(edit, plan)")
    if not len(model):
        raise EditError("the model has no subgraph")
    freshness = check_freshness(model, affinity)
    if freshness.state == "stale":
        message = f"the affinity is stale from here on: {freshness.reason}"
        raise EditError(message, location=freshness.place, hint=f"run {ANNOTATE} again")
    return affinity


def placement(graph: Graph, affinity: Affinity) -> tuple[list[str | None], list[int | None]]:
    """Return the device and the partition of each operator of a subgraph, or None for operators in no partition."""
    known = affinity.subgraphs.get(graph.index)
    if known is None:
        return [None] * len(graph), [None] * len(graph)
    devices = [affinity.devices.get(device) for device in known.devices.tolist()]
    return devices, [None if partition == NONE else partition for partition in known.partitions.tolist()]


def every_device_of(graph: Graph, affinity: Affinity, why: str) -> list[str]:
    """Return the device of each operator of a subgraph. Raises EditError, with `why`, if an operator has none."""
    devices = []
    for index, device in enumerate(placement(graph, affinity)[0]):
        if device is None:
            raise EditError(f"the operator has no device; {why}", location=graph.place(index), hint=f"run {ANNOTATE}")
        devices.append(device)
    return devices


def flows(facts: Graph) -> list[Flow]:
    """Return the tensors that operators pass on, ordered by reader. Raises ModelFormatError for a missing tensor."""
    producers = facts.producer.tolist()
    pairs = dict.fromkeys(zip(*(each.tolist() for each in facts.uses), strict=True))
    return [Flow(tensor, producers[tensor], reader) for reader, tensor in pairs if producers[tensor] >= 0]


# Light enough for black text, and distinct for most color-blind readers (from Okabe and Ito, lightened).
_COLORS = ("#9ecae9", "#ffbf79", "#88d27a", "#f2cf5b", "#ff9d98", "#d6a5c9", "#83bcb6", "#d8b5a5", "#bab0ac")
UNASSIGNED = "#ffffff"


def device_colors(affinity: Affinity) -> dict[str, str]:
    """Return the color of each device, as `#rrggbb`. Devices beyond the ninth share colors."""
    return colors(name for _, name in sorted(affinity.devices.items()))


def colors(names: Iterable[str]) -> dict[str, str]:
    """Return a color for each distinct name, in order."""
    return {name: _COLORS[index % len(_COLORS)] for index, name in enumerate(dict.fromkeys(names))}


_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SHOWN |= {0xDC00 + code: f"\\x{code:02x}" for code in range(128, 256)}  # bytes that are not valid UTF-8


def dot_graph(model: ModelGraph, affinity: Affinity) -> str:
    """Return the graph of all subgraphs in the DOT language.

    Each partition is a cluster, each device has a color, and edges between partitions are labeled with the tensor.
    """
    # Without newrank, Graphviz 2.43 fails on hundreds of clusters ("trouble in init_rank").
    lines = ["digraph affinity {", "  newrank=true;", '  node [shape=box, style="filled", fontname="sans-serif"];']
    lines += ['  edge [fontname="sans-serif", fontsize=10];']
    for subgraph in range(len(model)):
        lines += (f"  {line}" for line in _subgraph(model, affinity, subgraph))
    return "\n".join((*lines, "}", ""))


def _subgraph(model: ModelGraph, affinity: Affinity, subgraph: int) -> Iterator[str]:
    graph = model.graphs[subgraph]
    devices, partitions = placement(graph, affinity)
    colors, codes = device_colors(affinity), graph.operators.code_names
    members: dict[int | None, list[int]] = {}
    for operator, partition in enumerate(partitions):
        members.setdefault(partition, []).append(operator)
    yield f"subgraph cluster_{subgraph} {{"
    yield f"  label={_quoted(f'subgraph {subgraph} {graph.name}'.rstrip())};"
    for partition in sorted(members, key=lambda number: (number is None, number)):
        inner = "  "
        if partition is not None:
            work = [operator for operator in members[partition] if operator not in graph.folded]
            names = ", ".join(dict.fromkeys(devices[one] or "no device" for one in work or members[partition]))
            yield f"  subgraph cluster_{subgraph}_{partition} {{"
            yield f"    label={_quoted(f'partition {partition}: {names}')};"
            inner = "    "
        for operator in members[partition]:
            device = devices[operator]
            label, color = f"{operator} {codes[operator]}", UNASSIGNED if device is None else colors[device]
            yield f'{inner}{_id(subgraph, operator)} [label={_quoted(label)}, fillcolor="{color}"];'
        if partition is not None:
            yield "  }"
    for flow in flows(graph):
        edge = f"  {_id(subgraph, flow.producer)} -> {_id(subgraph, flow.reader)}"
        cut = partitions[flow.producer] != partitions[flow.reader] or devices[flow.producer] != devices[flow.reader]
        name = _quoted(graph.values.name(flow.tensor))
        yield f'{edge} [label={name}, style="bold"];' if cut else f"{edge};"
    yield "}"


def _id(subgraph: int, operator: int) -> str:
    return f"s{subgraph}_o{operator}"


def _quoted(name: str) -> str:
    """Return a name as a literal label; characters that cannot be shown are escaped."""
    shown = name.translate(_SHOWN).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{shown}"'


def model_explorer_data(model: ModelGraph, affinity: Affinity) -> dict[str, Any]:
    """Return the node data of one graph, or of several graphs by id. Operators without a device are omitted.

    Raises EditError if an operator has no unique key, or a graph has no unique name.
    """
    graphs = {graph.index: device_data(graph, affinity) for graph in model.graphs}
    if len(graphs) == 1:
        return graphs[0]
    return {name: graphs[index] for name, index in graph_ids(model).items()}


def graph_ids(model: ModelGraph) -> dict[str, int]:
    """Return the subgraph index for each graph id. Raises EditError if a graph has no unique name."""
    if model.source.format == "circle":
        return {"main": 0}
    names = [subgraph.name for subgraph in model.graphs]
    names[0] = names[0] or "main"
    for index, name in enumerate(names):
        if not name or names.count(name) > 1:
            how = f"several are named {name!r}" if name else "this one has no name"
            message = f"Model Explorer distinguishes graphs by name, but {how}"
            raise EditError(message, location=f"subgraphs[{index}]", hint="give each subgraph a different name")
    return {name: index for index, name in enumerate(names)}


def device_data(graph: Graph, affinity: Affinity) -> dict[str, Any]:
    """Return the devices of a subgraph's operators as node data. Raises EditError; see `by_key`."""
    colors = device_colors(affinity)
    devices, _ = placement(graph, affinity)
    results = {index: colored(device, colors[device]) for index, device in enumerate(devices) if device is not None}
    return {"name": "device", "results": by_key(graph, results)}


def colored(value: str, color: str) -> dict[str, Any]:
    """Return the node data of an operator."""
    return {"value": value, "bgColor": color, "textColor": "#000000"}


def by_key(graph: Graph, results: Mapping[int, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the data of operators by the key under which Model Explorer finds each operator.

    Raises EditError if an operator has no unique key.
    """
    tensors, outputs = Counter(graph.values.names), graph.operators.result_names
    keyed = {}
    for index, result in results.items():
        key = str(index)
        if key.encode() in tensors:  # the key would refer to the tensor instead
            # Model Explorer changes names that are not valid UTF-8
            names = (name for name in map(text, outputs[index]) if name and not re.search("[\udc80-\udcff]", name))
            own = next((name for name in names if tensors[name.encode()] == 1), None)
            if own is None:
                why = f"{key!r} is the name of a tensor, and no output of the operator has a unique name"
                raise EditError(f"Model Explorer has no key for this operator: {why}", location=graph.place(index))
            key = own
        keyed[key] = result
    return keyed
