"""What partitions are made with: graphs of operators, reachability on chains, merging under a cycle check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from circletools.affinity.partition import chains, levels
from circletools.affinity.partition.chains import NOWHERE, Chains
from circletools.affinity.partition.contraction import Contraction, merge_neighbours
from circletools.affinity.partition.groups import strong_components
from circletools.affinity.partition.partitions import make_partitions
from circletools.affinity.partition.schedule import schedule
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from circletools.model.graph import OperatorGraph
from tests.kit.partition_reference import all_reached
from tests.kit.partition_support import graph_of, random_case, seeded


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


# --- small graphs in which one detail decides -----------------------------------------------------------------

BY_LEVEL = "0-4 0-5 0-8 0-10 1-4 1-6 1-7 2-3 2-7 2-9 3-7 3-8 3-9 4-10 5-6 5-7 6-8 9-10"
BACKWARD = "0-4 0-5 0-8 1-2 1-5 1-6 1-8 2-4 2-5 2-9 3-8 3-9 3-10 4-5 4-8 4-9 5-10 6-7"


def edges(words: str) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in (edge.split("-") for edge in words.split())]


def test_pieces_by_level_and_merging_backward_make_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(make_partitions(graph_of(11, edges(BY_LEVEL)), [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0], "min")) == 7
    graph, devices = graph_of(11, edges(BACKWARD)), [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1]
    assert len(make_partitions(graph, devices, "min")) == 6
    monkeypatch.setattr(levels, "_MANY", 11)
    assert len(make_partitions(graph, devices, "min")) == 6
    monkeypatch.setattr(levels, "_MANY", 10)  # merging backward is left out of more operators
    assert len(make_partitions(graph, devices, "min")) == 7


def test_an_operator_that_a_candidate_gave_back_gets_its_own() -> None:
    graph = graph_of(8, edges("0-1 0-4 0-7 1-3 2-3 2-7 3-5 3-7 4-7"))
    assert seed_partitions(graph, [0, 0, 0, 0, 1, 1, 0, 0]) == [(0, 1, 3), (2,), (6,), (7,), (4,), (5,)]
