"""The input of every export: the affinity of the model by name, and the tensors between operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from circletools.affinity.tables import NONE, Affinity, check_freshness, read_affinity
from circletools.errors import EditError
from circletools.graph.graph import Graph, ModelGraph

ANNOTATE = "annotate-affinity"


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor between the operator that produces it and one that reads it."""

    tensor: int
    producer: int
    reader: int


def current_affinity(model: ModelGraph) -> Affinity:
    """Return the affinity in a model. Raises EditError if there is none, or if it is stale."""
    affinity = read_affinity(model)
    if affinity is None:
        raise EditError("the model has no affinity", hint=f"{ANNOTATE} adds it")
    if not len(model):
        raise EditError("the model has no subgraph")
    freshness = check_freshness(model, affinity)
    if freshness.state == "stale":
        message = f"the affinity is stale from here onwards: {freshness.reason}"
        raise EditError(message, location=freshness.place, hint=f"run {ANNOTATE} again")
    return affinity


def placement(graph: Graph, affinity: Affinity) -> tuple[list[str | None], list[int | None]]:
    """Return the device and the partition of each operator of a subgraph, None for an operator without one."""
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
            raise EditError(f"the operator has no device; {why}", location=graph.place(index), hint=ANNOTATE)
        devices.append(device)
    return devices


def flows(facts: Graph) -> list[Flow]:
    """Return each tensor between a producer and a reader, by reader. Raises ModelFormatError for a missing tensor."""
    producers = facts.producer.tolist()
    pairs = dict.fromkeys(zip(*(each.tolist() for each in facts.uses), strict=True))
    return [Flow(tensor, producers[tensor], reader) for reader, tensor in pairs if producers[tensor] >= 0]


# Light enough for black text, and distinct for most colour-blind readers (after Okabe and Ito, lightened).
_COLORS = ("#9ecae9", "#ffbf79", "#88d27a", "#f2cf5b", "#ff9d98", "#d6a5c9", "#83bcb6", "#d8b5a5", "#bab0ac")
UNASSIGNED = "#ffffff"


def device_colors(affinity: Affinity) -> dict[str, str]:
    """Return the colour of each device, as `#rrggbb`. Devices beyond the ninth share colours."""
    return colors(name for _, name in sorted(affinity.devices.items()))


def colors(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each distinct name, in order."""
    return {name: _COLORS[index % len(_COLORS)] for index, name in enumerate(dict.fromkeys(names))}
