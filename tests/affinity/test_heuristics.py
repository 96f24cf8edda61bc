"""The heuristics' own functions, each by its definition on small random graphs and problems."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest

from circletools.affinity.problem import total_us, violations
from circletools.affinity.solvers import contraction as contraction_module
from circletools.affinity.solvers.contraction import Contraction, Detours
from circletools.affinity.solvers.flow import flow, least_bound
from circletools.affinity.solvers.groups import Partition, devices_of, graph_inside, sets_beside
from circletools.affinity.solvers.partitions import make_partitions
from circletools.affinity.solvers.solve import _elsewhere, _is_proven, demoted, repaired, split_large
from circletools.graph.algorithms import reachable
from tests.kit.partition_peers import can_run
from tests.kit.partition_support import dag_of, is_connected, random_case, seeded
from tests.kit.placement_oracle import Placement, random_placement


@pytest.mark.parametrize("first", [0, 100])
def test_detours_are_those_over_the_most_alternating_path(first: int) -> None:
    """Between two groups lies a stretch of the path with another device, before and after groups are joined."""
    answers = set()
    for seed in range(first, first + 100):
        count, edges, devices = random_case(seed, most=12)
        graph = graph_inside(dag := dag_of(count, edges), dag.order, devices)
        level = [0] * count
        for group, row in enumerate(graph.predecessors):
            level[group] = max((level[a] + (graph.devices[a] != graph.devices[group]) for a in row), default=0)
        detours, generator = Detours(graph), seeded(seed)
        path = detours.path
        assert detours.level == level
        assert all(b in graph.successors[a] for a, b in pairwise(path))
        kinds = [graph.devices[group] for group in path]
        assert sum(a != b for a, b in pairwise(kinds)) == max(level, default=0)
        assert bool(path) == bool(count)
        members = {group: [group] for group in range(count)}
        copied = detours.copy()
        while len(members) > 1:
            for one, other in product(members, repeat=2):
                after = reachable(members[one], graph.successors)
                before = reachable(members[other], graph.predecessors)
                places = [at for at, group in enumerate(path) if group in after]
                lasts = [at for at, group in enumerate(path) if group in before]
                between = kinds[places[0] : lasts[-1] + 1] if places and lasts else []
                expected = any(device != graph.devices[one] for device in between)
                assert copied.between(one, other) is expected, seed
                answers.add(expected)
            one, other = sorted(generator.sample(sorted(members), 2))
            if graph.devices[one] != graph.devices[other]:
                break
            copied.join(one, other)
            members[one] += members.pop(other)
    assert answers == {False, True}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_search_starts_where_fewer_neighbors_are(is_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the other side it would take more visits than allowed."""
    monkeypatch.setattr(contraction_module, "_VISITS", -(10**9))
    monkeypatch.setattr(contraction_module, "_LEAST_VISITS", 2)
    edges = [(0, 9), *((0, at) if is_first else (at, 9) for at in range(1, 9))]
    graph = dag_of(10, edges)
    order = [0, *range(1, 9), 9]
    assert Contraction(graph_inside(replace(graph, order=order), order, [0] * 10)).merge(0, 9)


@pytest.mark.parametrize("space", [1 << 40, 64, 4])
def test_edges_are_merged_wherever_no_cycle_follows(space: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, with groups that move between neighbors close to each other or far apart."""
    monkeypatch.setattr(contraction_module, "_SPACE", space)
    for seed in range(60):
        count, edges, devices = random_case(seed, most=30)
        graph = graph_inside(dag := dag_of(count, edges), dag.order, devices)
        tried = [(a, b) for a, row in enumerate(graph.successors) for b in row]
        seeded(seed).shuffle(tried)
        contraction = Contraction(graph)
        contraction.merge_edges(tried)
        home = list(range(count))
        own = dag_of(count, tried)
        for a, b in tried:
            joined = [home[a] if its == home[b] else its for its in home]
            if graph.devices[a] == graph.devices[b] and can_run(own, joined):
                home = joined
        found = contraction.homes()
        assert len(set(zip(home, found, strict=True))) == len(set(home)) == len(set(found)), seed
        assert all(found[a] <= found[b] for a, b in tried)


def test_siblings_are_grouped_by_label() -> None:
    graph = replace(dag_of(6, []), beside=((0, 1, 2, 5), (3, 4)))
    assert sets_beside(graph, [0, 1, 0, 1, 0, 1]) == [[0, 2], [1, 5]]


def fits(made: Placement, one: Partition) -> bool:
    """Say whether a partition is not too large for its device."""
    upper = [its for at, its in made.limits if at == one.device and its.is_upper]
    return all(made.weight(its.measure, one.operators, one.device) <= its.number for its in upper)


def test_large_partitions_are_divided_into_the_largest_pieces_that_fit() -> None:
    """Other partitions stay; two pieces that an edge joins would be too large or wait for each other together."""
    split = 0
    for seed in range(300):
        made = random_placement(seed, 8, limits=True)
        problem, generator = made.problem(), seeded(seed)
        devices = [generator.choice(np.flatnonzero(np.isfinite(row)).tolist()) for row in problem.table.times_us]
        whole = make_partitions(problem.graph, devices)
        found = split_large(problem, whole)
        kept = [one for one in whole if fits(made, one) or len(one.operators) == 1]
        assert [one for one in found if one in kept] == kept
        assert sorted(unit for one in found for unit in one.operators) == list(range(len(devices)))
        home = {unit: at for at, one in enumerate(found) for unit in one.operators}
        assert devices_of(len(devices), found) == devices
        for at, one in enumerate(found):
            assert len(one.operators) == 1 or fits(made, one)
            assert is_connected(problem.graph, one.operators)
            assert all(home[before] <= at for unit in one.operators for before in problem.graph.predecessors[unit])
        for a, b in ((a, b) for a, row in enumerate(problem.graph.successors) for b in row):
            both = (*found[home[a]].operators, *found[home[b]].operators)
            row = next(one.operators for one in whole if a in one.operators)
            if home[a] != home[b] and b in row and fits(made, Partition(devices[a], both)):
                joined = [home[a] if unit in both else home[unit] for unit in range(len(devices))]
                assert not can_run(problem.graph, joined), seed
        split += len(found) > len(whole)
    assert split > 10


def test_the_cheapest_way_elsewhere_is_one_device_for_all_if_possible() -> None:
    kinds = set()
    for seed in range(200):
        made = random_placement(seed, 6)
        problem, generator = made.problem(), seeded(seed)
        units = generator.sample(range(len(made.times)), generator.randint(1, len(made.times)))
        device = generator.randrange(problem.devices)
        able = problem.able & (generator.random() < 0.8)
        able[units, device] = True
        times = np.where(able, np.nan_to_num(problem.table.times_us, posinf=7.0), inf)
        problem = replace(problem, table=replace(problem.table, times_us=times))
        found = _elsewhere(problem, able, Partition(device, tuple(units)))
        others = [[at for at in range(problem.devices) if at != device and able[unit, at]] for unit in units]
        choices = [*product(*others)]
        before = sum(times[unit, device] for unit in units)
        ranked = sorted(
            (len(set(row)) > 1, sum(times[unit, at] for unit, at in zip(units, row, strict=True))) for row in choices
        )
        kinds.add(ranked[0][0] if ranked else None)
        if found is None:
            assert not ranked
            continue
        is_apart, least = ranked[0]
        assert found[0] == pytest.approx(least - before), seed
        assert (len(set(found[1].tolist())) > 1) == is_apart
        assert sum(times[unit, at] for unit, at in zip(units, found[1], strict=True)) == pytest.approx(least)
    assert kinds == {None, False, True}


@pytest.mark.parametrize("kind", ["limits", "memory", "limits memory"])
def test_repair_reports_remaining_findings(kind: str) -> None:
    """Where something is possible; what is left are the violations of what is returned."""
    mended, possible, spent, least = 0, 0, 0.0, 0.0
    for seed in range(120):
        made = random_placement(seed, 5, **dict.fromkeys(kind.split(), True))
        problem = made.problem()
        if not problem.able.any(axis=1).all():
            continue
        start = flow(problem)[0]
        found, left = repaired(problem, start)
        assert left == violations(problem, found)
        if violations(problem, start) and (known := made.least()) < inf:
            possible += 1
            mended += not left
            spent, least = (spent, least) if left else (spent + total_us(problem, found), least + known)
    assert mended > 0.9 * possible > 26
    assert spent < 1.1 * least


def test_no_small_partition_is_left_that_could_move() -> None:
    """Large ones stay as they are; what is small moves to the fallback where it may, without new violations."""
    moved = 0
    for seed in range(150):
        problem = random_placement(seed, 7, limits=True, memory=seed % 2 == 0).problem()
        if not problem.able.any(axis=1).all():
            continue
        start, generator = flow(problem)[0], seeded(seed)
        least, fallback = generator.randint(2, 3), generator.randrange(problem.devices)
        found, small = demoted(problem, start, least, fallback)
        assert not violations(problem, found) or violations(problem, start)
        assert small == [one for one in found if one.device != fallback and len(one.operators) < least], seed
        now = devices_of(len(problem), found)
        moved += now != devices_of(len(problem), start)
        for one in small:
            tried = np.array(now)
            if not violations(problem, start) and problem.able[list(one.operators), fallback].all():
                tried[list(one.operators)] = fallback
                assert violations(problem, split_large(problem, make_partitions(problem.graph, tried.tolist()))), seed
    assert moved > 20


@pytest.mark.parametrize("has_rate", [False, True])
def test_the_lower_bound_is_the_least_of_each_unit_with_its_share_of_constants(has_rate: bool) -> None:
    for seed in range(40):
        made = random_placement(seed, 5, rate=has_rate)
        readers = [sum(one in row for row in made.reads) for one in range(len(made.constants))]
        expected = min(made.launch)
        for times, row in zip(made.times, made.reads, strict=True):
            share = sum(made.constants[one] / readers[one] for one in row)
            expected += min(us + rate * share for us, rate in zip(times, made.rate or [0.0] * 4, strict=False))
        problem = made.problem()
        assert least_bound(problem) == pytest.approx(expected), seed
        assert expected <= made.least() + 1e-9 <= total_us(problem, flow(problem)[0]) + 2e-9


@pytest.mark.parametrize(("least", "is_proven"), [
    (5e6, True), (5e6 + 1e-3, True), (5e6 - 1e-3, True), (5e6 - 1e-1, False), (-inf, False),
])  # fmt: skip
def test_a_candidate_is_proven_to_a_billionth(least: float, is_proven: bool) -> None:
    made = Placement([[5e6, 6e6]], [], [[0.0] * 2] * 2, [[0.0] * 2] * 2, [0.0, 0.0])
    assert _is_proven(made.problem(), (Partition(0, (0,)),), least) is is_proven
    assert not _is_proven(made.problem(), None, least)
