"""A model as arrays, looked through or not, and the subgraphs and ends that belong together from the start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circletools.errors import ModelFormatError
from circletools.model.model import open_model
from circletools.origin.tracking.anchors import Anchors, subgraph_pairs
from circletools.origin.tracking.colours import Edges
from circletools.origin.tracking.side import NONE, Side, main_inputs, read_side, view
from tests.kit.build import Build, floats


def side_of(build: Build) -> Side:
    with open_model(build.to_bytes()) as model:
        return read_side(model)


def two_subgraphs() -> Build:
    """Return SPLIT x -> a, b; ADD b, c -> d with a constant c, and a subgraph NEG y, - -> z."""
    build = Build()
    main, other = build.graph(), build.graph("other")
    x, a, b = main.tensor("x", (4, 3)), main.tensor("a", (2, 3)), main.tensor("b", ())
    c, d = main.constant("c", floats(2, 3)), main.tensor("d", (0, 5))
    main.operator("SPLIT", [x], [a, b])
    main.operator("ADD", [c, b, -1, a], [d])
    main.ends([x], [d, a])
    y, z = other.tensor("y", (-1, 2)), other.tensor("z", (7,))
    other.operator("NEG", [-1, y], [z])
    other.ends([y], [z])
    return build


def test_a_model_as_arrays() -> None:
    side = side_of(two_subgraphs())
    assert (side.codes, len(side)) == (["SPLIT", "ADD", "NEG"], 3)
    assert side.inputs.operator.tolist() == [0, 1, 1, 1, 2]
    assert side.inputs.position.tolist() == [0, 0, 1, 2, 0]
    assert side.inputs.tensor.tolist() == [0, 3, 2, 1, 5]
    assert side.outputs.operator.tolist() == [0, 0, 1, 2]
    assert side.outputs.position.tolist() == [0, 1, 0, 0]
    assert side.outputs.tensor.tolist() == [1, 2, 4, 6]
    assert side.producer.tolist() == [NONE, 0, 0, NONE, 1, NONE, 2]
    assert side.elements.tolist() == [12, 6, 1, 6, 0, 0, 7]
    assert side.is_constant.tolist() == [False, False, False, True, False, False, False]
    assert side.operator_splits.tolist() == [0, 2, 3]
    assert side.is_any({"ADD", "NEG"}).tolist() == [False, True, True]
    assert [side.boundary(0, "inputs"), side.boundary(0, "outputs")] == [[0], [4, 1]]
    assert [side.boundary(1, "inputs"), side.boundary(1, "outputs")] == [[5], [6]]
    assert main_inputs(side).tolist() == [0, 2, 5]


SIZES: list[tuple[tuple[int, ...], int]] = [
    ((), 1),
    ((3,), 3),
    ((3, 0), 0),
    ((-3,), 0),
    ((-3, -2), 6),
    ((1 << 30, 1 << 30, 2), 1 << 61),
    ((1 << 30, 1 << 30, 3), 3 << 60),
    ((1 << 30, 1 << 30, 4), 0),
    ((1 << 30,) * 40, 0),
]


def test_sizes() -> None:
    for shape, elements in SIZES:
        build = Build()
        graph = build.graph()
        for one in ((5,), shape, (7, 2)):
            graph.tensor("", one)
        assert side_of(build).elements.tolist() == [5, elements, 14]
        alone = Build()
        alone.graph().tensor("", shape)
        assert side_of(alone).elements.tolist() == [elements]


@pytest.mark.parametrize("direction", ["inputs", "outputs"])
@pytest.mark.parametrize(("tensor", "exists"), [(0, True), (6, True), (7, False), (-1, False)])
def test_an_end_that_does_not_exist(direction: str, tensor: int, exists: bool) -> None:
    build = Build()
    first, second = build.graph(), build.graph()
    first.tensor("")
    for _ in range(7):
        second.tensor("")
    second.ends(*([tensor], []) if direction == "inputs" else ([], [tensor]))
    side = side_of(build)
    if exists:
        assert side.boundary(1, direction) == [1 + tensor]
        return
    with pytest.raises(ModelFormatError, match="the tensor does not exist") as caught:
        side.boundary(1, direction)
    assert caught.value.location == f"subgraphs[1].{direction}"


def test_what_is_a_constant() -> None:
    """Data makes one, unless an operator writes it; buffer 0 and those that do not exist have none."""
    build = Build()
    graph = build.graph()
    graph.tensor("", buffer=0)
    graph.tensor("", data=b"1234")
    graph.tensor("", data=b"")
    graph.tensor("", buffer=3)  # that of the tensor that is made
    graph.tensor("", buffer=99)
    x = graph.tensor("")
    graph.operator("NEG", [x], [graph.tensor("", data=b"1234")])
    assert side_of(build).is_constant.tolist() == [False, True, False, True, False, False, False]
    empty = Build()
    empty.model.buffers = []
    empty.graph().tensor("", buffer=0)
    assert side_of(empty).is_constant.tolist() == [False]


def test_a_model_that_is_looked_at_as_it_is() -> None:
    side = side_of(two_subgraphs())
    seen = view(side, np.zeros(3, np.bool_))
    assert seen.value.tolist() == list(range(7))
    assert seen.sources == [[(NONE, 0, 0)], [(NONE, 0, 3), (0, 1, 2), (0, 0, 1)], [(NONE, 0, 5)]]
    assert seen.takers == {0: [(0, 0)], 3: [(1, 0)], 2: [(1, 1)], 1: [(1, 2)], 5: [(2, 0)]}
    assert seen.made == [[1, 2], [4], [6]]
    edges = Edges(side, seen)
    assert (edges.taker.tolist(), edges.slot.tolist()) == ([0, 1, 1, 1, 2], [0, 0, 1, 2, 0])
    assert edges.value.tolist() == [0, 3, 2, 1, 5]
    assert edges.fed.tolist() == [False, False, True, True, False]
    assert edges.giver.tolist() == [0, 0]
    assert edges.pin.tolist() == [1025, 2048]
    assert edges.count == 3


def row(*codes: str) -> Build:
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("")
    for code in codes:
        value = graph.compute(code, [value], "")
    graph.ends([start], [value])
    return build


def test_a_row_of_hidden_operators_is_looked_through() -> None:
    for length in (1, 2, 3, 4, 5, 9, 40):
        side = side_of(row("NEG", *["QUANTIZE"] * length, "EXP"))
        hidden = side.is_any({"QUANTIZE"})
        seen = view(side, hidden)
        last = length + 1
        assert seen.value.tolist() == [0, *[1] * (length + 1), length + 2]
        assert seen.sources == [[(NONE, 0, 0)], *[[]] * length, [(0, 0, 1)]]
        assert seen.takers == {0: [(0, 0)], 1: [(last, 0)]}
        assert seen.made == [[1], *[[]] * length, [length + 2]]
        assert Edges(side, seen).taker.tolist() == [0, last]


def test_hidden_operators_without_an_input_hand_nothing_on() -> None:
    build = Build()
    graph = build.graph()
    a = graph.tensor("")
    graph.operator("QUANTIZE", [], [a])
    graph.compute("NEG", [a], "")
    side = side_of(build)
    seen = view(side, np.array([True, False]))
    assert main_inputs(side).tolist() == [NONE, 0]
    assert (seen.value.tolist(), seen.sources, seen.made) == ([0, 1], [[], [(0, 0, 0)]], [[], [1]])


def test_the_main_input_is_the_first_that_moves() -> None:
    build = Build()
    graph = build.graph()
    c, d, x, y = graph.constant("", floats(2)), graph.constant("", floats(3)), graph.tensor(""), graph.tensor("")
    for inputs in ([c, x, y], [y, x], [d, c], [-1, c, x], [x, x], []):
        graph.operator("CUSTOM", inputs, [graph.tensor("")], table=None)
    assert main_inputs(side_of(build)).tolist() == [x, y, d, x, x, NONE]


def test_of_many_that_write_one_tensor_the_last_makes_it() -> None:
    build = Build()
    graph = build.graph()
    x, a = graph.tensor(""), graph.tensor("")
    for _ in range(3):
        graph.operator("NEG", [x], [a])
    graph.operator("SPLIT", [x], [a, graph.tensor(""), a])
    graph.operator("EXP", [a], [graph.tensor("")])
    side = side_of(build)
    seen = view(side, np.zeros(5, np.bool_))
    assert seen.made == [[], [], [], [2, 1], [3]]
    assert seen.sources[4] == [(3, 2, 1)]


# --- subgraphs ----------------------------------------------------------------------------------------------

Signature = tuple[str, int]


def model(names: Sequence[str], signatures: Sequence[Signature] = ()) -> bytes:
    build = Build()
    for name in names:
        graph = build.graph(name)
        x = graph.tensor("")
        graph.ends([x], [graph.compute("NEG", [x], "")])
    for key, subgraph in signatures:
        build.signature(key, [], [], subgraph)
    return build.to_bytes()


TOGETHER: list[tuple[tuple[list[str], list[Signature]], tuple[list[str], list[Signature]], list[tuple[int, int]]]] = [
    ((["a"], []), (["b"], []), [(0, 0)]),
    ((["a"], []), (["b", "a"], []), [(0, 0)]),
    ((["a", "b"], []), (["b"], []), [(0, 0)]),
    ((["m", "a", "b"], []), (["m", "b", "a"], []), [(0, 0), (0, 0), (2, 1), (1, 2)]),
    ((["m", "a", "a"], []), (["m", "a", "c"], []), [(0, 0), (0, 0)]),
    ((["m", "a", "c"], []), (["m", "a", "a"], []), [(0, 0), (0, 0)]),
    ((["", ""], []), (["", ""], []), [(0, 0)]),
    (([], []), (["a"], []), []),
    ((["a"], []), ([], []), []),
    ((["", ""], [("s", 1), ("t", 0)]), (["", ""], [("t", 1), ("s", 0), ("u", 0)]), [(0, 1), (1, 0), (0, 0)]),
    ((["", ""], [("s", 2), ("t", 1)]), (["", ""], [("s", 1), ("t", 2)]), [(0, 0)]),
    ((["", ""], [("s", 1)]), ([""], [("s", 1)]), [(0, 0)]),
]


def test_subgraphs_that_belong_together() -> None:
    for before, after, pairs in TOGETHER:
        with open_model(model(*before)) as old, open_model(model(*after)) as new:
            assert list(subgraph_pairs(old, new)) == pairs


def test_each_subgraph_has_one_partner() -> None:
    with open_model(model(["", "", ""])) as old, open_model(model(["", "", ""])) as new:
        sides, anchors = (read_side(old), read_side(new)), Anchors()
        assert anchors.add(*sides, [(1, 2)])
        assert (anchors.subgraphs, anchors.inputs, anchors.outputs) == ({1: 2}, [(2, 4)], [(3, 5)])
        assert not anchors.add(*sides, [(1, 2), (1, 0), (0, 2)])
        assert not anchors.add(*sides, [])
        assert anchors.add(*sides, [(0, 0), (2, 0), (2, 1), (0, 1)])
        assert anchors.subgraphs == {1: 2, 0: 0, 2: 1}
        assert (anchors.inputs, anchors.outputs) == ([(2, 4), (0, 0), (4, 2)], [(3, 5), (1, 1), (5, 3)])


End = tuple[str, tuple[int, ...]]


def ends(inputs: Sequence[End], signature: Sequence[tuple[str, int]] = ()) -> Side:
    """Return a model with these inputs and outputs: the name, and the shape."""
    build = Build()
    graph = build.graph()
    graph.tensor("other")
    tensors = [graph.tensor(*end) for end in inputs]
    graph.ends(tensors, tensors[::-1])
    if signature:
        build.signature("s", signature, signature[:1])
    return side_of(build)


ENDS: list[tuple[list[End], list[End], list[tuple[int, int]]]] = [
    ([("a", (2,)), ("b", (3,))], [("b", (2,)), ("a", (3,))], [(1, 1), (2, 2)]),
    ([("a", (2,)), ("b", (3,))], [("b", (3,)), ("a", (3,))], [(2, 2)]),
    ([("a", (0,)), ("b", (3,))], [("b", (3,)), ("a", (0,))], [(1, 1), (2, 2)]),
    ([("a", (2,)), ("b", (3,))], [("b", (9,))], [(2, 1)]),
    ([("a", (2,))], [("b", (3,)), ("a", (9,)), ("a", (2,))], [(1, 2), (1, 3)]),
    ([("a", (2,))], [], []),
]


def test_inputs_and_outputs_that_belong_together() -> None:
    """By their order where there are as many, and of one size; else by their names."""
    for before, after, inputs in ENDS:
        anchors = Anchors()
        anchors.add(ends(before), ends(after), [(0, 0)])
        assert anchors.inputs == inputs
        assert anchors.outputs == inputs[::-1]


def test_ends_belong_together_by_the_names_of_a_signature() -> None:
    before = ends([("", (2,)), ("", (3,)), ("", (4,))], [("b", 1), ("a", 3), ("c", 4), ("d", 0)])
    after = ends([("", (2,)), ("", (3,)), ("", (4,))], [("a", 1), ("b", 2), ("c", 1), ("e", 3)])
    anchors = Anchors()
    anchors.add(before, after, [(0, 0)])
    assert (anchors.inputs, anchors.outputs) == ([(3, 1), (1, 2)], [(3, 3), (2, 2), (1, 1)])
