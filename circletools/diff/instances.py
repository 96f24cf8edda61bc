"""Keys of operators and tensors by origins: the instance paths that two exports of a network share."""

from __future__ import annotations

import re
from dataclasses import dataclass

from circletools.diff.alignment import Keys
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.keys import Interning
from circletools.model.model import Model
from circletools.origin.read import Origins, current_origins

_PATH = re.compile(r"[./]|::")


@dataclass(frozen=True, slots=True)
class InstanceKeys:
    """A key for each tensor and operator of a model; objects without an origin have unique keys."""

    tensors: Keys
    operators: Keys


def instance_keys(before: Model, after: Model) -> tuple[InstanceKeys, InstanceKeys] | None:
    """Return the keys of both models; None unless both have up-to-date origins."""
    sides = model_graph(before), model_graph(after)
    old, new = map(current_origins, sides)
    if old is None or new is None:
        return None
    names = Interning()
    return _keys(sides[0], old, names, 0), _keys(sides[1], new, names, 1)


def _keys(model: ModelGraph, origins: Origins, names: Interning, side: int) -> InstanceKeys:
    """Key an operator by its code, the paths of its sources, and its position among operators that share both.

    A source that is a plain name is not a path, and gives no key. A tensor is keyed by its producer, a constant by
    its first reader, and by the slot.
    """
    paths = {source: origins.details_of(source).path or name for source, name in origins.sources.items()}
    sets: dict[frozenset[int], tuple[str, ...]] = {}
    operators: list[object] = []
    tensors: list[object] = []
    for graph in model.graphs:
        groups: dict[object, list[int]] = {}
        own: list[object] = [(side, graph.index, operator) for operator in range(len(graph))]
        for operator, code in enumerate(graph.operators.code_names):
            found = frozenset(origins.of(graph.index, operator))
            if found not in sets:
                sets[found] = tuple(sorted({paths[source] for source in found if _PATH.search(paths[source])}))
            if sets[found]:
                groups.setdefault((code, sets[found]), []).append(operator)
        for number, some in zip(names.keys(groups).tolist(), groups.values(), strict=True):
            for place, operator in enumerate(some):
                own[operator] = (number, len(some), place)
        operators += own
        slots: dict[int, object] = {}
        for way, rows in (("out", graph.results), ("in", graph.operands)):
            for operator, values in enumerate(rows.lists()):
                for slot, value in enumerate(values):
                    slots.setdefault(value, (way, own[operator], slot))
        inputs = set(graph.inputs.tolist())
        tensors += [
            (side, "tensor", graph.index, value) if value in inputs or value not in slots else slots[value]
            for value in range(len(graph.values))
        ]
    return InstanceKeys(names.keys(tensors), names.keys(operators))
