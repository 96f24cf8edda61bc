"""The cheapest partitions: as cheap as trying every device and every partition shows, and bounds where steps end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from circletools.affinity.costs import exact
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.exact import Keeping, cheapest
from circletools.affinity.costs.problem import Problem
from circletools.affinity.partition.partitions import Partition
from circletools.graph.dag import Dag
from tests.kit.costs_support import Case, random_case
from tests.kit.partition_peers import every_partitioning, numbers_of
from tests.kit.partition_support import check_partition, dag_of, seeded


def least_of_all(problem: Problem, graph: Dag, keeping: Keeping, *, connected: bool) -> float:
    best = inf
    for rows, devices in every_partitioning(graph, len(problem.links.launch_us), connected=connected):
        numbers = numbers_of(rows, devices)
        if not np.isfinite(problem.times_us[range(len(numbers)), numbers]).all():
            continue
        if any(devices.count(device) > most for device, most in keeping.most.items()):
            continue
        if not all(keeping.may_grow(*one) for one in zip(rows, devices, strict=True)):
            continue
        more = sum(keeping.cost(*one) for one in zip(rows, devices, strict=True))
        best = min(best, evaluate(problem, numbers, devices).total_us + more)
    return best


def total_of(problem: Problem, partitions: Sequence[Partition], keeping: Keeping) -> float:
    numbers = [0] * len(problem.times_us)
    for one in partitions:
        for operator in one.operators:
            numbers[operator] = one.device
    more = sum(keeping.cost(one.operators, one.device) for one in partitions)
    return evaluate(problem, numbers, [one.device for one in partitions]).total_us + more


def keepings(seed: int) -> Keeping | None:
    generator = seeded(seed)
    most, least, dear = generator.randint(1, 4), generator.randint(1, 2), generator.choice((0.0, 7.0))
    counts = {device: generator.randint(1, 2) for device in range(2) if generator.random() < 0.5}
    return generator.choice(
        (
            None,
            Keeping(lambda row, device: device == 1 or len(row) <= most),
            Keeping(cost=lambda row, device: inf if device == 0 and len(row) < least else dear * (0 in row)),
            Keeping(most=counts),
        )
    )


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_cheaper(seed: int) -> None:
    generator = seeded(seed)
    problem, graph = random_case(
        seed, generator.randint(1, 5), generator.choice((2, 2, 3)), launch=seed % 3 > 0
    ).problem()
    keeping, connected = keepings(seed), generator.random() < 0.6
    if generator.random() < 0.5:
        graph = replace(graph, beside=(tuple(generator.sample(range(len(graph)), len(graph) // 2 + 1)),))
    expected = least_of_all(problem, graph, keeping or Keeping(), connected=connected)
    found = cheapest(problem, graph, connected=connected, keeping=keeping)
    assert (found.is_known, found.partitions is None) == (True, expected == inf)
    assert found.least_us == pytest.approx(expected)
    if found.partitions is not None:
        assert total_of(problem, found.partitions, keeping or Keeping()) == pytest.approx(expected)
        numbers = {operator: one.device for one in found.partitions for operator in one.operators}
        check_partition(graph, [numbers[at] for at in range(len(graph))], found.partitions, connected=False)
        below = cheapest(problem, graph, connected=connected, keeping=keeping, below=expected)
        assert (below.partitions, below.least_us, below.is_known) == (None, expected, True)
        above = cheapest(problem, graph, connected=connected, keeping=keeping, below=expected * 1.001 + 0.001)
        assert above.partitions is not None


def test_what_another_device_connects_is_not_one_partition() -> None:
    """0 and 1 feed 2, which is quick elsewhere: two launches of what feeds it, whatever is asked of partitions."""
    zero = [[0.0] * 2] * 2
    case = Case([[0.0, 9.0], [0.0, 9.0], [99.0, 0.0]], [(0, 0.0, [2]), (1, 0.0, [2])], zero, zero, [3.0, 3.0])
    for keeping in (None, Keeping()):
        assert cheapest(*case.problem(), connected=True, keeping=keeping).least_us == 9
        assert cheapest(*case.problem(), connected=False, keeping=keeping).least_us == 6


def test_where_the_steps_end_there_is_a_bound() -> None:
    ended = 0
    for seed in range(10):
        problem, graph = random_case(seed, 8, 3, launch=True).problem()
        whole = cheapest(problem, graph, connected=True)
        for steps in (0, 5, 50):
            some = cheapest(problem, graph, connected=True, steps=steps)
            ended += not some.is_known
            assert some.least_us <= whole.least_us * (1 + 1e-9)
            assert some.least_us >= problem.times_us.min(axis=1).sum() * (1 - 1e-9)
            assert some.is_known == (some.partitions is not None)
    assert ended > 10


def test_a_chain_of_many_is_no_trouble() -> None:
    """Two hundred in a row, whose devices take turns in being quick: a launch is dearer than to stay."""
    times = [[1.0, 2.0] if at // 10 % 2 else [2.0, 1.0] for at in range(200)]
    rows = [(at, 1.0, [at + 1]) for at in range(199)]
    case = Case(times, rows, [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0]] * 2, [4.0, 4.0])
    found = cheapest(*case.problem(), connected=True)
    assert (found.is_known, found.least_us) == (True, 200 + 20 * 4 + 19)
    assert found.partitions is not None
    assert [len(one.operators) for one in found.partitions] == [10] * 20


def test_operators_on_constants_go_with_their_readers() -> None:
    graph = replace(dag_of(3, [(0, 2), (1, 2)]), constants=(0,))
    case = Case(
        [[0.0, 0.0], [1.0, 5.0], [5.0, 1.0]], [(1, 1.0, [2])], [[0.0, 1.0], [1.0, 0.0]], [[0.0] * 2] * 2, [1.0, 1.0]
    )
    problem, _ = case.problem()
    found = cheapest(problem, graph, connected=True)
    assert found.partitions == (Partition(0, (1,)), Partition(1, (0, 2)))
    assert found.least_us == 1 + 1 + 1 + 2


def test_of_very_many_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph = random_case(1, 6, 2).problem()
    assert cheapest(problem, graph, connected=True).is_known
    monkeypatch.setattr(exact, "_MANY", len(graph) - 1)
    found = cheapest(problem, graph, connected=True)
    assert (found.is_known, found.partitions, found.least_us) == (False, None, 0)


def test_what_no_device_takes_has_no_partitions() -> None:
    case = Case([[1.0, 1.0], [inf, inf]], [(0, 1.0, [1])], [[0.0] * 2] * 2, [[0.0] * 2] * 2, [1.0, 1.0])
    assert cheapest(*case.problem(), connected=True).partitions is None
    none = Case([], [], [[0.0] * 2] * 2, [[0.0] * 2] * 2, [1.0] * 2)
    assert cheapest(*none.problem(), connected=True).partitions == ()


def test_a_device_has_no_more_partitions_than_it_may() -> None:
    quick = [[1.0, 9.0], [9.0, 1.0]]
    rows, zero = [(at, 0.0, [at + 1]) for at in range(6)], [[0.0] * 2] * 2
    case = Case([quick[at % 2] for at in range(7)], rows, zero, zero, [0.0] * 2)
    for most, least in ((4, 7.0), (3, 15.0), (2, 23.0), (1, 31.0), (0, 39.0)):
        found = cheapest(*case.problem(), connected=True, keeping=Keeping(most={0: most}))
        assert found.partitions is not None
        assert (found.least_us, sum(one.device == 0 for one in found.partitions)) == (least, most)
