"""The memory of activations: lifetimes by a literal walk, and plans in which nothing overlaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import circletools as ct
from circletools.cost.activations import activations, lifetimes
from circletools.graph.build import graph_of
from circletools.graph.graph import Graph
from tests.kit.build import Build

Step = tuple[list[int], int]
"""What an operator reads, by the number of a value, and the elements that it makes."""


def chained(first: int, steps: list[Step]) -> Graph:
    """Return the graph of operators in a row; value n + 1 is made by operator n."""
    build = Build()
    graph = build.graph()
    values = [graph.tensor("in", (first,))]
    for number, (reads, size) in enumerate(steps):
        values.append(graph.tensor(f"t{number}", (size,)))
        graph.operator("CONCATENATION", [values[at % (number + 1)] for at in reads], [values[-1]])
    graph.ends(values[:1], values[-1:])
    return graph_of(ct.open(build.to_bytes()), 0)


def literal(graph: Graph) -> list[set[int]]:
    """Return the values that are alive at each operator, by walking the operators."""
    reads, makes = graph.operands.lists(), graph.results.lists()
    alive = []
    for at in range(len(graph)):
        before = {*graph.inputs.tolist(), *(value for row in makes[: at + 1] for value in row)}
        after = {*graph.outputs.tolist(), *(value for row in reads[at:] for value in row), *makes[at]}
        alive.append(before & after)
    return alive


graphs = st.builds(
    chained,
    st.integers(1, 9),
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(1, 9)), min_size=1, max_size=9
    ),
)


@given(graphs)
def test_a_value_lives_from_its_operator_to_its_last_reader(graph: Graph) -> None:
    first, last = lifetimes(graph)
    for at, alive in enumerate(literal(graph)):
        assert {value for value in range(len(graph.values)) if first[value] <= at <= last[value]} == alive


@given(graphs)
def test_the_peak_is_the_maximum_of_live_bytes_and_the_plan_fits_it(graph: Graph) -> None:
    found = activations(graph, alignment=1)
    loads = [sum(int(graph.values.bytes[value]) for value in alive) for alive in literal(graph)]
    assert (found.peak_bytes, found.peak_operator) == (max(loads), loads.index(max(loads)))
    assert found.planned_bytes is not None
    assert max(loads) <= found.planned_bytes <= int(graph.values.bytes.sum())


def test_the_largest_is_placed_first_and_others_in_the_lowest_gap() -> None:
    """Greedy by size is not optimal: here it needs 8 floats where 7 live at once."""
    graph = chained(1, [([0], 3), ([1], 4), ([2], 3)])
    assert activations(graph, alignment=1).peak_bytes == 28
    assert activations(graph, alignment=16).planned_bytes == 32


def test_variables_are_apart() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (4,)), graph.tensor("y", (4,))
    graph.operator("ADD", [x, graph.tensor("state", (4,), is_variable=True)], [y])
    graph.ends([x], [y])
    with ct.open(build.to_bytes()) as model:
        found = activations(graph_of(model, 0))
    assert (found.variable_bytes, found.peak_bytes) == (16, 32)


def test_an_output_that_does_not_exist_is_an_error() -> None:
    build = Build()
    build.graph().ends([], [7])
    with ct.open(build.to_bytes()) as model, pytest.raises(ct.ModelFormatError, match="does not exist"):
        activations(graph_of(model, 0))
