"""The integer program: it finds the least total time, launches included, and its bound is never above that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from circletools.affinity.costs import program, proof
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.program import Bound, least_bound, solve
from circletools.affinity.costs.proof import proven
from circletools.affinity.costs.search import launches, least_time
from circletools.affinity.partition.partitions import make_partitions
from tests.kit.command_support import run
from tests.kit.costs_support import Case, random_case
from tests.kit.support import path_of


def least_by_trying(case: Case) -> float:
    return min(case.cost(devices) + case.launches(devices) for devices in case.every())


@pytest.mark.parametrize("devices", [2, 3, 4])
@pytest.mark.parametrize("launch", [False, True])
def test_the_least_is_found_and_proven(devices: int, launch: bool) -> None:
    for seed in range(1000, 1012):
        case = random_case(seed, 5, devices, launch=launch)
        problem, graph = case.problem()
        found = proven(problem, graph, least_time(problem, graph), "min", 20)
        least = least_by_trying(case)
        assert case.cost(found.devices.tolist()) + case.launches(found.devices.tolist()) == pytest.approx(least), seed
        assert found.least_us == pytest.approx(least, abs=1e-6), seed


def test_bounds_rise_and_none_is_above_the_least() -> None:
    for seed in range(40):
        case = random_case(seed, 6, 2, launch=True)
        problem, graph = case.problem()
        bounds = [bound.least_us for bound in solve(problem, graph, regions=True, seconds=20)]
        assert all(one <= other + 1e-6 for one, other in pairwise(bounds))
        assert least_bound(problem) <= least_by_trying(case) + 1e-6
        assert bounds[-1] == pytest.approx(least_by_trying(case), abs=1e-6), seed


def test_partitions_that_would_wait_for_each_other_are_parted() -> None:
    """0 and 3 can only run on one device, 1 and 2 on the other: four launches but for one pair that stays whole."""
    never = float("inf")
    times = [[0, never], [never, 0], [never, 0], [0, never]]
    tensors = [(0, 0.0, [2, 3]), (1, 0.0, [2, 3])]
    for launch in ([3.0, 4.0], [4.0, 3.0]):
        case = Case(times, tensors, [[0.0] * 2] * 2, [[0.0] * 2] * 2, launch)
        problem, graph = case.problem()
        bounds = [bound.least_us for bound in solve(problem, graph, regions=True, seconds=20)]
        assert bounds == [pytest.approx(7), pytest.approx(10)]


def test_a_way_over_another_device_parts_a_region() -> None:
    """0 feeds 1 and 2, both feed 3; 1 can only run on the CPU, the others only on the NPU."""
    never = float("inf")
    times = [[0, never], [never, 0], [0, never], [0, never]]
    tensors = [(0, 0.0, [1, 2]), (1, 0.0, [3]), (2, 0.0, [3])]
    problem, graph = Case(times, tensors, [[0.0] * 2] * 2, [[0.0] * 2] * 2, [5.0, 1.0]).problem()
    assert [bound.least_us for bound in solve(problem, graph, regions=True, seconds=20)] == [pytest.approx(11)]
    assert [bound.least_us for bound in solve(problem, graph, regions=False, seconds=20)] == [pytest.approx(11)]


def test_partitions_that_need_not_be_connected_have_a_bound() -> None:
    for seed in range(15):
        case = random_case(seed, 5, 3, launch=True)
        problem, graph = case.problem()
        every = tuple(range(len(graph)))
        joined = replace(graph, beside=(every,))

        def total(devices: tuple[int, ...]) -> float:
            parts = make_partitions(joined, devices)  # noqa: B023 - called at once
            return evaluate(problem, devices, [part.device for part in parts]).total_us  # noqa: B023 - as above

        found = proven(problem, joined, least_time(problem, joined), "min", 20)
        assert found.least_us <= min(map(total, case.every())) + 1e-6
        chain_found = proven(problem, graph, least_time(problem, graph, "epochs"), "epochs", 20)
        assert chain_found.least_us <= evaluate(problem, chain_found.devices).total_us + sum(
            problem.links.launch_us[launches(graph, chain_found.devices, "epochs")]
        ) * (1 + 1e-9)


def test_two_devices_without_launches_need_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph = random_case(3, 8, 2).problem()
    devices = least_time(problem, graph)
    found = proven(problem, graph, devices, "min", 0)
    assert found.devices is devices
    assert found.least_us == evaluate(problem, devices).total_us


def test_without_time_the_least_times_are_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph = random_case(3, 8, 3, launch=True).problem()
    devices = least_time(problem, graph)
    expected = problem.times_us.min(axis=1).sum() + problem.links.launch_us.min()
    assert least_bound(problem) == pytest.approx(expected)
    monkeypatch.setattr(proof, "_FEW", 0)
    assert proven(problem, graph, devices, "min", 0).least_us == pytest.approx(expected)
    monkeypatch.setattr(program, "_VARIABLES", 10)
    assert list(solve(problem, graph, regions=True, seconds=9)) == []


def test_what_the_program_finds_is_taken_where_it_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 14 on the first device with its launch, 15 with the last operator on the other, 26 there."""
    count = 13
    rows = [(at, 0.0, [at + 1]) for at in range(count - 1)]
    case = Case([[1.0, 2.0]] * count, rows, [[0.0] * 2] * 2, [[0.0] * 2] * 2, [1.0, 0.0])
    problem, graph = case.problem()
    first, mixed, second = (np.array(row) for row in ([0] * 13, [0] * 12 + [1], [1] * 13))
    asked: list[float] = []

    def bounds(*_: object, **_more: object) -> Iterator[Bound]:
        for least, devices in ((5.0, second), (12.0, mixed), (14.0, None), (14.0, first)):
            asked.append(least)
            yield Bound(least, devices)

    monkeypatch.setattr(proof, "solve", bounds)
    monkeypatch.setattr(proof, "settled", lambda _problem, _graph, devices: devices)
    for given, times in ((first, 3), (second, 4), (mixed, 4)):  # until nothing can be better
        asked.clear()
        found = proven(problem, graph, given, "min", 20)
        assert (found.devices.tolist(), found.least_us, len(asked)) == ([0] * 13, 14.0, times)
    monkeypatch.setattr(proof, "solve", lambda *_, **_more: iter([Bound(5.0, second)]))
    found = proven(problem, graph, mixed, "min", 20)
    assert (found.devices.tolist(), found.least_us) == (mixed.tolist(), 13.0)  # a launch may take nothing


def test_no_operators_take_no_time() -> None:
    problem, graph = Case([], [], [[0.0] * 3] * 3, [[0.0] * 3] * 3, [1.0] * 3).problem()
    found = proven(problem, graph, least_time(problem, graph), "min", 20)
    assert (found.devices.tolist(), found.least_us) == ([], 0)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """HiGHS prints a line while it solves this one, whatever its options say."""
    for seed in range(20):
        problem, graph = random_case(seed, 6, 3, launch=True).problem()
        list(solve(problem, graph, regions=True, seconds=20))
    assert capfd.readouterr() == ("", "")


def test_the_command_says_how_near_it_is(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    devices = [
        {"name": name, "launch_us": 3, "operators": [{"select": "op:*", "time_us": time}]}
        for name, time in (("npu", 1), ("gpu", 2), ("cpu", 4))
    ]
    costs.write_text(json.dumps({"devices": devices, "transfers": [{"from": "*", "to": "*", "overhead_us": 2}]}))
    words = ("partition", path_of("circle/diamond"), "--costs", costs)
    done = run(*words)
    assert "estimated time: 9.000 us (operators 6.000, copies 0.000, launches 3.000), optimal" in done.stdout
    entry = json.loads(run(*words, "--json").stdout)["subgraphs"][0]
    assert (entry["is_optimal"], entry["least_us"]) == (True, pytest.approx(9))
    # Operators 9, two copies 4, three launches 9.
    forced = run(*words, "--set", "index:1=cpu").stdout
    assert "22.000 us (operators 9.000, copies 4.000, launches 9.000), optimal" in forced


@pytest.mark.parametrize("count", [2, 3])
def test_without_launches_two_devices_are_taken_as_they_are_given(count: int) -> None:
    """Of two the minimum cut has found the best already; of three better ones are looked for."""
    nothing = [[0.0] * count] * count
    case = Case([[5.0, 1.0, 1.0][:count]] * 2, [(0, 0.0, [1])], nothing, nothing, [0.0] * count)
    problem, graph = case.problem()
    found = proven(problem, graph, np.zeros(2, np.int64), "min", 20)
    assert (found.least_us, found.devices.tolist() == [0, 0]) == ((10, True) if count == 2 else (2, False))
