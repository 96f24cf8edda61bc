"""Plans, estimates and affinity as text, CSV and JSON, to the letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from tests.kit.affinity_support import affinity, annotated
from tests.kit.support import bytes_of, path_of

DIAMOND = path_of("circle/diamond")
COSTS = {
    "devices": [
        {
            "name": "npu",
            "launch_us": 1,
            "operators": [{"select": "op:*", "time_us": 1}, {"select": "op:RELU", "time_us": None}],
        },
        {"name": "cpu", "operators": [{"select": "op:*", "time_us": 10}]},
    ],
    "transfers": [{"from": "*", "to": "*", "overhead_us": 2}],
}
_FIELDS = ("device", "operator_count", "share_percent", "computed_bytes", "launch_count", "macs", "macs_percent")
SHARES = [
    dict(zip(_FIELDS, ("npu", 1, 100 / 6, 32, 1, 64, 100.0), strict=True)),
    dict(zip(_FIELDS, ("cpu", 5, 500 / 6, 160, 1, 0, 0.0), strict=True)),
]
RULES: dict[str, Any] = {"devices": ("npu", "cpu"), "rules": ("index:0=npu",), "default": "cpu"}


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(COSTS))
    return path


def text_of(source: Path | bytes = DIAMOND, **request: Any) -> list[str]:
    with ct.open(source) as model:
        lines = list(ct.render.plan_text(ct.plan(model, ct.PlanRequest(**request))))
    return lines[lines.index("") + 1 :] if "" in lines else lines  # behind the summary


def json_of(**request: Any) -> Any:
    with ct.open(DIAMOND) as model:
        return ct.render.plan_json(ct.plan(model, ct.PlanRequest(**request)))


def test_a_plan_as_text(costs: Path) -> None:
    assert text_of(**RULES) == [
        "  partition  device  operators",
        "          0  npu     0",
        "          1  cpu     1-5",
        "  2 launches, 1 tensor cut, 1 copy between devices (32 bytes)",
    ]
    assert text_of(costs=costs, memory=("npu=5000",)) == [
        "  partition  device  operators",
        "          0  npu     0-3",
        "          1  cpu     4",
        "          2  npu     5",
        "  3 launches, 3 tensors cut, 2 copies between devices (64 bytes)",
        "  estimated time: 21.000 us (operators 15.000, copies 4.000, launches 2.000), optimal for these times",
        "  memory of npu: 416 of 5000 bytes (288 of constants, 128 of tensors)",
        "  memory of cpu: 64 bytes (0 of constants, 64 of tensors)",
    ]
    (line,) = [line for line in text_of(costs=costs, rules=("op:RELU=npu",)) if "estimated" in line]
    assert line.endswith("launches 1.000; 1 operator without a time), optimal for these times")


def test_an_explained_plan() -> None:
    lines = text_of(**RULES, mode="seed", explain=True)
    assert lines[:3] == [
        "  operator  code             device  reason",
        "         0  FULLY_CONNECTED  npu     rule index:0=npu",
        "         1  TANH             cpu     default",
    ]
    assert lines[7:9] == ["  root 0", "  reject 1"]
    (subgraph,) = json_of(**RULES, mode="seed", explain=True)["subgraphs"]
    assert subgraph["steps"][1] == {"action": "reject", "operator_index": 1}
    assert [one["reason"] for one in subgraph["operators"]] == ["rule index:0=npu", *["default"] * 5]


def test_subgraphs_have_headings() -> None:
    lines = text_of(path_of("circle/while_loop"), devices=("npu",), default="npu")
    assert [line for line in lines if not line.startswith(" ")] == ["subgraph 0", "subgraph 1", "subgraph 2"]


def test_a_plan_begins_with_what_devices_run_and_refuse() -> None:
    def summary(capability: str) -> list[str]:
        request = ct.PlanRequest(devices=("npu", "cpu"), capabilities=(f"npu={capability}",))
        with ct.open(path_of("tflite/shuffle")) as model:
            lines = list(ct.render.plan_text(ct.plan(model, request)))
        return lines[: lines.index("")]

    assert summary("litert-gpu") == [
        "device  operators  share  bytes computed  launches  MACs",
        "npu            14    70%          27,512         3  100%",
        "cpu             6    30%          12,288         2    0%",
        "npu refuses 6 operators:",
        "  2 RESHAPE: Tensor dimensions must be less than 5: output 0 has rank 5, not 0 to 4",
        "    reshape to at most rank 4",
        "      5,12",
        "  2 TRANSPOSE: Tensor dimensions must be less than 5: input 0 has rank 5, not 0 to 4; "
        "output 0 has rank 5, not 0 to 4",
        "    reshape input 0 and output 0 to at most rank 4",
        "      6,13",
        "  2 RESHAPE: Tensor dimensions must be less than 5: input 0 has rank 5, not 0 to 4",
        "    reshape input 0 to at most rank 4",
        "      7,14",
    ]
    assert summary("xnnpack")[1:] == [
        "npu            20   100%          39,800         1  100%",
        "cpu             0     0%               0         0    0%",
    ]
    assert "nothing runs on npu: it refuses 20 operators:" in summary("ethos-u55")


def test_a_plan_as_json(costs: Path) -> None:
    document = json_of(**RULES)
    assert {key: value for key, value in document.items() if key != "subgraphs"} == {
        "schema_version": 1,
        "format": "circle",
        "devices": ("npu", "cpu"),
        "summary": {"devices": SHARES, "refusals": []},
    }
    (subgraph,) = document["subgraphs"]
    assert subgraph == {
        "index": 0,
        "operators": subgraph["operators"],
        "partitions": [
            {"partition": 0, "device": "npu", "operators": [0]},
            {"partition": 1, "device": "cpu", "operators": [1, 2, 3, 4, 5]},
        ],
        "transfers": {
            "launches": 2,
            "copies": 1,
            "copied_bytes": 32,
            "copies_of_unknown_size": 0,
            "cuts": [
                {
                    "tensor_index": 3,
                    "name": "torch.nn.modules.linear.Linear::linear",
                    "producer_partition": 0,
                    "consumer_partitions": [1],
                    "copies": 1,
                    "size_bytes": 32,
                }
            ],
        },
    }
    assert [(one["device"], one["partition"]) for one in subgraph["operators"]] == [("npu", 0), *[("cpu", 1)] * 5]
    (subgraph,) = json_of(costs=costs, memory=("cpu=64",))["subgraphs"]
    assert subgraph["memory"] == [
        {"device": "npu", "constants_bytes": 288, "activations_bytes": 128, "total_bytes": 416, "cap_bytes": None},
        {"device": "cpu", "constants_bytes": 0, "activations_bytes": 64, "total_bytes": 64, "cap_bytes": 64},
    ]


def test_the_affinity_in_a_model() -> None:
    data = annotated(DIAMOND.read_bytes(), affinity(["npu", "cpu"], ([0, 0, 1, None, 1, 1], [0, 0, 1, None, 1, 1])))
    with ct.open(data) as model:
        found = ct.planning.inspect_affinity(model)
    assert list(ct.render.affinity_text(found, by_operator=True))[4:6] == [
        "  operator  code             device  partition  output",
        "         0  FULLY_CONNECTED  npu     0          torch.nn.modules.linear.Linear::linear",
    ]
    assert list(ct.render.affinity_text(found)) == [
        "device  operators  share  bytes computed  launches  MACs",
        "npu             2    33%              64         1  100%",
        "cpu             3    50%              96         1    0%",
        "",
        "  partition  device  operators",
        "          0  npu     0-1",
        "          1  cpu     2,4-5",
        "          -  (none)  3",
        "  3 launches, 4 tensors cut, 4 copies between devices (128 bytes)",
    ]
    assert ct.render.rows_csv(found).splitlines()[4] == "0,3,MUL,__main__.Branchy::mul,,"
    document = ct.render.affinity_json(found)
    assert (document["schema_version"], document["freshness"], document["devices"]) == (1, "fresh", ["npu", "cpu"])
    assert document["subgraphs"][0]["operators"][3] == {
        "operator_index": 3,
        "code": "MUL",
        "output": "__main__.Branchy::mul",
        "device": None,
        "partition": None,
    }


def exported(target: Any, data: bytes, device: str, *, as_json: bool = False) -> str:
    with ct.open(data) as model:
        rows = [0] * len(model.subgraphs[0].operators)
    with ct.open(annotated(data, affinity([device], (rows, rows)))) as model:
        return ct.render.export_text(ct.affinity.export(model, target), as_json=as_json)


def test_exports_as_text() -> None:
    mlp = bytes_of("circle/mlp")
    environment = {"BACKENDS": "cpu", "OP_BACKEND_MAP": "0=cpu;1=cpu;2=cpu"}
    assert exported("onert", mlp, "cpu") == "export BACKENDS=cpu\nexport OP_BACKEND_MAP='0=cpu;1=cpu;2=cpu'\n"
    document = json.loads(exported("onert", mlp, "cpu", as_json=True))
    assert document == {"schema_version": 1, "environment": environment}
    assert exported("part", mlp, "cpu").startswith("[partition]\nbackends=cpu\ndefault=cpu\n")
    assert "schema_version" not in exported("model-explorer", mlp, "cpu")
    openvino = json.loads(exported("openvino", bytes_of("tflite/cnn"), "CPU"))
    assert (openvino["schema_version"], openvino["device"]) == (1, "HETERO:CPU")
    for target in ("part", "dot"):
        with pytest.raises(ct.UsageError, match=f"the target {target} has no JSON output"):
            exported(target, mlp, "cpu", as_json=True)
