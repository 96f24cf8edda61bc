"""Small instances of units, kinds and shares of time, against a few lines of plain Python."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from circletools.affinity.assign.assign import Constraints
from circletools.affinity.capability.traits import SubgraphTraits
from circletools.affinity.costs import choose, fitting
from circletools.affinity.costs.choose import Goal, assign_by_cost
from circletools.affinity.costs.costfile import CostDocument, Defaults
from circletools.affinity.costs.fitting import fillings
from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.proof import Proven, proven
from circletools.affinity.costs.search import least_time
from circletools.affinity.costs.times import Costs, make_problems
from circletools.affinity.units import Units
from circletools.graph.build import graph_of, model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.costs_support import Case, random_case
from tests.kit.partition_support import dag_of, seeded

FREE = [[0.0, 0.0], [0.0, 0.0]]


def units_by_chance(seed: int, count: int) -> Units:
    """Return units of operators, numbered by their lowest; their graph is of no interest here."""
    generator = seeded(seed)
    labels = [generator.randrange(max(2, count // 2)) for _ in range(count)]
    first: dict[int, int] = {}
    home = [first.setdefault(label, len(first)) for label in labels]
    members = [[at for at in range(count) if home[at] == unit] for unit in range(len(first))]
    return Units(home, members, dag_of(len(first), []))


@pytest.mark.parametrize("seed", range(20))
def test_units_on_devices_take_what_their_operators_take_there(seed: int) -> None:
    case = random_case(seed, 7, 3)
    problem, _ = case.problem()
    units = units_by_chance(seed, len(case.times))
    found, generator = units.problem(problem), seeded(seed)
    for _ in range(10):
        devices = [generator.randrange(3) for _ in units.members]
        numbers = units.of_operators(devices)
        total = sum(float(found.times_us[unit, device]) for unit, device in enumerate(devices))
        tensors = range(len(found.producers))
        for tensor in tensors:
            here, size = devices[found.producers[tensor]], float(found.sizes_bytes[tensor])
            readers = found.readers[found.read == tensor].tolist()
            assert len(readers) == len(set(readers)) > 0
            for there in {devices[unit] for unit in readers} - {here}:
                total += case.overhead[here][there] + size * case.per_byte[here][there]
        assert total == case.cost(numbers)


@pytest.mark.parametrize("seed", range(10))
def test_units_read_what_their_operators_read(seed: int) -> None:
    generator, count = seeded(seed), 6
    units = units_by_chance(seed, count)
    reads = sorted({(generator.randrange(count), generator.randrange(4)) for _ in range(9)})
    held = np.array(reads, np.int64)
    read = np.array([generator.randrange(count + 1) for _ in range(8)])
    readers = np.array([generator.randrange(count) for _ in range(8)])
    sizes = np.ones(count + 1)
    what = Contents((held[:, 0], held[:, 1]), np.ones(4), sizes, np.arange(-1, count), read, readers, read[:1])
    found = units.contents(what)
    pairs = list(zip(*(row.tolist() for row in found.constants), strict=True))
    assert sorted(pairs) == sorted({(units.home[operator], buffer) for operator, buffer in reads})
    assert found.producers.tolist() == [-1, *units.home]
    assert (found.read.tolist(), found.readers.tolist()) == (
        read.tolist(),
        [units.home[operator] for operator in readers],
    )
    whole = Units(range(count), [[at] for at in range(count)], dag_of(count, []))
    assert whole.are_operators
    assert whole.contents(what) is what


def test_kinds_tell_operators_apart_by_what_they_make() -> None:
    """Of one input a CAST makes tensors of several types, and a SPLIT several tensors."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    made = [("CAST", ["INT32"]), ("CAST", ["INT8"]), ("SPLIT", ["INT8", "INT32"]), ("SPLIT", ["INT32", "INT8"])]
    made += [("CAST", ["INT32"]), ("SPLIT", ["INT8"]), ("SPLIT", ["INT8", "INT32"])]
    for at, (code, types) in enumerate(made):
        graph.operator(code, [x], [graph.tensor(f"o{at} {number}", type=one) for number, one in enumerate(types)])
    with open_model(build.to_bytes()) as model:
        traits = SubgraphTraits(graph_of(model, 0), {})
        kinds = traits.kinds()
        assert (kinds.of.tolist(), kinds.examples) == ([0, 1, 2, 3, 0, 4, 2], [0, 1, 2, 3, 5])
        keys = [traits.key(at) for at in range(len(made))]
    assert [keys.index(key) for key in keys] == [made.index(one) for one in made]


# --- time to solve --------------------------------------------------------------------------------------------


def test_the_time_to_solve_is_shared_out_by_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a subgraph leaves of its share goes to those behind it."""
    build = Build()
    counts = (1, 3, 4, 1)
    for index, count in enumerate(counts):
        graph = build.graph(f"{index}")
        first = last = graph.tensor("x")
        for at in range(count):
            last = graph.compute("NEG", [last], f"o{at}")
        graph.ends([first], [last])
    now, shares, spent = 0.0, list[float](), list[float]()

    def solved(_problem: Any, _graph: Any, devices: Any, _mode: Any, seconds: float, *_more: Any) -> Proven:
        nonlocal now
        shares.append(seconds)
        now += spent.pop(0)
        return Proven(devices, 1.0)

    monkeypatch.setattr(choose, "proven", solved)
    monkeypatch.setattr(choose, "monotonic", lambda: now)
    with open_model(build.to_bytes()) as model:
        chooser = Chooser(model_graph(model))
        times = {(graph, at): 1.0 for graph, count in enumerate(counts) for at in range(count)}
        costs = Costs(CostDocument(), {"a": times, "b": times}, Defaults())
        problems = make_problems(chooser, ("a", "b"), costs)
        for took, expected in (
            ([0.0] * 4, [2, 18 * 3 / 8, 18 * 4 / 5, 18]),
            ([1.0, 7.0, 5.0, 9.0], [2, 17 * 3 / 8, 10 * 4 / 5, 5]),
            ([99.0] * 4, [2, 0, 0, 0]),
        ):
            shares.clear()
            spent[:] = took
            assign_by_cost(chooser, Constraints(("a", "b")), problems, Goal(seconds=18.0))
            assert shares == pytest.approx(expected)


# --- searching ------------------------------------------------------------------------------------------------


def test_searching_is_thorough_unless_it_is_to_be_quick() -> None:
    totals = []
    for seed in (17, 25, 26, 31):
        case = random_case(seed, 6, 3, launch=True)
        problem, graph = case.problem()
        found = (least_time(problem, graph).tolist(), least_time(problem, graph, quick=True).tolist())
        totals.append([case.cost(devices) + case.launches(devices) for devices in found])
    assert all(slow < quick for slow, quick in totals)


@pytest.mark.parametrize("how", ["epochs", "any"])
def test_partitions_that_are_not_connected_are_proven_too(how: str) -> None:
    """Two rows of an operator for each device: a launch on each where they need not be connected, else two."""
    rows = [(0, 0.0, [1]), (2, 0.0, [3])]
    case = Case([[0.0, inf], [inf, 0.0]] * 2, rows, FREE, FREE, [3.0, 5.0])
    problem, graph = case.problem()
    if how == "any":
        graph = replace(graph, beside=(tuple(range(4)),))
    devices = np.array([0, 1, 0, 1])
    assert proven(problem, graph, devices, "epochs" if how == "epochs" else "min", 0).least_us == 8
    assert proven(problem, replace(graph, beside=()), devices, "min", 0).least_us == 16


@pytest.mark.parametrize(("operators", "devices", "orders"), [(3, 3, 6), (4, 3, 3), (3, 4, 4), (4, 2, 2)])
def test_few_devices_are_filled_in_every_order(
    operators: int, devices: int, orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "_SEVERAL_OPERATORS", 3)
    free = [[0.0] * devices] * devices
    problem, graph = Case([[0.0] * devices] * operators, [], free, free, [0.0] * devices).problem()
    found = [one.tolist() for one in fillings(problem, graph, lambda _: {})]
    assert len(found) == orders
    assert sorted(row[0] for row in found) == sorted(list(range(devices)) * (orders // devices))
