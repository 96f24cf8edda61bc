"""What is met is the best of all partitions that keep to limits and rules: all are tried, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pytest

import circletools as ct
from circletools.affinity.assign.rules import Rule
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.problem import Problem
from circletools.affinity.limiting import Limiter, LimitError, Room
from circletools.affinity.limits import Limit, parse_limit
from circletools.affinity.meeting import meet
from circletools.affinity.partition.partitions import make_partitions
from circletools.affinity.units import Units
from circletools.graph.dag import Dag
from circletools.graph.selectors import Selector
from tests.kit.costs_support import Case, random_case
from tests.kit.partition_peers import every_partitioning, numbers_of
from tests.kit.partition_support import seeded

NAMES = ("a", "b", "c", "d")
Rows = Sequence[tuple[int, ...]]


def fits(_: object) -> bool:
    """Say that there is room for everything."""
    return True


class Weights:
    """So many operators and bytes for each unit, and what it takes on each device."""

    def __init__(self, operators: Sequence[int], byte_counts: Sequence[int], problem: Problem | None) -> None:
        self.rows = {"operators": operators, "bytes": byte_counts}
        self.problem = problem

    def of(self, measure: str, units: Sequence[int], device: int) -> float:
        if measure == "us":
            assert self.problem is not None
            return float(sum(self.problem.times_us[unit, device] for unit in units))
        return float(sum(self.rows[measure][unit] for unit in units))


class Given(NamedTuple):
    """A graph, the device that each unit has, and what is asked of partitions."""

    room: Room
    graph: Dag
    numbers: list[int]
    takes: list[list[bool]]
    rules: dict[int, Rule]
    connected: bool

    def keeps(self, rows: Rows, devices: Sequence[int], told: Set[str] | None = None) -> bool:
        """Say whether partitions keep to what devices take, and to limits and rules: all, or those of these names."""
        for unit, device in enumerate(numbers_of(rows, devices)):
            ruled = unit in self.rules and (told is None or f"rule {self.rules[unit].place}" in told)
            if device != self.numbers[unit] and (ruled or not self.takes[unit][device]):
                return False
        for device, limit in self.room.limits:
            if told is not None and str(limit) not in told:
                continue
            own = [row for row, its in zip(rows, devices, strict=True) if its == device]
            weights = [self.room.weights.of(limit.measure, row, device) for row in own if "part" not in limit.kind]
            if limit.kind == "max-partitions" and len(own) > limit.number:
                return False
            if any(w < limit.number if limit.kind[:3] == "min" else w > limit.number for w in weights):
                return False
        return True

    def value(self, rows: Rows, devices: Sequence[int]) -> tuple[float, ...]:
        """Return what is to be little, the first first: small partitions; time, or what moves, partitions, ranks."""
        numbers, weigh = numbers_of(rows, devices), self.room.weights.of
        small = sum(
            device != self.room.refuges[0] and weigh("operators", row, device) < self.room.min_size
            for row, device in zip(rows, devices, strict=True)
        )
        if self.room.problem is not None:
            times = self.room.problem.times_us
            known = replace(self.room.problem, times_us=np.where(np.isfinite(times), times, 0))
            return small, round(evaluate(known, numbers, devices).total_us, 6)
        moved = [unit for unit, device in enumerate(numbers) if device != self.numbers[unit]]
        ranks = sum(self.room.refuges.index(numbers[unit]) for unit in moved)
        return small, weigh("operators", moved, 0), len(rows), ranks


def given(seed: int, *, timed: bool) -> Given:
    generator = seeded(seed)
    case: Case = random_case(seed, 4, generator.choice((2, 2, 3)), launch=timed)
    problem, graph = case.problem()
    count, devices = len(graph), len(case.launch)
    if generator.random() < 0.3:
        graph = replace(graph, beside=(tuple(range(count)),))
    limits: list[tuple[int, Limit]] = []
    for kind, most in (
        ("max-partitions", 2),
        ("min-operators", 3),
        ("max-operators", 3),
        ("min-bytes", 9),
        ("max-bytes", 9),
    ):
        if generator.random() < 0.4:
            device = generator.randrange(devices)
            limits.append((device, parse_limit(f"{NAMES[device]}:{kind}={generator.randint(0, most)}")))
    numbers = [generator.randrange(devices) for _ in range(count)]
    takes = [[generator.random() < 0.8 for _ in range(devices)] for _ in range(count)]
    ruled = {
        unit: Rule(Selector("index", str(unit)), NAMES[numbers[unit]], f"rule {unit}")
        for unit in range(count)
        if generator.random() < 0.2
    }
    known = problem if timed else None
    weights = Weights(
        [generator.choice((1, 1, 3)) for _ in range(count)], [generator.randint(0, 5) for _ in range(count)], known
    )
    refuges = generator.sample(range(devices), devices)
    units = Units(range(count), [[at] for at in range(count)], graph)
    is_taken: Callable[[int, int], bool] = lambda unit, device: takes[unit][device]  # noqa: E731
    room = Room(units, limits, generator.choice((1, 1, 2)), weights, known, is_taken, ruled.get, refuges, fits)  # type: ignore[arg-type]
    return Given(room, graph, numbers, takes, ruled, generator.random() < 0.7)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("first", range(0, 240, 60))
def test_the_best_of_all_partitions_is_met(first: int, timed: bool) -> None:
    refused = 0
    for seed in range(first, first + 60):
        one = given(seed, timed=timed)
        every = list(every_partitioning(one.graph, len(one.room.refuges), connected=one.connected))
        values = [one.value(*rows) for rows in every if one.keeps(*rows)]
        unmet = LimitError(Limit("d", "max-partitions", 0), "whatever")
        if not values:
            refused += 1
            with pytest.raises(ct.EditError) as caught:
                meet(one.room, one.numbers, unmet, connected=one.connected)
            check_what_is_named(one, every, caught.value.message)
            continue
        found = meet(one.room, one.numbers, unmet, connected=one.connected)
        rows, devices = [row.operators for row in found], tuple(row.device for row in found)
        assert one.keeps(rows, devices), seed
        assert one.value(rows, devices) == min(values), seed
    assert 0 < refused < 60


def check_what_is_named(one: Given, every: Sequence[tuple[Rows, Sequence[int]]], message: str) -> None:
    """Check that limits and rules exclude each other, and would not without any of them."""
    words, together = re.fullmatch(r"(.*) cannot be met( together)?", message).groups()  # type: ignore[union-attr]
    told = set(words.split(" and "))
    assert bool(together) == (len(told) > 1)
    assert not any(one.keeps(*rows, told) for rows in every)
    for name in told:
        assert any(one.keeps(*rows, told - {name}) for rows in every)


# --- what moving away leads to --------------------------------------------------------------------------------


@pytest.mark.parametrize("timed", [False, True])
def test_moving_away_keeps_to_limits_too(timed: bool) -> None:
    """Where it leads to no such partitions it says which limit is not met, and never that of another device."""
    told = {"kept": 0, "refused": 0, "small": 0}
    for seed in range(300):
        one = given(seed, timed=timed)
        joined = replace(one.graph, beside=()) if one.connected else one.graph
        limiter = Limiter(one.room, lambda numbers, graph=joined: make_partitions(graph, numbers))  # type: ignore[misc]
        try:
            numbers = limiter.settle(one.numbers)
        except LimitError as error:
            told["refused"] += (error.limit in [limit for _, limit in one.room.limits]) and str(error).startswith(
                f"{error.limit} cannot be met: "
            )
            continue
        found = limiter.partitions(numbers)
        rows, devices = [row.operators for row in found], [row.device for row in found]
        assert one.keeps(rows, devices), seed
        assert numbers == numbers_of(rows, devices)
        changed = {unit for unit, device in enumerate(numbers) if device != one.numbers[unit]}
        assert changed <= set(limiter.moved), seed
        small = [row for row in found if one.room.is_small(row.operators, row.device)]
        assert [row.operators for row in limiter.left] == [row.operators for row in small], seed
        told["kept"] += 1
        told["small"] += bool(small)
    assert min(told.values()) > 3, told
    assert told["kept"] + told["refused"] == 300


def test_of_several_devices_the_cheapest_takes_what_moves() -> None:
    """With times the quickest; without, or where two are alike, the first."""
    for times, device in (([9.0, 2.0, 3.0], 1), ([9.0, 3.0, 2.0], 2), ([9.0, 2.0, 2.0], 1)):
        free = [[0.0] * 3] * 3
        case = Case([times], [], free, free, [0.0] * 3)
        problem, graph = case.problem()
        units = Units([0], [[0]], graph)
        for known, refuges, expected in ((problem, [1, 2, 0], device), (None, [1, 2, 0], 1), (None, [2, 1, 0], 2)):
            weights: Any = Weights([1], [1], known)
            limits = [(0, parse_limit("a:min-operators=2"))]
            room = Room(units, limits, 1, weights, known, lambda *_: True, lambda _: None, refuges, fits)
            limiter = Limiter(room, lambda numbers: make_partitions(graph, numbers))  # noqa: B023 - called at once
            assert limiter.settle([0]) == [expected]
            assert limiter.moved == {0: "its partition was too small on {}: limit a:min-operators=2"}


# --- little is weighed against much ---------------------------------------------------------------------------

FREE = [[0.0] * 4] * 4


def met(
    case: Case, numbers: Sequence[int], weights: Sequence[int], *limits: str, timed: bool = True, min_size: int = 2
) -> list[int]:
    """Return the devices of operators that have `numbers`, and may go where they have a time; first to the first."""
    problem, graph = case.problem()
    units = Units(range(len(graph)), [[at] for at in range(len(graph))], graph)
    room = Room(
        units, [(NAMES.index(words[0]), parse_limit(words)) for words in limits], min_size,
        Weights(weights, weights, problem), problem if timed else None,  # type: ignore[arg-type]
        lambda unit, device: case.times[unit][device] < inf, lambda _: None, range(len(case.launch)), fits,
    )  # fmt: skip
    found = meet(room, numbers, LimitError(Limit("d", "max-partitions", 0), ""), connected=True)
    return numbers_of([row.operators for row in found], [row.device for row in found])


def test_a_small_partition_is_dearer_than_all_times() -> None:
    """On the second device it takes nothing, and may be small; on the first it takes all that there is to take."""
    case = Case([[7.0, 0.0]], [], [[0.0] * 2] * 2, [[0.0] * 2] * 2, [0.0] * 2)
    assert [met(case, [1], [weight]) for weight in (1, 2)] == [[0], [1]]


@pytest.mark.parametrize(("overhead", "rate", "tensors"), [(10.0, 0.0, 10), (0.0, 10.0, 1)])
def test_a_small_partition_is_dearer_than_all_copies(overhead: float, rate: float, tensors: int) -> None:
    """What 0 makes is copied to the last device, where 1 is too small, for nothing, and to the first for 100."""
    copies, rates = ([[0.0] * 3, [cost, 0.0, 0.0], [0.0] * 3] for cost in (overhead, rate))
    times = [[inf, 0.0, inf], [0.0, inf, 0.0]]
    case = Case(times, [(0, 10.0, [1])] * tensors, copies, rates, [0.0] * 3)
    assert [met(case, [1, 2], [5, weight]) for weight in (1, 2)] == [[1, 0], [1, 2]]


def test_a_tensor_is_copied_to_several_devices() -> None:
    """From the last device for nothing, from the first for 10 each."""
    case = Case([[0.0, inf, inf, 0.0], [inf, 0.0, inf, inf], [inf, inf, 0.0, inf]], [(0, 0.0, [1, 2])],
                [[0.0] + [10.0] * 3, *FREE[1:]], FREE, [0.0] * 4)  # fmt: skip
    assert [met(case, [3, 1, 2], [weight, 5, 5]) for weight in (1, 2)] == [[0, 1, 2], [3, 1, 2]]


def test_a_small_partition_is_dearer_than_all_launches() -> None:
    """Five in a row are one small partition on the second device, and on the first five that are launched."""
    case = Case(
        [[0.0, 0.0]] * 5, [(at, 0.0, [at + 1]) for at in range(4)], [[0.0] * 2] * 2, [[0.0] * 2] * 2, [10.0, 0.0]
    )
    for least, device in ((6, 0), (5, 1)):
        assert met(case, [1] * 5, [1] * 5, "a:max-operators=1", min_size=least) == [device] * 5


def test_fewer_partitions_count_more_than_an_earlier_device() -> None:
    case = Case(
        [[0.0] * 3] * 6, [(at, 0.0, [at + 1]) for at in range(5)], [[0.0] * 3] * 3, [[0.0] * 3] * 3, [0.0] * 3
    )
    limits = ("c:max-partitions=0", "a:max-operators=3")
    assert met(case, [2] * 6, [1] * 6, *limits, timed=False) == [1] * 6
    assert met(case, [2] * 6, [1] * 6, limits[0], timed=False) == [0] * 6
