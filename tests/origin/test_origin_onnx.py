"""Origins by an ONNX file: what exporters note of nodes, and which nodes operators are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.origin.exporters.onnx_file import Graph, matched_nodes, sources_of_nodes
from circletools.origin.source import Source, SourceDetails
from tests.kit.build import Build

DATA = Path(__file__).resolve().parents[2] / "testdata"
TRACE = 'File "/home/u/net.py", line 7, in forward\n  File "/x/site-packages/torch/nn/a.py", line 9, in forward'


def node(name: str, kind: str, inputs: Iterable[str] = (), output: str = "", **shown: str) -> Any:
    props = [SimpleNamespace(key=f"pkg.torch.onnx.{key}", value=value) for key, value in shown.items()]
    return SimpleNamespace(
        name=name, op_type=kind, input=list(inputs), output=[output] if output else [], metadata_props=props
    )


def torch_node(kind: str, path: str, call: str, inputs: Iterable[str] = (), output: str = "") -> Any:
    scopes, classes = ["", path, call], ["net.Lm", "nn.Linear", "aten.linear.default"]
    shown = {"name_scopes": str(scopes), "class_hierarchy": str(classes), "stack_trace": TRACE}
    return node(f"node_{call}", kind, inputs, output, **shown)


# --- what is noted of nodes ---------------------------------------------------------------------------------


def test_metadata_of_torch() -> None:
    nodes = [
        torch_node("Sigmoid", "0.q", "silu_3"),
        torch_node("Mul", "0.q", "silu_3"),
        torch_node("Add", "0", "silu"),
    ]
    details = SourceDetails("0.q", "nn.Linear", "/home/u/net.py", 7, "aten.linear.default")
    first, second, other = sources_of_nodes(nodes)
    assert first == second == [Source("0.q::silu", details)]
    assert [one.name for one in other] == ["0::silu"]


def test_parameters_of_other_modules() -> None:
    nodes = [torch_node("Conv", "0.norm", "norm", ["x", "0.conv.weight", "0.norm.bias", "0.other.y"])]
    ((own, other),) = sources_of_nodes(nodes, {"0.conv.weight", "0.norm.bias", "x"})
    assert own.name == "0.norm::norm"
    assert other == Source("0.conv::Conv", SourceDetails(path="0.conv", call="Conv"))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("/layers/layers.0/conv/Conv", Source("layers.0.conv::Conv", SourceDetails("layers.0.conv", call="Conv"))),
        ("/a/b/b.1/Conv_2", Source("a.b.1::Conv_2", SourceDetails("a.b.1", call="Conv"))),
        ("/Conv_1", Source("Conv_1", SourceDetails(call="Conv"))),
        ("model/dense/Conv", Source("model/dense/Conv", SourceDetails(call="Conv"))),
        ("", Source("made", SourceDetails(call="Conv"))),
    ],
)
def test_names_of_nodes(name: str, source: Source) -> None:
    assert sources_of_nodes([node(name, "Conv", output="made")]) == [[source]]
    assert sources_of_nodes([node("", "Conv")]) == [[Source("", SourceDetails(call="Conv"))]]


@pytest.mark.parametrize("written", ["", "no list", "[1", "{}", "[" * 5000])
def test_metadata_that_is_no_list(written: str) -> None:
    assert sources_of_nodes([node("n", "Abs", name_scopes=written)]) == [[Source("n", SourceDetails(call="Abs"))]]


# --- which nodes operators are ------------------------------------------------------------------------------


def graph(*steps: tuple[str, list[int]] | tuple[str, list[int], list[str]], names: Iterable[str] = ()) -> Graph:
    """Make a graph of steps: kind, what feeds it, weights; the last one makes the output."""
    made = [[name] for name in names] or [[] for _ in steps]
    weights = [list(step[2]) if len(step) > 2 else [] for step in steps]
    return Graph(
        [step[0] for step in steps], [step[1] for step in steps], made, weights, frozenset((len(steps) - 1,))
    )


def test_weights_and_operators_between_them() -> None:
    nodes = graph(
        ("MatMul", [], ["w"]), ("Add", [0], ["b"]), ("Tanh", [1]), ("Transpose", [2]), ("Erf", [3]),
        ("Conv", [4], ["v"]), ("Constant", []), ("Relu", [5, 6]), ("Identity", [7]),
        ("Exp", [8], ["u"]), ("Neg", [9]),
    )  # fmt: skip
    operators = graph(
        ("FULLY_CONNECTED", [], ["w", "b"]), ("TANH", [0]), ("TRANSPOSE", [1]), ("MUL", [2]), ("SUM", [3]),
        ("CONV_2D", [4], ["v"]), ("EXP", [5], ["u"]), ("NEG", [6]),
    )  # fmt: skip
    assert matched_nodes(nodes, operators) == [{0, 1}, {2}, {3}, {4}, {4}, {5, 7}, {9}, {10}]


def test_as_many_of_a_kind() -> None:
    chain = graph(("Exp", []), ("Exp", [0]), ("Exp", [1]))
    assert matched_nodes(chain, graph(("EXP", []), ("EXP", [0]), ("EXP", [1]))) == [{0}, {1}, {2}]
    beside = graph(("Exp", []), ("Exp", []), ("Sub", [0, 1]))
    assert matched_nodes(beside, graph(("EXP", []), ("EXP", []), ("SUB", [0, 1]))) == [{0, 1}, {0, 1}, {2}]
    charged: list[int] = []
    assert matched_nodes(chain, graph(("EXP", []), ("EXP", [0])), charged.append) == [{0, 1, 2}] * 2
    assert sum(charged) == 32 * (2 * 3 + 3 + 2 + 2 + 1)  # found; neighbors before and behind


def test_weights_that_are_read_more_than_once() -> None:
    nodes = graph(("Conv", [], ["w"]), ("Relu", [0]), ("Conv", [1], ["w"]), ("Relu", [2]))
    found = matched_nodes(nodes, graph(("CONV_2D", [], ["w"]), ("CONV_2D", [0], ["w"])))
    assert found == [{0, 1}, {2, 3}]
    assert matched_nodes(nodes, graph(("ABS", [], ["w"]), ("NEG", [0], ["v"]))) == [{0, 1, 2, 3}] * 2


def test_an_activation_fused_into_a_sum_of_two_branches() -> None:
    nodes = graph(("Conv", [], ["v"]), ("Conv", [0], ["w"]), ("Add", [0, 1]), ("Relu", [2]), ("Conv", [3], ["u"]))
    made = graph(("CONV_2D", [], ["v"]), ("CONV_2D", [0], ["w"]), ("ADD", [0, 1]), ("CONV_2D", [2], ["u"]))
    assert matched_nodes(nodes, made) == [{0}, {1}, {2, 3}, {4}]


def test_names_that_were_kept() -> None:
    nodes = graph(("Erf", []), ("Cos", [0]), ("Sin", [1]), names="abc")
    operators = graph(("MUL", []), ("DIV", [0]), ("SUM", [1]), names="bcx")
    assert matched_nodes(nodes, operators) == [{1}, {2}, set()]
    operators = graph(("MUL", []), ("DIV", [0]), ("SUM", [1]), names="xyc")
    assert matched_nodes(nodes, operators) == [{0, 1, 2}] * 3


# --- files --------------------------------------------------------------------------------------------------


def program(weight: Any) -> Any:
    nodes = [
        torch_node("MatMul", "q", "linear", ["x", "q.weight"], "linear"),
        torch_node("Softmax", "", "softmax", ["linear"], "y"),
    ]
    tensors = [SimpleNamespace(name="q.weight", value=weight, external_data=[])]
    return SimpleNamespace(graph=SimpleNamespace(node=nodes, initializer=tensors, output=[SimpleNamespace(name="y")]))


def converted(weight: Any) -> bytes:
    build = Build()
    made = build.graph()
    x, w = made.tensor("x", [1, 4]), made.tensor("w", [4, 4], data=weight.T.astype("<f4").tobytes())
    first = made.compute("FULLY_CONNECTED", [x, w], "model/tf.linalg.matmul/MatMul", [1, 4])
    layers = [made.compute("MUL", [first, first], f"model/softmax/part{number}", [1, 4]) for number in range(2)]
    made.ends([x], layers)
    return build.to_bytes()


def install(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    onnx = ModuleType("onnx")
    onnx.__dict__.update(load=load, numpy_helper=SimpleNamespace(to_array=lambda tensor, _: tensor.value))
    monkeypatch.setitem(sys.modules, "onnx", onnx)


def test_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = np.arange(16, dtype=np.float32).reshape(4, 4)
    install(monkeypatch, lambda path, **_: {"net.onnx": program(weight)}[path])
    with ct.open(converted(weight)) as model:
        found = ct.exporters.from_onnx(model, Path("net.onnx"))
        with pytest.raises(ct.InvalidInputError, match=r"other\.onnx: not an ONNX model: 'other.onnx'"):
            ct.exporters.from_onnx(model, "other.onnx")
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(ct.UsageError, match="an ONNX file needs onnx"):
            ct.exporters.from_onnx(model, "net.onnx")
    assert [[found.sources[one] for one in sorted(found.of(0, at))] for at in range(3)] == [
        ["q::linear"], ["nn.Linear::softmax"], ["nn.Linear::softmax"]
    ]  # fmt: skip


def test_what_onnx2tf_converted() -> None:
    text = (DATA / "origins" / "onnx2tf.json").read_text(encoding="utf-8")
    modules, origins = json.loads(text)["modules"], ct.origins.parse(text, "origins.json")
    lines = (DATA / "generate_origins.py").read_text(encoding="utf-8").splitlines()
    with ct.open(DATA / "origins" / "onnx2tf.tflite") as model:
        count = len(model.subgraphs[0].operators)
    message = [{origins.details_of(one).path for one in origins.of(0, at)} for at in range(count)]
    cells = [{f"cells.{number}{name}" for name in ("", ".conv", ".norm")} for number in range(2)]
    assert message == [{"stem"}, cells[0], {"cells.0"}, cells[1], {"cells.1"}, {""}, *[{"norm"}] * 10, {"head"}, {""}]
    assert {path for own in message for path in own} <= modules.keys()
    called = {source: origins.details_of(source) for source in origins.sources}
    at = {name: lines[called[source].line - 1].strip() for source, name in origins.sources.items()}
    assert at["head::linear"] == "x = self.head(x)"
    assert at["cells.1::add"] == "return x + y"


def test_weights_identify_reordered_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [np.arange(16, dtype=np.float32).reshape(4, 4) + number for number in range(2)]
    nodes = [torch_node("MatMul", name, f"linear_{name}", ["x", f"{name}.weight"], name) for name in "ab"]
    pairs = zip("ab", weights, strict=True)
    tensors = [SimpleNamespace(name=f"{name}.weight", value=value, external_data=[]) for name, value in pairs]
    outputs = [SimpleNamespace(name=name) for name in "ab"]
    graph = SimpleNamespace(node=nodes, initializer=tensors, output=outputs)
    install(monkeypatch, lambda *_, **_more: SimpleNamespace(graph=graph))
    build = Build()
    made = build.graph()
    x, odd = made.tensor("x", [1, 4]), made.tensor("odd", [9], data=bytes(range(34)))
    ends = []
    for number in (1, 0):
        weight = made.tensor(f"w{number}", [4, 4], data=weights[number].T.astype("<f4").tobytes())
        ends.append(made.compute("FULLY_CONNECTED", [x, weight, odd], f"t{number}", [1, 4]))
    made.ends([x], ends)
    with ct.open(build.to_bytes()) as model:
        found = ct.exporters.from_onnx(model, "net.onnx")
    assert [[found.sources[one] for one in found.of(0, at)] for at in range(2)] == [["b::linear_b"], ["a::linear_a"]]


def test_the_first_matched_operator_takes_in_what_follows_it() -> None:
    """A bias and an activation that no operator is left of go to the convolution in front of them."""
    nodes = Graph(["Conv", "Relu"], [[], [0]], [["a"], ["b"]], [["w"], []], frozenset({1}))
    assert matched_nodes(nodes, Graph(["CONV_2D"], [[]], [["y"]], [["w"]], frozenset({0}))) == [{0, 1}]


def test_names_count_where_most_operators_have_one_that_a_node_has() -> None:
    kinds = ("Relu", "Tanh", "Abs", "Neg", "Exp")
    chain = [[], [0], [1], [2], [3]]
    nodes = Graph(kinds, chain, [["a"], ["b"], ["c"], ["d"], ["e"]], [[]] * 5, frozenset({4}))
    few, many = (
        Graph([kind.upper() for kind in kinds], chain, [[name] for name in names], [[]] * 5, frozenset({4}))
        for names in (("b", "a", "v", "w", "x"), ("b", "a", "c", "w", "x"))
    )
    assert matched_nodes(nodes, few) == [{0}, {1}, {2}, {3}, {4}]
    assert matched_nodes(nodes, many)[:3] == [{1}, {0}, {2}]


def test_weights_match_nodes_and_operators_that_run_in_another_order() -> None:
    nodes = Graph(["Foo", "Bar"], [[], [0]], [["a"], ["b"]], [["v"], ["w"]], frozenset({1}))
    operators = Graph(["BAR", "FOO"], [[], [0]], [["x"], ["y"]], [["w"], ["v"]], frozenset({1}))
    assert matched_nodes(nodes, operators) == [{1}, {0}]
