"""The integer program by itself, without what searching found before it: as cheap as trying everything shows."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from circletools.affinity.costs import program
from circletools.affinity.costs.problem import Floats
from circletools.affinity.costs.program import Bound, least_bound, solve
from circletools.affinity.costs.proof import devices_of
from circletools.affinity.partition.partitions import Partition
from tests.kit.costs_support import Case, random_case

FREE = [[0.0, 0.0], [0.0, 0.0]]


def solved(case: Case, *, regions: bool = True) -> list[Bound]:
    problem, graph = case.problem()
    return list(solve(problem, graph, regions=regions, seconds=20))


def least_of(case: Case) -> float:
    return min(case.cost(devices) + case.launches(devices) for devices in case.every())


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_without_launches_it_takes_one_round_and_is_exact(devices: int) -> None:
    for seed in range(2000, 2015):
        case = random_case(seed, 6, devices)
        (found,) = solved(case)
        least = min(map(case.cost, case.every()))
        assert found.least_us == pytest.approx(least, abs=1e-6), seed
        assert found.devices is not None
        assert case.cost(found.devices.tolist()) == pytest.approx(least), seed


@pytest.mark.parametrize("devices", [2, 3])
def test_with_launches_it_ends_at_the_least(devices: int) -> None:
    for seed in range(3000, 3012):
        case = random_case(seed, 6 if devices == 2 else 5, devices, launch=True)
        last = solved(case)[-1]
        assert last.devices is not None
        assert last.least_us == pytest.approx(least_of(case), abs=1e-6), seed
        chosen = last.devices.tolist()
        assert case.cost(chosen) + case.launches(chosen) == pytest.approx(least_of(case)), seed


def test_along_one_path_launches_are_counted_and_never_too_many() -> None:
    for seed in range(3000, 3015):
        case = random_case(seed, 5, 2, launch=True)
        bounds = [one.least_us for one in solved(case, regions=False)]
        assert bounds[-1] <= least_of(case) + 1e-6, seed
        assert bounds[-1] >= min(map(case.cost, case.every())) - 1e-6, seed
    chain = [(at, 1.0, [at + 1]) for at in range(5)]
    case = Case([[0.0, 9.0], [9.0, 0.0]] * 3, chain, [[0.0, 1.0], [2.0, 0.0]], FREE, [2.0, 1.0])
    assert solved(case, regions=False)[-1].least_us == pytest.approx(least_of(case)) == pytest.approx(16)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_detour_over_any_device_parts_a_region_at_once(order: tuple[int, ...]) -> None:
    """0 1 2 3 in a row beside 0 4 3, where only another device takes 4: two partitions of its neighbours."""
    times = [[0.0, inf, inf]] * 4 + [[inf, 0.0, inf]]
    tensors = [(0, 0.0, [1, 4]), (1, 0.0, [2]), (2, 0.0, [3]), (4, 0.0, [3])]
    launch = [5.0, 1.0, 3.0]
    case = Case(
        [[row[device] for device in order] for row in times],
        tensors, [[0.0] * 3] * 3, [[0.0] * 3] * 3, [launch[device] for device in order],
    )  # fmt: skip
    assert [one.least_us for one in solved(case)] == [pytest.approx(11)]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_detour_of_several_operators_parts_a_region(length: int) -> None:
    """The way over the other device is not told before, where more than one way leads on."""
    rows = [(0, 0.0, [1, 2, 4]), (1, 0.0, [3]), (2, 0.0, [3])]
    middle = list(range(4, 4 + length))
    rows += [(at, 0.0, [at + 1 if at + 1 in middle else 3]) for at in middle]
    case = Case([[0.0, inf]] * 4 + [[inf, 0.0]] * length, rows, FREE, FREE, [5.0, 1.0])
    assert solved(case)[-1].least_us == pytest.approx(least_of(case)) == pytest.approx(11)


def test_a_launch_that_takes_nothing_joins_nothing() -> None:
    """What is launched for nothing on one device is counted on the other alone."""
    for seed in range(4000, 4010):
        case = random_case(seed, 6, 2, launch=True)._replace(launch=[0.0, 4.0])
        assert solved(case)[-1].least_us == pytest.approx(least_of(case), abs=1e-6), seed


def test_the_number_of_variables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 operators in a row on 2 devices: 6 of places, 2 * 2 and 2 * 4 of copies, 2 * 2 twice of edges, 2."""
    chain = [(0, 1.0, [1]), (1, 1.0, [2])]
    case = Case([[1.0, 2.0]] * 3, chain, FREE, FREE, [1.0, 1.0])
    for most, tried in ((27, False), (28, True)):
        monkeypatch.setattr(program, "_VARIABLES", most)
        assert bool(solved(case)) == tried


@pytest.mark.parametrize(("operators", "rounds"), [(59_999, 40), (60_000, 0)])
def test_sixty_thousand_variables_have_forty_rounds(
    operators: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one device, which is a variable, too; whatever is found is wrong."""
    monkeypatch.setattr(program._Program, "solve", lambda its, _: (1.0, np.ones(its.width)))
    monkeypatch.setattr(program._Program, "add_what_is_wrong", lambda *_: True)
    case = Case([[1.0]] * operators, [], [[0.0]], [[0.0]], [0.0])
    assert len(solved(case)) == rounds


def test_every_round_has_what_is_left_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    times = iter([100.0, 100.0, 105.0, 109.0, 110.0])
    monkeypatch.setattr(program, "monotonic", lambda: next(times))
    monkeypatch.setattr(program._Program, "add_what_is_wrong", lambda *_: True)
    problem, graph = Case([[1.0]], [], [[0.0]], [[0.0]], [0.0]).problem()

    def solved_in(its: program._Program, left: float) -> tuple[float, Floats]:
        given.append(left)
        return 1.0, np.ones(its.width)

    monkeypatch.setattr(program._Program, "solve", solved_in)
    assert len(list(solve(problem, graph, regions=True, seconds=10))) == 3
    assert given == [10, 5, 1]


def test_rounds_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    never = [[0.0, inf], [inf, 0.0], [inf, 0.0], [0.0, inf]]
    case = Case(never, [(0, 0.0, [2, 3]), (1, 0.0, [2, 3])], FREE, FREE, [3.0, 4.0])
    assert len(solved(case)) == 2
    monkeypatch.setattr(program, "_ROUNDS", 1)
    assert len(solved(case)) == 1


def test_what_nobody_can_run_has_no_time() -> None:
    problem, _ = Case([[1.0, 2.0], [inf, inf]], [], FREE, FREE, [4.0, 3.0]).problem()
    assert least_bound(problem) == 1 + 3
    nothing, _ = Case([], [], FREE, FREE, [4.0, 3.0]).problem()
    assert least_bound(nothing) == 0


def test_devices_are_those_of_partitions() -> None:
    found = devices_of((Partition(2, (1, 3)), Partition(1, (0,))), 5)
    assert found.tolist() == [1, 2, 0, 2, 0]
