"""Devices by cost where rules, tables and earlier devices leave a choice; sizes of partitions; what crosses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from circletools.affinity.assign.assign import Assignment, Constraints
from circletools.affinity.assign.rules import Decision, RuleSet, make_default, parse_setting
from circletools.affinity.capability.traits import SubgraphTraits
from circletools.affinity.costs.choose import Goal, assign_by_cost, assign_by_memory, check_caps
from circletools.affinity.costs.constants import with_constants
from circletools.affinity.costs.costfile import Defaults, parse_costs
from circletools.affinity.costs.islands import settled
from circletools.affinity.costs.memory import contents, footprints, prices
from circletools.affinity.costs.times import NO_TIME, Costs, make_problems
from circletools.affinity.partition.groups import connected, group_successors
from circletools.affinity.partition.partitions import Mode
from circletools.affinity.partitioning import Sizing, make_partitioning, to_affinity
from circletools.affinity.transfers import transfers
from circletools.errors import EditError, UsageError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import open_model
from tests.kit.affinity_support import assigned, unruled
from tests.kit.build import Build, floats
from tests.kit.costs_support import Case
from tests.kit.partition_support import dag_of
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


def chosen(given: Constraints, document: dict[str, Any] = QUICK, goal: Goal = Goal()) -> Assignment:  # noqa: B008
    with open_model(DIAMOND) as model:
        chooser = Chooser(model_graph(model))
        return assign_by_cost(chooser, given, make_problems(chooser, given.devices, costs_of(document)), goal)


def test_rules_earlier_devices_and_tables_leave_the_rest_to_the_costs() -> None:
    assert chosen(Constraints(TWO)).numbers == ([0] * 6,)
    rules = RuleSet((parse_setting("index:1-5=cpu"),))
    cheap = QUICK | {"transfers": [{"from": "*", "to": "*", "overhead_us": 0.5}]}
    assert chosen(Constraints(TWO, rules), cheap).numbers == ([0, 1, 1, 1, 1, 1],)
    before = ({index: Decision("cpu", "before") for index in range(1, 6)},)
    made = chosen(Constraints(TWO, before=before), cheap)
    assert made.numbers == ([0, 1, 1, 1, 1, 1],)
    assert [made.why(0, operator) for operator in (0, 1)] == ["least total time", "before"]
    refusals = {"npu": [[None, "no", "no", "no", "no", "no"]]}
    dear = QUICK | {"transfers": [{"from": "*", "to": "*", "overhead_us": 100}]}
    assert chosen(Constraints(TWO, refusals=refusals), dear).numbers == ([1] * 6,)
    assert chosen(Constraints(TWO, refusals=refusals), cheap).numbers == ([0, 1, 1, 1, 1, 1],)
    assert chosen(Constraints(TWO, refusals=refusals)).why(0, 1) == "least total time; not npu: no"
    assert chosen(Constraints(TWO), goal=Goal(parallel=True)).why(0, 0) == "all ends first"


def test_limits_of_memory_are_kept_to_while_choosing() -> None:
    assert chosen(Constraints(TWO), goal=Goal(caps={0: 0})).numbers == ([1] * 6,)
    assert chosen(Constraints(TWO), goal=Goal(caps={0: 1 << 20})).numbers == ([0] * 6,)
    assert chosen(Constraints(TWO), goal=Goal(caps={0: 1 << 20}, mode="seed")).numbers == ([0] * 6,)


def test_without_costs_the_first_device_with_room_is_taken() -> None:
    """Each has a cap: that of constants and results of the operators there."""
    three = ("a", "b", "c")
    refusals = {"a": [[None, "no", None, None, None, "no"]]}
    with open_model(DIAMOND) as model:
        chooser = Chooser(model_graph(model))

        def memory(given: Constraints, **caps: int) -> Assignment:
            return assign_by_memory(chooser, given, Goal(caps={three.index(name): cap for name, cap in caps.items()}))

        made = memory(Constraints(three))
        assert (made.numbers, made.least_us) == (([0] * 6,), ())
        assert made.why(0, 3) == "the first device with room"
        assert memory(Constraints(three), a=0).numbers == ([1] * 6,)
        assert memory(Constraints(three), a=0, b=0).numbers == ([2] * 6,)
        assert memory(Constraints(three, refusals=refusals)).numbers == ([0, 1, 0, 0, 0, 1],)
        rules = RuleSet((parse_setting("index:2=c"),))
        assert memory(Constraints(three, rules, refusals=refusals)).numbers == ([0, 1, 2, 0, 0, 1],)


def test_what_no_device_can_run_goes_to_the_default() -> None:
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


def test_constants_are_shared_out_among_who_reads_them() -> None:
    """16 bytes that two operators read and 8 that the third reads alone, at 1/2 and 2 us a byte."""
    build = Build()
    graph = build.graph()
    x, own, both = graph.tensor("x", (2,)), graph.constant("own", floats(2)), graph.constant("both", floats(4))
    last = graph.compute("ADD", [graph.compute("ADD", [x, both], "a", (4,)), both], "b", (4,))
    graph.operator("CONCATENATION", [last, own], [graph.tensor("c", (6,))])
    graph.ends([x], [last + 1])
    document = {
        "devices": [
            {"name": name, "constants_bytes_per_us": rate, "operators": [{"select": "op:*", "time_us": 1}]}
            for name, rate in (("npu", 2), ("cpu", 0.5))
        ]
    }
    with open_model(build.to_bytes()) as model:
        chooser = Chooser(model_graph(model))
        (problem,) = make_problems(chooser, TWO, costs_of(document))
        found = with_constants(graph_of(model, 0), problem).times_us
    assert found.tolist() == [[1 + 4, 1 + 16], [1 + 4, 1 + 16], [1 + 4, 1 + 16]]


def test_a_measured_time_goes_before_the_document() -> None:
    with open_model(DIAMOND) as model:
        chooser = Chooser(model_graph(model))
        (problem,) = make_problems(chooser, TWO, costs_of(QUICK, {"npu": {(0, 2): 0.5}}))
    assert problem.times_us[:, 0].tolist() == [1, 1, 0.5, 1, 1, 1]
    assert problem.links.launch_us.tolist() == [3, 7]
    assert problem.links.overhead_us.tolist() == [[0, 2], [5, 0]]
    assert problem.links.us_per_byte.tolist() == [[0, 1 / 4], [1 / 8, 0]]
    assert problem.producers.tolist() == [0, 1, 2, 3, 4]
    assert problem.sizes_bytes.tolist() == [32] * 5
    assert sorted(zip(problem.read.tolist(), problem.readers.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 4), (1, 3), (2, 3), (3, 5), (4, 5),
    ]  # fmt: skip


def test_which_pairs_of_devices_take_the_default() -> None:
    assert costs_of(QUICK).assumed(TWO)
    assert not costs_of(QUICK).assumed(["npu"])
    for pair in (("*", "*"), ("cpu", "npu"), ("cpu", "*"), ("*", "npu")):
        more = QUICK | {"transfers": [*QUICK["transfers"], {"from": pair[0], "to": pair[1]}]}
        assert not costs_of(more).assumed(TWO), pair


def test_64_devices_are_the_most() -> None:
    named = [f"d{number}" for number in range(65)]
    document = {"devices": [{"name": name} for name in named]}
    with open_model(DIAMOND) as model:
        assert len(make_problems(Chooser(model_graph(model)), named[:64], costs_of(document))) == 1
        with pytest.raises(UsageError, match="costs of 65 devices; there can be 64"):
            make_problems(Chooser(model_graph(model)), named, costs_of(document))


def test_an_output_that_is_no_tensor_takes_no_memory() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 4))
    y = graph.compute("TANH", [x], "y", (1, 4))
    graph.ends([x, -1], [y, y + 1, -1])
    with open_model(build.to_bytes()) as model:
        assert contents(graph_of(model, 0)).kept.tolist() == [y]


def test_a_limit_of_memory_is_kept_to_the_byte() -> None:
    with open_model(DIAMOND) as model:
        facts = [graph_of(model, 0)]
        made = make_partitioning(facts, assigned(model, TWO, "index:0=npu", default="cpu"))
        used = footprints(contents(facts[0]), facts[0].dag, made.subgraphs[0].partitions, 2)
        assert [(each.constants_bytes, each.activations_bytes) for each in used] == [((8 * 8 + 8) * 4, 64), (0, 128)]
        # 0 reads 288 bytes of constants and makes 32; the others make 32 each.
        assert prices(contents(facts[0]), 6).tolist() == [320, 32, 32, 32, 32, 32]
        check_caps(facts, made, {0: 288 + 64, 1: 128})
        with pytest.raises(EditError, match=r"npu has 351 bytes and would need 352: 288 of constants, 64") as caught:
            check_caps(facts, made, {0: 288 + 64 - 1})
        assert caught.value.location == "subgraphs[0]"


@pytest.mark.parametrize("mode", ["seed", "safe"])
def test_small_partitions_are_told_from_those_that_can_run(mode: Mode) -> None:
    """In mode seed, the partitions of two devices wait for each other until small ones are moved."""
    build = Build()
    graph = build.graph()
    given = graph.tensor("given")
    x, y = graph.compute("NEG", [given], "x"), graph.compute("NEG", [given], "y")
    a, b = graph.compute("ADD", [x, y], "a"), graph.compute("ADD", [x, y], "b")
    graph.ends([given], [a, b])
    with open_model(build.to_bytes("circle")) as model:
        facts = [graph_of(model, 0)]
        both = unruled(assigned(model, ("a", "b", "c"), "index:0,3=a", "index:1-2=b"))
        made = make_partitioning(facts, both, Sizing(mode, 3))
        assert made.subgraphs[0].numbers == [2] * 4
        assert made.subgraphs[0].moved.keys() == {0, 1, 2, 3}
        assert to_affinity(made).subgraphs[0].partitions.tolist() == made.subgraphs[0].partition_of()
        assert make_partitioning(facts, both, Sizing("safe", 1)).subgraphs[0].moved == {}


def test_what_crosses_partitions_and_devices() -> None:
    with open_model(DIAMOND) as model:
        # 0 | 1 2 on the other device | 3 4 5: 0 is copied once to it, 1 and 2 once back; 4 reads 0 at home.
        found = transfers(graph_of(model, 0), [0, 1, 1, 2, 2, 2], [0, 1, 1, 0, 0, 0])
    assert [(cut.producer_partition, cut.consumer_partitions, cut.copies, cut.size_bytes) for cut in found.cuts] == [
        (0, (1, 2), 1, 32),
        (1, (2,), 1, 32),
        (1, (2,), 1, 32),
    ]
    assert (found.copies, found.copied_bytes, found.copies_of_unknown_size, found.launches) == (3, 96, 0, 3)


@pytest.mark.parametrize(
    ("time", "size", "launch", "expected"),
    [
        (5.0, 0.0, [3.0, 1.0], 1),  # a launch on each device is saved: 4 of 5
        (5.0, 0.0, [5.0, 1.0], 0),
        (14.0, 4.0, [0.0, 0.0], 0),  # two copies of 4 * 2 are saved
        (16.0, 4.0, [0.0, 0.0], 1),
        (15.0, 4.0, [0.0, 0.0], 0),
    ],
)
def test_an_island_moves_where_launches_and_copies_pay_for_it(
    time: float, size: float, launch: list[float], expected: int
) -> None:
    case = Case(
        [[0.0, 99.0], [time, 0.0], [0.0, 99.0]],
        [(0, size, [1]), (1, size, [2])],
        [[0.0] * 2] * 2,
        [[0.0, 2.0], [2.0, 0.0]],
        launch,
    )
    problem, graph = case.problem()
    assert settled(problem, graph, np.array([0, 1, 0])).tolist() == [0, expected, 0]


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
        traits = SubgraphTraits(graph_of(model, 0), {}).operator(0)
    assert traits.inputs[0] is not None
    assert traits.inputs[0].dynamic == dynamic


def test_groups_have_a_row_each() -> None:
    graph = dag_of(4, [(0, 1), (1, 2), (2, 3)])
    assert connected(graph, [0, 0, 1, 0]) == [0, 0, 1, 2]
    assert group_successors(graph, [0, 0, 1, 2], 3) == [[1], [2], []]
    assert np.unique(connected(graph, [0] * 4)).tolist() == [0]
