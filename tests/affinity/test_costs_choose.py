"""Devices by cost where rules, tables and earlier devices leave a choice; sizes of partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from circletools.affinity.assign import Assignment, Constraints, Decision, RuleSet, make_default, parse_setting
from circletools.affinity.capability.traits import SubgraphTraits
from circletools.affinity.costs.table import contents
from circletools.affinity.costs.times import NO_TIME, Costs, Defaults, cost_tables, parse_costs
from circletools.affinity.partitioning import assign_by_cost, assign_by_memory
from circletools.affinity.problem import Sizing
from circletools.errors import EditError, UsageError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import open_model
from tests.kit.affinity_support import refused_for
from tests.kit.build import Build
from tests.kit.support import bytes_of

DIAMOND = bytes_of("circle/diamond")  # 0 feeds 1, 2 and 4; 1 and 2 feed 3; 3 and 4 feed 5
TWO = ("npu", "cpu")
QUICK: dict[str, Any] = {
    "devices": [
        {"name": "npu", "launch_us": 3, "operators": [{"select": "op:*", "time_us": 1}]},
        {"name": "cpu", "operators": [{"select": "op:*", "time_us": 10}]},
    ],
    "transfers": [{"from": "npu", "to": "cpu", "overhead_us": 2, "bytes_per_us": 4}],
}


def costs_of(
    document: dict[str, Any], measured: Mapping[str, Mapping[tuple[int, int], float]] | None = None
) -> Costs:
    return Costs(parse_costs(json.dumps(document), "costs.json"), measured or {}, Defaults(8.0, 5.0, 7.0))


def chosen(given: Constraints, document: dict[str, Any] = QUICK, goal: Sizing = Sizing()) -> Assignment:  # noqa: B008
    with open_model(DIAMOND) as model:
        chooser = Chooser(model_graph(model))
        return assign_by_cost(chooser, given, cost_tables(chooser, given.devices, costs_of(document)), goal)


def test_rules_earlier_devices_and_tables_leave_the_rest_to_the_costs() -> None:
    assert chosen(Constraints(TWO)).numbers == ([0] * 6,)
    rules = RuleSet((parse_setting("index:1-5=cpu"),))
    cheap = QUICK | {"transfers": [{"from": "*", "to": "*", "overhead_us": 0.5}]}
    assert chosen(Constraints(TWO, rules), cheap).numbers == ([0, 1, 1, 1, 1, 1],)
    before = ({index: Decision("cpu", "before") for index in range(1, 6)},)
    made = chosen(Constraints(TWO, before=before), cheap)
    assert made.numbers == ([0, 1, 1, 1, 1, 1],)
    assert [made.why(0, operator) for operator in (0, 1)] == ["least total time", "before"]
    refusals = {"npu": [refused_for([None, "no", "no", "no", "no", "no"])]}
    dear = QUICK | {"transfers": [{"from": "*", "to": "*", "overhead_us": 100}]}
    assert chosen(Constraints(TWO, refusals=refusals), dear).numbers == ([1] * 6,)
    assert chosen(Constraints(TWO, refusals=refusals), cheap).numbers == ([0, 1, 1, 1, 1, 1],)
    assert chosen(Constraints(TWO, refusals=refusals)).why(0, 1) == "least total time; not npu: no"


def test_limits_of_memory_are_kept_to_while_choosing() -> None:
    assert chosen(Constraints(TWO), goal=Sizing(caps={0: 0})).numbers == ([1] * 6,)
    assert chosen(Constraints(TWO), goal=Sizing(caps={0: 1 << 20})).numbers == ([0] * 6,)


def test_without_costs_the_first_device_with_room_is_taken() -> None:
    """Each has a cap: that of constants and results of the operators there."""
    three = ("a", "b", "c")
    refusals = {"a": [refused_for([None, "no", None, None, None, "no"])]}
    with open_model(DIAMOND) as model:
        chooser = Chooser(model_graph(model))

        def memory(given: Constraints, **caps: int) -> Assignment:
            bytes_ = {three.index(name): cap for name, cap in caps.items()}
            return assign_by_memory(chooser, given, Sizing(caps=bytes_, seconds=5.0))

        made = memory(Constraints(three))
        assert (made.numbers, made.least_us) == (([0] * 6,), ())
        assert made.why(0, 3) == "the first device with enough memory"
        assert memory(Constraints(three), a=0).numbers == ([1] * 6,)
        assert memory(Constraints(three), a=0, b=0).numbers == ([2] * 6,)
        assert memory(Constraints(three, refusals=refusals)).numbers == ([0, 1, 0, 0, 0, 1],)
        rules = RuleSet((parse_setting("index:2=c"),))
        assert memory(Constraints(three, rules, refusals=refusals)).numbers == ([0, 1, 2, 0, 0, 1],)


def test_operators_that_no_device_supports_go_to_the_default() -> None:
    some = {"devices": [{"name": name, "operators": [{"select": "op:ADD", "time_us": 1}]} for name in TWO]}
    made = chosen(Constraints(TWO, RuleSet((), make_default("cpu", "here"))), some)
    assert made.numbers[0][:5] == [1] * 5
    assert made.why(0, 0) == f"default (here); not npu: {NO_TIME}; not cpu: {NO_TIME}"
    with pytest.raises(EditError, match="no time is known for it"):
        chosen(Constraints(TWO), some)
    with pytest.raises(UsageError, match="did you mean 'cpu'"):
        chosen(Constraints(TWO, RuleSet((), make_default("cpuu", "here"))), some)


def test_a_time_that_is_not_known_counts_nothing() -> None:
    """A rule names a device that has no time for the operator: it takes what the others do."""
    some = {"devices": [{"name": "npu", "operators": [{"select": "index:1-5", "time_us": 2}]}]}
    made = chosen(Constraints(("npu",), RuleSet((parse_setting("index:0=npu"),))), some)
    assert made.least_us == (5 * 2 + 7,)  # and the launch


def test_a_measured_time_precedes_the_document() -> None:
    with open_model(DIAMOND) as model:
        chooser = Chooser(model_graph(model))
        (problem,) = cost_tables(chooser, TWO, costs_of(QUICK, {"npu": {(0, 2): 0.5}}))
    assert problem.times_us[:, 0].tolist() == [1, 1, 0.5, 1, 1, 1]
    assert problem.links.launch_us.tolist() == [3, 7]
    assert problem.links.overhead_us.tolist() == [[0, 2], [5, 0]]
    assert problem.links.us_per_byte.tolist() == [[0, 1 / 4], [1 / 8, 0]]
    assert problem.producers.tolist() == [0, 1, 2, 3, 4]
    assert problem.sizes_bytes.tolist() == [32] * 5
    assert sorted(zip(problem.read.tolist(), problem.readers.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 4), (1, 3), (2, 3), (3, 5), (4, 5),
    ]  # fmt: skip


def test_an_output_that_is_no_tensor_takes_no_memory() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 4))
    y = graph.compute("TANH", [x], "y", (1, 4))
    graph.ends([x, -1], [y, y + 1, -1])
    with open_model(build.to_bytes()) as model:
        assert contents(graph_of(model, 0)).kept.tolist() == [y]


@pytest.mark.parametrize("words", ["op:ADD", "op:ADD=", "=npu", "npu"])
def test_a_setting_that_names_no_device_or_no_operators(words: str) -> None:
    with pytest.raises(UsageError):
        parse_setting(words)


@pytest.mark.parametrize(
    ("shape", "signature", "dynamic"),
    [((0, 3), None, False), ((1, 3), (-1, 3), True), ((1, 3), (1, 3), False), ((-1, 3), None, True)],
)
def test_an_empty_dimension_is_a_known_one(
    shape: tuple[int, ...], signature: tuple[int, ...] | None, dynamic: bool
) -> None:
    build = Build()
    graph = build.graph()
    given = graph.tensor("x", shape=shape, shape_signature=signature) if signature else graph.tensor("x", shape=shape)
    graph.ends([given], [graph.compute("NEG", [given], "y")])
    with open_model(build.to_bytes("tflite")) as model:
        traits = SubgraphTraits(graph_of(model, 0), lambda _: ()).operator(0)
    assert traits.inputs[0] is not None
    assert traits.inputs[0].dynamic == dynamic
