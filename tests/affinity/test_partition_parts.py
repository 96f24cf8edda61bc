"""What partitions are made with: graphs of operators, reachability on chains, merging under a cycle check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tfl

from circletools.affinity.partition import chains
from circletools.affinity.partition.chains import NOWHERE, Chains
from circletools.affinity.partition.contraction import Contraction, merge_neighbours
from circletools.affinity.partition.groups import strong_components
from circletools.affinity.partition.schedule import schedule
from circletools.errors import EditError, ModelFormatError
from circletools.model import open_model
from circletools.model.graph import OperatorGraph, graph_from_edges
from circletools.model.operator_facts import operator_graph
from tests.kit.build import Build, Graph
from tests.kit.partition_reference import all_reached
from tests.kit.partition_support import graph_of, random_case, seeded
from tests.kit.support import unpacked


def in_order(seed: int, most: int) -> OperatorGraph:
    """Return a random graph whose numbering is an execution order."""
    count, edges, _ = random_case(seed, most)
    order = graph_of(count, edges).order
    rank = {operator: number for number, operator in enumerate(order)}
    return graph_of(count, [(rank[a], rank[b]) for a, b in edges])


# --- who reaches whom ---------------------------------------------------------------------------------------


def test_chains_tell_who_reaches_whom() -> None:
    widest = 0
    for seed in range(200):
        graph = in_order(seed, most=60)
        wanted = all_reached(graph.successors)
        laid = Chains(graph.successors, graph.predecessors)
        widest = max(widest, len(laid.reached[0]))
        for a in range(len(graph)):
            for b in range(len(graph)):
                reaches = laid.place[b] >= laid.reached[a][laid.chain[b]]
                is_reached = laid.place[a] <= laid.reaching[b][laid.chain[a]]
                assert reaches == is_reached == (b in wanted[a])
    assert widest > 20  # arrays as well as plain numbers


def test_chains_join_bounds_alike_in_both_forms() -> None:
    for width in (3, 30):
        graph = graph_of(width + 1, [(operator, width) for operator in range(width)])
        laid = Chains(graph.successors, graph.predecessors)
        left, right = laid.reached[0], laid.reached[width]
        assert list(laid.firsts(left, right)) == [min(pair) for pair in zip(left, right, strict=True)]
        assert list(laid.lasts(left, right)) == [max(pair) for pair in zip(left, right, strict=True)]
        assert NOWHERE in list(left)


def test_a_graph_that_is_too_wide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_MEMORY_BYTES", 100)
    graph = graph_of(9, [])
    with pytest.raises(EditError, match="the graph of 9 operators is more than 8 operators wide"):
        Chains(graph.successors, graph.predecessors)


# --- merging ------------------------------------------------------------------------------------------------


def has_cycle(successors: Sequence[Iterable[int]]) -> bool:
    """Say whether somebody reaches itself."""
    return any(group in reached for group, reached in enumerate(all_reached(successors)))


def merged_graph(successors: Sequence[Iterable[int]], groups: Sequence[int]) -> list[set[int]]:
    """Return the graph of the groups, `groups[i]` being that of i; groups that nobody has are empty."""
    result: list[set[int]] = [set() for _ in successors]
    for group, row in enumerate(successors):
        result[groups[group]] |= {groups[successor] for successor in row} - {groups[group]}
    return result


def test_merging_is_refused_exactly_where_it_closes_a_cycle() -> None:
    refused = 0
    for seed in range(300):
        count, edges, _ = random_case(seed, most=16)
        graph = graph_of(count, edges)
        contraction = Contraction(graph.successors, graph.order)
        generator, home = seeded(seed), list(range(count))
        while len(contraction.members) > 1 and generator.random() < 0.95:
            chosen = generator.sample(sorted(contraction.members), generator.randint(1, min(4, len(set(home)))))
            trial = [chosen[0] if group in chosen else group for group in home]
            merged = contraction.merge(chosen)
            assert (merged is None) == has_cycle(merged_graph(graph.successors, trial))
            if merged is None:
                refused += 1
                continue
            home = [merged if group in chosen else group for group in home]
            wanted = merged_graph(graph.successors, home)
            assert {group: contraction.successors[group] for group in contraction.members} == {
                group: wanted[group] for group in set(home)
            }
            rank = {group: number for number, group in enumerate(contraction.in_order())}
            assert rank.keys() == set(home)
            assert all(rank[a] < rank[b] for a in rank for b in wanted[a])
        assert {group: sorted(members) for group, members in contraction.members.items()} == {
            group: [member for member in range(count) if home[member] == group] for group in set(home)
        }
    assert refused > 100


@pytest.mark.parametrize("backward", [False, True])
def test_neighbours_are_merged_until_none_can_be(backward: bool) -> None:
    for seed in range(300):
        count, edges, devices = random_case(seed, most=16)
        graph = graph_of(count, edges)
        contraction = Contraction(graph.successors, graph.order)
        merge_neighbours(contraction, devices, backward=backward)
        home = {member: group for group, members in contraction.members.items() for member in members}
        left = merged_graph(graph.successors, [home[member] for member in range(count)])
        for group, members in contraction.members.items():
            assert {devices[member] for member in members} == {devices[group]}
            for successor in left[group]:
                trial = [group if its == successor else its for its in (home[member] for member in range(count))]
                both = merged_graph(graph.successors, trial)
                assert devices[successor] != devices[group] or has_cycle(both)


# --- components and orders ----------------------------------------------------------------------------------


def test_strong_components_are_those_who_reach_each_other() -> None:
    generator = seeded(5)
    for _ in range(300):
        count = generator.randint(0, 12)
        sizes = [generator.randint(0, min(3, count)) for _ in range(count)]
        successors = [sorted(generator.sample(range(count), size)) for size in sizes]
        reached = all_reached(successors)
        wanted = {frozenset({a} | {b for b in reached[a] if a in reached[b]}) for a in range(count)}
        components = strong_components(successors)
        assert sorted(map(sorted, components)) == sorted(map(sorted, wanted))
        place = {member: number for number, component in enumerate(components) for member in component}
        assert all(place[b] <= place[a] for a in range(count) for b in successors[a])


def test_a_schedule_takes_the_lowest_that_can_run() -> None:
    assert schedule([[3], [], [1], []], [0, 1, 2, 3]) == [0, 2, 1, 3]
    assert schedule([[1], [0, 2], [], []], [0, 1, 2, 3]) == [3]  # 0 and 1 wait for each other, 2 for them


# --- the graph of a model -----------------------------------------------------------------------------------

_FLOW = {tfl.BuiltinOperator.IF, tfl.BuiltinOperator.WHILE, tfl.BuiltinOperator.CALL_ONCE}


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
        if calls or tfl.TensorType.RESOURCE in touched:
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
            graph = operator_graph(model, index)
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


def graph_in(data: bytes) -> OperatorGraph:
    with open_model(data) as model:
        return operator_graph(model, 0)


def test_a_tensor_read_twice_is_one_edge_and_a_gap_is_none() -> None:
    graph = graph_in(built(([0, -1], [1]), ([1, 1], [2]), tensors=3))
    assert (graph.successors, graph.predecessors) == ([[1], []], [[], [0]])


def test_operators_out_of_order_get_one() -> None:
    graph = graph_in(built(([1, 1], [2]), ([0, 0], [1]), tensors=3))
    assert (graph.successors, graph.order) == ([[], [0]], [1, 0])


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ([([0, 2], [1]), ([1, 1], [2])], r"subgraphs\[0\]\.operators\[0\]: the operators wait for each other"),
        ([([0, 0], [2]), ([0, 0], [2])], r"subgraphs\[0\]\.tensors\[2\]: two operators produce the tensor"),
        ([([0, 0], [1, 1]), ([1, 1], [2])], None),
        ([([0, 9], [2])], r"subgraphs\[0\]\.operators\[0\]: tensor 9 does not exist; there are 3"),
        ([([0, 0], [9])], r"subgraphs\[0\]\.operators\[0\]: tensor 9 does not exist; there are 3"),
        ([([0, 1], [1]), ([1, 1], [2])], r"subgraphs\[0\]\.operators\[0\]: the operators wait for each other"),
    ],
)
def test_what_is_no_graph_is_refused(operators: list[tuple[list[int], list[int]]], message: str | None) -> None:
    data = built(*operators, tensors=3)
    if message is None:
        assert graph_in(data).successors == [[1], []]
        return
    with pytest.raises(ModelFormatError, match=message):
        graph_in(data)


def test_edges_are_counted_once() -> None:
    sources, targets = np.array([0, 0, 0]), np.array([2, 1, 2])
    assert graph_from_edges(3, sources, targets) == graph_of(3, [(0, 1), (0, 2)])
