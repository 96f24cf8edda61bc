"""Costs by hand: prices, cuts, schedules and memory, value for value; and both sides of every limit."""

from __future__ import annotations

import json
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pytest

from circletools.affinity.costs.caps import least_time_within
from circletools.affinity.costs.costfile import ANY, CostDocument, Defaults, Link, TimeRule, parse_costs
from circletools.affinity.costs.cut import best_of_two
from circletools.affinity.costs.evaluate import crossings, evaluate
from circletools.affinity.costs.islands import settled
from circletools.affinity.costs.memory import Contents, Footprint, contents, footprints, prices
from circletools.affinity.costs.parallel import bounds, confined, heft, partitions_makespan, quickest
from circletools.affinity.costs.problem import Indices
from circletools.affinity.costs.search import launches, least_time
from circletools.affinity.costs.times import Costs, make_problems, operator_bytes
from circletools.affinity.partition.partitions import Partition, make_partitions
from circletools.errors import InvalidInputError, UsageError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.dag import Dag
from circletools.graph.selectors import Chooser, parse_selector
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.costs_support import Case, random_case

FREE = [[0.0] * 2] * 2


def case(times: list[list[float]], *tensors: tuple[int, float, list[int]], copy: float = 0.0, rate: float = 0.0,
         launch: tuple[float, ...] = (0.0, 0.0)) -> Case:  # fmt: skip
    """Return a case of two devices, with one price for a copy in either direction."""
    return Case(times, list(tensors), [[0.0, copy], [copy, 0.0]], [[0.0, rate], [rate, 0.0]], list(launch))


# --- the document -------------------------------------------------------------------------------------------


TOLD: list[tuple[float, float, str]] = [
    (inf, 0.0, "no time"),
    (2.5, 0.0, "2.5 us"),
    (0.0, 0.25, "0 us and 4 bytes/us"),
    (3, 0.5, "3 us and 2 bytes/us"),
]


def test_a_time_is_told_in_words() -> None:
    for time_us, us_per_byte, said in TOLD:
        assert TimeRule(parse_selector("op:*"), time_us, us_per_byte, "here").says == said


def test_a_document_is_read_value_for_value() -> None:
    words = """{"devices": [
        {"name": "npu", "launch_us": 3, "operators": [
            {"select": "op:ADD", "time_us": 2, "bytes_per_us": 4},
            {"select": "op:MUL", "time_us": null},
            {"select": "op:NEG", "bytes_per_us": 8},
            {"select": "op:*", "time_us": 0}]},
        {"name": "cpu"}],
      "transfers": [
        {"from": "npu", "to": "cpu", "overhead_us": 2, "bytes_per_us": 4},
        {"from": "*", "to": "npu", "bytes_per_us": 2},
        {"from": "cpu", "to": "*", "overhead_us": 1}]}"""
    document = parse_costs(words, "c.json")
    assert document.devices == ("npu", "cpu")
    assert [(rule.time_us, rule.us_per_byte, rule.place) for rule in document.times["npu"]] == [
        (2.0, 0.25, "c.json:3"), (inf, 0.0, "c.json:4"), (0.0, 0.125, "c.json:5"), (0.0, 0.0, "c.json:6"),
    ]  # fmt: skip
    assert not any(rule.from_command for rule in document.times["npu"])
    assert (document.times["cpu"], document.launches) == ((), {"npu": 3.0})
    assert document.transfers == {
        ("npu", "cpu"): Link(2.0, 0.25), (ANY, "npu"): Link(0.0, 0.5), ("cpu", ANY): Link(1.0, 0.0),
    }  # fmt: skip


def test_the_more_particular_transfer_counts() -> None:
    links = {
        ("a", "b"): Link(1, 0), ("a", ANY): Link(2, 0), (ANY, "b"): Link(3, 0), (ANY, ANY): Link(4, 0),
    }  # fmt: skip
    found = []
    for _ in range(5):
        found.append(CostDocument(transfers=dict(links)).link("a", "b", Defaults(8.0, 5.0)))
        links.pop(next(iter(links)), None) if links else None
    assert found == [Link(1, 0), Link(2, 0), Link(3, 0), Link(4, 0), Link(5.0, 0.125)]
    assert CostDocument().link("a", "b", Defaults()) == Link(0.0, 0.001)


def test_which_copies_are_assumed() -> None:
    def assumed(*pairs: tuple[str, str]) -> bool:
        return Costs(CostDocument(transfers=dict.fromkeys(pairs, Link(0, 0))), {}, Defaults()).assumed(["a", "b"])

    assert assumed()
    assert assumed(("a", "b"))
    assert not assumed(("a", "b"), ("b", "a"))
    assert not assumed(("*", "*"))
    assert not assumed(("a", "*"), ("*", "a"))
    assert assumed(("a", "*"))
    assert assumed(("*", "a"))
    assert not Costs(CostDocument(), {}, Defaults()).assumed(["a", "a"])
    assert not Costs(CostDocument(), {}, Defaults()).assumed(["a"])


def entry(key: str, value: Any) -> str:
    return json.dumps({"devices": [{"name": "a", "operators": [{"select": "op:*", key: value}]}]})


@pytest.mark.parametrize("value", [0, 1e15])
def test_times_may_be_as_small_and_large_as_that(value: float) -> None:
    assert parse_costs(entry("time_us", value), "c").times["a"][0].time_us == value


BEYOND: list[tuple[str, float, str]] = [
    ("time_us", -1e-9, "0"), ("time_us", 1.0000001e15, "0"),
    ("bytes_per_us", 0.99e-9, "1e-09"), ("bytes_per_us", 1.0000001e15, "1e-09"),
]  # fmt: skip


def test_numbers_beyond_the_limits() -> None:
    for key, value, least in BEYOND:
        with pytest.raises(InvalidInputError) as caught:
            parse_costs(entry(key, value), "c")
        assert caught.value.message == f"`{key}` must be a number from {least} to 1e+15"
        assert (caught.value.location, caught.value.hint) == ("c:1", "see docs/costs.md")


def test_the_slowest_rate_is_taken() -> None:
    assert parse_costs(entry("bytes_per_us", 1e-9), "c").times["a"][0].us_per_byte == 1 / 1e-9


BAD_DOCUMENTS: list[tuple[str, str, str]] = [
    ('{"devices": [{"name": "a"}, {"name": "a"}]}', "a second entry for device 'a'", "c:1"),
    ('{"devices": [{"name": "*"}]}', "a device cannot be named *", "c:1"),
    ('{"devices": [{"name": "a"}], "transfers": [{"from": "a", "to": "*"},\n{"from": "a", "to": "*"}]}',
     "a second entry from a to *", "c:2"),
    ('{"devices": [{"name": "a"}], "transfers": [{"from": "b", "to": "a"}]}', "device 'b' is not among `devices`",
     "c:1"),
    ('{"devices": [{"name": "a", "operators": [{"select": "op:*", "time_us": null, "bytes_per_us": 1}]}]}',
     "`time_us` null and a rate exclude each other", "c:1"),
    ('{"devices": [{"name": "a", "operators": [\n{"select": "op:*"}]}]}', "neither `time_us` nor `bytes_per_us`",
     "c:2"),
]  # fmt: skip


def test_what_is_wrong_with_a_document() -> None:
    for words, message, place in BAD_DOCUMENTS:
        with pytest.raises(InvalidInputError) as caught:
            parse_costs(words, "c")
        assert (caught.value.message, caught.value.location, caught.value.hint) == (
            message,
            place,
            "see docs/costs.md",
        )


# --- from a model to a problem ------------------------------------------------------------------------------


def small() -> bytes:
    """Return x, c -> ADD -> y -> NEG -> z and y, y -> MUL -> w; y is 16 bytes, c 8, z and w 4."""
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x", (4,)), graph.tensor("c", (2,), data=bytes(8))
    y = graph.compute("ADD", [x, c], "y", (4,))
    z = graph.compute("NEG", [y], "z", (1,))
    w = graph.compute("MUL", [y, y], "w", (1,))
    graph.ends([x], [z, w])
    return build.to_bytes()


def test_a_problem_has_times_tensors_and_links() -> None:
    document = CostDocument(
        ("a", "b"),
        {
            "a": (
                TimeRule(parse_selector("op:*"), 1.0, 0.5, "here"),
                TimeRule(parse_selector("op:NEG"), 7.0, 0, "h"),
            ),
            "b": (TimeRule(parse_selector("op:ADD"), 3.0, 0.0, "here"),),
        },
        {"b": 2.0},
        {("a", "b"): Link(4.0, 0.25)},
    )
    with open_model(small()) as model:
        chooser = Chooser(model_graph(model))
        costs = Costs(document, {"b": {(0, 2): 9.0}}, Defaults(8.0, 5.0, 6.0))
        (problem,) = make_problems(chooser, ("a", "b"), costs)
        assert operator_bytes(chooser.facts[0]).tolist() == [40.0, 20.0, 20.0]
        with pytest.raises(UsageError, match="the costs are of no device"):
            make_problems(chooser, (), costs)
        many = [str(number) for number in range(65)]
        assert make_problems(chooser, many[:64], costs)[0].times_us.shape == (3, 64)
        with pytest.raises(UsageError, match="costs of 65 devices; there can be 64"):
            make_problems(chooser, many, costs)
    assert problem.times_us.tolist() == [[21.0, 3.0], [7.0, inf], [11.0, 9.0]]
    assert (problem.producers.tolist(), problem.sizes_bytes.tolist()) == ([0], [16.0])
    assert sorted(zip(problem.read.tolist(), problem.readers.tolist(), strict=True)) == [(0, 1), (0, 2)]
    assert problem.links.overhead_us.tolist() == [[0, 4], [5, 0]]
    assert problem.links.us_per_byte.tolist() == [[0, 0.25], [0.125, 0]]
    assert problem.links.launch_us.tolist() == [6, 2]


def test_the_contents_of_a_subgraph() -> None:
    with open_model(small()) as model:
        facts = graph_of(model, 0)
        what = contents(facts)
        assert prices(what, 3).tolist() == [8.0 + 16.0, 4.0, 4.0]
        buffer = model.subgraphs[0].tensors[1].buffer
        two = (Partition(0, (0,)), Partition(1, (1, 2)))
        assert footprints(what, facts.dag, two, 2) == [Footprint(8, 32), Footprint(0, 24)]
        one = (Partition(1, (0, 1, 2)),)
        assert footprints(what, facts.dag, one, 2) == [Footprint(0, 0), Footprint(8, 32)]
    assert [row.tolist() for row in what.constants] == [[0], [buffer]]
    assert what.buffer_bytes[buffer] == 8
    assert what.producers.tolist() == [-1, -1, 0, 1, 2]
    assert sorted(zip(what.read.tolist(), what.readers.tolist(), strict=True)) == [(0, 0), (2, 1), (2, 2)]
    assert what.kept.tolist() == [3, 4]
    assert Footprint(3, 4).total_bytes == 7


# --- the objective ------------------------------------------------------------------------------------------


def test_an_estimate_is_a_sum_of_each_kind() -> None:
    forked = case([[1.0, inf], [2.0, 4.0], [3.0, 5.0]], (0, 10.0, [1, 2]), copy=3.0, rate=0.5, launch=(7.0, 9.0))
    problem, _ = forked.problem()
    found = evaluate(problem, [0, 1, 1], [0, 1])
    assert (found.operators_us, found.copies_us, found.launches_us) == (10.0, 8.0, 16.0)
    assert (found.operators_without_time, found.total_us) == (0, 34.0)
    found = evaluate(problem, [1, 0, 1])
    assert (found.operators_us, found.copies_us, found.operators_without_time) == (7.0, 8.0, 1)
    tensors, targets = crossings(problem, np.array([1, 0, 0]))
    assert (tensors.tolist(), targets.tolist()) == ([0], [0])


@pytest.mark.parametrize(("copy", "expected"), [(2.9, [0, 1, 0]), (3.0, [0, 0, 0]), (3.1, [0, 0, 0])])
def test_a_cut_weighs_times_against_copies(copy: float, expected: list[int]) -> None:
    """Of equal choices the first device is taken: two copies save 6."""
    row = case([[0.0, 50.0], [7.0, 1.0], [0.0, 50.0]], (0, 0.0, [1]), (1, 0.0, [2]), copy=copy)
    assert least_time(*row.problem()).tolist() == expected
    assert best_of_two(row.problem()[0], np.array([0, 1, 0]), 0, 1).tolist() == expected


def test_what_only_one_device_takes_stays_there() -> None:
    row = case([[inf, 1.0], [1.0, inf], [1.0, 1.0]], (0, 0.0, [1]), (1, 0.0, [2]), copy=5.0)
    assert least_time(*row.problem()).tolist() == [1, 0, 0]


def test_a_third_device_is_a_price_on_one_side() -> None:
    """1 is read on the third device: from the second a copy there costs 1, from the first 10."""
    times = [[0.0, 4.0, inf], [inf, inf, 0.0]]
    overhead = [[0.0, 3.0, 10.0], [3.0, 0.0, 1.0], [9.0, 9.0, 0.0]]
    made = Case(times, [(0, 0.0, [1])], overhead, [[0.0] * 3] * 3, [0.0] * 3)
    problem, graph = made.problem()
    assert best_of_two(problem, np.array([0, 2]), 0, 1).tolist() == [1, 2]
    assert least_time(problem, graph).tolist() == [1, 2]
    dear = made._replace(times=[[0.0, 9.5, inf], [inf, inf, 0.0]])
    assert best_of_two(dear.problem()[0], np.array([0, 2]), 0, 1).tolist() == [0, 2]


def test_launches_are_those_of_partitions() -> None:
    row = case([[1.0, 1.0]] * 3, (0, 0.0, [1]), (1, 0.0, [2]))
    _, graph = row.problem()
    assert launches(graph, np.array([0, 1, 0])) == [0, 1, 0]
    assert launches(graph, np.array([0, 0, 0])) == [0]


@pytest.mark.parametrize(("launch", "expected"), [(1.9, [0, 1, 0]), (2.1, [0, 0, 0])])
def test_a_launch_counts_for_each_partition(launch: float, expected: list[int]) -> None:
    """On the second device the middle one saves 4, for two partitions more."""
    row = case([[0.0, 50.0], [5.0, 1.0], [0.0, 50.0]], (0, 0.0, [1]), (1, 0.0, [2]), launch=(launch, launch))
    assert least_time(*row.problem()).tolist() == expected


def test_of_islands_the_smallest_moves_first() -> None:
    # 0 | 1 2 | 3: a launch of 5 each; with 1 and 2 moved there is one partition.
    row = case([[1.0, 9.0], [2.0, 1.0], [2.0, 1.0], [1.0, 9.0]], (0, 0.0, [1]), (1, 0.0, [2]), (2, 0.0, [3]),
               launch=(5.0, 5.0))  # fmt: skip
    problem, graph = row.problem()
    assert settled(problem, graph, np.array([0, 1, 1, 0])).tolist() == [0, 0, 0, 0]
    free = row._replace(launch=[0.0, 0.0]).problem()[0]
    assert settled(free, graph, np.array([0, 1, 1, 0])).tolist() == [0, 1, 1, 0]


# --- at the same time ---------------------------------------------------------------------------------------


def test_bounds_are_the_longest_chain_and_all_work_shared() -> None:
    forked = case([[4.0, 2.0], [3.0, 9.0], [5.0, inf], [inf, inf]], (0, 1.0, [1, 2]), (1, 1.0, [3]))
    found = bounds(*forked.problem())
    assert (found.critical_path_us, found.shared_work_us, found.least_us) == (7.0, 5.0, 7.0)
    wide = bounds(*case([[4.0, 4.0]] * 4).problem())
    assert (wide.critical_path_us, wide.shared_work_us, wide.least_us) == (4.0, 8.0, 8.0)


def test_a_schedule_fills_gaps_and_waits_for_copies() -> None:
    # 0 -> 1 (second device only, copy 2) -> 2 (first only, copy 2); 3 is free and fits into the gap of the first.
    made = case([[3.0, inf], [inf, 4.0], [1.0, inf], [5.0, inf]], (0, 0.0, [1]), (1, 0.0, [2]), copy=2.0)
    problem, graph = made.problem()
    schedule = heft(problem, graph)
    assert schedule.devices.tolist() == [0, 1, 0, 0]
    assert schedule.starts_us.tolist() == [0.0, 5.0, 11.0, 3.0]
    assert schedule.ends_us.tolist() == [3.0, 9.0, 12.0, 8.0]
    assert schedule.makespan_us == 12.0
    for time, start in ((8.0, 3.0), (8.5, 31.0)):  # what is longer than the gap comes last
        filled = heft(*made._replace(times=[[3.0, inf], [inf, 4.0], [20.0, inf], [time, inf]]).problem())
        assert filled.starts_us.tolist() == [0.0, 5.0, 11.0, start]


def test_of_equal_ends_the_first_device_is_taken() -> None:
    schedule = heft(*case([[2.0, 2.0], [2.0, 2.0]]).problem())
    assert (schedule.devices.tolist(), schedule.ends_us.tolist()) == ([0, 1], [2.0, 2.0])
    assert quickest(*case([[2.0, 2.0], [2.0, 2.0]]).problem()).tolist() == [0, 1]


def test_confined_to_a_device_an_unknown_time_is_none() -> None:
    problem = case([[1.0, inf], [2.0, 3.0]]).problem()[0]
    assert confined(problem, np.array([1, 0])).times_us.tolist() == [[inf, 0.0], [2.0, inf]]


def test_partitions_run_in_one_go_as_soon_as_they_can() -> None:
    # 0 | 1 2 | 3, launches of 1 and 2, a copy of 4 * 0.5 + 1.
    made = case([[5.0, inf], [inf, 3.0], [inf, 4.0], [6.0, inf]], (0, 4.0, [1]), (2, 4.0, [3]), (1, 4.0, [2]),
                copy=1.0, rate=0.5, launch=(1.0, 2.0))  # fmt: skip
    problem, _ = made.problem()
    parts = (Partition(0, (0,)), Partition(1, (1, 2)), Partition(0, (3,)))
    assert partitions_makespan(problem, parts) == (1 + 5) + 3 + (2 + 3 + 4) + 3 + (1 + 6)
    assert partitions_makespan(problem, ()) == 0.0
    apart = case([[5.0, inf], [inf, 3.0], [2.0, inf]])
    assert (
        partitions_makespan(apart.problem()[0], (Partition(0, (0,)), Partition(1, (1,)), Partition(0, (2,)))) == 7.0
    )
    unknown = case([[5.0, inf], [inf, 3.0]]).problem()[0]
    assert partitions_makespan(unknown, (Partition(1, (0,)), Partition(1, (1,)))) == 3.0


def test_a_makespan_is_within_its_bounds() -> None:
    for seed in range(12):
        problem, graph = random_case(seed, 8, 2).problem()
        devices = quickest(problem, graph)
        parts = make_partitions(graph, devices.tolist())
        least = bounds(confined(problem, devices), graph)
        assert least.critical_path_us <= partitions_makespan(problem, parts) + 1e-9


# --- memory -------------------------------------------------------------------------------------------------


def holding(sizes: list[float], constants: list[int]) -> Contents:
    """Return operators in a row: operator k reads what k - 1 made and a constant of so many bytes."""
    count = len(constants)
    return Contents(
        (np.arange(count), np.arange(count)),
        np.array(constants, np.float64),
        np.array(sizes, np.float64),
        np.arange(count),
        np.arange(count - 1),
        np.arange(1, count),
        np.array([count - 1]),
    )


def partitions_of(graph: Dag, devices: Indices) -> tuple[Partition, ...]:
    return make_partitions(graph, devices.tolist())


LIMITS: list[tuple[int, list[int]]]
LIMITS = [(60, [0, 0, 0]), (59, [1, 0, 0]), (50, [1, 0, 0]), (49, [0, 1, 0]), (40, [0, 1, 0]), (0, [1, 1, 1])]


def test_as_much_as_fits_is_on_the_quicker_device() -> None:
    """Constants of 10, 20 and 10 bytes and results of 10, two of them at once."""
    for cap, expected in LIMITS:
        row = case([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]], (0, 1.0, [1]), (1, 1.0, [2]))
        what = holding([10.0] * 3, [10, 20, 10])
        problem, graph = row.problem()
        found = least_time_within(problem, graph, what, {0: cap}, partial(partitions_of, graph))
        assert (found.fits, found.excess_bytes) == (True, {0: 0})
        fitting = [
            each
            for each in row.every()
            if footprints(what, graph, make_partitions(graph, list(each)), 2)[0].total_bytes <= cap
        ]
        assert row.cost(found.devices.tolist()) == min(map(row.cost, fitting))
        assert found.devices.tolist() == expected


def test_what_has_nowhere_else_to_go_is_too_much() -> None:
    row = case([[1.0, inf], [1.0, 3.0]], (0, 1.0, [1]))
    what = holding([10.0] * 2, [10, 20])
    problem, graph = row.problem()
    found = least_time_within(problem, graph, what, {0: 5}, partial(partitions_of, graph))
    assert (found.fits, found.excess_bytes, found.devices.tolist()) == (False, {0: 15}, [0, 1])
