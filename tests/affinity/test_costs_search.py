"""Devices by cost: against everything that there is to try, on small random graphs."""

from __future__ import annotations

import sys
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.affinity.costs.caps import least_time_within
from circletools.affinity.costs.cut import best_of_two
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.memory import Contents, footprints
from circletools.affinity.costs.parallel import bounds, confined, heft, partitions_makespan, quickest
from circletools.affinity.costs.problem import Indices
from circletools.affinity.costs.search import launches, least_time
from circletools.affinity.partition.partitions import Partition, make_partitions
from circletools.errors import UsageError
from circletools.graph.dag import Dag
from tests.kit.costs_support import Case, random_case
from tests.kit.partition_support import dag_of, seeded

SEEDS = st.integers(0, 1 << 32)
SLACK = 1e-6


def found(case: Case, *, launch: bool = False) -> float:
    """Return the true cost of what is chosen."""
    problem, graph = case.problem()
    devices = least_time(problem, graph)
    cost = case.cost(devices.tolist()) + (case.launches(devices.tolist()) if launch else 0)
    assert evaluate(problem, devices, launches(graph, devices) if launch else ()).total_us == pytest.approx(cost)
    return cost


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_two_devices_are_exact(seed: int) -> None:
    case = random_case(seed, 9, 2)
    assert found(case) == pytest.approx(min(map(case.cost, case.every())), rel=SLACK)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_swap_is_exact_with_the_rest_in_place(seed: int) -> None:
    case = random_case(seed, 6, 4)
    problem, _ = case.problem()
    generator = seeded(seed)
    before = generator.choice(list(case.every()))
    first, second = generator.sample(range(4), 2)
    after = best_of_two(problem, np.array(before), first, second).tolist()
    reachable = [
        devices
        for devices in case.every()
        if all(new == old or {new, old} == {first, second} for new, old in zip(devices, before, strict=True))
    ]
    assert tuple(after) in reachable
    assert case.cost(after) == pytest.approx(min(map(case.cost, reachable)), rel=SLACK)


def test_three_devices_come_near() -> None:
    ratios = []
    for seed in range(30):
        case = random_case(seed, 6, 3)
        least = min(map(case.cost, case.every()))
        cost = found(case)
        assert cost >= least * (1 - SLACK)
        ratios.append(cost / least if least else 1.0)
    assert sum(ratios) / len(ratios) <= 1.02


@pytest.mark.parametrize("devices", [2, 3])
def test_launches_come_near(devices: int) -> None:
    ratios = []
    for seed in range(25):
        case = random_case(seed, 7 if devices == 2 else 5, devices, launch=True)
        least = min(case.cost(each) + case.launches(each) for each in case.every())
        ratios.append(found(case, launch=True) / least if least else 1.0)
    assert min(ratios) >= 1 - SLACK
    assert sum(ratios) / len(ratios) <= 1.02


def test_a_copy_is_paid_once() -> None:
    # 0 feeds 1 to 5, each of which would save 3 on the other device; a copy costs 10.
    times = [[1.0, 99.0], *[[4.0, 1.0] for _ in range(5)]]
    far = [[0.0, 10.0], [10.0, 0.0]]
    case = Case(times, [(0, 0.0, [1, 2, 3, 4, 5])], far, [[0.0] * 2] * 2, [0.0, 0.0])
    assert least_time(*case.problem()).tolist() == [0, 1, 1, 1, 1, 1]
    apart = case._replace(tensors=[(0, 0.0, [reader]) for reader in range(1, 6)])
    assert least_time(*apart.problem()).tolist() == [0] * 6


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9, 1e15])
def test_the_unit_makes_no_difference(scale: float) -> None:
    for seed in range(20):
        case = random_case(seed, 8, 2)
        scaled = case._replace(
            times=[[time * scale for time in row] for row in case.times],
            overhead=[[cost * scale for cost in row] for row in case.overhead],
            per_byte=[[cost * scale for cost in row] for row in case.per_byte],
        )
        assert found(scaled) == pytest.approx(found(case) * scale, rel=SLACK)


def test_one_huge_time_does_not_drown_the_others() -> None:
    # 2^31 steps would not tell 1 from 2 beside 1e14: what cannot matter is cut off first.
    times = [[1e14, 0.0], [2.0, 1.0], [1.0, 2.0]]
    case = Case(times, [(0, 1.0, [1]), (1, 1.0, [2])], [[0.0, 0.1], [0.1, 0.0]], [[0.0] * 2] * 2, [0.0, 0.0])
    assert least_time(*case.problem()).tolist() == [1, 1, 0]


def test_of_equal_choices_the_first_device_is_taken() -> None:
    case = Case([[1.0, 1.0], [2.0, 2.0]], [(0, 1.0, [1])], [[0.0] * 2] * 2, [[0.0] * 2] * 2, [0.0, 0.0])
    assert least_time(*case.problem()).tolist() == [0, 0]


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(UsageError, match=r"circletools\[costs\]"):
        least_time(*random_case(1, 9, 2).problem())


# --- devices at the same time -------------------------------------------------------------------------------


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_schedules_are_possible_and_within_bounds(seed: int) -> None:
    case = random_case(seed, 12, seed % 3 + 1)
    problem, graph = case.problem()
    schedule = heft(problem, graph)
    devices, starts, ends = (row.tolist() for row in (schedule.devices, schedule.starts_us, schedule.ends_us))
    for operator, device in enumerate(devices):
        assert ends[operator] == pytest.approx(starts[operator] + case.times[operator][device])
    for producer, size, readers in case.tensors:
        for reader in readers:
            a, b = devices[producer], devices[reader]
            copy = case.overhead[a][b] + size * case.per_byte[a][b] if a != b else 0
            assert starts[reader] >= ends[producer] + copy - SLACK
    for device in set(devices):
        spans = sorted((starts[o], ends[o]) for o, its in enumerate(devices) if its == device)
        assert all(before[1] <= after[0] + SLACK for before, after in pairwise(spans))
    assert schedule.makespan_us >= bounds(problem, graph).least_us - SLACK
    chosen = quickest(problem, graph)
    makespan = heft(confined(problem, chosen), graph).makespan_us
    assert makespan >= bounds(problem, graph).least_us - SLACK
    assert makespan <= case.cost(least_time(problem, graph).tolist()) + SLACK  # one after the other
    partitions = make_partitions(graph, chosen.tolist())
    together = partitions_makespan(confined(problem, chosen), partitions)
    assert makespan <= together + SLACK or len(partitions) < len(devices)
    assert together <= case.cost(chosen.tolist()) + SLACK


def test_two_branches_run_at_the_same_time() -> None:
    # 0 feeds 1 and 2, both feed 3; either device takes 10 for each, a copy 1. 2 starts elsewhere at 11; 3 follows it
    # there, where what 1 made has come by then.
    times = [[10.0, 10.0]] * 4
    tensors = [(0, 1.0, [1, 2]), (1, 1.0, [3]), (2, 1.0, [3])]
    case = Case(times, tensors, [[0.0, 1.0], [1.0, 0.0]], [[0.0] * 2] * 2, [0.0, 0.0])
    problem, graph = case.problem()
    assert heft(problem, graph).makespan_us == pytest.approx(31.0)
    assert bounds(problem, graph).least_us == pytest.approx(30.0)


# --- memory -------------------------------------------------------------------------------------------------


def random_contents(seed: int, count: int) -> tuple[Contents, Dag]:
    """Return operators in a row of one output each, which later ones read, and constants."""
    generator = seeded(seed)
    read = [
        (tensor, reader) for reader in range(count) for tensor in range(reader + 1) if generator.random() < 0.4
    ]  # tensor 0 is an input, tensor k+1 what operator k makes
    pairs = np.array(read, np.int64).reshape(-1, 2)
    constants = [(operator, buffer) for operator in range(count) for buffer in range(4) if generator.random() < 0.3]
    held = np.array(constants, np.int64).reshape(-1, 2)
    what = Contents(
        (held[:, 0], held[:, 1]),
        np.array([generator.randint(1, 50) for _ in range(4)], np.float64),
        np.array([generator.randint(1, 20) for _ in range(count + 1)], np.float64),
        np.arange(-1, count),
        pairs[:, 0],
        pairs[:, 1],
        np.array([count], np.int64),
    )
    return what, dag_of(count, {(tensor - 1, reader) for tensor, reader in read if tensor})


def simulated(what: Contents, partitions: tuple[Partition, ...], device: int) -> int:
    """Return the most bytes on a device, by running the operators and looking at who is still needed."""
    constants = {
        buffer
        for operator, buffer in zip(*(row.tolist() for row in what.constants), strict=True)
        for partition in partitions
        if partition.device == device and operator in partition.operators
    }
    order = [(operator, partition) for partition in partitions for operator in partition.operators]
    home = {operator: partition.device for operator, partition in order}
    reads = [(int(t), int(r)) for t, r in zip(what.read, what.readers, strict=True)]
    most, here, done = 0.0, set[int](), set[int]()
    for operator, partition in order:
        if partition.device == device:
            if operator == partition.operators[0]:  # what comes from elsewhere is there before it starts
                here |= {t for t, r in reads if r in partition.operators and home.get(t - 1) != device}
            here.add(operator + 1)
        most = max(most, sum(float(what.sizes_bytes[tensor]) for tensor in here))
        done.add(operator)
        for tensor in list(here):
            made_here = home.get(tensor - 1) == device
            waiting = [r for t, r in reads if t == tensor and r not in done and (made_here or home[r] == device)]
            if not waiting and not (made_here and tensor in what.kept):
                here.discard(tensor)
    return int(sum(float(what.buffer_bytes[buffer]) for buffer in constants) + most)


def test_memory_is_what_a_run_needs() -> None:
    for seed in range(40):
        what, graph = random_contents(seed, seeded(seed).randint(1, 10))
        devices = [seeded(seed + 1 + o).randrange(3) for o in range(len(graph))]
        partitions = make_partitions(graph, devices)  # whose operators ascend, and so run in that order
        used = footprints(what, graph, partitions, 3)
        assert [each.total_bytes for each in used] == [simulated(what, partitions, device) for device in range(3)]


def test_caps_are_kept_and_not_wasted() -> None:
    ratios, impossible = [], 0
    for seed in range(30):
        what, graph = random_contents(seed, 7)
        generator = seeded(seed)
        times = [[float(generator.randint(1, 9)), float(generator.randint(10, 30))] for _ in range(7)]
        read = [(int(t) - 1, int(r)) for t, r in zip(what.read, what.readers, strict=True) if t]
        tensors = [(p, 1.0, [r for q, r in read if q == p]) for p in sorted({p for p, _ in read})]
        case = Case(times, tensors, [[0.0, 2.0], [2.0, 0.0]], [[0.0] * 2] * 2, [0.0, 0.0])
        problem, _ = case.problem()

        def partitions(devices: Indices, graph: Dag = graph) -> tuple[Partition, ...]:
            return make_partitions(graph, devices.tolist())

        whole = simulated(what, partitions(np.zeros(7, np.int64)), 0)
        cap = {0: whole * generator.randint(1, 9) // 10}
        fitting = [d for d in case.every() if simulated(what, partitions(np.array(d)), 0) <= cap[0]]
        fitted = least_time_within(problem, graph, what, cap, partitions)
        assert fitted.fits == (simulated(what, partitions(fitted.devices), 0) <= cap[0])
        if fitted.fits:
            ratios.append(case.cost(fitted.devices.tolist()) / min(map(case.cost, fitting)))
        impossible += not fitted.fits
    assert impossible == 0  # the second device takes everything
    assert min(ratios) >= 1 - SLACK
    assert sum(ratios) / len(ratios) <= 1.05


def test_an_order_of_devices_is_only_a_name() -> None:
    for seed in range(8):
        case = random_case(seed, 6, 3)
        least = min(map(case.cost, case.every()))
        for order in permutations(range(3)):
            turned = case._replace(
                times=[[row[device] for device in order] for row in case.times],
                overhead=[[case.overhead[a][b] for b in order] for a in order],
                per_byte=[[case.per_byte[a][b] for b in order] for a in order],
            )
            assert found(turned) <= least * 1.1 + SLACK
