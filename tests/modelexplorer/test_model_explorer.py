"""Origins, affinity and times in Model Explorer: the keys it finds them with, and its own server asking for them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import CircleToolsError, EditError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.modelexplorer.node_data import affinity_data, origin_data, subgraph_of, time_data
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from circletools.trace.operators.read import read_profile
from tests.kit.exports_support import alternating
from tests.kit.operator_support import TRACES
from tests.kit.origin_support import embedded, origins
from tests.kit.support import ROOT, bytes_of, path_of, with_root

RECORDED = json.loads((ROOT / "tests" / "kit" / "model_explorer_graphs.json").read_text(encoding="utf-8"))
NAMES = [name for name, graphs in RECORDED.items() if graphs is not None and "/" in name]
PROVIDERS = {"circletools_origins", "circletools_affinity", "circletools_cost", "circletools_time"}


def prepared(name: str) -> bytes:
    """Return a model whose operators come from `source i` and take turns on two devices."""
    data = bytes_of(name)
    with open_model(data) as model:
        counts = [len(subgraph.operators) for subgraph in model.subgraphs]
    sources = {index: f"source {index}" for index in range(max(counts))}
    wanted = origins(sources, *({index: {index} for index in range(count)} for count in counts))
    return alternating(embedded(data, wanted) if any(counts) else data, "cpu", "npu")


def by_operator(data: dict[str, Any], nodes: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
    """Return the values by the id of the node that each key finds: names of tensors come first."""
    by_tensor = {tensor: node for node, _, tensors in nodes for tensor in tensors}
    found = {by_tensor.get(key, key): result["value"] for key, result in data["results"].items()}
    assert found.keys() <= {node for node, _, _ in nodes}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_graph_finds_what_belongs_to_its_operators(name: str) -> None:
    with open_model(prepared(name)) as model:
        for graph, nodes in RECORDED[name]:
            index = subgraph_of(model_graph(model), graph)
            operators = [str(operator.index) for operator in model.subgraphs[index].operators]
            if not operators:
                continue
            found, *_ = origin_data(model_graph(model), index)
            assert by_operator(found, nodes) == {number: f"source {number}" for number in operators}
            devices, parts = affinity_data(model_graph(model), index)
            assert by_operator(devices, nodes) == {number: ["cpu", "npu"][int(number) % 2] for number in operators}
            assert all(re.fullmatch(r"\d+ (cpu|npu)", value) for value in by_operator(parts, nodes).values())
            assert by_operator(parts, nodes).keys() == set(operators)
            runs = [OperatorRun(index, int(number), "Any", "cpu", 0, 2000, 0) for number in operators]
            codes = model.code_names(index)
            named = [run._replace(name=code) for run, code in zip(runs, codes, strict=True)]
            try:
                (times,) = time_data(model_graph(model), index, OperatorTrace("litert", tuple(named), 2))
            except CircleToolsError:
                assert index > 0  # a called subgraph alone is not a trace
                continue
            assert set(by_operator(times, nodes).values()) <= {1.0}


def test_times_of_a_real_trace() -> None:
    trace = read_profile(str(TRACES / "onert_if_cond.chrome.json"))
    with open_model(bytes_of("circle/if_cond")) as model:
        (found,) = time_data(model_graph(model), 0, trace)
    assert found["name"] == "time_us"
    assert list(found["results"]) == ["0"]
    total = sum(run.duration_ns for run in trace.runs if run.subgraph == 0 and run.name == "If")
    assert 0 < found["results"]["0"]["value"] <= total / trace.executions / 1000


def test_missing_attributes() -> None:
    with open_model(bytes_of("circle/mlp")) as model:
        with pytest.raises(EditError, match="the model has no origins"):
            origin_data(model_graph(model), 0)
        with pytest.raises(EditError, match="the model has no affinity"):
            affinity_data(model_graph(model), 0)
        with pytest.raises(UsageError, match="the model has no graph 'other'"):
            subgraph_of(model_graph(model), "other")


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start Model Explorer with the extension; give the address of its server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # It asks for newer versions of itself when it starts; nothing answers there.
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9")
    env = os.environ | nowhere | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONPATH": with_root()}
    with (folder / "log").open("wb") as log, subprocess.Popen(
        [sys.executable, "-c", "from model_explorer.cmdline import main; main()", "--no_open_in_browser",
         "--host=127.0.0.1", f"--port={port}", "--extensions=circletools.modelexplorer,model_explorer_circle"],
        cwd=folder, env=env, stdout=log, stderr=log,
    ) as process:  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(600):
                if process.poll() is not None:
                    break
                try:
                    urllib.request.urlopen(f"{address}/check_health", timeout=5).read()  # noqa: S310 - our own
                    yield address
                    return
                except OSError:
                    time.sleep(0.1)
            raise AssertionError((folder / "log").read_text())
        finally:
            process.kill()


def asked(address: str, command: dict[str, Any]) -> Any:
    """Send a command as the page in the browser does."""
    request = urllib.request.Request(  # noqa: S310 - our own
        f"{address}/apipost/v1/send_command", json.dumps(command).encode(), {"Content-Type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request, timeout=60))  # noqa: S310


@pytest.mark.skipif(importlib.util.find_spec("model_explorer") is None, reason="Model Explorer is not installed")
def test_the_server_asks_the_extension(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        listed = json.load(urllib.request.urlopen(f"{address}/api/v1/get_extensions", timeout=60))  # noqa: S310
        assert {one["id"] for one in listed if one["type"] == "node_data_provider"} >= PROVIDERS
        for name, adapter in (
            ("circle/if_cond", "circle-adapter"),
            ("circle/transformer_block", "circle-adapter"),
            ("tflite/two_signatures", "builtin_tflite_flatbuffer"),
            ("tflite/cnn", "builtin_tflite_flatbuffer"),
        ):
            _ask_about(address, tmp_path, name, adapter)
        data = bytes_of("circle/mlp")
        (tmp_path / "mlp.circle").write_bytes(data)
        answer = asked(address, question("circletools_origins", tmp_path / "mlp.circle", "main"))
        reason = "the model has no origins (run embed-origins before the compiler)"
        assert answer == {"result": None, "error": reason}


def question(provider: str, path: Path, graph: str, **values: str) -> dict[str, Any]:
    """Return the command that runs a provider."""
    return {
        "cmdId": "run", "extensionId": provider, "modelPath": str(path), "graphId": graph, "configValues": values,
    }  # fmt: skip


def _ask_about(address: str, folder: Path, name: str, adapter: str) -> None:
    path = folder / path_of(name).name
    path.write_bytes(prepared(name))
    command = {"cmdId": "convert", "extensionId": adapter, "modelPath": str(path), "settings": {}}
    made = asked(address, command | {"deleteAfterConversion": False})
    collections = made.get("graphCollections") or [{"graphs": made["graphs"]}]
    graphs = [graph for collection in collections for graph in collection["graphs"]]
    assert graphs
    for graph in graphs:
        nodes = [(node["id"], node["label"], tensors_of(node)) for node in graph["nodes"]]
        with open_model(path) as model:
            operators = [
                str(one.index) for one in model.subgraphs[subgraph_of(model_graph(model), graph["id"])].operators
            ]
        for provider, names in (("origins", ["origin"]), ("affinity", ["device", "partition"])):
            answer = asked(address, question(f"circletools_{provider}", path, graph["id"]) | {"graph": graph})
            assert answer["error"] == ""
            assert [one["name"] for one in answer["result"]] == names
            for one in answer["result"]:
                assert by_operator(one, nodes).keys() == set(operators)
    if name == "circle/if_cond":
        editors = asked(address, {"cmdId": "get_config_editors", "extensionId": "circletools_time"})
        assert [one["id"] for one in editors["configEditors"]] == ["trace"]
        trace = TRACES / "onert_if_cond.chrome.json"
        answer = asked(address, question("circletools_time", path, "main", trace=str(trace)))
        assert (answer["error"], list(by_operator(answer["result"][0], nodes))) == ("", ["0"])
        answer = asked(address, question("circletools_time", path, "main"))
        assert answer["error"] == "no trace is given"


def tensors_of(node: dict[str, Any]) -> list[str]:
    """Return the names of a node's output tensors."""
    attributes = [one for output in node.get("outputsMetadata") or () for one in output["attrs"]]
    return [one["value"] for one in attributes if one["key"] == "tensor_name"]
