"""The facts of a subgraph's operators, for the second of two: its rows are not those of the whole model by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from circletools.errors import ModelFormatError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.graph import Graph
from circletools.model.model import open_model
from tests.kit import build as kit
from tests.kit.build import Build


def second(build: Build) -> kit.Graph:
    """Return a subgraph behind another one that has operators and tensors too."""
    first = build.graph("first")
    first.ends([first.tensor("x")], [first.compute("TANH", [0], "y"), first.compute("TANH", [1], "z")])
    return build.graph("second")


def built() -> Build:
    """Return a model whose operators 0..2 of subgraph 1 read (0, gap, 0), nothing, and (2, 1)."""
    build = Build()
    graph = second(build)
    for name in ("a", "b", "c", "d"):
        graph.tensor(name)
    graph.operator("ADD", [0, -1, 0], [2, 1])
    graph.operator("NEG", [], [])
    graph.operator("MUL", [2, 1], [3])
    graph.ends([0], [3])
    return build


@pytest.fixture
def facts() -> Iterator[Graph]:
    with open_model(built().to_bytes()) as model:
        yield graph_of(model, 1)


def test_names_and_places(facts: Graph) -> None:
    assert (len(facts), len(facts.values)) == (3, 4)
    assert facts.operators.code_names == ["ADD", "NEG", "MUL"]
    assert facts.values.names == [b"a", b"b", b"c", b"d"]
    assert (facts.place(), facts.place(0)) == ("subgraphs[1]", "subgraphs[1].operators[0]")


def test_slots_and_uses(facts: Graph) -> None:
    assert [facts.operands.of(operator) for operator in range(3)] == [[0, -1, 0], [], [2, 1]]
    assert [facts.results.of(operator) for operator in range(3)] == [[2, 1], [], [3]]
    assert [part.tolist() for part in facts.uses] == [[0, 0, 2, 2], [0, 0, 2, 1]]
    assert [part.tolist() for part in facts.definitions] == [[0, 0, 2], [2, 1, 3]]
    assert [part.tolist() for part in facts.reads] == [[0, 2, 2], [0, 1, 2]]
    assert facts.producer.tolist() == [-1, 0, 0, 2]
    assert facts.dag.successors == [[2], [], []]
    assert facts.values.bytes.tolist() == [16.0] * 4
    assert facts.operand_bytes.tolist() == [64.0, 0.0, 48.0]


def test_the_facts_of_every_subgraph() -> None:
    with open_model(built().to_bytes()) as model:
        assert [found.operators.code_names for found in model_graph(model).graphs] == [
            ["TANH", "TANH"],
            ["ADD", "NEG", "MUL"],
        ]


READS: list[Callable[[Graph], object]] = [
    lambda facts: facts.check_values(),
    lambda facts: facts.producer,
    lambda facts: facts.reads,
    lambda facts: facts.dag,
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("inputs", "outputs"), [([4], []), ([], [4])])
def test_a_tensor_that_does_not_exist_is_told(
    read: Callable[[Graph], object], inputs: list[int], outputs: list[int]
) -> None:
    build = built()
    operator = build.model.subgraphs[1].operators[1]
    operator.inputs, operator.outputs = inputs, outputs
    with open_model(build.to_bytes()) as model:
        facts = graph_of(model, 1)
        assert (facts.operands.of(1), facts.results.of(1)) == (inputs, outputs)
        assert facts.operand_bytes.tolist() == [64.0, 0.0, 48.0]
        with pytest.raises(ModelFormatError) as caught:
            read(facts)
    assert str(caught.value) == "subgraphs[1].operators[1]: tensor 4 does not exist; there are 4"


@pytest.mark.parametrize(
    ("fields", "constant"),
    [
        ({}, False),
        ({"data": b"1"}, True),
        ({"offset": 1, "size": 1}, False),
        ({"offset": 2, "size": 0}, False),
        ({"offset": 2, "size": 1}, True),
    ],
)
def test_a_tensor_with_data_is_a_constant_unless_it_is_variable(
    fields: dict[str, int | bytes], *, constant: bool
) -> None:
    build = Build()
    graph = second(build)
    buffer = build.buffer(**fields)  # type: ignore[arg-type]
    graph.tensor("held", buffer=buffer)
    graph.tensor("kept", buffer=buffer, is_variable=True)
    graph.tensor("none")
    graph.ends([], [])
    with open_model(build.to_bytes("circle")) as model:
        assert graph_of(model, 1).values.is_constant.tolist() == [constant, False, False]


@pytest.mark.parametrize(("buffers", "named"), [(0, 0), (0, 1), (1, 1), (2, 1), (2, 2)])
def test_buffers_that_do_not_exist_are_told_but_for_buffer_0(buffers: int, named: int) -> None:
    build = Build()
    graph = second(build)
    graph.tensor("t", buffer=named)
    graph.ends([], [])
    build.model.buffers = [*(build.model.buffers * 2)[:buffers]]
    with open_model(build.to_bytes()) as model:
        facts = graph_of(model, 1)
        if named < max(buffers, 1):
            assert facts.values.is_constant.tolist() == [False]
        else:
            with pytest.raises(ModelFormatError, match=rf"^subgraphs\[1\]: buffer {named} does not exist"):
                _ = facts.values.is_constant
