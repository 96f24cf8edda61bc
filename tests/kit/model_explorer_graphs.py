"""Record the graphs that Model Explorer makes of models: `python -m tests.kit.model_explorer_graphs`.

Needs ai-edge-model-explorer 0.1.34 and model-explorer-circle 0.1.4, which bring 40 packages and 130 MB, beside the
`test` extra. Writes tests/kit/model_explorer_graphs.json: for each model its graphs, each with its id and its nodes:
id, label, names of output tensors; null where the adapter fails. Also has Model Explorer's classes read what is
exported.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from circletools.affinity.exports.pictures import current_affinity, model_explorer_data
from circletools.errors import EditError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.exports_support import alternating
from tests.kit.support import own_models, title
from tests.kit.viewer_models import odd_models

RECORD = Path(__file__).with_suffix(".json")
Graphs = list[tuple[str, list[tuple[str, str, list[str]]]]]


def _graphs(path: Path) -> Graphs | None:
    from model_explorer.builtin_tflite_flatbuffer_adapter import BuiltinTfliteFlatbufferAdapter  # noqa: PLC0415
    from model_explorer_circle.main import CircleAdapter  # noqa: PLC0415

    adapter = CircleAdapter() if path.suffix == ".circle" else BuiltinTfliteFlatbufferAdapter()
    try:
        made = adapter.convert(str(path), {})
    except Exception as error:  # whatever a viewer may raise
        print(f"{path.name}: {error!r}"[:200])
        return None
    graphs = [made["graphs"]] if "graphs" in made else [collection.graphs for collection in made["graphCollections"]]
    plain = [graph if isinstance(graph, dict) else asdict(graph) for part in graphs for graph in part]
    return [(graph["id"], [_node(node) for node in graph["nodes"]]) for graph in plain]


def _node(node: dict[str, Any]) -> tuple[str, str, list[str]]:
    return node["id"], node["label"], _tensors(node)


def _tensors(node: dict[str, Any]) -> list[str]:
    attributes = [attribute for output in node.get("outputsMetadata") or () for attribute in output["attrs"]]
    return [attribute["value"] for attribute in attributes if attribute["key"] == "tensor_name"]


def _read_back(path: Path) -> None:
    """Have Model Explorer's classes read and write our node data; nothing may be lost or unknown to them."""
    from model_explorer import node_data_builder as ndb  # noqa: PLC0415

    with open_model(alternating(path.read_bytes(), "cpu", "npu")) as model:
        try:
            document = model_explorer_data(model_graph(model), current_affinity(model_graph(model)))
        except EditError:
            return
    graphs = document if "results" not in document else {"": document}
    for graph in graphs.values():
        results = {key: ndb.NodeDataResult(**result) for key, result in graph["results"].items()}
        again = json.loads(ndb.GraphNodeData(results=results, name=graph["name"]).to_json_string())
        assert {key: again[key] for key in graph} == graph, path


def main() -> None:
    """Record the graphs of all test models."""
    record = {}
    with tempfile.TemporaryDirectory() as folder:
        odd = [Path(folder) / name for name in odd_models()]
        for path, data in zip(odd, odd_models().values(), strict=True):
            path.write_bytes(data)
        for path in (*own_models(), *odd):
            record[title(path) if path not in odd else path.name] = _graphs(path)
            _read_back(path)
    lines = [f"{json.dumps(name)}: {json.dumps(graphs)}" for name, graphs in record.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
