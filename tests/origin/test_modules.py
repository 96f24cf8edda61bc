"""The tree of modules: what it is, and that the page, the commands and Model Explorer have the same one."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import circletools as ct
from circletools.graph.build import model_graph
from circletools.modelexplorer.node_data import origin_data
from circletools.origin.modules import ROOT, module_tree, modules_of
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails
from circletools.render.origins import origins_tree
from tests.kit.origin_support import embedded
from tests.kit.page_support import document_of, onert_trace

DATA = Path(__file__).resolve().parents[2] / "testdata"
RECORDED = {
    "origins/tico.circle": "origins/tico.json",
    "origins/litert_torch.tflite": "origins/litert_torch.json",
    "origins/onnx2tf.tflite": "origins/onnx2tf.json",
    "tflite/shuffle.tflite": "tflite/shuffle.origins.json",
    "tflite/shuffle_flat.tflite": "tflite/shuffle_flat.origins.json",
    "origins/litert_torch.int8.tflite": "",
    "circle/transformer_block.circle": "",
    "circle/inverted_residual.circle": "",
    "circle/inception.circle": "",
    "circle/lstm.circle": "",
    "tflite/while_nested.tflite": "",
    "tracking/attention_small.optimised.after.circle": "",
}
names = st.lists(st.sampled_from(["a", "b", "::", "/", ".", ";", "long"]), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("name", "path", "modules"),
    [
        ("model/dense/MatMul;model/dense/BiasAdd", "", ["model/dense", "model/dense"]),
        ("a/b/c;d/e/f", "", ["a/b", "d/e"]),
        ("/a/b/c", "", ["/a/b"]),
        ("torch.nn.modules.linear.Linear::linear_1", "", ["torch.nn.modules.linear.Linear"]),
        ("net::block/conv::0", "", ["net::block/conv"]),
        ("attn.::x", "", ["attn"]),
        ("plain", "", ["plain"]),
        ("", "", [""]),
        (";", "", [";"]),
        ("a::b", "layers.0.attn.q", ["layers.0.attn.q"]),
        ("a::b", "model/tf.math.add/", ["model/tf.math.add"]),
        ("a::b", "a/" * 50_001, ["a/" * 50_001]),
    ],
)
def test_the_modules_of_a_source(name: str, path: str, modules: list[str]) -> None:
    assert [found[-1].path for found in modules_of(name, SourceDetails(path))] == modules


def test_one_module_however_it_is_written() -> None:
    sources = {0: "attn::softmax", 1: "attn.q::linear", 2: "attn.::add", 3: "attn/k/MatMul", 4: "up::linear"}
    tree = module_tree(Origins(sources, ()))
    assert (tree.paths, tree.parents) == (["attn", "attn.q", "attn/k", "up"], [ROOT, 0, 0, ROOT])
    assert tree.of_source == {0: [0], 1: [1], 2: [0], 3: [2], 4: [3]}
    assert module_tree(Origins(sources, ()), 1).paths == ["attn", "up"]
    sources = {0: "net_0.25/conv/x", 1: "net_0.25/fc/x", 2: "a.b::x", 3: "a.c::x", 4: "a.b/x"}
    assert module_tree(Origins(sources, ()), 1).paths == ["net_0.25", "a", "a.b"]
    assert module_tree(Origins(sources, ())).labels == ["net_0.25", "/conv", "/fc", "a", ".b", ".c"]
    deep = module_tree(Origins({0: "a/" * 30 + "b", 1: "a/" * 25 + "c"}, ()))
    assert [path.count("/") for path in deep.paths] == [22, 29, 24]


@given(st.lists(names, max_size=12), st.none() | st.integers(1, 3))
def test_a_tree_has_every_module_once(given_names: list[str], depth: int | None) -> None:
    tree = module_tree(Origins(dict(enumerate(given_names)), ()), depth)
    assert len(set(tree.paths)) == len(tree.paths)
    children = [tree.parents.count(row) for row in range(len(tree.parents))]
    ends = {row for rows in tree.of_source.values() for row in rows}
    assert all(count != 1 or row in ends for row, count in enumerate(children))
    for row, label in enumerate(tree.labels):
        assert tree.paths[row].endswith(label)
        assert tree.parents[row] < row

    def parts(path: str) -> list[str]:
        return [part for part in re.split(r"::|[./]", path) if part] or [path]

    for source, name in enumerate(given_names):
        wanted = {tuple(parts(found[:depth][-1].path)) for found in modules_of(name, SourceDetails())}
        assert {tuple(parts(tree.paths[row])) for row in tree.of_source[source]} == wanted


@pytest.mark.parametrize("name", RECORDED)
def test_the_tree_is_the_same_in_all_places(name: str, tmp_path: Path) -> None:
    """Page, `cost`, `attribute`, `inspect` and Model Explorer; what is in a module adds up to what it has."""
    wanted = ct.origins.parse((DATA / RECORDED[name]).read_text("utf-8"), "it") if RECORDED[name] else None
    data = embedded((DATA / name).read_bytes(), wanted)
    with ct.open(data) as model:
        graph = model_graph(model)
        trace = ct.read_profile(onert_trace(tmp_path, graph.graphs[0].operators.code_names))
        attributed, costs = ct.attribute(model, trace), ct.cost(model, by="module")
        lines = list(origins_tree(ct.origins.describe(model)))
        shown = [origin_data(graph, index) for index in range(len(graph))]
        origins = ct.origins.describe(model).origins
    page = document_of(data)["modules"]
    tree = module_tree(origins)
    expected = {path: tree.parent(row) for row, path in enumerate(tree.paths)}

    def with_operators(found: dict[str, str | None]) -> dict[str, str | None]:
        used = {row for subgraph in origins.operators for one in subgraph.values() for row in tree.around(one)}
        return {path: parent for path, parent in found.items() if tree.paths.index(path) in used}

    assert (page["parent"], page["label"]) == (tree.parents, tree.labels)
    assert {row.name: row.parent for row in costs.rows if row.name != "(no origin)"} == with_operators(expected)
    assert {row.name: row.parent for row in attributed.modules if row.name} == with_operators(expected)
    labels = [label.lstrip("./:") for label in tree.labels]
    assert [label for label in labels if not any(line.strip().startswith(label) for line in lines)] == []
    for index, columns in enumerate(shown):
        values = next((one["results"].values() for one in columns if one["name"] == "module"), ())
        listed = {path for value in values for path in value["value"].split(", ")}
        ends = {row for one in origins.operators[index].values() for source in one for row in tree.of_source[source]}
        assert listed == {tree.paths[row] for row in ends}

    sums: dict[str | None, int] = defaultdict(int)
    own = {row.name: row.macs for row in costs.rows}
    for row in costs.rows:
        sums[row.parent] += row.macs
    assert sums[None] == costs.total.macs
    assert all(sums[path] <= own[path] for path in own)
    times = {row.name: row.time.total_ns for row in attributed.modules}
    ending = {row for rows in tree.of_source.values() for row in rows}
    for number, path in enumerate(tree.paths):
        below = [times.get(inner, 0) for inner, parent in expected.items() if parent == path]
        assert sum(below) == times.get(path, 0) or (number in ending and sum(below) <= times[path])
    assert sum(times[row.name] for row in attributed.modules if row.parent is None) == attributed.total_ns
