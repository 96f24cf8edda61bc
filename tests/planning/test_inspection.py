"""The affinity in a model, with its estimated times; and the costs as onert's scheduler reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.planning.inputs import measured_times
from circletools.planning.inspection import AffinityInspection
from circletools.trace.operators.read import read_profile
from tests.kit.affinity_support import affinity, annotated
from tests.kit.costs_support import diamond_trace
from tests.kit.operator_support import TRACES
from tests.kit.presence import need
from tests.kit.support import bytes_of, path_of

DIAMOND = path_of("circle/diamond")
COSTS = {
    "devices": [
        {"name": "npu", "launch_us": 100, "operators": [{"select": "op:*", "time_us": 1}]},
        {"name": "cpu", "launch_us": 7, "operators": [{"select": "op:*", "time_us": 10}]},
    ],
    "transfers": [{"from": "*", "to": "*", "overhead_us": 2}],
}


@pytest.fixture
def costs(tmp_path: Path) -> ct.planning.CostRequest:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(COSTS))
    return ct.planning.CostRequest(costs=path)


def inspected(data: bytes, costs: ct.planning.CostRequest | None = None) -> AffinityInspection:
    with ct.open(data) as model:
        return ct.planning.inspect_affinity(model, costs)


def test_a_model_without_affinity(costs: ct.planning.CostRequest) -> None:
    found = inspected(DIAMOND.read_bytes(), costs)
    assert (found.freshness, found.is_current, found.estimates) == (None, False, {})
    assert [note.code for note in found.notes] == ["NO_AFFINITY"]
    assert ct.render.affinity_json(found)["freshness"] == "absent"


def test_a_request_that_names_no_costs_asks_for_no_times() -> None:
    with ct.open(bytes_of("circle/diamond")) as model, ct.edit(model) as edit:
        plan = ct.plan(model, ct.PlanRequest(devices=("npu", "cpu"), rules=("index:1,3=cpu",), default="npu"))
        ct.affinity.annotate(edit, plan)
        data = edit.to_bytes()
    assert inspected(data, ct.planning.CostRequest()) == inspected(data)
    assert inspected(data).transfers == {0: plan.evaluation[0].transfers}


def test_a_stale_affinity_is_not_shown(costs: ct.planning.CostRequest) -> None:
    found = inspected(annotated(DIAMOND.read_bytes(), affinity(["npu"], ([0] * 5, [0] * 5))), costs)
    assert (found.is_current, found.affinity.subgraphs, found.estimates) == (False, {}, {})
    assert [note.message for note in found.notes] == [
        "the affinity is stale from subgraphs[0].operators[5] on: operators in the table: 5; in the model: 6"
    ]


def test_times_of_partitions_and_of_operators_in_none(costs: ct.planning.CostRequest) -> None:
    devices, partitions = [0, 0, 0, 0, 1, 1], [0, 0, 0, 0, None, None]
    found = inspected(annotated(DIAMOND.read_bytes(), affinity(["npu", "cpu"], (devices, partitions))), costs)
    assert found.is_current
    rows = [(row["device"], row["partition"]) for row in found.to_rows()]
    assert rows == [*[("npu", 0)] * 4, *[("cpu", None)] * 2]
    estimate = found.estimates[0]
    assert (estimate.operators_us, estimate.copies_us) == (4 * 1 + 2 * 10, 2 * 2)
    assert estimate.launches_us == 100 + 2 * 7
    assert (found.outputs[0][5], found.code_names[0][5]) == ("__main__.Branchy::add", "ADD")
    parts = ct.render.affinity_json(found)["subgraphs"][0]["partitions"]
    assert [(part["partition"], part["device"], part["operators"]) for part in parts] == [
        (0, "npu", [0, 1, 2, 3]),
        (None, "cpu", [4, 5]),
    ]


def test_an_operator_without_a_device_takes_no_time(costs: ct.planning.CostRequest) -> None:
    data = annotated(DIAMOND.read_bytes(), affinity(["npu"], ([0, 0, None, 0, 0, 0], [0] * 6)))
    assert inspected(data).is_current
    with pytest.raises(ct.EditError, match=r"subgraphs\[0\].operators\[2\]: an operator without a device"):
        inspected(data, costs)


def test_times_are_medians_and_means_of_averages(tmp_path: Path) -> None:
    with ct.open(DIAMOND) as model:
        trace = read_profile(str(diamond_trace(tmp_path / "a.json", ("cpu", "ruy"))))
        times, elsewhere, _ = measured_times(model_graph(model), trace, {"ruy"})
        assert times == {(0, 0): 1, (0, 2): 3, (0, 4): 5}
        assert elsewhere == {(0, index): frozenset({"ruy"}) for index in (1, 3, 5)}
        assert measured_times(model_graph(model), trace)[0] == {(0, index): index + 1 for index in range(6)}
    need("ai_edge_litert")
    with ct.open(path_of("tflite/cnn")) as model:  # XNNPACK takes all operators but the last
        trace = ct.profile(model, "litert", runs=2).trace
        assert len(measured_times(model_graph(model), trace)[0]) == len(model.subgraphs[0].operators)
    averages = read_profile(str(TRACES / "benchmark_custom_op.csv"))
    with ct.open(path_of("tflite/custom_op")) as model:
        assert averages.averaged
        times = measured_times(model_graph(model), averages)[0]
        total = sum(run.duration_ns for run in averages.runs)
        assert sum(times.values()) * 1000 * averages.executions == pytest.approx(total)
