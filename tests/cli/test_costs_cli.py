"""Costs as a user gives them: the document, traces, what the commands choose, show and refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from circletools.trace.operators.read import read_profile
from tests.kit.affinity_support import affinity, affinity_of, annotated
from tests.kit.command_support import run
from tests.kit.operator_support import TRACES
from tests.kit.support import ROOT, path_of

DIAMOND = path_of("circle/diamond")  # FULLY_CONNECTED feeds TANH, LOGISTIC, RELU; MUL of the first two; ADD
DOCUMENT = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
NPU_IS_QUICK: dict[str, Any] = {
    "schema_version": 1,
    "devices": [
        {"name": "npu", "operators": [{"select": "op:*", "time_us": 1}, {"select": "op:RELU", "time_us": None}]},
        {"name": "cpu", "operators": [{"select": "op:*", "time_us": 10}]},
    ],
    "transfers": [{"from": "*", "to": "*", "overhead_us": 2}],
}


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(NPU_IS_QUICK))
    return path


def partitioned(*arguments: str | Path, model: Path = DIAMOND) -> Any:
    """Return the first subgraph that `partition` reports."""
    ran = run("partition", model, *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)["subgraphs"][0]


def devices_of(subgraph: Any) -> list[str]:
    return [one["device"] for one in subgraph["operators"]]


def test_rules_and_capability_tables_bind(costs: Path, tmp_path: Path) -> None:
    assert devices_of(partitioned("--costs", costs, "--set", "index:0=cpu"))[0] == "cpu"
    table = tmp_path / "npu.json"
    table.write_text(json.dumps({"schema_version": "1", "device": "npu", "operators": {"ADD": [{}]}}))
    subgraph = partitioned("--costs", costs, "--capabilities", table)
    assert devices_of(subgraph) == ["cpu"] * 5 + ["npu"] or devices_of(subgraph) == ["cpu"] * 6
    ran = run("partition", DIAMOND, "--costs", costs, "--set", "op:RELU=npu")
    assert "no time is known for it" in ran.stderr
    assert "1 operator without a time" in ran.stdout


def test_launches_join_what_copies_would_part(tmp_path: Path) -> None:
    document = json.loads(json.dumps(NPU_IS_QUICK))
    document["devices"][0]["launch_us"] = 100
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(document))
    subgraph = partitioned("--costs", path)
    assert devices_of(subgraph) == ["cpu"] * 6
    assert partitioned("--costs", path, "--set", "index:0=npu")["estimate"]["launches_us"] == 100


def test_annotating_writes_what_partition_shows(costs: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.circle"
    assert run("annotate-affinity", DIAMOND, target, "--costs", costs).returncode == 0
    shown = run("partition", DIAMOND, "--costs", costs, "--by", "operator").stdout
    assert "least total time; not npu: no time is known for it" in shown
    assert "estimated time: 19.000 us" in shown
    assert affinity_of(target.read_bytes()).subgraphs[0].devices.tolist() == [0, 0, 0, 0, 1, 0]
    shown = run("partition", target, "--costs", costs).stdout
    assert "estimated time: 19.000 us (operators 15.000, copies 4.000, launches 0.000)" in shown
    dumped = json.loads(run("partition", target, "--costs", costs, "--json").stdout)
    assert dumped["subgraphs"][0]["estimate"] == partitioned("--costs", costs)["estimate"]
    # An annotated model is taken as it is by partition, and chosen again by annotate-affinity.
    moved = tmp_path / "moved.circle"
    run("annotate-affinity", target, moved, "--devices", "npu,cpu", "--default", "cpu")
    assert devices_of(partitioned("--costs", costs, model=moved)) == ["cpu"] * 6
    again = tmp_path / "again.circle"
    assert run("annotate-affinity", moved, again, "--costs", costs).returncode == 0
    assert affinity_of(again.read_bytes()) == affinity_of(target.read_bytes())


def test_times_of_a_trace() -> None:
    model, trace = path_of("circle/if_cond"), TRACES / "onert_if_cond.chrome.json"
    arguments = ("--trace", f"cpu={trace}", "--default", "cpu")
    ran = run("partition", model, *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    attributed = json.loads(run("attribute", trace, "--model", model, "--json").stdout)
    medians = [row["median_ns"] for row in attributed["operators"] if row["subgraph"] == 0]
    estimate = json.loads(ran.stdout)["subgraphs"][0]["estimate"]
    assert estimate["operators_us"] == pytest.approx(sum(time for time in medians if time is not None) / 1000)
    assert estimate["operators_without_time"] == sum(time is None for time in medians)
    other = run("partition", DIAMOND, *arguments)
    assert (other.returncode, "from another model" in other.stderr) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--costs", "missing.json"], 3, "missing.json"),
        (["--costs", "-"], 2, "standard input"),
        (["--costs", "COSTS", "--devices", "npu"], 4, "no time is known for it"),
        (["--costs", "COSTS", "--copy-rate", "0"], 2, "--copy-rate"),
    ],
)
def test_what_cannot_be_done(arguments: list[str], status: int, words: str, costs: Path) -> None:
    ran = run("partition", DIAMOND, *(str(costs) if word == "COSTS" else word for word in arguments))
    assert (ran.returncode, words in ran.stderr) == (status, True), ran.stderr


def test_a_model_without_devices_has_no_estimate(costs: Path, tmp_path: Path) -> None:
    (tmp_path / "out.circle").write_bytes(
        annotated(DIAMOND.read_bytes(), affinity(["npu"], ([None] * 6, [None] * 6)))
    )
    ran = run("partition", tmp_path / "out.circle", "--costs", costs)
    assert (ran.returncode, "without a device" in ran.stderr) == (4, True)


@pytest.mark.parametrize("words", ['{"schema_version": 1, "devices": []}', '{"transfers": []}', "{}"])
@pytest.mark.parametrize("command", ["partition", "annotate-affinity"])
def test_costs_of_no_device_are_refused(command: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(words)
    more: dict[str, list[str | Path]] = {"partition": [], "annotate-affinity": [tmp_path / "out.circle"]}
    ran = run(command, DIAMOND, *more[command], "--costs", tmp_path / "costs.json")
    assert ran.returncode in (2, 3)
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1


def test_the_documentation_has_every_field(costs: Path) -> None:
    document = partitioned("--costs", costs, "--memory", "npu=9999")
    fields = {
        *("estimate", "memory"),
        *document["estimate"],
        *document["memory"][0],
        *("devices", "transfers", "name", "launch_us", "operators", "select", "time_us", "bytes_per_us"),
        *("from", "to", "overhead_us"),
    }
    assert [name for name in sorted(fields) if f"`{name}`" not in DOCUMENT] == []


def test_the_documentation_has_an_example_that_works(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "costs.json"
    path.write_text(example)
    assert partitioned("--costs", path)["estimate"]["operators_without_time"] == 0


def test_traces_are_those_of_testdata() -> None:
    assert read_profile(TRACES / "onert_if_cond.chrome.json").runtime == "onert"
