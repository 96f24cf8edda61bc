"""The integer program, cuts and orders that fit into memory, by definition: all that is allowed, nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np
import pytest

from circletools.affinity.costs.table import evaluate
from circletools.affinity.problem import Candidate, Problem, violations
from circletools.affinity.solvers import milp, rows
from circletools.affinity.solvers.flow import best_of_two
from circletools.affinity.solvers.groups import Partition, connected, edges_of
from circletools.affinity.solvers.partitions import make_partitions
from circletools.affinity.solvers.solve import solve
from circletools.errors import EditError
from tests.kit.partition_peers import can_run
from tests.kit.partition_support import seeded
from tests.kit.placement_oracle import Placement, random_placement

FREE = [[0.0, 0.0], [0.0, 0.0]]
Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""The device and the lowest unit of the partition of each unit."""


def every_choice(problem: Problem) -> set[Choice]:
    """Return the devices and partitions that can run, by trying all sets of edges that may join units."""
    edges = [*map(tuple, edges_of(problem.graph).tolist())]
    edges += [pair for row in problem.graph.beside for pair in combinations(row, 2)]
    found = set()
    for devices in product(range(problem.devices), repeat=len(problem)):
        alike = [(a, b) for a, b in edges if devices[a] == devices[b]]
        for joined in product((False, True), repeat=len(alike)):
            home = list(range(len(problem)))
            for (a, b), is_joined in zip(alike, joined, strict=True):
                if is_joined:
                    low, high = sorted((home[a], home[b]))
                    home = [low if its == high else its for its in home]
            if problem.able[range(len(problem)), devices].all() and can_run(problem.graph, home):
                found.add((devices, tuple(home)))
    return found


def is_within(made: Placement, choice: Choice) -> bool:
    """Say whether partitions are within the limits of their devices."""
    units = range(len(made.times))
    pairs = [*zip(*choice, strict=True)]
    rows = {pair: [unit for unit in units if pairs[unit] == pair] for pair in pairs}
    counts = [sum(device == at for device, _ in rows) for at in range(len(made.launch))]
    few = all(counts[at] <= limit.number for at, limit in made.limits if limit.kind == "max-partitions")
    return few and all(made.may_be(row, device) for (device, _), row in rows.items())


def choice_of(candidate: Candidate) -> Choice:
    rows = sorted((unit, one.device, one.operators[0]) for one in candidate for unit in one.operators)
    return tuple(device for _, device, _ in rows), tuple(home for _, _, home in rows)


@pytest.mark.parametrize(("seed", "beside", "has_limits"), [
    *((seed, (), False) for seed in (5, 7, 22, 24, 30, 34)),
    *((seed, (), True) for seed in (34, 35, 41, 48, 64, 65, 84, 96, 103, 110, 145, 159, 163, 189)),
    (23, (0, 2), False), (25, (0, 3), False), (35, (0, 1), False),
])  # fmt: skip
def test_all_solutions_are_tried_if_all_are_refused(
    seed: int, beside: tuple[int, ...], has_limits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each within the limits, once: what is refused is that choice of devices and partitions, and no other."""
    made = random_placement(seed, 4, limits=has_limits)
    made = replace(made, launch=[one or 1.0 for one in made.launch], caps={0: 1})
    problem, seen = made.problem(), list[Choice]()
    problem = replace(problem, graph=replace(problem.graph, beside=(beside,)))
    monkeypatch.setattr(milp, "add_memory", lambda *_: None)

    def refuse(_: Problem, candidate: Candidate) -> tuple[None, bool]:
        seen.append(choice_of(candidate))
        return None, True

    monkeypatch.setattr(milp, "within_memory", refuse)
    program = milp.PartitionProgram(problem)
    expected = {choice for choice in every_choice(problem) if is_within(made, choice)}
    while (solved := program.solve(20)).values is not None and len(seen) <= len(expected):
        program.add_violated_cuts(solved.values)
    assert (len(seen), set(seen)) == (len(expected), expected)
    assert solved.is_infeasible


def random_candidate(made: Placement, seed: int) -> Candidate:
    """Return partitions of random devices in an order that may be none in which they can run."""
    generator = seeded(seed)
    problem = made.problem()
    devices = [generator.choice([at for at in range(problem.devices) if row[at]]) for row in problem.able]
    candidate = make_partitions(problem.graph, devices)
    return tuple(generator.sample(candidate, len(candidate)))


def test_an_order_fits_into_memory_if_any_does() -> None:
    """Its own if that fits; a refusal means that all orders were tried."""
    answers = set()
    for seed in range(60):
        made = random_placement(seed, 5, memory=True)
        problem, candidate = made.problem(), random_candidate(made, seed)
        fitting = [order for order in permutations(candidate) if not violations(problem, order)]
        found, is_certain = rows.within_memory(problem, candidate)
        assert is_certain
        assert (found in fitting) if fitting else (found is None), seed
        assert found == candidate or candidate not in fitting
        answers.add((found is None, found == candidate))
    assert answers == {(True, False), (False, False), (False, True)}


def test_if_the_search_for_an_order_ends_early_nothing_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two partitions keeps 10 bytes: three at once never fit; visited are none, either and both."""
    tensors = [(0, 10.0, [2]), (1, 10.0, [2]), (2, 10.0, list[int]())]
    made = Placement([[1.0, 9.0]] * 3, tensors, FREE, FREE, [1.0, 1.0], kept=[2], caps={0: 29, 1: 0})
    problem = made.problem()
    apart = tuple(Partition(0, (unit,)) for unit in range(3))
    for states, is_certain in ((4, True), (3, False)):
        monkeypatch.setattr(rows, "_STATES", states)
        assert rows.within_memory(problem, apart) == (None, is_certain)
    monkeypatch.setattr(rows, "_STATES", 0)
    monkeypatch.setattr(milp, "add_memory", lambda *_: None)
    with pytest.raises(EditError, match=r"no plan was found within memory d0=29, memory d1=0: "):
        solve(problem, 5)


def test_a_program_is_too_large_from_one_column_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column for each unit and device, for a tensor and two devices, and two for an edge and a device."""
    made = Placement([[1.0] * 3] * 5, [(0, 1.0, [1, 2]), (1, 1.0, [2])], [[0.0] * 3] * 3, [[0.0] * 3] * 3, [1.0] * 3)
    problem = made.problem()
    problem = replace(problem, graph=replace(problem.graph, beside=((0, 3, 4),)))
    assert connected(problem.graph, [0] * 5) == [0] * 5
    size = 5 * 3 + 2 * 9 + 2 * (3 + 3) * 3
    for width, is_too_large in ((size, False), (size - 1, True)):
        monkeypatch.setattr(milp, "_WIDTH", width)
        assert milp.is_too_large(problem) is is_too_large


def test_a_cut_is_the_cheapest_choice_between_two_devices() -> None:
    """What is on a third one stays there; of equal choices that with the most units on the first."""
    kinds = set()
    for seed in range(60):
        made = random_placement(seed, 8)
        generator, table = seeded(seed), made.problem().table
        able = np.isfinite(table.times_us)
        devices = np.array([generator.choice(np.flatnonzero(row).tolist()) for row in able])
        first, second = generator.sample(range(able.shape[1]), 2)
        free = [
            unit
            for unit in range(len(able))
            if able[unit, [first, second]].all() and devices[unit] in (first, second)
        ]
        if free and seed % 2:  # one choice takes so long that all else is little beside it
            times = table.times_us.copy()
            times[free[0], second] *= 1e12
            table = replace(table, times_us=times)
        ranked = []
        for choice in product((first, second), repeat=len(free)):
            tried = devices.copy()
            tried[free] = choice
            ranked.append((evaluate(table, tried).total_us, choice.count(second)))
        found = best_of_two(table, devices, first, second)
        assert (np.delete(found, free) == np.delete(devices, free)).all()
        spent = evaluate(table, found).total_us
        assert spent == pytest.approx(min(ranked)[0]), seed
        assert (found[free] == second).sum() == min(on for us, on in ranked if us < spent + 1e-6), seed
        kinds.add((able.shape[1] > 2, int((np.bincount(table.read) > 1).sum()) > 1))
    assert len(kinds) == 4
