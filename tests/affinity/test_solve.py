"""The solvers beside trying everything: what is found, what is proven, and what is too large to be proven."""

from __future__ import annotations

import os
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from benchmarks.graphs import SHAPES
from benchmarks.placement import make, problem_of
from circletools.affinity.problem import Limit, Problem, total_us, violations
from circletools.affinity.solvers import milp
from circletools.affinity.solvers.flow import flow, is_exact, least_bound
from circletools.affinity.solvers.groups import devices_of
from circletools.affinity.solvers.solve import demoted, repaired, solve
from circletools.errors import EditError
from tests.kit.placement_oracle import Placement, random_placement

FREE = [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("kind", ["", "limits", "memory", "rate", "limits memory rate"])
def test_the_minimum_is_found(kind: str) -> None:
    """And within all limits, and proven; what is called impossible is impossible."""
    refused = 0
    for seed in range(16):
        made = random_placement(seed, 4, **dict.fromkeys(kind.split(), True))
        problem, least = made.problem(), made.least()
        try:
            found = solve(problem, 20)
        except EditError as error:
            refused += 1
            is_right = least == inf and "cannot be met" in error.message
            if not is_right:
                raise
            continue
        assert violations(problem, found.candidate) == []
        assert total_us(problem, found.candidate) == pytest.approx(least, abs=1e-6), seed
        assert found.least_us == pytest.approx(least, abs=1e-6), seed
    assert (refused > 0) == ("limits" in kind or "memory" in kind)


@pytest.mark.parametrize("kind", ["", "limits", "memory", "limits memory rate"])
def test_without_time_for_a_proof_the_bound_is_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a program is too large: heuristics keep to everything or say that nothing was found."""
    monkeypatch.setattr(milp, "_WIDTH", 0)
    ratios = []
    for seed in range(12):
        made = random_placement(seed, 4, **dict.fromkeys(kind.split(), True))
        problem, least = made.problem(), made.least()
        try:
            found = solve(problem, 20)
        except EditError as error:
            if least < inf and "no plan was found within" not in error.message:
                raise
            continue
        assert violations(problem, found.candidate) == []
        assert found.least_us <= least + 1e-6 <= total_us(problem, found.candidate) + 2e-6
        ratios.append(total_us(problem, found.candidate) / max(least, 1.0))
    assert len(ratios) > 5
    assert np.mean(ratios) < 1.1


def row(times: list[list[float]], *, copy: float = 0.0, launch: float = 0.0, **more: Any) -> Placement:
    """Return units one after the other, with one price for a copy."""
    tensors = [(at, 10.0, [at + 1]) for at in range(len(times) - 1)]
    return Placement(times, tensors, [[0.0, copy], [copy, 0.0]], FREE, [launch] * 2, **more)


def devices(problem: Problem, seconds: float = 20.0) -> list[int]:
    return devices_of(len(problem), solve(problem, seconds).candidate)


@pytest.mark.parametrize("seconds", [0.0, 20.0])
@pytest.mark.parametrize(("copy", "launch", "expected"), [
    (2.9, 0.0, [0, 1, 0]), (3.1, 0.0, [0, 0, 0]), (0.0, 2.9, [0, 1, 0]), (0.0, 3.1, [0, 0, 0]), (1.4, 1.4, [0, 1, 0]),
    (1.6, 1.6, [0, 0, 0]),
])  # fmt: skip
def test_times_are_weighed_against_copies_and_launches(
    copy: float, launch: float, expected: list[int], seconds: float
) -> None:
    """The one in the middle saves 6, for two copies and two partitions more."""
    made = row([[0.0, 50.0], [7.0, 1.0], [0.0, 50.0]], copy=copy, launch=launch)
    assert devices(made.problem(), seconds) == expected


def test_the_first_device_wins_ties() -> None:
    assert devices(row([[0.0, 50.0], [7.0, 1.0], [0.0, 50.0]], copy=3.0).problem()) == [0, 0, 0]


def test_two_devices_with_times_and_copies_need_no_program() -> None:
    for seed in range(40):
        made = random_placement(seed, 4)
        free = Placement(made.times, made.tensors, made.overhead, made.per_byte, [0.0] * len(made.launch))
        problem = free.problem()
        if is_exact(problem):
            found = solve(problem, 0)
            assert total_us(problem, found.candidate) == pytest.approx(free.least()) == found.least_us
            assert not is_exact(random_placement(seed, 7, limits=True).problem())


@pytest.mark.parametrize(("limits", "message"), [
    ([(0, "max-partitions", 0), (1, "max-partitions", 0)],
     "limit d0:max-partitions=0 and limit d1:max-partitions=0 cannot be met together"),
    ([(0, "min-operators", 3), (1, "min-bytes", 0)], "limit d0:min-operators=3 cannot be met"),
    ([(0, "max-bytes", 9), (1, "max-operators", 0)],
     "limit d0:max-bytes=9 and limit d1:max-operators=0 cannot be met together"),
])  # fmt: skip
def test_limits_that_exclude_each_other_are_named(limits: list[tuple[int, Any, int]], message: str) -> None:
    times = [[1.0, inf if "min-operators" in message else 1.0], [1.0, 1.0]]
    tensors = [(0, 10.0, [1]), (1, 10.0, list[int]())]
    rows = [(device, Limit(f"d{device}", kind, number)) for device, kind, number in limits]
    made = Placement(times, tensors, FREE, FREE, [0.0, 0.0], kept=[1], limits=rows)
    with pytest.raises(EditError) as caught:
        solve(made.problem(), 20)
    assert caught.value.message == message


def test_too_little_memory_is_named() -> None:
    with pytest.raises(EditError, match="memory d1=5 cannot be met together: d0 has 5 bytes, but would need 20"):
        solve(row([[1.0, 2.0]] * 3, caps={0: 5, 1: 5}).problem(), 20)
    with pytest.raises(EditError, match=r"no plan was found .* d0 has 5 bytes, but would need 20: 0 of"):
        solve(row([[1.0, inf]] * 3, caps={0: 5}).problem(), 0)


@pytest.mark.parametrize("cap", [60, 59, 50, 49, 40, 0])
def test_as_much_as_fits_is_on_the_quicker_device(cap: int) -> None:
    """Constants of 10, 20 and 10 bytes and results of 10, two of them at once."""
    made = row([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]], copy=1.0, caps={0: cap}, constants=[10.0, 20.0, 10.0],
               reads=[[0], [1], [2]])  # fmt: skip
    problem = made.problem()
    assert total_us(problem, solve(problem, 20).candidate) == made.least()


def test_output_and_file_descriptors_of_programs_have_no_effect(capfd: pytest.CaptureFixture[str]) -> None:
    before = os.fstat(1)
    for seed in range(5):
        solve(random_placement(seed, 8).problem(), 20)
    assert (os.fstat(1).st_ino, capfd.readouterr()) == (before.st_ino, ("", ""))


@pytest.mark.parametrize("shape", ["unet", "transformer"])
def test_large_shapes_keep_to_limits_and_memory(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "_WIDTH", 0)
    free = problem_of(*make(SHAPES[shape](400), 3, 20.0))
    names = ("d0", "d1", "d2")
    limits = ((0, Limit("d0", "max-partitions", 20)), (1, Limit("d1", "min-operators", 3)),
              (2, Limit("d2", "max-operators", 50)))  # fmt: skip
    cap = int(free.table.sizes_bytes.sum() / 50)
    problem = replace(free, limits=limits, caps={0: cap}, names=names)
    assert milp.is_too_large(problem)
    found = solve(problem, 20)
    assert violations(problem, found.candidate) == []
    assert least_bound(problem) == found.least_us < total_us(problem, found.candidate)


def test_repair_leaves_what_it_cannot_mend() -> None:
    made = row([[1.0, inf]] * 3, limits=[(0, Limit("d0", "max-partitions", 0))])
    _, left = repaired(made.problem(), flow(made.problem())[0])
    assert [violation.message for violation in left] == ["limit d0:max-partitions=0: the count is 1"]


def test_repair_moves_what_costs_least() -> None:
    """With too many partitions, and with too little memory."""
    times = [[1.0, 50.0], [inf, 1.0], [1.0, 9.0], [inf, 1.0], [1.0, 30.0]]
    few = row(times, limits=[(0, Limit("d0", "max-partitions", 1))]).problem()
    small = row([[1.0, 6.0], [inf, 1.0], [1.0, 11.0]], caps={0: 100}, constants=[20.0, 90.0], reads=[[0], [], [1]])
    for problem, expected in ((few, [0, 1, 1, 1, 1]), (small.problem(), [1, 1, 0])):
        found, left = repaired(problem, flow(problem)[0])
        assert (devices_of(len(problem), found), left) == (expected, [])


def test_small_partitions_go_to_the_fallback_or_another_device() -> None:
    times = [[1.0, 5.0, inf], [9.0, 1.0, 9.0], [1.0, 5.0, inf], [inf, inf, 1.0]]
    tensors = [(at, 1.0, [at + 1]) for at in range(3)]
    problem = Placement(times, tensors, [[0.0] * 3] * 3, [[0.0] * 3] * 3, [0.0] * 3).problem()
    candidate = solve(problem, 0).candidate
    moved, small = demoted(problem, candidate, 2, 0)
    assert ([part.operators for part in moved], [part.operators for part in small]) == ([(0, 1, 2), (3,)], [(3,)])


def test_a_plan_without_scipy_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy.sparse", "scipy.sparse.csgraph", "scipy.optimize"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ct.UsageError, match="a limit or a cost needs SciPy"):
        solve(row([[1.0, 2.0]] * 2).problem(), 20)
