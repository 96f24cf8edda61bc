"""What stays together, and what may be one partition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.affinity.costs.table import Links, make_cost_table
from circletools.affinity.problem import Sizing, make_subgraph
from circletools.affinity.solvers.groups import Colocation, Join, Units, make_units, parse_colocation
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.partition_support import seeded

TWO = ("npu", "cpu")
NONE = Colocation()


def quantized() -> bytes:
    """NEG QUANTIZE DEQUANTIZE TANH QUANTIZE NEG; what QUANTIZE makes has 4 bytes, all else 16."""
    build = Build()
    graph = build.graph()
    first = last = graph.tensor("x")
    for at, code in enumerate(("NEG", "QUANTIZE", "DEQUANTIZE", "TANH", "QUANTIZE", "NEG")):
        made = graph.tensor(f"o{at}", type="INT8" if code == "QUANTIZE" else "FLOAT32")
        graph.operator(code, [last], [made])
        last = made
    graph.ends([first], [last])
    return build.to_bytes("tflite")


def units_of(data: bytes, join: Join = "connected", colocation: Colocation = NONE) -> Units:
    with open_model(data) as model:
        return make_units(graph_of(model, 0), join, colocation)


def planned(data: bytes, **request: Any) -> ct.types.Plan:
    with open_model(data) as model:
        return ct.plan(model, ct.PlanRequest(devices=TWO, **request))


def rows(plan: ct.types.Plan) -> list[tuple[int, ...]]:
    return [partition.operators for partition in plan.subgraphs[0].partitions]


@pytest.mark.parametrize(("words", "members"), [
    ((), [(0,), (1,), (2,), (3,), (4,), (5,)]),
    (("quantize",), [(0,), (1, 2), (3,), (4,), (5,)]),
    (("16",), [(0, 1), (2, 3, 4), (5,)]),
    (("17",), [(0,), (1,), (2,), (3,), (4,), (5,)]),
    (("16", "quantize"), [(0, 1, 2, 3, 4), (5,)]),
    (("100", "4"), [(0, 1, 2, 3, 4, 5)]),
])  # fmt: skip
def test_what_stays_together(words: tuple[str, ...], members: list[tuple[int, ...]]) -> None:
    assert [tuple(row) for row in units_of(quantized(), colocation=parse_colocation(words)).members] == members


def test_operators_on_a_path_between_belong_to_the_unit() -> None:
    """0 hands a large tensor to 2; 0 feeds 1, which feeds 2."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 1))
    large, small = graph.tensor("large", (8, 8)), graph.tensor("small", (1, 1))
    graph.operator("SPLIT", [x], [large, small])
    between = graph.compute("NEG", [small], "between")
    last = graph.compute("ADD", [large, between], "last")
    graph.ends([x], [last])
    units = units_of(build.to_bytes("tflite"), colocation=Colocation(least_bytes=256))
    assert [tuple(row) for row in units.members] == [(0, 1, 2)]
    assert units_of(build.to_bytes("tflite"), colocation=Colocation(least_bytes=257)).home == [0, 1, 2]


def test_only_several_operators_are_siblings() -> None:
    """All read what one other makes, and the first alone the input."""
    assert units_of(quantized(), "shared").graph.beside == ()
    assert units_of(quantized(), "any").graph.beside == ((0, 1, 2, 3, 4, 5),)


def test_readers_of_another_operator_are_not_siblings() -> None:
    """1 and 2 read what 0 makes, 3 and 4 the input, 2 and 4 a constant."""
    build = Build()
    graph = build.graph()
    x, fixed = graph.tensor("x"), graph.constant("c", np.ones((2, 2), np.float32))
    made = graph.compute("NEG", [x], "made")
    last = [
        graph.compute("ADD", pair, f"o{at}")
        for at, pair in enumerate(([made, made], [made, fixed], [x, x], [x, fixed]))
    ]
    graph.ends([x], last)
    assert units_of(build.to_bytes("tflite"), "shared").graph.beside == ((0, 3, 4), (2, 4))


def test_steps_name_the_first_operator_of_a_unit() -> None:
    plan = planned(quantized(), default="cpu", keep_together=("quantize",), mode="seed", explain=True)
    assert plan.steps is not None
    assert [step.operator for step in plan.steps[0]] == [0, 1, 3, 4, 5, 0]


def test_units_stay_in_one_partition_on_one_device() -> None:
    assert rows(planned(quantized(), rules=("index:0-1=npu",), default="cpu")) == [(0, 1), (2, 3, 4, 5)]
    plan = planned(quantized(), rules=("index:0-1=npu",), default="cpu", keep_together=("quantize",))
    assert rows(plan) == [(0, 1, 2), (3, 4, 5)]
    assert plan.reason(0, 2) == "operators 1-2 must stay together"
    limits = ("npu:max-operators=3",)
    plan = planned(quantized(), rules=("index:3=npu",), default="cpu", keep_together=("16",), limits=limits)
    assert rows(plan) == [(0, 1), (2, 3, 4), (5,)]
    assert plan.subgraphs[0].numbers == [1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(("request_", "message"), [
    ({"rules": ("index:1=npu", "index:2=cpu"), "default": "cpu"}, "operators 1-2 must stay together, but rules put "
     "them on different devices: index:1=npu and index:2=cpu"),
    ({"rules": ("index:1=npu",), "default": "cpu", "capabilities": ("TABLE",)}, "operators 1-2 must stay together, "
     "but no device supports all of them; rule index:1=npu keeps them on npu"),
    ({"rules": ("index:3=npu",), "default": "cpu", "keep_together": ("16",), "limits": ("npu:max-operators=2",)},
     "limit npu:max-operators=2 cannot be met"),
])  # fmt: skip
def test_operators_that_cannot_be_together_are_named(request_: dict[str, Any], message: str, tmp_path: Any) -> None:
    table = tmp_path / "npu.json"
    table.write_text('{"device": "npu", "operators": {"QUANTIZE": [{}]}}', encoding="utf-8")
    tables = tuple(str(table) for _ in request_.pop("capabilities", ()))
    with pytest.raises(ct.EditError) as caught:
        planned(quantized(), **({"keep_together": ("quantize",)} | request_), capabilities=tables)
    assert message in str(caught.value)


def test_the_first_device_that_takes_all_has_the_unit(tmp_path: Any) -> None:
    table = tmp_path / "npu.json"
    table.write_text('{"device": "npu", "operators": {"QUANTIZE": [{}]}}', encoding="utf-8")
    plan = planned(quantized(), capabilities=(str(table),), default="cpu", keep_together=("quantize",))
    assert plan.subgraphs[0].numbers == [1, 1, 1, 1, 0, 1]


def test_costs_see_units_as_one(tmp_path: Any) -> None:
    """The pair is cheaper on the CPU though QUANTIZE alone is not."""
    costs = tmp_path / "costs.json"
    costs.write_text(
        '{"devices": [{"name": "npu", "operators": [{"select": "op:*", "time_us": 5}, {"select": "op:QUANTIZE", '
        '"time_us": 1}]}, {"name": "cpu", "operators": [{"select": "op:*", "time_us": 2}]}], "transfers": []}',
        encoding="utf-8",
    )
    free = planned(quantized(), costs=costs, copy_rate=1e9)
    assert free.subgraphs[0].numbers == [1, 0, 1, 1, 0, 1]
    plan = planned(quantized(), costs=costs, copy_rate=1e9, keep_together=("quantize",))
    assert plan.subgraphs[0].numbers == [1, 1, 1, 1, 0, 1]


def test_the_problem_of_units() -> None:
    with open_model(quantized()) as model:
        facts = graph_of(model, 0)
        links = Links(np.zeros((2, 2)), np.ones((2, 2)), np.zeros(2))
        times = np.arange(12.0).reshape(6, 2)
        units = make_units(facts, colocation=Colocation(pairs=True))
        problem = make_subgraph(facts, make_cost_table(facts, times, links), Sizing(units=[units]), TWO).problem
        found = problem.table
        assert found.times_us.tolist() == [[0, 1], [6, 8], [6, 7], [8, 9], [10, 11]]
        assert found.producers.tolist() == [0, 1, 2, 3]
        assert found.sizes_bytes.tolist() == [16, 16, 16, 4]
        assert (found.read.tolist(), found.readers.tolist()) == ([0, 1, 2, 3], [1, 2, 3, 4])
        assert problem.contents.producers.tolist() == [-1, 0, 1, 1, 2, 3, 4]
        assert units.graph.successors == [[1], [2], [3], [4], []]


def shared_weights(kind: str = "tflite") -> bytes:
    """ADD of c, SUB of c, RESHAPE: OpenVINO's first test model; add 0, sub 1, reshape 2, and more."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    weight = graph.constant("w", np.ones((2, 2), np.float32))
    a = graph.compute("ADD", [x, weight], "a")
    b = graph.compute("MUL", [y, weight], "b")
    c = graph.compute("NEG", [x], "c")
    d = graph.compute("NEG", [y], "d")
    graph.ends([x, y], [a, b, c, d])
    return build.to_bytes(kind)


@pytest.mark.parametrize(("join", "expected"), [
    ("connected", [(0,), (1,), (2,), (3,)]),
    ("shared", [(0, 1, 2, 3)]),
    ("any", [(0, 1, 2, 3)]),
])  # fmt: skip
def test_readers_of_the_same_tensor_may_be_one(join: Join, expected: list[tuple[int, ...]]) -> None:
    assert rows(planned(shared_weights(), default="cpu", join=join)) == expected


def test_only_operators_of_one_device_are_joined() -> None:
    plan = planned(shared_weights(), rules=("index:1-2=npu",), default="cpu", join="shared")
    assert rows(plan) == [(0,), (1,), (2,), (3,)]
    plan = planned(shared_weights(), rules=("index:1-2=npu",), default="cpu", join="any")
    assert sorted(rows(plan)) == [(0, 3), (1, 2)]
    plan = planned(shared_weights(), rules=("index:2-3=npu",), default="cpu", join="shared")
    assert rows(plan) == [(0, 1), (2,), (3,)]


def openvino_case(number: int) -> tuple[bytes, list[int], int]:
    """A model of OpenVINO's own tests of subgraph collection, devices of its operators, and its subgraphs."""
    build = Build()
    graph = build.graph()
    first = graph.tensor("input")
    one = graph.constant("const_val", np.ones((2, 2), np.float32))
    if number == 0:  # add, sub and reshape, which share a constant in two
        last = graph.compute("ADD", [first, one], "add")
        last = graph.compute("SUB", [last, one], "sub")
        last = graph.compute("NEG", [last], "reshape")
        found = [0, 1, 0], 3
    elif number == 1:  # add1, add2, sub, add3, reshape
        add1 = graph.compute("ADD", [first, one], "add1")
        add2 = graph.compute("ADD", [add1, one], "add2")
        sub = graph.compute("SUB", [add2, one], "sub")
        last = graph.compute("NEG", [graph.compute("ADD", [add1, sub], "add3")], "reshape")
        found = [0, 0, 1, 0, 0], 3
    else:  # two that nothing but the device joins, and a second input that nobody reads
        last = graph.compute("ADD", [first, one], "add1")
        last = graph.compute("ADD", [last, graph.constant("other", np.ones((2, 2), np.float32))], "add2")
        found = [0, 1], 3
    graph.ends([first], [last])
    return build.to_bytes("tflite"), *found


@pytest.mark.parametrize("number", range(3))
def test_never_more_than_openvino_in_its_own_cases(number: int) -> None:
    data, devices, theirs = openvino_case(number)
    rules = tuple(f"index:{at}={TWO[device]}" for at, device in enumerate(devices))
    assert len(rows(planned(data, rules=rules, join="shared"))) <= theirs


@pytest.mark.parametrize("seed", range(40))
def test_joining_more_never_makes_more_partitions(seed: int) -> None:
    generator = seeded(seed)
    build = Build()
    graph = build.graph()
    made, given = [graph.tensor("x"), graph.tensor("y")], 2
    weights = [graph.constant(f"w{at}", np.full((2, 2), at + 1, np.float32)) for at in range(3)]
    for at in range(generator.randint(2, 12)):
        made.append(graph.compute("ADD", [generator.choice(made[-4:]), generator.choice(weights + made)], f"o{at}"))
    graph.ends(made[:given], made[given:])
    data = build.to_bytes("tflite")
    rules = (f"index:{','.join(str(at) for at in range(len(made) - 2) if generator.random() < 0.5) or '0'}=npu",)
    counts = []
    for join in ("connected", "shared", "any"):
        plan = planned(data, rules=rules, default="cpu", join=join)
        home = plan.subgraphs[0].partition_of()
        with open_model(data) as model:
            graph_ = graph_of(model, 0).dag
        assert all(home[a] <= home[b] for a, row in enumerate(graph_.successors) for b in row)
        counts.append(len(rows(plan)))
    assert counts[0] >= counts[1] >= counts[2]


@pytest.mark.parametrize("words", ["quantise", "-1", "1.5", "", "9" * 19])
def test_operators_to_keep_together_that_are_none(words: str) -> None:
    with pytest.raises(ct.UsageError, match="`keep_together="):
        parse_colocation([words])
    assert bool(Colocation()) is False
    assert all(map(bool, (Colocation(pairs=True), Colocation(least_bytes=0))))


def test_joins_that_modes_do_not_have() -> None:
    for mode, join in (("seed", "shared"), ("seed", "any")):
        with pytest.raises(ct.UsageError, match=f"`join={join}` requires `mode=min`"):
            planned(quantized(), default="cpu", mode=mode, join=join)


def test_weights_in_two_partitions_are_two_copies(tmp_path: Path) -> None:
    """ADD and MUL read one weight of 16 bytes; apart that is 2 x 16 us and two launches, together half of it."""

    def costs(**more: float) -> Path:
        device = {"name": "npu", "launch_us": 3, "operators": [{"select": "op:*", "time_us": 1}], **more}
        path = tmp_path / "costs.json"
        path.write_text(json.dumps({"devices": [device]}), encoding="utf-8")
        return path

    with open_model(shared_weights()) as model:
        apart = ct.plan(model, ct.PlanRequest(costs=costs()))
        assert [one.operators for one in apart.subgraphs[0].partitions] == [(0,), (1,), (2,), (3,)]
        assert apart.evaluation[0].estimate.constants_us == 0  # type: ignore[union-attr]
        plan = ct.plan(model, ct.PlanRequest(costs=costs(constants_bytes_per_us=1)))
        estimate = plan.evaluation[0].estimate
        assert estimate is not None
        assert [one.operators for one in plan.subgraphs[0].partitions] == [(0, 1, 2, 3)]
        assert (estimate.constants_us, estimate.total_us) == (16, 4 + 3 + 16)
        assert plan.evaluation[0].excess == 0
        kept = ct.plan(model, ct.PlanRequest(costs=costs(constants_bytes_per_us=1), limits=("npu:max-operators=1",)))
        assert kept.evaluation[0].estimate.constants_us == 32  # type: ignore[union-attr]
        text = "\n".join(ct.render.plan_text(plan))
        assert "23.000 us (operators 4.000, copies 0.000, launches 3.000, constants 16.000)" in text
