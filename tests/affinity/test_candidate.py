"""The one checker: everything that a candidate may be wrong in is seen, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from circletools.affinity.problem import Candidate, Limit, better, disconnected, total_us, violations
from circletools.affinity.solvers.groups import Partition
from tests.kit.placement_oracle import Placement

#   0 -> 1 -> 3, 0 -> 2 -> 3; all make 10 bytes, 0 and 3 read a constant of 5
DIAMOND = Placement(
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, inf]],
    [(0, 10.0, [1, 2]), (1, 10.0, [3]), (2, 10.0, [3]), (3, 10.0, [])],
    [[0.0, 3.0], [4.0, 0.0]],
    [[0.0, 0.5], [0.25, 0.0]],
    [7.0, 9.0],
    [5.0],
    [[0], [], [], [0]],
    [3],
)


def candidate(*rows: tuple[int, tuple[int, ...]]) -> Candidate:
    return tuple(Partition(device, units) for device, units in rows)


WHOLE = candidate((0, (0, 1, 2, 3)))
SPLIT = candidate((0, (0, 1)), (1, (2,)), (0, (3,)))


def test_a_valid_candidate_has_no_violation() -> None:
    assert violations(DIAMOND.problem(), WHOLE) == violations(DIAMOND.problem(), SPLIT) == []


@pytest.mark.parametrize(("wrong", "message"), [
    (candidate((0, (0, 1, 2))), "some units are in no partition or in several"),
    (candidate((0, (0, 1, 2, 3)), (1, (1,))), "some units are in no partition or in several"),
    (candidate((0, (0, 1, 2)), (1, (3,))), "unit 3 may not be on device 1"),
    (candidate((0, (3,)), (0, (0, 1, 2))), "unit 3 runs before its producers"),
    (candidate((0, (0, 1, 3)), (1, (2,))), "unit 3 runs before its producers"),
    (candidate((0, (0,)), (1, (1, 2)), (0, (3,))), "a partition is not connected"),
])  # fmt: skip
def test_invalid_partitions(wrong: Candidate, message: str) -> None:
    found = violations(DIAMOND.problem(), wrong)
    assert found[0].message == message


@pytest.mark.parametrize(("kind", "device", "number", "kept", "broken"), [
    ("max-partitions", 0, 2, SPLIT, None),
    ("max-partitions", 0, 1, SPLIT, "the count is 2"),
    ("min-operators", 0, 2, WHOLE, None),
    ("min-operators", 0, 2, SPLIT, "a partition has 1"),
    ("max-operators", 0, 4, WHOLE, None),
    ("max-operators", 0, 3, WHOLE, "a partition has 4"),
    ("max-bytes", 0, 45, WHOLE, None),  # the constant once
    ("max-bytes", 0, 44, WHOLE, "a partition has 45"),
    ("min-bytes", 0, 15, SPLIT, None),
    ("min-bytes", 0, 16, SPLIT, "a partition has 15"),
    ("min-us", 1, 2, SPLIT, None),
    ("min-us", 1, 2.5, SPLIT, "a partition has 2"),
    ("min-us", 1, 99, WHOLE, None),
])  # fmt: skip
def test_limits_are_kept_to_the_unit(
    kind: str, device: int, number: float, kept: Candidate, broken: str | None
) -> None:
    limit = Limit(f"d{device}", kind, number)  # type: ignore[arg-type]
    found = violations(replace(DIAMOND, limits=[(device, limit)]).problem(), kept)
    assert [one.message for one in found] == ([] if broken is None else [f"{limit}: {broken}"])
    assert all(one.limit == limit and one.device == device for one in found)


def test_memory_is_kept_to_the_byte() -> None:
    """0, 1 and 2 are there when 2 runs: 30 bytes, and the constant."""
    assert violations(replace(DIAMOND, caps={0: 35}).problem(), WHOLE) == []
    (found,) = violations(replace(DIAMOND, caps={0: 34}).problem(), WHOLE)
    assert found.message == "d0 has 34 bytes, but would need 35: 5 of constants and 30 of live tensors"
    assert (found.device, found.limit) == (0, None)


def test_the_objective_is_a_sum_of_each_kind() -> None:
    problem = DIAMOND.problem()
    assert total_us(problem, WHOLE) == 4 + 7
    # 0 is copied to 2, and 2 back to 3.
    assert total_us(problem, SPLIT) == (1 + 1 + 2 + 1) + (3 + 5) + (4 + 2.5) + (7 + 9 + 7)
    dear = replace(DIAMOND, rate=[2.0, 100.0]).problem()
    assert total_us(dear, WHOLE) == 11 + 5 * 2
    assert total_us(dear, SPLIT) == total_us(problem, SPLIT) + 2 * 5 * 2


def test_the_better_is_valid_cheaper_and_has_fewer_partitions() -> None:
    problem = DIAMOND.problem()
    assert better(problem, [SPLIT, WHOLE]) == WHOLE
    assert better(problem, [candidate((0, (0, 1, 2))), SPLIT]) == SPLIT
    assert better(problem, [candidate((0, (0, 1, 2)))]) is None
    free = replace(DIAMOND, launch=[0.0, 0.0]).problem()
    assert better(free, [candidate((0, (0, 1)), (0, (2, 3))), WHOLE]) == WHOLE


def test_siblings_are_connected() -> None:
    problem = DIAMOND.problem()
    apart = candidate((0, (0,)), (1, (1, 2)), (0, (3,)))
    assert disconnected(problem, apart) == [apart[1]]
    joined = replace(problem, graph=replace(problem.graph, beside=((1, 2),)))
    assert disconnected(joined, apart) == []
    anything = replace(problem, graph=replace(problem.graph, beside=((0, 1, 2, 3),)))
    assert violations(anything, apart) == []
