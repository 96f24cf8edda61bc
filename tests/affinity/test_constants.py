"""Operators that depend on constants only are not work: they belong to their readers, everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.affinity.costs.table import Links, contents, footprints, make_cost_table
from circletools.affinity.exports.pictures import current_affinity, dot_graph
from circletools.affinity.partitioning import make_partitioning
from circletools.affinity.problem import Sizing
from circletools.affinity.solvers.partitions import Mode, make_partitions
from circletools.affinity.solvers.seed import Step
from circletools.graph.build import graph_of, model_graph
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.plan import plan_split
from circletools.planning.evaluate import transfers
from tests.kit.affinity_support import affinity, annotated, assigned, unruled, with_affinity
from tests.kit.build import Build
from tests.kit.presence import Lazy
from tests.kit.split_support import split_to

litert = Lazy("ai_edge_litert.interpreter")
MODES: tuple[Mode, ...] = ("min", "seed")


def half_floats(readers: str = "ab", kind: str = "tflite") -> bytes:
    """Return a chain of ADDs that read a float16 weight by way of DEQUANTIZE (operator 0), which all share.

    Operators: 0 DEQUANTIZE, 1 RELU of it (constant as well), then an ADD for each letter.
    """
    build = Build()
    graph = build.graph()
    last = graph.tensor("x")
    inputs = [last]
    weight = graph.tensor("w")
    graph.operator("DEQUANTIZE", [graph.constant("half", np.ones((2, 2), np.float16))], [weight])
    positive = graph.compute("RELU", [weight], "positive")
    for letter in readers:
        last = graph.compute("ADD", [last, positive], letter)
    graph.ends(inputs, [last])
    return build.to_bytes(kind)


def test_which_operators_depend_on_constants_only() -> None:
    with open_model(half_floats()) as model:
        assert graph_of(model, 0).dag.constants == (0, 1)
    build = Build()
    graph = build.graph()
    fixed = graph.constant("c", np.ones((2, 2), np.float32))
    x = graph.tensor("x")
    graph.compute("NEG", [fixed], "unread")
    kept = graph.compute("NEG", [fixed], "output")
    fed = graph.compute("ADD", [x, fixed], "fed")
    graph.ends([x], [kept, fed])
    with open_model(build.to_bytes("tflite")) as model:
        assert graph_of(model, 0).dag.constants == ()


@pytest.mark.parametrize("mode", MODES)
def test_they_go_to_the_partition_that_reads_them_first(mode: Mode) -> None:
    with open_model(half_floats("abc")) as model:
        found = make_partitions(graph_of(model, 0).dag, [1, 1, 0, 1, 0], mode)
        assert [(its.device, its.operators) for its in found] == [(0, (0, 1, 2)), (1, (3,)), (0, (4,))]


def test_only_steps_of_work_are_reported() -> None:
    seen: list[Step] = []
    with open_model(half_floats()) as model:
        make_partitions(graph_of(model, 0).dag, [1, 1, 0, 0], "seed", seen.append)
    assert {step.operator for step in seen} == {2, 3}
    assert seen[-1] == Step("select", 2)


def test_a_plan_counts_neither_their_launches_nor_copies_nor_times(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    times = [
        {"name": name, "launch_us": 1, "operators": [{"select": "op:ADD", "time_us": 5}]} for name in ("npu", "cpu")
    ]
    costs.write_text(json.dumps({"schema_version": 1, "devices": times}), encoding="utf-8")
    with open_model(half_floats("abc")) as model:
        rules = ("index:2=npu", "index:3=cpu", "index:4=npu")
        plan = ct.plan(model, ct.PlanRequest(devices=("npu", "cpu"), rules=rules))
        assert plan.subgraphs[0].numbers == [0, 0, 0, 1, 0]
        assert "depends only on constants" in plan.reason(0, 0)
        assert not plan.notes
        (evaluation,) = plan.evaluation
        assert (evaluation.transfers.launches, evaluation.transfers.copies) == (3, 2)
        assert [cut.name for cut in evaluation.transfers.cuts] == ["a", "b"]
        priced = ct.plan(model, ct.PlanRequest(devices=("npu", "cpu"), rules=rules, costs=costs))
        estimate = priced.evaluation[0].estimate
        assert estimate is not None
        assert (estimate.operators_us, estimate.launches_us, estimate.operators_without_time) == (15, 3, 0)


def test_a_table_that_does_not_take_them_does_not_move_them(tmp_path: Path) -> None:
    table = tmp_path / "npu.json"
    table.write_text(json.dumps({"device": "npu", "operators": {"ADD": [{}]}}), encoding="utf-8")
    with open_model(half_floats()) as model:
        plan = ct.plan(model, ct.PlanRequest(devices=("npu", "cpu"), capabilities=(str(table),)))
        assert plan.subgraphs[0].numbers == [0] * 4
        assert plan.notes[0].message.startswith("the plan puts 2 operators on a device that does not support them; ")
        (target,) = ct.fit(model, ct.FitRequest(on=(str(table),))).targets
        assert (target.cuts.partitions, target.cuts.tensors) == (1, 0)


def test_min_size_counts_work() -> None:
    with open_model(half_floats("abc")) as model:
        given = unruled(assigned(model, ("npu", "cpu"), "index:2=npu", default="cpu"))
        made = make_partitioning(model_graph(model).graphs, given, Sizing(min_size=2))
        assert made.subgraphs[0].numbers == [1] * 5


def test_a_picture_names_the_device_of_what_is_work() -> None:
    data = annotated(half_floats("ab"), affinity(["npu", "cpu"], ([1, 0, 0, 1], [0, 0, 0, 1])))
    with open_model(data) as model:
        shown = dot_graph(model_graph(model), current_affinity(model_graph(model)))
    assert '"partition 0: npu"' in shown
    assert '"partition 1: cpu"' in shown
    alone = annotated(half_floats("ab"), affinity(["npu", "cpu"], ([1, 0, 0, 1], [0, 2, 1, 1])))
    with open_model(alone) as model:
        shown = dot_graph(model_graph(model), current_affinity(model_graph(model)))
    assert all(f'"partition {words}"' in shown for words in ("0: cpu", "1: npu, cpu", "2: npu"))


@pytest.mark.parametrize("readers", [[1, 1], [1, 0]])
def test_their_outputs_are_constants_of_each_reader(readers: list[int]) -> None:
    """8 bytes of float16, twice 16 made of it; x and what each ADD makes have 16 bytes each."""
    with open_model(half_floats("ab")) as model:
        facts = graph_of(model, 0)
        what = contents(facts)
        found = footprints(what, facts.dag, make_partitions(facts.dag, [0, 0, *readers]), 2)
    assert [used.constants_bytes for used in found] == ([40, 40] if 0 in readers else [0, 40])
    assert [used.activations_bytes for used in found] == ([32, 32] if 0 in readers else [0, 32])


def test_no_copy_of_what_they_make_is_priced() -> None:
    links = Links(np.zeros((2, 2)), np.ones((2, 2)), np.zeros(2))
    with open_model(half_floats()) as model:
        facts = graph_of(model, 0)
        problem = make_cost_table(facts, np.full((4, 2), np.inf), links)
        assert problem.times_us[:2].tolist() == [[0, 0], [0, 0]]
        assert np.isinf(problem.times_us[2:]).all()
        assert problem.producers.tolist() == [2]
        assert [cut.name for cut in transfers(facts, [0, 0, 0, 1], [0, 0, 0, 1]).cuts] == ["a"]


@pytest.mark.parametrize("partitions", [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])
def test_each_part_that_reads_them_has_them(partitions: list[int], tmp_path: Path) -> None:
    """Also where an affinity gives them partitions of their own, as others write it."""
    names = ["npu", "cpu"]
    data = annotated(half_floats("abc"), affinity(names, ([0, 0, 0, 1, 0], partitions)))
    with open_model(data) as model:
        parts = plan_split(model).parts
        assert [(part.device, part.operators) for part in parts] == [
            ("npu", (0, 1, 2)), ("cpu", (0, 1, 3)), ("npu", (0, 1, 4)),
        ]  # fmt: skip
        assert [len(part.inputs) for part in parts] == [1, 1, 1]
    split_to(data, tmp_path / "parts", "tflite")
    assert check_files(open_split(tmp_path / "parts")) == []


def test_parts_with_copies_compute_the_same(tmp_path: Path) -> None:
    data = with_affinity(half_floats("abcd"), ["npu", "cpu"], "index:3,5=cpu", default="npu")
    split_to(data, tmp_path / "parts", "tflite")
    given = {"x": np.array([[1, -2], [3, 0.5]], np.float32)}
    whole = run(tmp_path / "model.tflite", given)
    values = dict(given)
    for path in sorted((tmp_path / "parts").glob("*.tflite")):
        values |= run(path, values)
    assert all(values[name].tobytes() == value.tobytes() for name, value in whole.items())


def run(path: Path, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    plain = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(str(path), experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], values[detail["name"]])
    interpreter.invoke()
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()}
