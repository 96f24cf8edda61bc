"""Costs by hand: prices, cuts, schedules and memory, value for value; and both sides of every limit."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import numpy as np
import pytest

from circletools.affinity.costs.table import Footprint, contents, crossings, evaluate, footprints
from circletools.affinity.costs.times import (
    ANY,
    CostDocument,
    Costs,
    Defaults,
    Link,
    TimeRule,
    cost_tables,
    operator_bytes,
    parse_costs,
)
from circletools.affinity.solvers.groups import Partition
from circletools.errors import InvalidInputError, UsageError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.selectors import Chooser, parse_selector
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.costs_support import Case

FREE = [[0.0] * 2] * 2


def case(times: list[list[float]], *tensors: tuple[int, float, list[int]], copy: float = 0.0, rate: float = 0.0,
         launch: tuple[float, ...] = (0.0, 0.0)) -> Case:  # fmt: skip
    """Return a case of two devices, with one price for a copy in either direction."""
    return Case(times, list(tensors), [[0.0, copy], [copy, 0.0]], [[0.0, rate], [rate, 0.0]], list(launch))


# --- the document -------------------------------------------------------------------------------------------


LABELS: list[tuple[float, float, str]] = [
    (inf, 0.0, "no time"),
    (2.5, 0.0, "2.5 us"),
    (0.0, 0.25, "0 us and 4 bytes/us"),
    (3, 0.5, "3 us and 2 bytes/us"),
]


def test_a_time_as_text() -> None:
    for time_us, us_per_byte, text in LABELS:
        assert TimeRule(parse_selector("op:*"), time_us, us_per_byte, "here").label == text


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
    ('{"devices": [{"name": "a"}, {"name": "a"}]}', "duplicate entry for device 'a'", "c:1"),
    ('{"devices": [{"name": "*"}]}', "a device cannot be named *", "c:1"),
    ('{"devices": [{"name": "a"}], "transfers": [{"from": "a", "to": "*"},\n{"from": "a", "to": "*"}]}',
     "duplicate entry from a to *", "c:2"),
    ('{"devices": [{"name": "a"}], "transfers": [{"from": "b", "to": "a"}]}', "device 'b' is not among `devices`",
     "c:1"),
    ('{"devices": [{"name": "a", "operators": [{"select": "op:*", "time_us": null, "bytes_per_us": 1}]}]}',
     "`time_us` cannot be null if `bytes_per_us` is given", "c:1"),
    ('{"devices": [{"name": "a", "operators": [\n{"select": "op:*"}]}]}', "`time_us` or `bytes_per_us` is needed",
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
        (problem,) = cost_tables(chooser, ("a", "b"), costs)
        assert operator_bytes(chooser.model.graphs[0]).tolist() == [40.0, 20.0, 20.0]
        with pytest.raises(UsageError, match="the costs name no device"):
            cost_tables(chooser, (), costs)
        many = [str(number) for number in range(65)]
        assert cost_tables(chooser, many[:64], costs)[0].times_us.shape == (3, 64)
        with pytest.raises(UsageError, match="costs for 65 devices; the maximum is 64"):
            cost_tables(chooser, many, costs)
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
