"""The affinity as node data of Model Explorer, which colours operators by device.

Model Explorer looks a key up among the names of all tensors of a graph first, then among the ids of its nodes; the
ids of operators are their indices. Its adapter for TFLite names a graph after the subgraph, the first `main` if that
has no name; that for Circle shows subgraph 0 only, as `main`. (Model Explorer 0.1.34, model-explorer-circle 0.1.4.)
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from circletools.affinity.exports.palette import device_colors
from circletools.affinity.exports.placement import at, devices_of, tensor_names
from circletools.affinity.store import Affinity
from circletools.errors import EditError
from circletools.model import Model
from circletools.model.views import text


def model_explorer_data(model: Model, affinity: Affinity) -> dict[str, Any]:
    """Return the node data: of one graph, or by graph. Operators without a device stay out.

    Raises EditError where an operator has no key of its own, or a graph has no name of its own.
    """
    graphs = {index: _graph(model, affinity, index) for index in range(len(model.subgraphs))}
    if len(graphs) == 1:
        return graphs[0]
    if model.format == "circle":
        return {"main": graphs[0]}
    names = [subgraph.name for subgraph in model.subgraphs]
    names[0] = names[0] or "main"
    for index, name in enumerate(names):
        if not name or names.count(name) > 1:
            raise EditError(
                f"Model Explorer tells graphs apart by name; this one is named {name!r}",
                location=f"subgraphs[{index}]",
                hint="name each subgraph differently",
            )
    return {names[index]: graph for index, graph in graphs.items()}


def _graph(model: Model, affinity: Affinity, subgraph: int) -> dict[str, Any]:
    colors, tensors = device_colors(affinity), Counter(tensor_names(model, subgraph))
    results = {}
    outputs = model.output_names(subgraph)
    for index, device in enumerate(devices_of(model, affinity, subgraph)):
        if device is None:
            continue
        key = str(index)
        if key.encode() in tensors:  # the key means that tensor
            own = next((name for name in map(text, outputs[index]) if _is_own(name, tensors)), None)
            if own is None:
                raise EditError(
                    f"Model Explorer has no key for it: {key!r} is a tensor, and it makes none with its own name",
                    location=at(subgraph, index),
                )
            key = own
        results[key] = {"value": device, "bgColor": colors[device], "textColor": "#000000"}
    return {"name": "device", "results": results}


def _is_own(name: str, tensors: Counter[bytes]) -> bool:
    """Say whether a key with this name means one tensor. Model Explorer changes names that are no UTF-8."""
    return bool(name) and not re.search("[\udc80-\udcff]", name) and tensors[name.encode()] == 1
