"""Node data for a graph in Model Explorer: origins, devices and partitions, MACs, and times from a trace.

Interface: model_explorer/node_data_provider.py of ai-edge-model-explorer 0.1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model_explorer import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)
from model_explorer.config_editor import TextInputConfigEditor
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

from circletools.errors import CircleToolsError, UsageError
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import open_model
from circletools.modelexplorer import node_data
from circletools.trace.operators.read import read_profile

_TRACE = "trace"
_FORMATS = NodeDataProviderFilter(modelFileExts=["tflite", "circle"])


def _time_data(model: ModelGraph, subgraph: int, trace: str) -> list[node_data.NodeData]:
    if not trace:
        raise UsageError("no trace is given")
    return node_data.time_data(model, subgraph, read_profile(trace))


_VIEWS: Mapping[str, tuple[str, str, Callable[[ModelGraph, int, str], list[node_data.NodeData]]]] = {
    "circletools_origins": ("Origins", "The sources of each operator.", node_data.origin_data),
    "circletools_affinity": ("Affinity", "The device and partition of each operator.", node_data.affinity_data),
    "circletools_cost": ("MACs", "The number of multiply-accumulates of each operator.", node_data.cost_data),
    "circletools_time": ("Time", "The time of each operator in a trace.", _time_data),
}


class CircletoolsProvider(NodeDataProvider):  # type: ignore[misc] # the package has no type information
    """A provider of node data for a graph in Model Explorer."""

    metadata = [  # noqa: RUF012 - required by the interface
        NodeDataProviderMetadata(id=name, name=title, description=about, icon="schema", filter=_FORMATS)
        for name, (title, about, _) in _VIEWS.items()
    ]

    def get_config_editors(self, provider_id: str) -> Any:
        """Return the settings to request from the user: a trace, for the provider that needs one."""
        asked = TextInputConfigEditor(
            id=_TRACE,
            label="Trace",
            required=True,
            description="A path on the server: a trace from onert or LiteRT, or a report from benchmark_model.",
        )
        return GetConfigEditorsResult(configEditors=[asked] if provider_id == "circletools_time" else [])

    def run(self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any) -> Any:
        """Return the node data of a graph, or the text of an error."""
        try:
            with open_model(model_path) as model:
                whole = model_graph(model)
                trace = str(config_values.get(_TRACE) or "").strip()
                found = _VIEWS[provider_id][2](whole, node_data.subgraph_of(whole, graph_id), trace)
        except CircleToolsError as error:
            return NodeDataProviderResult(error=str(error))
        graphs = [
            GraphNodeData(
                name=data["name"],
                results={key: NodeDataResult(**result) for key, result in data["results"].items()},
                gradient=[GradientItem(**item) for item in data.get("gradient", ())],
            )
            for data in found
        ]
        return NodeDataProviderResult(result=graphs)
