"""Small graphs worked out by hand or naively: groups, chains, contractions, orders and the steps of each mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circletools.affinity.partition import chains
from circletools.affinity.partition.chains import NOWHERE, Chains
from circletools.affinity.partition.effort import STEP, Effort
from circletools.affinity.partition.epochs import turns
from circletools.affinity.partition.groups import connected, group_successors, members_of, strong_components
from circletools.affinity.partition.growth import Region
from circletools.affinity.partition.partitions import make_partitions
from circletools.affinity.partition.repair import OperatorSets, group_of, repaired, waiting_for_each_other
from circletools.affinity.partition.schedule import schedule
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from tests.kit.partition_reference import Reference
from tests.kit.partition_support import CYCLIC, dag_of, random_case, seeded

# --- groups -------------------------------------------------------------------------------------------------


def reached_from(successors: Sequence[Sequence[int]], start: int) -> set[int]:
    """Return what is behind a start, the start itself only where a way leads back."""
    found: set[int] = set()
    pending = list(successors[start])
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += successors[one]
    return found


def test_components_are_those_that_reach_each_other_and_come_after_what_they_feed() -> None:
    for seed in range(40):
        generator = seeded(seed)
        count = generator.randint(1, 9)
        rows = [sorted(generator.sample(range(count), generator.randint(0, min(3, count)))) for _ in range(count)]
        behind = [reached_from(rows, one) for one in range(count)]
        found = strong_components(rows)
        assert sorted(one for component in found for one in component) == list(range(count))
        place = {one: number for number, component in enumerate(found) for one in component}
        for component in found:
            assert component == sorted(component)
            for one in component:
                assert set(component) == {one} | {other for other in behind[one] if one in behind[other]}
                assert all(place[other] <= place[one] for other in rows[one])


def test_groups_are_connected_in_either_direction() -> None:
    graph = dag_of(6, [(2, 0), (1, 0), (4, 3)])
    assert connected(graph, [0] * 6) == [0, 0, 0, 1, 1, 2]
    assert connected(graph, [0, 1, 0, 0, 1, 0]) == [0, 1, 0, 2, 3, 4]
    assert members_of([2, 0, 2]) == [[1], [], [0, 2]]
    assert group_successors(graph, [0, 1, 1, 2, 1, 0], 3) == [[], [0, 2], []]
    assert group_successors(dag_of(0, []), [], 0) == []
    assert group_of(4, [(3, 1), (0, 2)]) == [1, 0, 1, 0]


def test_cycles_are_those_of_more_than_one_partition() -> None:
    graph = dag_of(4, CYCLIC)
    assert waiting_for_each_other(graph, [(0, 3), (1, 2)]) == [[0, 1]]
    assert waiting_for_each_other(graph, [(0,), (1, 2), (3,)]) == []
    whole: OperatorSets = [(0, 1, 2, 3)]
    assert repaired(graph, [0] * 4, whole) is whole


# --- orders -------------------------------------------------------------------------------------------------


def test_a_schedule_takes_the_lowest_that_can_run() -> None:
    assert schedule([[2], [2], [], []], [5, 9, 0, 7]) == [0, 3, 1, 2]
    assert schedule([[], [], []], [2, 1, 0]) == [2, 1, 0]
    assert schedule([[1], [0], []], [0, 1, 2]) == [2]  # what waits for itself is left out
    assert schedule([[1], [2], [1], []], [0, 1, 2, 3]) == [0, 3]


def test_devices_take_turns_and_the_lowest_operator_says_whose_it_is() -> None:
    graph = dag_of(5, [(0, 2), (1, 3), (2, 4), (3, 4)])
    devices = [1, 0, 0, 1, 1]
    assert turns(graph, devices) == [(0,), (1, 2), (3, 4)]
    assert turns(graph, devices, 0) == [(1,), (0, 3), (2,), (4,)]
    assert turns(graph, devices, 1) == [(0,), (1, 2), (3, 4)]
    assert [part.operators for part in make_partitions(graph, devices, "epochs")] == [(0,), (1, 2), (3, 4)]
    assert turns(dag_of(2, [(0, 1)]), [0, 1], 1) == [(0,), (1,)]  # the second cannot begin


# --- who reaches whom ---------------------------------------------------------------------------------------


GRAPHS: list[tuple[int, float]] = [(1, 0.5), (7, 0.3), (12, 0.15), (16, 0.0), (17, 0.0), (20, 0.03)]


def test_chains_tell_who_reaches_whom() -> None:
    """Also where they are so many that their table grows, and is one of arrays."""
    for count, share in GRAPHS:
        for seed in range(8):
            generator = seeded(seed)
            after = [[b for b in range(a + 1, count) if generator.random() < share] for a in range(count)]
            before = [[a for a in range(count) if b in after[a]] for b in range(count)]
            made = Chains(after, before)
            behind = [reached_from(after, one) for one in range(count)]
            width = max(made.chain) + 1
            for v in range(count):
                on = [[made.place[o] for o in behind[v] if made.chain[o] == c] for c in range(width)]
                assert [int(first) for first in made.reached[v]] == [min(row, default=NOWHERE) for row in on]
                on = [
                    [made.place[o] for o in range(count) if v in behind[o] and made.chain[o] == c]
                    for c in range(width)
                ]
                assert [int(last) for last in made.reaching[v]] == [max(row, default=-1) for row in on]
                same = [o for o in range(v) if made.chain[o] == made.chain[v]]
                assert all(v in behind[o] for o in same)
            assert isinstance(made.reached[0], list) == (width <= 16)
            left, right = made.reached[0], made.reached[-1]
            assert list(made.firsts(left, right)) == [min(a, b) for a, b in zip(left, right, strict=True)]
            assert list(made.lasts(left, right)) == [max(a, b) for a, b in zip(left, right, strict=True)]


def test_a_chain_goes_on_where_an_operator_reads_its_end() -> None:
    made = Chains([[1, 2], [3], [3], []], [[], [0], [0], [1, 2]])
    assert (made.chain, made.place) == ([0, 0, 1, 1], [0, 1, 0, 1])


def test_the_memory_of_chains_is_bounded_when_they_get_more_than_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_MEMORY_BYTES", 0)
    rows: list[list[int]] = [[] for _ in range(8)]
    assert Chains(rows, rows).chain == list(range(8))
    with pytest.raises(EditError) as caught:
        Chains([*rows, []], [*rows, []])
    assert caught.value.message == "the graph of 9 operators is more than 8 operators wide"
    assert caught.value.hint == "`mode=min` takes any graph"


# --- growing ------------------------------------------------------------------------------------------------


def test_what_grows_from_a_root_and_is_taken_back() -> None:
    # 0 -> 1 -> 3 and 0 -> 2 -> 3, 2 elsewhere: 3 is between members that 2 keeps apart.
    graph = dag_of(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    region = Region(graph, graph.order, [0, 0, 1, 0], Effort(4))
    assert region.is_neck == [True, False, False, True]
    grown = region.grow(0)
    assert (grown.root, grown.members, grown.taken_back, grown.touched) == (0, (0, 1), (3,), (0, 1, 3))
    assert region.grow(3).members == (3, 1)
    region.take(grown.members)
    assert region.grow(3).members == (3,)
    assert region.grow(2).members == (2,)


def test_the_effort_of_a_step_is_told() -> None:
    graph = dag_of(2, [(0, 1)])
    region = Region(graph, graph.order, [0, 0], Effort(2))
    start = region.effort.left
    region.grow(0)
    assert start - region.effort.left == 3 * STEP  # a look at the neighbour, the rejected and those elsewhere
    hub = dag_of(17, [(0, other) for other in range(1, 17)])
    wide = Region(hub, hub.order, [0] * 17, Effort(17))
    start = wide.effort.left
    wide.grow(1)
    assert start - wide.effort.left == 16 * 2 * STEP + 2 * STEP + 16 // 8  # only the hub has 8 neighbours or more


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_seed_is_the_literal_procedure_on_a_few_graphs(first: int) -> None:
    for seed in range(first, first + 20):
        count, edges, devices = random_case(seed, most=20)
        wanted = Reference(count, edges).partition(devices)
        graph = dag_of(count, edges)
        assert [sorted(one) for one in seed_partitions(graph, devices)] == [sorted(one) for one in wanted]
        assert seed_partitions(graph, devices, lambda _: None) == wanted


# --- repair -------------------------------------------------------------------------------------------------


def test_repair_keeps_the_largest_whole() -> None:
    # 5 hangs on 1: {1, 2, 5} is larger than {0, 3}, and stays.
    graph = dag_of(5, [*CYCLIC, (1, 4)])
    devices = [0, 1, 1, 0, 1]
    assert sorted(map(sorted, seed_partitions(graph, devices))) == [[0, 3], [1, 2, 4]]
    found = repaired(graph, devices, seed_partitions(graph, devices))
    assert sorted(map(sorted, found)) == [[0], [1, 2, 4], [3]]
    assert np.concatenate(found).tolist().count(4) == 1
