"""Which nodes an operator computes, by tags in the names of tensors and the graph of the nodes."""

from __future__ import annotations

from operator import getitem
from types import SimpleNamespace
from typing import Any

import pytest

import circletools as ct
from circletools.graph.build import graph_of
from circletools.origin.exporters.litert_torch import nodes_of_operators
from tests.kit.build import Build


class Node:
    """As much of torch.fx.Node as is looked at; `call` is what it was made of."""

    def __init__(self, name: str, target: Any, *args: Any, elements: int | None = 4, call: str = "") -> None:
        self.name, self.target, self.args, self.kwargs = name, target, args, {"dtype": None}
        self.op = "placeholder" if target == "input" else "call_function"
        self.all_input_nodes = [one for one in args if isinstance(one, Node)]
        self.meta: dict[str, Any] = {} if elements is None else {"val": SimpleNamespace(numel=lambda: elements)}
        if call:
            self.meta["from_node"] = [SimpleNamespace(name=call, target=f"aten.{call}", from_node=[])]


class Program:
    """Nodes, and a model whose operators are tagged with them."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.build = Build()
        self.graph = self.build.graph()
        self.x = self.node("x", "input")
        self.value = self.graph.tensor("x", [4])

    def node(self, name: str, target: Any, *args: Any, **more: Any) -> Node:
        self.nodes.append(Node(name, target, *args, **more))
        return self.nodes[-1]

    def parameter(self, name: str, elements: int) -> Node:
        return self.node(f"p_{name}", "lowered", elements=elements)

    def operator(self, code: str, *tags: Node | str, constant: int = 0, shape: tuple[int, ...] = (4,)) -> None:
        name = ";;".join(one if isinstance(one, str) else f"n{self.nodes.index(one)}" for one in tags)
        result = self.graph.tensor(f"{name};", shape)
        constants = [self.graph.tensor("c", [constant], data=bytes(4 * constant))] if constant else []
        self.graph.operator(code, [self.value, *constants], [result])
        self.value = result

    def found(self) -> list[list[str]]:
        with ct.open(self.build.to_bytes()) as model:
            return [
                [self.nodes[one].name for one in own] for own in nodes_of_operators(graph_of(model, 0), self.nodes)
            ]


def test_all_that_leads_to_what_is_made() -> None:
    program = Program()
    node = program.node
    conv = node("conv", "aten.convolution.default", program.x, program.parameter("w", 9))
    root = node("sqrt", "aten.sqrt.default", node("b_var", "lowered"), elements=2)
    div = node("div", "aten.div.Tensor", node("view", "aten.view.default", conv), root)
    relu = node("relu", "aten.relu.default", div)
    split = node("split", "aten.split.Tensor", relu)
    neg = node("neg", "aten.neg.default", node("getitem", getitem, split, 0))
    cos = node("cos", "aten.cos.default", node("arange", "aten.arange.default", 4))
    mul = node("mul", "aten.mul.Tensor", neg, cos)
    program.operator("CONV_2D", relu, div, conv, f"n{len(program.nodes)}", "1")
    program.operator("SPLIT", split)
    program.operator("MUL", mul, div)
    assert program.found() == [["conv", "sqrt", "div", "relu"], ["split"], ["neg", "mul"]]


def test_what_is_left_of_a_call_belongs_to_its_operator() -> None:
    program = Program()
    node = program.node
    conv = node("conv", "aten.convolution.default", program.x, call="conv2d")
    bias = node("add", "aten.add.Tensor", node("permute", "aten.permute.default", conv), call="conv2d")
    other = node("other", "aten.add.Tensor", bias, call="add")
    tanh = node("tanh", "aten.tanh.default", other, call="tanh")
    program.operator("CONV_2D", conv)
    program.operator("TANH", tanh)
    assert program.found() == [["conv"], ["other", "tanh"]]
    program.operator("NEG", "output")
    assert program.found() == [["conv"], ["other", "tanh"], ["other", "tanh"]]


@pytest.mark.parametrize("merged", [True, False])
def test_equal_nodes_that_became_one_operator_belong_to_it(merged: bool) -> None:
    program = Program()
    w, relus = program.parameter("w", 9), list[Node]()
    for name in ("1", "2"):
        conv = program.node(f"conv{name}", "aten.convolution.default", program.x, w)
        relus.append(program.node(f"relu{name}", "aten.relu.default", conv))
    mean = program.node("mean", "aten.mean.dim", relus[1])
    program.operator("CONV_2D", relus[0])
    program.value = program.value if merged else 0
    program.operator("MEAN", mean)
    first, second = ["conv1", "relu1"], ["conv2", "relu2"]
    assert program.found() == ([first + second, ["mean"]] if merged else [first, [*second, "mean"]])


def test_another_size_is_another_value() -> None:
    program = Program()
    conv = program.node("conv", "aten.convolution.default", program.x)
    tanh = program.node("tanh", "aten.tanh.default", conv)
    program.operator("PAD", conv, shape=(9,))
    program.operator("TANH", tanh)
    assert program.found() == [["conv"], ["conv", "tanh"]]


def test_a_layout_change_behind_an_activation_that_moved_into_a_layer() -> None:
    program = Program()
    mm = program.node("mm", "aten.mm.default", program.x, program.parameter("w", 16), call="linear")
    view = program.node("view", "aten.view.default", mm, call="linear")
    relu = program.node("relu", "aten.relu.default", view, call="relu")
    program.operator("FULLY_CONNECTED", mm, view, relu, constant=16)
    program.operator("RESHAPE", view, relu)
    assert program.found() == [["mm", "relu"], ["relu"]]


def test_a_bias_in_the_sum_behind_it() -> None:
    program = Program()
    node = program.node
    weights, bias = program.parameter("w", 16), program.parameter("b", 4)
    mm = node("mm", "aten.addmm.default", program.x, weights, bias, call="linear")
    tanh = node("tanh", "aten.tanh.default", mm, call="tanh")
    place = node("place", "aten.add.Tensor", mm, program.parameter("place", 24), call="add")
    last = node("last", "aten.add.Tensor", place, program.parameter("own", 4), call="add_1")
    program.operator("FULLY_CONNECTED", mm, constant=16)
    taken = program.value
    program.operator("TANH", tanh)
    program.value = taken
    program.operator("ADD", place, constant=24)
    program.operator("ADD", last, constant=4)
    assert program.found() == [["mm"], ["tanh"], ["mm", "place"], ["last"]]


def test_the_first_of_several_that_may_be_of_both() -> None:
    program = Program()
    node = program.node
    cos = node("cos", "aten.cos.default", program.x, call="cos")
    gelu = node("gelu", "aten.gelu.default", cos, call="gelu")
    program.operator("MUL", gelu, constant=1)
    program.operator("TANH", gelu)
    program.operator("ADD", gelu, constant=1)
    assert program.found() == [["cos", "gelu"], ["gelu"], ["gelu"]]


def test_layout_changes() -> None:
    program = Program()
    node = program.node
    first = node("view", "aten.view.default", program.x)
    tanh = node("tanh", "aten.tanh.default", first)
    permute = node("permute", "aten.permute.default", tanh)
    again = node("_unsafe_view", "aten._unsafe_view.default", permute)
    larger = node("larger", "aten.view.default", program.x, elements=8)
    relu = node("relu", "aten.relu.default", again)
    program.operator("RESHAPE", tanh, first)
    program.operator("TANH", tanh)
    program.operator("TRANSPOSE", again, permute, first, tanh, larger)
    program.operator("RELU", relu, again)
    program.operator("TRANSPOSE", relu, tanh)
    assert program.found() == [["view"], ["tanh"], ["permute", "_unsafe_view"], ["relu"], ["relu"]]


def test_parameters_that_went_into_later_operators() -> None:
    program = Program()
    node = program.node
    norm = node("norm", "aten.norm.default", program.x, program.parameter("g", 4), call="norm")
    view = node("view", "aten.view.default", norm)
    weight = node("t", "aten.t.default", program.parameter("w", 16), call="linear")
    linear = node("mm", "aten.mm.default", view, weight, call="linear")
    tanh = node("tanh", "aten.tanh.default", linear, call="tanh")
    program.operator("MEAN", norm, constant=1)
    program.operator("MUL", norm)
    program.operator("RESHAPE", view, constant=2)
    program.operator("FULLY_CONNECTED", linear, constant=16)
    program.operator("ADD", tanh, constant=8)
    assert program.found() == [["norm"], ["norm"], ["view"], ["norm", "mm"], ["tanh"]]
