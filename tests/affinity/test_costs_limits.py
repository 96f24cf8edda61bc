"""Costs by hand at the limits: what is just enough and what is just not, and which of two that are equal is taken."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest

from circletools.affinity.costs import caps, fitting
from circletools.affinity.costs.caps import Fitted, least_time_within
from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.parallel import bounds, heft
from circletools.affinity.costs.problem import Indices
from circletools.affinity.costs.search import least_time
from circletools.affinity.partition.partitions import Partition, make_partitions
from tests.kit.costs_support import Case

ZERO = [[0.0] * 2] * 2
ROW = [(0, 1.0, [1]), (1, 1.0, [2])]


def contents(operators: int, constants: Sequence[tuple[int, int]], buffers: Sequence[float]) -> Contents:
    """Return operators whose results take no room, and the constants that they read, by operator and buffer."""
    pairs, none = np.array(constants, np.int64).reshape(-1, 2), np.array([], np.int64)
    return Contents(
        (pairs[:, 0], pairs[:, 1]), np.array(buffers), np.zeros(operators), np.arange(operators), none, none, none
    )


def within(case: Case, what: Contents, limits: dict[int, int]) -> Fitted:
    problem, graph = case.problem()
    return least_time_within(problem, graph, what, limits, lambda row: make_partitions(graph, row.tolist()))


# --- cuts ---------------------------------------------------------------------------------------------------


def test_a_huge_copy_that_nobody_makes_does_not_drown_the_others() -> None:
    """0 stays on one of the two devices, so nothing is copied there from the other, which would cost 1e14."""
    for stays in (0, 1):
        times = [[inf, inf], [2.0, 2.0], [2.0, 2.0]]
        times[0][stays] = 0.0
        times[1][1 - stays] = 1.0
        copies = [[0.0, 0.0], [0.0, 0.0]]
        copies[stays][1 - stays], copies[1 - stays][stays] = 0.1, 1e14
        case = Case(times, [(0, 0.0, [1])], copies, ZERO, [0.0, 0.0])
        assert least_time(*case.problem()).tolist() == [stays, 1 - stays, 0]


def test_a_huge_time_does_not_drown_the_others_in_any_unit() -> None:
    for unit in (1e-15, 1e-12, 1.0, 1e6):
        for quick in (0, 1):
            rows = [(1e14, 0.0), (2.0, 1.0), (1.0, 2.0)]
            times = [[row[device == quick] * unit for device in (0, 1)] for row in rows]
            copies = [[0.0, 0.1 * unit], [0.1 * unit, 0.0]]
            case = Case(times, ROW, copies, ZERO, [0.0, 0.0])
            assert least_time(*case.problem()).tolist() == [quick, quick, 1 - quick]


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "copy", "rate", "launch"),
    [
        ([[0.0, 0.0], [0.0, 1e6], [0.0, 0.0]], 0.0, 0.0, 0.0),
        ([[0.0, inf], [0.0, 0.0], [0.0, inf]], 1e6, 0.0, 0.0),
        ([[0.0, inf], [0.0, 0.0], [0.0, inf]], 0.0, 1e6, 0.0),
        ([[0.0, inf], [0.0, 0.0], [0.0, inf]], 0.0, 0.0, 1e6),
    ],
    ids=["time", "copies", "bytes", "launches"],
)
def test_a_limit_is_kept_to_whatever_it_costs(
    times: list[list[float]], copy: float, rate: float, launch: float
) -> None:
    """One byte too much on the first device; only the middle operator has constants."""
    links = [[0.0, copy], [copy, 0.0]], [[0.0, rate], [rate, 0.0]]
    found = within(Case(times, ROW, *links, [launch, launch]), contents(3, [(1, 0)], [1.0]), {0: 0})
    assert (found.fits, found.devices.tolist()) == (True, [0, 1, 0])


def test_a_constant_that_two_share_counts_once() -> None:
    case = Case([[1.0, 3.0]] * 3, [], ZERO, ZERO, [0.0, 0.0])
    what = contents(3, [(0, 0), (1, 0), (2, 1)], [8.0, 4.0])
    for limit, expected in ((12, [0, 0, 0]), (11, [0, 0, 1]), (4, [1, 1, 0]), (3, [1, 1, 1])):
        assert within(case, what, {0: limit}).devices.tolist() == expected


def test_what_would_save_nothing_is_not_moved_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    what = contents(3, [(0, 0), (1, 1), (2, 2)], [1.0] * 3)
    for time, expected in ((1.0, [1, 1, 1]), (2.0, [0, 0, 1])):
        case = Case([[1.0, time]] * 3, [], ZERO, ZERO, [0.0, 0.0])
        assert within(case, what, {0: 2}).devices.tolist() == expected


def test_as_much_as_fits_is_given_back_from_the_start_without_single_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    monkeypatch.setattr(caps, "_TRIES", 0)
    monkeypatch.setattr(caps, "_LEAST_TRIES", 0)
    case = Case([[1.0, 2.0]] * 9, [], ZERO, ZERO, [0.0, 0.0])
    what = contents(9, [(operator, operator) for operator in range(9)], [1.0] * 9)
    for limit in range(10):
        assert within(case, what, {0: limit}).devices.tolist() == [0] * limit + [1] * (9 - limit)


def test_two_devices_with_limits_are_filled_each_to_its_own() -> None:
    times = [[1.0, 2.0 + operator, 9.0 + 3 * operator] for operator in range(4)]
    case = Case(times, [], [[0.0] * 3] * 3, [[0.0] * 3] * 3, [0.0] * 3)
    what = contents(4, [(0, 0), (1, 1), (2, 2), (3, 3)], [1.0] * 4)
    for first, second in ((4, 0), (3, 1), (2, 2), (1, 3), (0, 4)):
        found = within(case, what, {0: first, 1: second})
        counts = np.bincount(found.devices, minlength=3).tolist()
        assert (found.fits, counts) == (True, [first, second, 0])


@pytest.mark.parametrize(("tries", "least", "moved"), [(0, 0, 0), (0, 3, 3), (39, 2, 3), (40, 2, 4), (1000, 2, 10)])
def test_single_operators_are_moved_back_as_long_as_that_may_take(
    tries: int, least: int, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten operators have to leave: each that is looked at again takes a partition of ten."""
    case = Case([[1.0, 2.0]] * 10, [], ZERO, ZERO, [0.0, 0.0])
    what = contents(10, [(operator, operator) for operator in range(10)], [1.0] * 10)
    problem, graph = case.problem()
    seen: list[list[int]] = []
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)

    def partitions(devices: Indices) -> tuple[Partition, ...]:
        seen.append(devices.tolist())
        return make_partitions(graph, devices.tolist())

    counts = []
    for limit, floor in ((0, 0), (tries, least)):
        monkeypatch.setattr(caps, "_TRIES", limit)
        monkeypatch.setattr(caps, "_LEAST_TRIES", floor)
        seen.clear()
        least_time_within(problem, graph, what, {0: 0}, partitions)
        counts.append(len(seen))
    assert counts[1] - counts[0] == moved


# --- at the same time ---------------------------------------------------------------------------------------


def test_the_rank_is_the_mean_over_the_devices_that_can_run_it() -> None:
    case = Case([[3.0, 3.0], [5.0, inf]], [], ZERO, ZERO, [0.0, 0.0])
    found = heft(*case.problem())  # 1 goes first: 5 is more than the mean of 3 and 3
    assert (found.devices.tolist(), found.starts_us.tolist()) == ([1, 0], [0.0, 0.0])


@pytest.mark.parametrize(("total", "starts"), [(23.9, [0.0, 10.0, 15.0]), (24.0, [0.0, 10.0, 15.0]),
                                               (24.1, [5.0, 0.0, 15.0])])  # fmt: skip
def test_the_rank_has_the_mean_copy_over_all_pairs_of_devices(total: float, starts: list[float]) -> None:
    """0 takes 10; 1 takes 5 and is read by 2, which takes 1: a mean copy of 4 makes them equal, over six pairs."""
    times = [[10.0, inf, inf], [5.0, inf, inf], [1.0, inf, inf]]
    once = [[0.0, total, 0.0], [0.0] * 3, [0.0] * 3]
    eighth = [[0.0] * 3, [0.0] * 3, [0.0, total / 8, 0.0]]
    none = [[0.0] * 3] * 3
    for overhead, rate in ((once, none), (none, eighth)):
        found = heft(*Case(times, [(1, 8.0, [2])], overhead, rate, [0.0] * 3).problem())
        assert found.starts_us.tolist() == starts


def test_of_two_gaps_the_earlier_that_is_long_enough_is_taken() -> None:
    # On the first device 0 runs from 0 to 2, 2 from 6 to 8, 4 from 13 to 19, each after a copy from the second.
    times = [[2.0, inf], [inf, 2.0], [2.0, inf], [inf, 3.0], [6.0, inf]]
    tensors = [(0, 0.0, [1]), (1, 0.0, [2]), (2, 0.0, [3]), (3, 0.0, [4])]
    copies = [[0.0, 1.0], [1.0, 0.0]]
    for time, start in ((4.0, 2.0), (5.0, 8.0), (5.5, 19.0)):
        case = Case([*times, [time, inf]], tensors, copies, ZERO, [0.0, 0.0])
        found = heft(*case.problem())
        assert found.starts_us.tolist() == [0.0, 3.0, 6.0, 9.0, 13.0, start]
        assert found.makespan_us == max(19.0, start + time)


def test_bounds_of_nothing_are_none() -> None:
    empty = bounds(*Case([], [], ZERO, ZERO, [0.0, 0.0]).problem())
    assert (empty.critical_path_us, empty.shared_work_us, empty.least_us) == (0.0, 0.0, 0.0)
    assert heft(*Case([], [], ZERO, ZERO, [0.0, 0.0]).problem()).makespan_us == 0.0
