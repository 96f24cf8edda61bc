"""Subgraphs: the design's example step by step, the literal procedure, and what each mode promises."""

from __future__ import annotations

import re
from collections import deque
from itertools import chain, combinations, permutations, product

import pytest

from circletools.affinity.partition.epochs import turns
from circletools.affinity.partition.growth import Step
from circletools.affinity.partition.partitions import Mode, make_partitions
from circletools.affinity.partition.repair import waiting_for_each_other
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from circletools.graph.dag import Dag
from tests.kit.partition_reference import Reference
from tests.kit.partition_support import CYCLIC, CYCLIC_DEVICES, check_partition, dag_of, random_case
from tests.kit.support import ROOT

DOCUMENT = (ROOT / "docs" / "affinity.md").read_text(encoding="utf-8")
SEEDS = 4000
BLOCK = 500

# --- the example of the hetero plugin's design document -----------------------------------------------------

EXAMPLE = [(1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (5, 6), (6, 7)]
# Action, operator, subgraph and rejected list, as printed there for the roots 1 and 5.
FROM_1: list[tuple[str, int, set[int], set[int]]] = [
    ("root", 1, {1}, set()),
    ("merge", 2, {1, 2}, set()),
    ("merge", 3, {1, 2, 3}, set()),
    ("merge", 5, {1, 2, 3, 5}, set()),
    ("merge", 6, {1, 2, 3, 5, 6}, set()),
    ("merge", 7, {1, 2, 3, 5, 6, 7}, set()),
    ("reject", 4, {1, 2, 3, 5, 6, 7}, {4}),
    ("rollback", 7, {1, 2, 3, 5, 6}, {4, 7}),
    ("rollback", 6, {1, 2, 3, 5}, {4, 6, 7}),
    ("rollback", 5, {1, 2, 3}, {4, 5, 6, 7}),
]
FROM_5: list[tuple[str, int, set[int], set[int]]] = [
    ("root", 5, {5}, set()),
    ("merge", 6, {5, 6}, set()),
    ("merge", 7, {5, 6, 7}, set()),
    ("merge", 3, {3, 5, 6, 7}, set()),
    ("merge", 2, {2, 3, 5, 6, 7}, set()),
    ("reject", 4, {2, 3, 5, 6, 7}, {4}),
    ("rollback", 2, {3, 5, 6, 7}, {2, 4}),
]


def example() -> tuple[Dag, list[int]]:
    """Return the graph, its operators counted from 0, with the fourth on the second device."""
    return dag_of(7, [(a - 1, b - 1) for a, b in EXAMPLE]), [int(operator == 4) for operator in range(1, 8)]


def test_the_example_goes_as_it_is_printed() -> None:
    steps: list[Step] = []
    partitions = make_partitions(*example(), "seed", steps.append)
    told = [
        (step.action, step.operator + 1, {v + 1 for v in step.members}, {v + 1 for v in step.rejected})
        for step in steps
    ]
    assert told[: len(FROM_1) + len(FROM_5)] == FROM_1 + FROM_5
    rest = told[len(FROM_1) + len(FROM_5) :]
    assert [operator for action, operator, _, _ in rest if action == "root"] == [1, 4]  # what was left, each device
    assert [(partition.device, tuple(v + 1 for v in partition.operators)) for partition in partitions] == [
        (0, (1, 2)),
        (1, (4,)),
        (0, (3, 5, 6, 7)),
    ]


def test_the_document_shows_these_steps() -> None:
    rows = re.findall(r"^\| (root|merge|reject|rollback) \| (\d) \| ([\d ]*)\| ([\d ]*)\|$", DOCUMENT, re.MULTILINE)
    shown = [
        (action, int(operator), *(set(map(int, some.split())) for some in sets)) for action, operator, *sets in rows
    ]
    assert shown == FROM_1 + FROM_5


def test_the_largest_is_selected_first() -> None:
    assert [sorted(v + 1 for v in partition) for partition in seed_partitions(*example())] == [
        [3, 5, 6, 7],
        [1, 2],
        [4],
    ]


def test_telling_the_steps_changes_nothing() -> None:
    for seed in range(SEEDS, SEEDS + BLOCK):
        count, edges, devices = random_case(seed)
        told = seed_partitions(dag_of(count, edges), devices, lambda _: None)
        # Nothing is left out here, so that even the order within a subgraph is that of the procedure.
        assert told == Reference(count, edges).partition(devices), seed


# --- the procedure, literally -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seed_is_the_literal_procedure(first: int) -> None:
    for seed in range(first, first + BLOCK):
        count, edges, devices = random_case(seed)
        wanted = Reference(count, edges).partition(devices)
        got = seed_partitions(dag_of(count, edges), devices)
        assert [sorted(partition) for partition in got] == [sorted(partition) for partition in wanted], seed


# --- what each mode promises --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, SEEDS // 2, BLOCK))
def test_every_partition_can_run(first: int) -> None:
    """And covers, keeps to devices, hangs together; and no mode has more subgraphs than it may."""
    repaired = 0
    for seed in range(first, first + BLOCK):
        count, edges, devices = random_case(seed, most=20)
        graph = dag_of(count, edges)
        found = {mode: make_partitions(graph, devices, mode) for mode in ("safe", "min", "epochs")}
        for mode, partitions in found.items():
            check_partition(graph, devices, partitions, connected=mode != "epochs")
        assert len(found["min"]) <= len(found["safe"])
        assert len(found["epochs"]) <= len(found["min"]) or len(set(devices)) > 2
        try:
            assert found["safe"] == make_partitions(graph, devices, "seed")
        except EditError:
            repaired += 1
            assert waiting_for_each_other(graph, seed_partitions(graph, devices))
    assert repaired > BLOCK / 50


def test_the_smallest_cycle_is_refused() -> None:
    graph = dag_of(4, CYCLIC)
    assert [set(partition) for partition in Reference(4, CYCLIC).partition(CYCLIC_DEVICES)] == [{0, 3}, {1, 2}]
    with pytest.raises(
        EditError, match=r"2 partitions wait for each other, those of operators 0 and 1 for two"
    ) as caught:
        make_partitions(graph, CYCLIC_DEVICES, "seed")
    assert "`mode=safe`" in (caught.value.hint or "")


@pytest.mark.parametrize("mode", ["safe", "min"])
def test_the_smallest_cycle_is_repaired(mode: Mode) -> None:
    partitions = make_partitions(dag_of(4, CYCLIC), CYCLIC_DEVICES, mode)
    # One stays whole, the other falls apart.
    kept = [(0, 3), (1,), (2,)] if mode == "safe" else [(0,), (1, 2), (3,)]
    assert sorted(partition.operators for partition in partitions) == kept
    check_partition(dag_of(4, CYCLIC), CYCLIC_DEVICES, partitions, connected=True)


def test_no_smaller_graph_has_a_cycle() -> None:
    """Neither one of three operators nor one of four with three edges, whatever the numbering."""
    for count, most in ((3, 3), (4, 3)):
        pairs = list(permutations(range(count), 2))
        for edges in chain.from_iterable(combinations(pairs, size) for size in range(most + 1)):
            if any(operator in reached for operator, reached in enumerate(Reference(count, edges).descendants)):
                continue
            graph = dag_of(count, edges)
            for devices in product((0, 1), repeat=count):
                assert not waiting_for_each_other(graph, seed_partitions(graph, devices))


@pytest.mark.parametrize("mode", ["seed", "safe", "min", "epochs"])
def test_nothing_at_all_has_no_subgraphs(mode: Mode) -> None:
    assert make_partitions(dag_of(0, []), [], mode) == ()
    assert len(make_partitions(dag_of(3, []), [0, 0, 0], mode)) == (1 if mode == "epochs" else 3)


# --- taking turns -------------------------------------------------------------------------------------------


def fewest_turns(graph: Dag, devices: list[int]) -> int:
    """Return the fewest turns, by trying: one operator at a time, a turn more when the device changes."""
    done_all = (1 << len(graph)) - 1
    best: dict[tuple[int, int], int] = {(0, -1): 0}
    pending = deque(best)
    while pending:
        state = pending.popleft()
        done, last = state
        if done == done_all:
            return best[state]
        for operator in range(len(graph)):
            if done >> operator & 1 or any(not done >> before & 1 for before in graph.predecessors[operator]):
                continue
            following = (done | 1 << operator, devices[operator])
            cost = best[state] + (devices[operator] != last)
            if cost < best.get(following, len(graph) + 1):
                best[following] = cost
                (pending.appendleft if devices[operator] == last else pending.append)(following)
    raise AssertionError


def test_turns_are_the_fewest_for_two_devices() -> None:
    tried = 0
    for seed in range(400):
        count, edges, devices = random_case(seed, most=9)
        if set(devices) <= {0, 1}:
            graph = dag_of(count, edges)
            assert len(make_partitions(graph, devices, "epochs")) == fewest_turns(graph, devices), seed
            tried += 1
    assert tried > 200


def test_a_turn_begins_with_the_lowest_that_is_ready() -> None:
    graph = dag_of(4, [(0, 2), (1, 3)])
    assert turns(graph, [0, 1, 1, 0]) == [(0,), (1, 2), (3,)]
    assert turns(graph, [0, 1, 1, 0], 1) == [(1,), (0, 3), (2,)]
