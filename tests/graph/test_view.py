"""Views of graphs, against their definitions on what the published object API reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import ModelFormatError
from circletools.graph.algorithms import renumbered
from circletools.graph.build import graph_of
from circletools.graph.graph import Graph
from circletools.graph.view import View, contract, hide, main_operands, restrict, slice_between
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.graph_cases import Read, models, read

Pairs = set[tuple[int, int]]


def edges(graph: Graph) -> Pairs:
    return {(a, b) for a, row in enumerate(graph.dag.successors) for b in row}


def assert_maps(view: View, parent: Graph) -> None:
    """The maps of a view go to and fro, and its operators and values have the parent's columns."""
    for whole, part, back in (
        (len(parent), view.operators, view.of_operators),
        (len(parent.values), view.values, view.of_values),
    ):
        assert len(back) == whole
        assert back[part].tolist() == list(range(len(part)))
    names, types = parent.operators.code_names, parent.values.types
    assert view.graph.operators.code_names == [names[operator] for operator in view.operators.tolist()]
    assert view.graph.operators.code_indices.tolist() == parent.operators.code_indices[view.operators].tolist()
    assert view.graph.values.types == [types[value] for value in view.values.tolist()]
    assert len(view.graph) == len(view.operators)


def drawn(data: st.DataObject, count: int, most: int = 1) -> list[int]:
    return data.draw(st.lists(st.integers(0, most), min_size=count, max_size=count))


def stands_for(peer: Read, hidden: set[int], value: int) -> int:
    maker = peer.maker(value)
    if maker not in hidden or peer.main(maker) < 0:
        return value
    return stands_for(peer, hidden, peer.main(maker))


@given(models(), st.data())
def test_what_a_hidden_operator_makes_stands_for_its_main_operand(file: bytes, data: st.DataObject) -> None:
    peer = read(file)
    hidden = {at for at, bit in enumerate(drawn(data, len(peer.codes))) if bit}
    shown = [at for at in range(len(peer.codes)) if at not in hidden]

    def seen(values: list[int]) -> list[int]:
        return [value if value < 0 else stands_for(peer, hidden, value) for value in values]

    with open_model(file) as model:
        graph = graph_of(model, 0)
        view = hide(graph, np.array([at in hidden for at in range(len(graph))], np.bool_))
        assert main_operands(graph).tolist() == [peer.main(at) for at in range(len(graph))]
        assert view.operators.tolist() == shown
        assert view.of_values.tolist() == seen(list(range(len(peer.types))))
        assert view.of_operators.tolist() == [shown.index(at) if at in shown else -1 for at in range(len(graph))]
        assert view.graph.operands.lists() == [seen(peer.operands[at]) for at in shown]
        assert view.graph.results.lists() == [peer.results[at] for at in shown]
        assert [view.graph.inputs.tolist(), view.graph.outputs.tolist()] == [seen(peer.inputs), seen(peer.outputs)]
        assert view.graph.operators.code_names == [peer.codes[at] for at in shown]


def test_a_cycle_of_hidden_operators_ends() -> None:
    build = Build()
    graph = build.graph()
    a, b = graph.tensor("a"), graph.tensor("b")
    graph.operator("CAST", [a], [b])
    graph.operator("CAST", [b], [a])
    graph.ends([], [b])
    with open_model(build.to_bytes()) as model:
        assert len(hide(graph_of(model, 0), np.ones(2, np.bool_)).graph) == 0


def unique(values: list[int]) -> list[int]:
    return list(dict.fromkeys(values))


@given(models(), st.data())
def test_operators_of_one_label_are_one_operator(file: bytes, data: st.DataObject) -> None:
    peer = read(file)
    home = renumbered(drawn(data, len(peer.codes), 2))
    members = [[at for at, label in enumerate(home) if label == group] for group in range(max(home, default=-1) + 1)]

    def only_inside(value: int) -> bool:
        readers = {home[reader] for reader in peer.readers(value)}
        return readers == {home[peer.maker(value)]} and value not in peer.outputs

    def taken(group: list[int]) -> list[int]:
        read_by = [value for at in group for value in peer.operands[at] if value >= 0]
        return unique([value for value in read_by if peer.maker(value) not in group])

    def made(group: list[int]) -> list[int]:
        return unique([value for at in group for value in peer.results[at] if not only_inside(value)])

    with open_model(file) as model:
        graph = graph_of(model, 0)
        view = contract(graph, home)
        assert view.operators.tolist() == [group[0] for group in members]
        assert view.of_operators.tolist() == home
        assert view.values.tolist() == view.of_values.tolist() == list(range(len(peer.types)))
        assert view.graph.operands.lists() == [taken(group) for group in members]
        assert view.graph.results.lists() == [made(group) for group in members]
        assert view.graph.is_handle.tolist() == graph.is_handle.tolist()
        effects = [home[at] for at in graph.effects.tolist()]
        assert view.graph.effects.tolist() == [one for one, other in pairwise([*effects, -1]) if one != other]
        expected = {(home[a], home[b]) for a, b in edges(graph) if home[a] != home[b]}
        try:
            assert edges(view.graph) == expected
        except ModelFormatError:
            assert any(a > b for a, b in expected)  # groups are numbered by their lowest member


@given(models(), st.data())
def test_a_part_has_its_operators_and_what_they_use(file: bytes, data: st.DataObject) -> None:
    peer = read(file)
    kept = [at for at, bit in enumerate(drawn(data, len(peer.codes))) if bit]
    with open_model(file) as model:
        graph = graph_of(model, 0)
        view = restrict(graph, kept)
        assert_maps(view, graph)
        assert view.operators.tolist() == kept
        used = {value for at in kept for value in peer.operands[at] + peer.results[at] if value >= 0}
        assert view.values.tolist() == sorted(used)
        ends = [view.values[part].tolist() for part in (view.graph.inputs, view.graph.outputs)]
        read_by = {value for at in kept for value in peer.operands[at] if value >= 0}
        assert ends[0] == sorted(value for value in read_by if peer.maker(value) not in kept)
        outer = {value for at, row in enumerate(peer.operands) if at not in kept for value in row} | {*peer.outputs}
        assert ends[1] == sorted(outer & {value for at in kept for value in peer.results[at]})
        for own, theirs in ((view.graph.operands, peer.operands), (view.graph.results, peer.results)):
            back = [[value if value < 0 else int(view.values[value]) for value in row] for row in own.lists()]
            assert back == [theirs[at] for at in kept]
        assert view.graph.share == pytest.approx(len(kept) / max(len(graph), 1))


@given(models(), st.data())
def test_a_slice_has_what_outputs_need_behind_inputs(file: bytes, data: st.DataObject) -> None:
    peer = read(file)
    numbers = st.lists(st.integers(0, len(peer.types) - 1), max_size=2)
    inputs, outputs = data.draw(numbers), data.draw(numbers)

    def needed(value: int) -> set[int]:
        maker = peer.maker(value)
        if value < 0 or value in inputs or maker < 0:
            return set()
        return {maker}.union(*map(needed, peer.operands[maker]))

    with open_model(file) as model:
        graph = graph_of(model, 0)
        view = slice_between(graph, inputs, outputs)
        assert_maps(view, graph)
        assert view.operators.tolist() == sorted(set[int]().union(*map(needed, outputs)))
        assert view.values[view.graph.inputs].tolist() == inputs
        assert view.values[view.graph.outputs].tolist() == outputs


def test_callees_follow_their_operators() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.operator("NEG", [x], [y])
    graph.operator("IF", [x, y], [], then_subgraph_index=1, else_subgraph_index=2)
    graph.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    graph.ends([x], [y])
    for _ in range(2):
        build.graph().ends([], [])
    with open_model(build.to_bytes()) as model:
        whole = graph_of(model, 0)
        assert whole.callees == {1: [1, 2], 2: [1]}
        assert hide(whole, np.array([True, False, False])).graph.callees == {0: [1, 2], 1: [1]}
        assert contract(whole, [0, 1, 1]).graph.callees == {1: [1, 2, 1]}
        assert restrict(whole, [0, 2]).graph.callees == {1: [1]}
