"""The affinity as a Graphviz picture: a cluster for each partition, a colour for each device, cut tensors by name."""

from __future__ import annotations

from collections.abc import Iterator

from circletools.affinity.exports.palette import UNASSIGNED, device_colors
from circletools.affinity.exports.placement import flows, placement
from circletools.affinity.read import Affinity
from circletools.graph.graph import ModelGraph

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SHOWN |= {0xDC00 + code: f"\\x{code:02x}" for code in range(128, 256)}  # bytes that are not UTF-8


def dot_graph(model: ModelGraph, affinity: Affinity) -> str:
    """Return the graph of all subgraphs in the DOT language. A cut is an edge between partitions."""
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
