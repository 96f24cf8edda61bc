"""Pictures of affinity: what Model Explorer and Graphviz make of them."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.affinity.exports.pictures import current_affinity, dot_graph, model_explorer_data
from circletools.errors import EditError
from circletools.graph.build import graph_of, model_graph
from circletools.model.model import open_model
from tests.kit.exports_support import alternating, codes_of, named, with_affinity
from tests.kit.presence import Lazy
from tests.kit.support import ROOT, bytes_of, own_models, title
from tests.kit.viewer_models import odd_models

pydot = Lazy("pydot")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pydot's use of pyparsing

RECORDED = json.loads((ROOT / "tests" / "kit" / "model_explorer_graphs.json").read_text(encoding="utf-8"))
ODD = {path: data for path, data in odd_models().items() if not path.startswith("same_names.t")}


def explored(data: bytes) -> dict[str, Any]:
    with open_model(data) as model:
        return model_explorer_data(model_graph(model), current_affinity(model_graph(model)))


@pytest.mark.parametrize("name", RECORDED)
def test_model_explorer_finds_each_operator(name: str) -> None:
    if (name in odd_models() and name not in ODD) or name.startswith("index_names"):
        return  # refused, as tested below
    data = odd_models()[name] if name in ODD else bytes_of(name)
    if RECORDED[name] is None:
        pytest.skip("its adapter does not read the model")
    document = explored(alternating(data, "cpu", "npu"))
    assert ("results" in document) == (len(read_graphs(data)) == 1)
    graphs = {RECORDED[name][0][0]: document} if "results" in document else document
    assert [graph for graph, _ in RECORDED[name]] == list(graphs)
    for index, (graph, nodes) in enumerate(RECORDED[name]):
        by_tensor = {tensor: node for node, _, tensors in nodes for tensor in tensors}
        labels = {node: label for node, label, _ in nodes}
        found = {by_tensor.get(key, key): result["value"] for key, result in graphs[graph]["results"].items()}
        codes = codes_of(data, index)
        assert found == {str(number): ["cpu", "npu"][number % 2] for number in range(len(codes))}
        for number, code in enumerate(codes):
            assert labels[str(number)].upper() in (code, code.removeprefix("CUSTOM:").upper())


def read_graphs(data: bytes) -> list[str]:
    with open_model(data) as model:
        return [subgraph.name for subgraph in model.subgraphs]


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_a_tensor_named_like_an_index_takes_the_key(kind: str) -> None:
    def keys(*devices: str | None) -> list[str]:
        return list(explored(with_affinity(odd_models()[f"index_names.{kind}"], devices))["results"])

    nodes = RECORDED[f"index_names.{kind}"][0][1]
    by_tensor = {tensor: node for node, _, tensors in nodes for tensor in tensors}
    assert [by_tensor.get(str(index), str(index)) for index in range(5)] == ["2", "0", "2", "3", "4"]
    assert keys("cpu", None, "cpu", "cpu", "cpu") == ["1", "2", "3", "4"]
    assert [by_tensor.get(key, key) for key in ("1", "2", "3", "4")] == ["0", "2", "3", "4"]
    with pytest.raises(EditError, match=r"operators\[1\]: .* no key for this operator: '1' is the name of a tensor"):
        keys("cpu", "cpu", "cpu", "cpu", "cpu")


def test_graphs_of_one_name() -> None:
    with pytest.raises(EditError, match="Model Explorer distinguishes graphs by name, but several are named 'main'"):
        explored(alternating(odd_models()["same_names.tflite"], "cpu"))


def drawn(data: bytes) -> str:
    with open_model(data) as model:
        return dot_graph(model_graph(model), current_affinity(model_graph(model)))


def parsed(source: str) -> Any:
    """Return the graph as pydot reads it, an implementation of the grammar in Python."""
    graphs = pydot.graph_from_dot_data(source)
    assert graphs is not None
    (graph,) = graphs
    return graph


def shown(name: str) -> str:
    """Return what a label shows, for names without line breaks of any kind."""
    assert name[0] == name[-1] == '"'
    return html.unescape(name[1:-1].replace('\\"', '"').replace("\\\\", "\\"))


def clusters(graph: Any) -> list[Any]:
    inner = list(graph.get_subgraphs())
    return [*inner, *(deeper for one in inner for deeper in clusters(one))]


@pytest.mark.parametrize("path", own_models()[::6], ids=title)  # pydot takes 0.1 s each
def test_the_picture_has_all_operators_and_partitions(path: Path) -> None:
    data = alternating(path.read_bytes(), "cpu", "npu")
    graph = parsed(drawn(data))
    found = {cluster.get_name(): cluster for cluster in clusters(graph)}
    with open_model(data) as model:
        affinity = current_affinity(model_graph(model))
        for index in range(len(model.subgraphs)):
            codes, ids = model.code_names(index), affinity.subgraphs[index].partitions.tolist()
            for operator, (code, partition) in enumerate(zip(codes, ids, strict=True)):
                cluster = found[f"cluster_{index}_{partition}"]
                (node,) = cluster.get_node(f"s{index}_o{operator}")
                assert shown(node.get_label()) == f"{operator} {code}"
                members = [other for other, at in enumerate(ids) if at == partition]
                work = [other for other in members if other not in graph_of(model, index).folded]
                devices = dict.fromkeys(("cpu", "npu")[other % 2] for other in work or members)
                assert shown(cluster.get_label()) == f"partition {partition}: {', '.join(devices)}"
            _assert_edges(model.subgraphs[index].operators, found[f"cluster_{index}"], ids)


def _assert_edges(operators: Any, cluster: Any, partitions: list[int]) -> None:
    expected = sorted(
        (one.index, two.index, partitions[one.index] != partitions[two.index] or (one.index - two.index) % 2 == 1)
        for one in operators
        for two in operators
        for tensor in {*one.outputs} & {*two.inputs}
    )
    drawn_edges = [
        (_index(edge.get_source()), _index(edge.get_destination()), "label" in edge.get_attributes())
        for edge in cluster.get_edges()
    ]
    assert sorted(drawn_edges) == expected


def _index(node: str) -> int:
    return int(node.split("_o")[1])


@settings(max_examples=12, deadline=None)  # pydot takes 0.1 s each
@given(st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_cuts_show_any_name(name: str) -> None:
    graph = parsed(drawn(with_affinity(named(name, "end"), ["cpu", "npu"])))
    (edge,) = next(iter(graph.get_subgraphs())).get_edges()
    assert shown(edge.get_attributes()["label"]) == name


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize(("name", "text"), [
    ("a;b", "a;b"), ('"', '"'), ("\\", "\\"), ("\\N\\n\\l\\", "\\N\\n\\l\\"), ("&amp;<b>&lt;", "&amp;<b>&lt;"),
    ("<b>x</b>", "<b>x</b>"), ("a\nb\r\0"[:-1], "a\\x0ab\\x0d"), ("é∂🙂", "é∂🙂"), ("->", "->"),
    ("}]", "}]"), ("a  b", "a  b"), ("x" * 2000, "x" * 2000), ("not UTF-8", "not\\xffUTF-8"),
])  # fmt: skip
def test_graphviz_shows_any_name(name: str, text: str) -> None:
    source = drawn(with_affinity(named(name, "end").replace(b"not UTF-8", b"not\xffUTF-8"), ["cpu", "npu"]))
    done = subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True, check=True)  # noqa: S607
    assert done.stderr == b""
    texts = [html.unescape(found) for found in re.findall(r"<text [^>]*>(.*?)</text>", done.stdout.decode())]
    assert text in [found.replace("\xa0", " ") for found in texts]
    assert {"partition 0: cpu", "partition 1: npu", "0 TANH", "1 TANH", "subgraph 0 main"} <= {*texts}


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_every_picture() -> None:
    pictures = [drawn(alternating(path.read_bytes(), "cpu", "npu")) for path in own_models()]
    done = subprocess.run(["dot", "-Tcanon"], input="".join(pictures).encode(), capture_output=True, check=True)  # noqa: S607
    assert done.stderr == b""
    assert done.stdout.count(b"digraph affinity") == len(pictures)


def test_operators_without_a_device_are_drawn_too() -> None:
    source = drawn(with_affinity(named("a", "b"), ["cpu", None]))
    assert 's0_o1 [label="1 TANH", fillcolor="#ffffff"];' in source
    assert 's0_o0 -> s0_o1 [label="a"' in source
