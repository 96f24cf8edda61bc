"""Mode `seed`: the design's example step by step, and the literal procedure on thousands of random graphs."""

from __future__ import annotations

import pytest

from benchmarks.graphs import ASSIGNMENTS, SHAPES
from circletools.affinity.solvers import seed as module
from circletools.affinity.solvers.partitions import make_partitions, schedule
from circletools.affinity.solvers.seed import Step, seed_partitions
from circletools.errors import EditError
from circletools.graph.algorithms import Dag
from tests.kit.partition_reference import Reference
from tests.kit.partition_support import CYCLIC, CYCLIC_DEVICES, Edges, dag_of, random_case, seeded

SEEDS = 5000
BLOCK = 500

EXAMPLE = [(1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (5, 6), (6, 7)]
# As printed there for the roots 1 and 5.
FROM_1 = "root 1, merge 2, merge 3, merge 5, merge 6, merge 7, reject 4, rollback 7, rollback 6, rollback 5"
FROM_5 = "root 5, merge 6, merge 7, merge 3, merge 2, reject 4, rollback 2"


def example() -> tuple[Dag, list[int]]:
    """Return the graph, its operators counted from 0, with the fourth on the second device."""
    return dag_of(7, [(a - 1, b - 1) for a, b in EXAMPLE]), [int(operator == 4) for operator in range(1, 8)]


def test_the_example_takes_the_printed_steps() -> None:
    steps: list[Step] = []
    partitions = make_partitions(*example(), "seed", steps.append)
    shown = [f"{step.action} {step.operator + 1}" for step in steps]
    printed = f"{FROM_1}, {FROM_5}".split(", ")
    assert shown[: len(printed)] == printed
    rest = shown[len(printed) :]
    assert [one for one in rest if one.startswith("root")] == ["root 1", "root 4"]  # what was left, each device
    assert [(partition.device, tuple(v + 1 for v in partition.operators)) for partition in partitions] == [
        (0, (1, 2)),
        (1, (4,)),
        (0, (3, 5, 6, 7)),
    ]


def test_the_largest_is_selected_first() -> None:
    assert [sorted(v + 1 for v in partition) for partition in seed_partitions(*example(), lambda _: None)] == [
        [3, 5, 6, 7],
        [1, 2],
        [4],
    ]


def test_reporting_steps_changes_nothing() -> None:
    for seed in range(SEEDS, SEEDS + BLOCK):
        count, edges, devices = random_case(seed)
        shown = seed_partitions(dag_of(count, edges), devices, lambda _: None)
        # Nothing is left out here, so that even the order within a subgraph is that of the procedure.
        assert shown == Reference(count, edges).partition(devices), seed


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seed_is_the_literal_procedure(first: int) -> None:
    for seed in range(first, first + BLOCK):
        count, edges, devices = random_case(seed)
        wanted = Reference(count, edges).partition(devices)
        got = seed_partitions(dag_of(count, edges), devices)
        assert sorted(map(sorted, got)) == sorted(map(sorted, wanted)), seed


def test_partitions_that_wait_for_each_other_are_refused() -> None:
    graph = dag_of(4, CYCLIC)
    assert [set(partition) for partition in Reference(4, CYCLIC).partition(CYCLIC_DEVICES)] == [{0, 3}, {1, 2}]
    text = r"2 partitions wait for each other, for example those of operators 0 and 1"
    with pytest.raises(EditError, match=text) as caught:
        make_partitions(graph, CYCLIC_DEVICES, "seed")
    assert "mode=min" in (caught.value.hint or "")


def entangled(count: int, inputs: int) -> tuple[Edges, list[int]]:
    """Return the edges and devices of a graph whose operators read from anywhere before them."""
    generator = seeded(count)
    edges = [(a, b) for b in range(count) for a in generator.sample(range(b), min(inputs, b))]
    return edges, [operator % 3 % 2 for operator in range(count)]


def allow(monkeypatch: pytest.MonkeyPatch, units: int, per_operator: int) -> None:
    """Let growing take no more than this."""
    monkeypatch.setattr(module, "_UNITS", units)
    monkeypatch.setattr(module, "_UNITS_PER_OPERATOR", per_operator)


@pytest.mark.parametrize("inputs", [3, 20])
def test_entangled_graphs_within_the_bound_follow_the_literal_procedure(inputs: int) -> None:
    edges, devices = entangled(50, inputs)
    wanted = Reference(50, edges).partition(devices)
    found = seed_partitions(dag_of(50, edges), devices)
    assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))


@pytest.mark.parametrize("inputs", [3, 100])
def test_what_takes_too_many_steps_is_refused(monkeypatch: pytest.MonkeyPatch, inputs: int) -> None:
    edges, devices = entangled(200, inputs)
    allow(monkeypatch, 0, 200)
    with pytest.raises(EditError, match="graph of 200 operators needs too many steps") as caught:
        make_partitions(dag_of(200, edges), devices, "seed")
    assert "mode=min" in (caught.value.hint or "")
    assert make_partitions(dag_of(200, edges), devices, "min")


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_of_networks_need_a_tenth_of_the_effort(
    monkeypatch: pytest.MonkeyPatch, shape: str, assignment: str
) -> None:
    allow(monkeypatch, 0, module._UNITS_PER_OPERATOR // 10)
    made = SHAPES[shape](2000)
    assert seed_partitions(made.graph(), ASSIGNMENTS[assignment](made))


def test_a_region_may_fill_the_memory_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMORY_BYTES", 50 * 50 * 3 // 16)
    assert seed_partitions(dag_of(50, entangled(50, 3)[0]), entangled(50, 3)[1])
    monkeypatch.setattr(module, "_MEMORY_BYTES", 50 * 50 * 3 // 16 - 1)
    with pytest.raises(EditError, match="50 operators are too many to grow partitions from") as caught:
        seed_partitions(dag_of(50, entangled(50, 3)[0]), entangled(50, 3)[1])
    assert "mode=min" in (caught.value.hint or "")


def test_a_schedule_takes_the_lowest_that_can_run() -> None:
    assert schedule([[2], [], [], [1]], [5, 1, 0, 3]) == [3, 1, 0, 2]
    assert schedule([[1], [0], []], [0, 0, 0]) == [2]  # what waits for each other is left out


def test_steps_of_growth_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unconnected operators, or one chain; the effort is the measure."""
    for edges in ([], [(operator, operator + 1) for operator in range(999)]):
        allow(monkeypatch, 0, 100)
        steps: list[Step] = []
        seed_partitions(dag_of(1000, edges), [0] * 1000, steps.append)
        assert len(steps) <= 2000
