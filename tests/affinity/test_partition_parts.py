"""What partitions are made with: graphs of operators, reachability on chains, merging under a cycle check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from circletools.affinity.partition import chains
from circletools.affinity.partition import contraction as contraction_module
from circletools.affinity.partition.chains import NOWHERE, Chains
from circletools.affinity.partition.contraction import Contraction
from circletools.affinity.partition.detours import Detours
from circletools.affinity.partition.groups import GroupGraph, graph_inside, members_of, strong_components
from circletools.affinity.partition.partitions import make_partitions
from circletools.affinity.partition.schedule import schedule
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from circletools.graph.dag import Dag
from tests.kit.partition_reference import all_reached
from tests.kit.partition_support import dag_of, random_case, seeded


def in_order(seed: int, most: int) -> Dag:
    """Return a random graph whose numbering is an execution order."""
    count, edges, _ = random_case(seed, most)
    order = dag_of(count, edges).order
    rank = {operator: number for number, operator in enumerate(order)}
    return dag_of(count, [(rank[a], rank[b]) for a, b in edges])


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
        graph = dag_of(width + 1, [(operator, width) for operator in range(width)])
        laid = Chains(graph.successors, graph.predecessors)
        left, right = laid.reached[0], laid.reached[width]
        assert list(laid.firsts(left, right)) == [min(pair) for pair in zip(left, right, strict=True)]
        assert list(laid.lasts(left, right)) == [max(pair) for pair in zip(left, right, strict=True)]
        assert NOWHERE in list(left)


def test_a_graph_that_is_too_wide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_MEMORY_BYTES", 100)
    graph = dag_of(9, [])
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


def groups_of(graph: Dag, devices: Sequence[int]) -> GroupGraph:
    """Return the graph of operators as groups of one each."""
    return graph_inside(graph, range(len(graph)), devices)


def test_merging_is_refused_exactly_where_it_closes_a_cycle() -> None:
    refused = 0
    for seed in range(300):
        graph = in_order(seed, most=16)
        contraction = Contraction(groups_of(graph, [0] * len(graph)))
        generator, home = seeded(seed), list(range(len(graph)))
        while len(set(home)) > 1 and generator.random() < 0.95:
            chosen = generator.sample(range(len(graph)), generator.randint(1, min(4, len(graph))))
            joined = {home[one] for one in chosen}
            trial = [home[chosen[0]] if its in joined else its for its in home]
            merged = contraction.merge(chosen)
            assert merged == (not has_cycle(merged_graph(graph.successors, trial)))
            refused += not merged
            home = trial if merged else home
            found = contraction.homes()
            assert {frozenset(at for at, its in enumerate(row) if its == one) for row in (home,) for one in home} == {
                frozenset(at for at, its in enumerate(found) if its == one) for one in found
            }
            assert all(found[a] <= found[b] for a, row in enumerate(graph.successors) for b in row)
    assert refused > 100


def test_neighbours_are_merged_until_none_can_be() -> None:
    for seed in range(400):
        graph = in_order(seed, most=16)
        devices = random_case(seed, most=16)[2]
        contraction = Contraction(groups_of(graph, devices))
        contraction.merge_neighbours()
        home = contraction.homes()
        assert contraction.merges == len(graph) - len(set(home))
        for a, row in enumerate(graph.successors):
            for b in row:
                if home[a] != home[b] and devices[a] == devices[b]:
                    trial = [home[a] if its == home[b] else its for its in home]
                    assert has_cycle(merged_graph(graph.successors, trial))


def test_a_detour_is_a_path_over_another_device() -> None:
    told = 0
    for seed in range(300):
        graph = in_order(seed, most=14)
        devices = random_case(seed, most=14)[2]
        reached = all_reached(graph.successors)
        detours = Detours(groups_of(graph, devices))
        for a in range(len(graph)):
            for b in reached[a]:
                if devices[a] == devices[b] and detours.between(a, b):
                    told += 1
                    assert any(devices[c] != devices[a] and b in reached[c] for c in reached[a])
    assert told > 500


def test_the_numbers_of_the_order_are_given_anew_when_they_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other operator of a comb is merged to one, each time with another that has to move out of the way."""
    monkeypatch.setattr(contraction_module, "_ROOM", 4)
    monkeypatch.setattr(contraction_module, "_STEP", 1)
    count = 40
    teeth = [(2 * at + 1, 2 * at + 2) for at in range(count)]
    graph = dag_of(2 * count + 1, [*((0, 2 * at + 2) for at in range(count)), *teeth])
    for backward in (False, True):
        groups = groups_of(graph, [at % 2 for at in range(len(graph))])
        contraction = Contraction(groups.reversed() if backward else groups)
        contraction.merge_neighbours()
        home = contraction.homes()
        assert len(set(home)) == count + 1
        rows = groups.reversed().successors if backward else groups.successors
        assert all(home[a] <= home[b] for a, row in enumerate(rows) for b in row)


def test_a_search_is_given_up_when_all_visits_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two paths of operators of one device, joined at both ends: what lies between the ends is looked at."""
    length = 60
    edges = [(0, 1), *((at, at + 1) for at in range(1, length)), (length, length + 1), (0, length + 1)]
    graph = groups_of(dag_of(length + 2, edges), [0] * (length + 2))
    assert not Contraction(graph).merge((0, length + 1))
    lone = GroupGraph(
        [[length + 1], *([at + 1] for at in range(1, length)), [length + 1], []],
        [[], [], *([at] for at in range(1, length)), [0, length]],
        [0] * (length + 2),
    )
    assert Contraction(lone).merge((0, length + 1))
    for name in ("_VISITS", "_VISITS_PER_GROUP"):
        monkeypatch.setattr(contraction_module, name, 0)
    assert Contraction(lone).merge((0, length + 1))  # from the first, which feeds nothing else
    monkeypatch.setattr(contraction_module, "_LEAST_VISITS", 0)
    wide = groups_of(dag_of(4, [(0, 2), (0, 3), (1, 3)]), [0] * 4)
    assert not Contraction(wide).merge((0, 3))
    monkeypatch.setattr(contraction_module, "_LEAST_VISITS", 1)
    assert Contraction(wide).merge((0, 3))  # one is looked at


# --- components and orders ----------------------------------------------------------------------------------


def test_members_are_listed_by_group() -> None:
    assert members_of([0, 2, 0]) == [[0, 2], [], [1]]
    assert members_of([]) == []


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


@pytest.mark.parametrize(
    ("words", "devices", "least"),
    [(BY_LEVEL, [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0], 7), (BACKWARD, [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1], 6)],
)
def test_graphs_that_take_more_than_one_start(words: str, devices: list[int], least: int) -> None:
    assert len(make_partitions(dag_of(11, edges(words)), devices, "min")) == least


def test_an_operator_that_a_candidate_gave_back_gets_its_own() -> None:
    graph = dag_of(8, edges("0-1 0-4 0-7 1-3 2-3 2-7 3-5 3-7 4-7"))
    assert seed_partitions(graph, [0, 0, 0, 0, 1, 1, 0, 0]) == [(0, 1, 3), (2,), (6,), (7,), (4,), (5,)]
