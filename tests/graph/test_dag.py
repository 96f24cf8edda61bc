"""The graph of a model's operators: who feeds whom, and in which order they can run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.errors import ModelFormatError
from circletools.graph.algorithms import Dag, dag_from_edges
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import CODES, Build, Graph, schema_of
from tests.kit.partition_support import dag_of
from tests.kit.support import unpacked

_RESOURCE = next(value for value, name in schema_of("tflite").enums["TensorType"].items() if name == "RESOURCE")
_FLOW = {CODES["IF"], CODES["WHILE"], CODES["CALL_ONCE"]}


def edges_of(model: Any, subgraph: Any) -> set[tuple[int, int]]:
    """Return the edges as the schema's own objects have them."""
    operators = subgraph.operators or []
    edges, effects = set[tuple[int, int]](), list[int]()
    made = {tensor: index for index, operator in enumerate(operators) for tensor in slots(operator.outputs)}
    for index, operator in enumerate(operators):
        edges |= {(made[tensor], index) for tensor in slots(operator.inputs) if tensor in made}
        code = model.operatorCodes[operator.opcodeIndex]
        touched = [subgraph.tensors[tensor].type for tensor in slots(operator.inputs) + slots(operator.outputs)]
        calls = max(code.builtinCode, code.deprecatedBuiltinCode) in _FLOW
        if calls or _RESOURCE in touched:
            edges |= {(effects[-1], index)} if effects else set()
            effects.append(index)
    return edges


def slots(tensors: Any) -> list[int]:
    """Return the tensors of a list that may be missing and have gaps."""
    return [int(tensor) for tensor in ([] if tensors is None else tensors) if tensor >= 0]


def test_a_graph_is_that_of_the_operators_in_the_file(any_model: Path) -> None:
    data = any_model.read_bytes()
    peer = unpacked(data)
    with open_model(data) as model:
        for index, subgraph in enumerate(peer.subgraphs):
            graph = graph_of(model, index).dag
            assert len(graph) == len(subgraph.operators or [])
            assert {(a, b) for a, row in enumerate(graph.successors) for b in row} == edges_of(peer, subgraph)
            assert {(a, b) for b, row in enumerate(graph.predecessors) for a in row} == edges_of(peer, subgraph)
            assert graph.order == list(range(len(graph)))


def built(*operators: tuple[list[int], list[int]], tensors: int) -> bytes:
    """Return a model of ADDs with these inputs and outputs."""
    build = Build()
    graph = Graph(build, "main")
    for tensor in range(tensors):
        graph.tensor(f"t{tensor}")
    for inputs, outputs in operators:
        graph.operator("ADD", inputs, outputs)
    graph.ends([0], [tensors - 1])
    return build.to_bytes()


def graph_in(data: bytes) -> Dag:
    with open_model(data) as model:
        return graph_of(model, 0).dag


def test_a_tensor_read_twice_is_one_edge_and_a_gap_is_none() -> None:
    graph = graph_in(built(([0, -1], [1]), ([1, 1], [2]), tensors=3))
    assert (graph.successors, graph.predecessors) == ([[1], []], [[], [0]])


def test_operators_out_of_order_get_one() -> None:
    graph = graph_in(built(([1, 1], [2]), ([0, 0], [1]), tensors=3))
    assert (graph.successors, graph.order) == ([[], [0]], [1, 0])


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ([([0, 2], [1]), ([1, 1], [2])], r"subgraphs\[0\]\.operators\[0\]: the operators form a cycle"),
        ([([0, 0], [2]), ([0, 0], [2])], r"subgraphs\[0\]\.tensors\[2\]: two operators produce the tensor"),
        ([([0, 0], [1, 1]), ([1, 1], [2])], None),
        ([([0, 1], [1]), ([1, 1], [2])], r"subgraphs\[0\]\.operators\[0\]: the operators form a cycle"),
    ],
)
def test_invalid_graphs_are_refused(operators: list[tuple[list[int], list[int]]], message: str | None) -> None:
    data = built(*operators, tensors=3)
    if message is None:
        assert graph_in(data).successors == [[1], []]
        return
    with pytest.raises(ModelFormatError, match=message):
        graph_in(data)


def test_operators_without_a_graph() -> None:
    nothing = np.empty(0, np.int64)
    assert dag_from_edges(0, nothing, nothing) == Dag([], [], [])
    assert len(dag_from_edges(2, nothing, nothing)) == 2
    assert dag_from_edges(2, nothing, nothing).order == [0, 1]


def test_the_first_operator_of_a_cycle_is_named() -> None:
    with pytest.raises(ModelFormatError, match=r"^operators\[1\]: the operators form"):
        dag_of(4, [(0, 1), (1, 2), (2, 1), (2, 3)])


def test_what_has_side_effects_keeps_its_order() -> None:
    """Operators on resources, and those that call a subgraph; the others between them are free."""
    build = Build()
    graph, called = Graph(build, "main"), Graph(build, "called")
    x, handle, y, z = graph.tensor("x"), graph.tensor("handle", (), "RESOURCE"), graph.tensor("y"), graph.tensor("z")
    graph.operator("VAR_HANDLE", [], [handle])
    graph.operator("TANH", [x], [y])
    graph.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    graph.operator("READ_VARIABLE", [handle], [z])
    graph.ends([x], [y, z])
    called.ends([], [])
    with open_model(build.to_bytes()) as model:
        assert graph_of(model, 0).dag.successors == [[2, 3], [], [3], []]
