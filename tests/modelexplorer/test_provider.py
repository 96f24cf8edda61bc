"""The extension where Model Explorer is not installed: its classes are stood in for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from circletools.affinity.exports.pictures import graph_ids
from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.modelexplorer.node_data import origin_data, subgraph_of, time_data
from circletools.origin.source import SourceDetails
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import TRACES
from tests.kit.origin_support import embedded, origins
from tests.kit.support import bytes_of, path_of

IF_TRACE = TRACES / "onert_if_cond.chrome.json"


class Made(SimpleNamespace):
    """An object of a class of Model Explorer: what it was made with."""


@dataclass
class Result:
    """Model Explorer's answer."""

    result: Any = None
    error: str = ""


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    names = {
        "model_explorer": ("GetConfigEditorsResult", "NodeDataProviderFilter", "NodeDataProviderMetadata"),
        "model_explorer.config_editor": ("TextInputConfigEditor",),
        "model_explorer.node_data_builder": ("GradientItem", "GraphNodeData", "NodeDataResult"),
    }
    for module, classes in names.items():
        made = ModuleType(module)
        for name in classes:
            setattr(made, name, Made)
        made.__dict__.update(NodeDataProvider=object, NodeDataProviderResult=Result)
        monkeypatch.setitem(sys.modules, module, made)
    monkeypatch.delitem(sys.modules, "circletools.modelexplorer.main", raising=False)
    yield importlib.import_module("circletools.modelexplorer.main")
    sys.modules.pop("circletools.modelexplorer.main", None)


def test_suggestions(main: Any) -> None:
    provider = main.CircletoolsProvider()
    assert [(one.id, one.name, one.filter.modelFileExts) for one in provider.metadata] == [
        (f"circletools_{kind}", name, ["tflite", "circle"])
        for kind, name in (("origins", "Origins"), ("affinity", "Affinity"), ("cost", "MACs"), ("time", "Time"))
    ]
    (asked,) = provider.get_config_editors("circletools_time").configEditors
    assert (asked.id, asked.required) == ("trace", True)
    assert provider.get_config_editors("circletools_origins").configEditors == []


def test_answers(main: Any, tmp_path: Path) -> None:
    provider = main.CircletoolsProvider()
    path = tmp_path / "m.circle"
    path.write_bytes(embedded(bytes_of("circle/mlp")))
    found, module = provider.run("circletools_origins", str(path), "main", {}, None).result
    assert module.name == "module"
    assert (found.name, len(found.results), found.gradient) == ("origin", 3, [])
    model = str(path_of("circle/if_cond"))
    (found,) = provider.run("circletools_time", model, "main", {"trace": f" {IF_TRACE} "}, None).result
    assert (found.name, list(found.results)) == ("time_us", ["0"])
    assert [(item.stop, item.bgColor) for item in found.gradient] == [(0, "#ffffff"), (1, "#ff7f6e")]


@pytest.mark.parametrize("values", [{}, {"trace": ""}, {"trace": "  "}, {"trace": None}])
def test_errors_are_answers(main: Any, values: dict[str, Any]) -> None:
    answer = main.CircletoolsProvider().run("circletools_time", str(path_of("circle/mlp")), "main", values, None)
    assert (answer.result, answer.error) == (None, "no trace is given")


def test_graphs_by_their_names() -> None:
    with open_model(bytes_of("circle/mlp")) as model:
        assert (
            subgraph_of(model_graph(model), "main"),
            subgraph_of(model_graph(model), model.subgraphs[0].name),
        ) == (0, 0)
    with open_model(bytes_of("circle/if_cond")) as model:
        known = graph_ids(model_graph(model))
        assert len(known) == 1
        assert {name: subgraph_of(model_graph(model), name) for name in known} == known
        with pytest.raises(UsageError, match="has no graph 'then'"):
            subgraph_of(model_graph(model), "then")
    with open_model(bytes_of("tflite/while_nested")) as model:
        assert sorted(subgraph_of(model_graph(model), name) for name in graph_ids(model_graph(model))) == sorted(
            graph_ids(model_graph(model)).values()
        )


def test_times_are_of_one_subgraph_and_one_execution() -> None:
    trace = read_profile(IF_TRACE)
    with open_model(bytes_of("circle/if_cond")) as model:
        (main_graph,), (called,) = (time_data(model_graph(model), index, trace) for index in (0, 1))
    assert len(main_graph["results"]) == 1
    assert main_graph["results"] != called["results"]
    runs = tuple(OperatorRun(0, index, name, "", 0, 3000, 0) for index, name in enumerate(["FULLY_CONNECTED"]))
    with open_model(bytes_of("circle/mlp")) as model:
        (found,) = time_data(model_graph(model), 0, OperatorTrace("litert", runs, 2))
        assert [result["value"] for result in found["results"].values()] == [1.5]
        with pytest.raises(EditError, match="no origins"):
            origin_data(model_graph(model), 0)


def test_modules_and_lines_of_sources() -> None:
    known = {0: SourceDetails(path="a", file="net.py", line=3), 4: SourceDetails(path="a")}
    wanted = replace(origins({0: "x", 2: "y", 4: "z"}, {0: {2, 0, 4}, 1: {2}, 2: {4}}), details=known)
    with open_model(embedded(bytes_of("circle/mlp"), wanted)) as model:
        found = origin_data(model_graph(model), 0)
    assert [(one["name"], [result["value"] for result in one["results"].values()]) for one in found] == [
        ("origin", ["x, y, z", "y", "z"]),
        ("module", ["a, y", "y", "a"]),
        ("line", ["net.py:3"]),
    ]
    places = [[*one["results"]] for one in found]
    assert (places[1], places[2]) == (places[0], places[0][:1])
