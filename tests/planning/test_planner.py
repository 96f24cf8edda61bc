"""From a request to a plan: what decides, what is noted, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.cost.macs import macs
from circletools.graph.build import model_graph
from tests.kit.affinity_support import affinity, annotated
from tests.kit.command_support import run
from tests.kit.costs_support import diamond_trace
from tests.kit.origin_support import embedded
from tests.kit.support import bytes_of, own_models, path_of, title

DIAMOND = path_of("circle/diamond")  # FULLY_CONNECTED feeds TANH, LOGISTIC, RELU; MUL of the first two; ADD
TWO = ("npu", "cpu")
COSTS: dict[str, Any] = {
    "devices": [
        {"name": "npu", "operators": [{"select": "op:*", "time_us": 1}, {"select": "op:RELU", "time_us": None}]},
        {"name": "cpu", "operators": [{"select": "op:*", "time_us": 10}]},
    ],
    "transfers": [{"from": "*", "to": "*", "overhead_us": 2}],
}


def planned(source: Path | bytes = DIAMOND, **request: Any) -> ct.types.Plan:
    with ct.open(source) as model:
        return ct.plan(model, ct.PlanRequest(**request))


def devices_of(plan: ct.types.Plan, subgraph: int = 0) -> list[str]:
    return [plan.device_of(subgraph, operator) for operator in range(len(plan.subgraphs[subgraph].numbers))]


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    return written(tmp_path, "costs.json", COSTS)


# --- what the command prints is what the library returns ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words", "request_"),
    [
        ("circle/inception", ["--set", "op:CONV_2D=npu"], {"rules": ("op:CONV_2D=npu",)}),
        ("circle/while_loop", ["--mode", "min", "--by", "operator"], {"mode": "min", "explain": True}),
        ("circle/diamond", ["--mode", "seed", "--by", "operator"], {"mode": "seed", "explain": True}),
        ("tflite/cnn_int8", ["--capabilities", "npu=xnnpack"], {"capabilities": ("npu=xnnpack",)}),
    ],
)
def test_the_command_prints_the_plan(name: str, words: list[str], request_: dict[str, Any]) -> None:
    plan = planned(path_of(name), devices=TWO, default="cpu", **request_)
    arguments: tuple[str | Path, ...] = (path_of(name), "--devices", "npu,cpu", "--default", "cpu", *words)
    document = {"file": str(path_of(name))} | json.loads(json.dumps(ct.render.plan_json(plan)))
    assert json.loads(run("partition", *arguments, "--json").stdout) == document
    assert run("partition", *arguments).stdout.splitlines() == list(ct.render.plan_text(plan))


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_every_operator_is_in_one_partition_of_its_device(path: Path) -> None:
    with ct.open(path) as model:
        plan = ct.plan(model, ct.PlanRequest(devices=TWO, capabilities=("npu=xnnpack",), default="cpu"))
        assert len(plan.subgraphs) == len(model.subgraphs)
        for subgraph, codes, view in zip(plan.subgraphs, plan.code_names, model.subgraphs, strict=True):
            members = sorted(operator for each in subgraph.partitions for operator in each.operators)
            assert members == list(range(len(view.operators))) == list(range(len(codes)))
            assert all(
                {subgraph.numbers[operator] for operator in each.operators} == {each.device}
                for each in subgraph.partitions
            )
    numbers = [number for subgraph in plan.subgraphs for number in subgraph.numbers]
    launched = [each.device for subgraph in plan.subgraphs for each in subgraph.partitions]
    for number, row in enumerate(plan.summary.devices):
        count = numbers.count(number)
        assert (row.operator_count, row.launch_count) == (count, launched.count(number))
        assert row.share_percent == pytest.approx(100 * count / max(len(numbers), 1))
    total = sum(row.macs for row in plan.summary.devices)
    with ct.open(path) as model:
        assert total == sum(np.maximum(macs(graph), 0).sum() for graph in model_graph(model).graphs)
    assert [row.macs_percent for row in plan.summary.devices] == [
        pytest.approx(100 * row.macs / max(total, 1)) for row in plan.summary.devices
    ]


# --- what decides -------------------------------------------------------------------------------------------


def test_rules_of_the_request_go_before_those_of_the_file(tmp_path: Path) -> None:
    rules = [{"select": "op:TANH", "device": "npu"}, {"select": "op:MUL", "device": "npu"}]
    path = written(tmp_path, "rules.json", {"default": "npu", "rules": rules})
    plan = planned(devices=TWO, rules_file=path, rules=("op:MUL=cpu",))
    assert devices_of(plan) == ["npu", "npu", "npu", "cpu", "npu", "npu"]
    assert devices_of(planned(devices=TWO, rules_file=path, default="cpu")) == [
        "cpu", "npu", "cpu", "npu", "cpu", "cpu",
    ]  # fmt: skip
    part = tmp_path / "a.part"
    part.write_text("[partition]\nbackends=a,b\ndefault=b\ncomply=opcode\n[OPCODE]\nADD=a\n")
    assert planned(rules_file=part).devices == ("a", "b")
    assert planned(rules_file=part, devices=("b", "a")).devices == ("b", "a")


def test_the_last_device_takes_what_is_left_unless_it_has_a_table(tmp_path: Path) -> None:
    npu, cpu = (
        str(written(tmp_path, f"{device}.json", {"device": device, "operators": {code: [{}]}}))
        for device, code in (("npu", "TANH"), ("cpu", "MUL"))
    )
    assert devices_of(planned(devices=TWO, capabilities=(npu,))) == ["cpu", "npu", *["cpu"] * 4]
    with pytest.raises(ct.EditError, match="FULLY_CONNECTED is left without a device"):
        planned(devices=TWO, capabilities=(npu, cpu))


def test_devices_in_the_model_are_kept_unless_some_are_named(costs: Path) -> None:
    source = annotated(DIAMOND.read_bytes(), affinity(["cpu", "npu"], ([0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 4, 5])))
    assert devices_of(planned(source)) == ["cpu", "npu"] * 3
    assert devices_of(planned(source, costs=costs)) == ["cpu", "npu"] * 3
    least = ["npu", "npu", "npu", "npu", "cpu", "npu"]
    assert devices_of(planned(source, costs=costs, keep=False)) == least
    assert devices_of(planned(source, costs=costs, devices=TWO)) == least
    assert devices_of(planned(source, devices=TWO, default="cpu")) == ["cpu"] * 6
    assert planned(source).reason(0, 1) == "from the model"


def test_the_devices_of_costs_are_taken_where_none_are_named(costs: Path) -> None:
    assert planned(costs=costs).devices == TWO
    assert planned(costs=costs, devices=("cpu", "npu")).devices == ("cpu", "npu")


def test_an_earlier_model_decides_by_its_sources(tmp_path: Path) -> None:
    earlier = annotated(embedded(DIAMOND.read_bytes()), affinity(["npu", "cpu"], ([0, 1, 0, 1, 0, 1], [0] * 6)))
    path = tmp_path / "earlier.circle"
    path.write_bytes(earlier)
    plan = planned(embedded(DIAMOND.read_bytes()), reproject=path)
    assert devices_of(plan) == ["npu", "cpu"] * 3
    assert plan.notes == ()
    assert plan.reason(0, 0).startswith("as before: ")


def test_selectors_by_origin_read_the_sources(tmp_path: Path) -> None:
    source = embedded(DIAMOND.read_bytes())
    by_origin = {"devices": [{"name": "npu", "operators": [{"select": "origin:*", "time_us": 1}]}]}
    path = written(tmp_path, "costs.json", by_origin)
    assert planned(source, costs=path).evaluation[0].estimate is not None
    assert devices_of(planned(source, devices=TWO, rules=("origin:*tanh=npu",), default="cpu"))[:2] == ["cpu", "npu"]
    with pytest.raises(ct.EditError, match="the model has no origins"):
        planned(devices=TWO, rules=("origin:*=npu",), default="cpu")


@pytest.mark.parametrize("mode", ["seed", "min"])
def test_steps_are_reported_on_request(mode: Any) -> None:
    assert planned(devices=TWO, default="cpu", mode=mode).steps is None
    steps = planned(devices=TWO, default="cpu", mode=mode, explain=True).steps
    assert steps is not None
    assert any(steps) == (mode == "seed")


# --- what it costs ------------------------------------------------------------------------------------------


def test_times_and_copies_are_added_up(costs: Path) -> None:
    (found,) = planned(costs=costs).evaluation
    assert found.estimate is not None
    assert (found.estimate.operators_us, found.estimate.copies_us, found.estimate.total_us) == (15, 4, 19)
    assert found.memory is None
    assert [(cut.tensor_index, cut.producer_partition, cut.consumer_partitions) for cut in found.transfers.cuts] != []
    assert planned(devices=TWO, default="cpu").evaluation[0].estimate is None


def test_memory_is_reported_by_device(costs: Path) -> None:
    plan = planned(costs=costs, memory=("npu=999999",))
    used = plan.evaluation[0].memory
    assert used is not None
    assert plan.caps == {0: 999999}
    assert [each.constants_bytes for each in used] == [(8 * 8 + 8) * 4, 0]
    assert devices_of(planned(costs=costs, memory=("npu=0",))) == ["cpu"] * 6
    assert planned(costs=costs, memory=("npu=" + "9" * 18,)).caps == {0: 10**18 - 1}
    with pytest.raises(ct.EditError, match="npu has 100 bytes, but would need"):
        planned(costs=costs, memory=("npu=100",), rules=("index:0=npu",))


# --- what is noted ------------------------------------------------------------------------------------------


def test_gaps_of_traces_are_notes(tmp_path: Path) -> None:
    trace = diamond_trace(tmp_path / "a.json", ("cpu", "ruy"), leave_out=(5,))
    plan = planned(devices=("cpu", "ruy"), default="cpu", traces=(f"cpu={trace}",))
    assert [(note.code, note.severity, note.location, note.message) for note in plan.notes[:2]] == [
        ("RAN_ON_ANOTHER_DEVICE", "info", str(trace), "2 operators ran on ruy; times on cpu are unknown"),
        ("NOT_IN_TRACE", "info", str(trace), "1 operator is not in the trace of cpu"),
    ]
    assert plan.notes[2].code == "TRANSFERS_NOT_LISTED"
    assert "0 us, plus 1 us for every 1000 bytes" in plan.notes[2].message
    estimate = plan.evaluation[0].estimate
    assert estimate is not None
    assert (estimate.operators_us, estimate.operators_without_time) == (1 + 3 + 5, 3)
    whole = diamond_trace(tmp_path / "b.json")
    assert planned(traces=(f"cpu={whole}",)).notes == ()
    less = planned(traces=(f"cpu={diamond_trace(tmp_path / 'c.json', leave_out=(4, 5))}",), default="cpu")
    assert [note.message for note in less.notes] == [
        "2 operators are not in the trace of cpu",
        "the plan puts 2 operators on a device that does not support them; "
        f"the first is subgraphs[0].operators[4]: {less.reason(0, 4)}",
    ]


def test_untested_operators_count_as_refused_and_are_reported(tmp_path: Path) -> None:
    measured = [{"operators": ["FULLY_CONNECTED", "TANH"], "types": ["FLOAT32"]}]
    table = written(tmp_path, "npu.json", {"device": "npu", "measured": measured, "operators": {"TANH": [{}]}})
    plan = planned(devices=TWO, capabilities=(f"npu={table}",), default="cpu")
    assert devices_of(plan) == ["cpu", "npu", "cpu", "cpu", "cpu", "cpu"]
    (note,) = plan.notes
    assert (note.code, note.severity) == ("NOT_MEASURED", "info")
    assert "4 operators" in note.message
    assert "subgraphs[0].operators[2]" in note.message
    assert plan.assignment.why(0, 2) == "default; not npu: not measured: LOGISTIC was not tested"
    assert plan.assignment.why(0, 0) == "default; not npu: npu does not support FULLY_CONNECTED"


def test_an_operator_on_a_device_that_does_not_take_it_is_noted() -> None:
    plan = planned(path_of("tflite/cnn"), devices=TWO, capabilities=("npu=onert-ruy",), rules=("op:*=npu",))
    (note,) = plan.notes
    assert (note.code, note.severity) == ("REFUSED_OPERATOR", "warning")
    assert "operators on a device that does not support them; the first is subgraphs[0].operators[" in note.message
    assert planned(path_of("tflite/cnn"), devices=TWO, capabilities=("npu=onert-ruy",), default="cpu").notes == ()


def test_sources_that_disagree_are_noted(tmp_path: Path) -> None:
    loop = embedded(bytes_of("circle/while_loop"))
    with ct.open(loop) as model:
        edit = ct.edit(model)
        ct.affinity.annotate(edit, ct.plan(model, ct.PlanRequest(devices=TWO, rules=("0/op:*=npu",), default="cpu")))
        path = tmp_path / "earlier.circle"
        path.write_bytes(edit.to_bytes())
    plan = planned(embedded(bytes_of("circle/while_loop"), stamp=False), reproject=path, default="cpu")
    assert {note.code for note in plan.notes} == {"NO_ORIGINS"}
    assert [note.location for note in plan.notes] == [
        f"subgraphs[{index}]" for index in range(1, len(plan.subgraphs))
    ]


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "no devices are named"),
        ({"devices": ("npu", "")}, "name each device only once"),
        ({"devices": ("npu", "npu")}, "name each device only once"),
        ({"devices": TWO, "rules": ("op:ADD",)}, "names no device"),
        ({"devices": TWO, "rules": ("op:AD=npu",), "default": "cpu"}, "matches no operator"),
        ({"devices": TWO, "rules": ("op:ADD=nqu",)}, "did you mean 'npu'"),
        ({"devices": TWO, "rules": ("ADD=npu",)}, "is not a selector"),
        ({"devices": TWO, "default": "gpu"}, "is not among `devices=`"),
        ({"devices": TWO, "capabilities": ("xnnpakc",)}, "did you mean 'xnnpack'"),
        ({"devices": TWO, "capabilities": ("npu=xnnpack", "npu=onert-cpu")}, "duplicate capability table"),
        ({"devices": TWO, "default": "cpu", "min_size": 0}, "`min_size=0` must be at least 1"),
        ({"devices": TWO, "default": "cpu", "mode": "safe"}, "`mode` must be one of 'seed', 'min', not 'safe'"),
        ({"devices": TWO, "default": "cpu", "mode": "seed", "min_size": 2}, "need `mode=min`"),
        ({"devices": TWO, "default": "cpu", "mode": "seed", "memory": ("cpu=1",)}, "need `mode=min`"),
        ({"devices": TWO, "default": "cpu", "mode": "seed", "limits": ("cpu:min-bytes=1",)}, "need `mode=min`"),
        ({"costs": "COSTS", "memory": ("gpu=1k",)}, "not a number of bytes (write `memory=('gpu=1024',)`)"),
        ({"costs": "COSTS", "memory": ("npu=64 MiB",)}, "not a number of bytes (write `memory=('npu=67108864',)`)"),
        ({"devices": ("litert-gpu", "cpu")}, "add `capabilities=litert-gpu`"),
        ({"costs": "COSTS", "memory": ("",)}, "not a number of bytes (write `memory=('npu=1048576',)`)"),
        ({"costs": "COSTS", "memory": ("npu=" + "9" * 19,)}, "is not a number of bytes"),
        ({"costs": "COSTS", "memory": ("nqu=1",)}, "did you mean 'npu'"),
        ({"costs": "COSTS", "memory": ("npu=1", "npu=2")}, "duplicate value"),
        ({"costs": "COSTS", "copy_rate": 0.0}, "`copy_rate=0` must be at least 1e-09"),
        ({"costs": "COSTS", "copy_overhead": -1.0}, "`copy_overhead=-1` must be at least 0"),
        ({"costs": "COSTS", "launch": float("nan")}, "`launch=nan`"),
        ({"costs": "-"}, "standard input"),
        ({"traces": ("cpu=-",)}, "standard input"),
        ({"traces": ("trace.json",)}, "must name a device and a trace"),
        ({"traces": ("=trace.json",)}, "must name a device and a trace"),
        ({"traces": ("cpu=",)}, "must name a device and a trace"),
        ({"traces": ("cpu=TRACE", "cpu=TRACE")}, "duplicate value for 'cpu'"),
    ],
)
def test_a_request_that_makes_no_sense(request_: dict[str, Any], words: str, costs: Path, tmp_path: Path) -> None:
    trace = str(diamond_trace(tmp_path / "trace.json"))
    if request_.get("costs") == "COSTS":
        request_ = request_ | {"costs": costs}
    if "traces" in request_:
        request_ = request_ | {"traces": tuple(one.replace("TRACE", trace) for one in request_["traces"])}
    with pytest.raises(ct.UsageError) as caught:
        planned(**request_)
    assert words in str(caught.value)


@pytest.mark.parametrize("field", ["rules_file", "costs", "reproject"])
def test_a_file_that_is_not_there_is_named(field: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(ct.InvalidInputError, match=r"missing\.json: cannot read it") as caught:
        planned(devices=TWO, **{field: missing})
    assert caught.value.names_file
    assert str(caught.value).count("missing.json") == 1


def test_an_earlier_model_without_devices_is_named(tmp_path: Path) -> None:
    path = tmp_path / "earlier.circle"
    path.write_bytes(DIAMOND.read_bytes())
    with pytest.raises(ct.EditError, match="the model has no origins") as caught:
        planned(devices=TWO, reproject=path)
    assert (caught.value.location, caught.value.names_file) == (str(path), True)
    path.write_bytes(b"no model")
    with pytest.raises(ct.ModelFormatError) as broken:
        planned(devices=TWO, reproject=path)
    assert str(broken.value).count("earlier.circle") == 1


def test_times_alone_are_reported_unless_more_is_asked_for(costs: Path) -> None:
    with ct.open(DIAMOND) as model:
        plan = ct.plan(model, ct.PlanRequest(costs=costs))
    assert plan.evaluation[0].estimate is not None
    assert plan.evaluation[0].memory is None


def test_operators_supported_by_no_device_are_refused(costs: Path) -> None:
    with pytest.raises(ct.EditError, match="no time is known for it"):
        planned(costs=costs, devices=("npu",))
    with pytest.raises(ct.EditError, match="is left without a device"):
        planned(devices=("npu",), rules=("op:ADD=npu",))


def test_the_trace_of_another_model_is_named(tmp_path: Path) -> None:
    trace = diamond_trace(tmp_path / "trace.json")
    with pytest.raises(ct.InvalidInputError, match=f"{trace}.*from another model"):
        planned(path_of("circle/if_cond"), traces=(f"cpu={trace}",), default="cpu")


def test_a_request_is_read_once_for_many_models(costs: Path) -> None:
    request = ct.PlanRequest(
        costs=costs, rules_file=None, traces=("npu=b.json",), capabilities=("npu=c.json", "d.json")
    )
    assert request.files == ("npu=c.json", "c.json", "d.json", str(costs), "b.json")
    assert ct.planning.CostRequest(costs=costs).files == (str(costs),)
    assert not ct.planning.CostRequest(copy_rate=5.0).has_costs
    inputs = ct.planning.read_request(ct.PlanRequest(costs=costs))
    costs.unlink()
    for name in ("circle/diamond", "circle/mlp"):
        with ct.open(path_of(name)) as model:
            assert ct.plan(model, inputs).evaluation[0].estimate is not None
            assert ct.plan(model, inputs).devices == TWO
