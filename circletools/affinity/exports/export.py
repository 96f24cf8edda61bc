"""Export of the affinity in every supported format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from circletools.affinity.assign.partfile import format_part
from circletools.affinity.exports.dot import dot_graph
from circletools.affinity.exports.model_explorer import model_explorer_data
from circletools.affinity.exports.onert import onert_environment
from circletools.affinity.exports.openvino import openvino_affinity
from circletools.affinity.exports.part import part_file
from circletools.affinity.exports.placement import current_affinity
from circletools.affinity.read import Affinity
from circletools.errors import UsageError
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.wording import Attributes

Target = Literal["onert", "part", "openvino", "model-explorer", "dot"]


@dataclass(frozen=True, slots=True)
class Export(Attributes):
    """The export for a target: text, or an object to be written as JSON or shell lines."""

    target: Target
    content: str | Mapping[str, Any]


_EXPORTERS: dict[str, Callable[[ModelGraph, Affinity], str | Mapping[str, Any]]] = {
    "onert": onert_environment,
    "part": lambda model, affinity: format_part(part_file(model, affinity)),
    "openvino": openvino_affinity,
    "model-explorer": model_explorer_data,
    "dot": dot_graph,
}


def export(model: Model, target: Target) -> Export:
    """Return the affinity in a model for `target`; `render.export_text` writes it.

    Raises EditError if the model has no affinity or a stale one, or the target would ignore or misread a part of it;
    UsageError for an unknown target.
    """
    if target not in _EXPORTERS:
        raise UsageError(f"no affinity is exported to {target!r}", hint=f"available: {', '.join(get_args(Target))}")
    graph = model_graph(model)
    return Export(target, _EXPORTERS[target](graph, current_affinity(graph)))
