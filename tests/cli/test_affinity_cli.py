"""The commands for affinity: what they write, show and refuse."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from circletools.affinity.store import AFFINITY_ENTRIES
from circletools.affinity.tables import check_freshness
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, affinity_of, annotated
from tests.kit.build import Build
from tests.kit.command_support import run
from tests.kit.oracles import run_litert, run_onert, same_behavior
from tests.kit.origin_support import embedded
from tests.kit.support import path_of, title, value_of

DIAMOND = path_of("circle/diamond")
RULES = ("--devices", "npu,cpu", "--set", "index:1-2=npu", "--default", "cpu")
DEVICES = ["cpu", "npu", "npu", "cpu", "cpu", "cpu"]
# FULLY_CONNECTED feeds the two on the npu and RELU; MUL takes the two, ADD takes MUL and RELU.
PARTITIONS = [
    {"partition": 0, "device": "cpu", "operators": [0, 4]},
    {"partition": 1, "device": "npu", "operators": [1]},
    {"partition": 2, "device": "npu", "operators": [2]},
    {"partition": 3, "device": "cpu", "operators": [3, 5]},
]


def devices_of(subgraph: dict[str, Any]) -> list[str]:
    return [one["device"] for one in subgraph["operators"]]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out.circle"


def test_annotate_and_dump(target: Path) -> None:
    assert run("annotate-affinity", DIAMOND, target, *RULES).returncode == 0
    assert target.read_bytes().endswith(DIAMOND.read_bytes())
    found = affinity_of(target.read_bytes())
    assert found.devices == {0: "npu", 1: "cpu"}
    document = json.loads(run("partition", target, "--json").stdout)
    assert (document["schema_version"], document["freshness"], document["devices"]) == (1, "fresh", ["npu", "cpu"])
    (subgraph,) = document["subgraphs"]
    assert [operator["device"] for operator in subgraph["operators"]] == DEVICES
    assert subgraph["partitions"] == PARTITIONS
    lines = run("partition", target, "--format", "csv").stdout
    assert [row["device"] for row in csv.DictReader(io.StringIO(lines))] == DEVICES
    assert "npu     1  " in run("partition", target, "--by", "operator").stdout
    assert "cpu     3,5" in run("partition", target).stdout


def test_the_same_twice_is_the_same_file(target: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.circle"
    run("annotate-affinity", DIAMOND, target, *RULES)
    assert run("annotate-affinity", target, again, *RULES).stderr == "nothing to change\n"
    assert again.read_bytes() == target.read_bytes()
    assert run("metadata", "remove", again, "--in-place", "--affinity").returncode == 0
    assert again.read_bytes() == DIAMOND.read_bytes()


def test_partition_of_what_is_in_the_model(target: Path) -> None:
    run("annotate-affinity", DIAMOND, target, *RULES)
    again = json.loads(run("partition", target, "--mode", "seed", "--json").stdout)
    assert devices_of(again["subgraphs"][0]) == DEVICES
    assert "freshness" not in again, "what the model has, partitioned again"


def test_why_operators_are_on_their_devices(target: Path) -> None:
    shown = run("partition", DIAMOND, *RULES, "--by", "operator").stdout
    assert "rule index:1-2=npu" in shown
    assert "default" in shown
    (subgraph,) = json.loads(
        run("partition", DIAMOND, *RULES, "--by", "operator", "--mode", "seed", "--json").stdout
    )["subgraphs"]
    assert subgraph["operators"][0]["reason"] == "default"
    assert subgraph["steps"][0] == {"action": "root", "operator_index": 1}
    assert {step["action"] for step in subgraph["steps"]} >= {"root", "merge", "reject"}


def test_rules_from_a_file(tmp_path: Path, target: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"default": "cpu", "rules": [{"select": "op:TANH", "device": "npu"}]}))
    assert run("annotate-affinity", DIAMOND, target, "--devices", "npu,cpu", "--rules", rules).returncode == 0
    assert affinity_of(target.read_bytes()).subgraphs[0].devices.tolist() == [1, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 2, "--devices npu,cpu"),
        (["--devices", "npu,cpu", "--set", "op:ADD"], 2, "names no device"),
        (["--devices", "npu,cpu", "--default", "tpu"], 2, "'tpu' is not among --devices"),
        (["--devices", "npu", "--set", "op:ADD=npu"], 4, "--default DEVICE"),
        (["--devices", "npu,cpu", "--rules", "missing.json"], 3, "missing.json"),
        (["--devices", "npu,cpu", "--default", "cpu", "--reproject", str(DIAMOND)], 4, "no origins"),
    ],
)
def test_what_cannot_be_done(arguments: list[str], status: int, words: str, target: Path) -> None:
    ran = run("annotate-affinity", DIAMOND, target, *arguments)
    assert (ran.returncode, words in ran.stderr) == (status, True), ran.stderr
    assert not target.exists()


def test_a_bad_rule_names_its_line(tmp_path: Path, target: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{\n "default": "cpu",\n "rules": [\n  {"select": "index:9", "device": "npu"}]}')
    ran = run("annotate-affinity", DIAMOND, target, "--devices", "npu,cpu", "--rules", rules)
    assert (ran.returncode, f"{rules}:4: index:9: operator 9 does not exist" in ran.stderr) == (2, True), ran.stderr


def test_words_that_are_no_text(tmp_path: Path, target: Path) -> None:
    rules = tmp_path / "rules.json"
    for words in (r'{"rules": [{"select": "op:\ud800", "device": "npu"}]}', r'{"\ud800": 1}'):
        rules.write_text(words)
        ran = run("annotate-affinity", DIAMOND, target, "--devices", "npu,cpu", "--rules", rules)
        assert ran.returncode in (2, 3)
        assert ran.stderr.startswith("error: ")


# x (0) feeds a1 (2) and a2 (3), y (1) feeds b1 (4) and b2 (5), a1 feeds b1 and b2 feeds a2.
def waiting_for_each_other() -> bytes:

    build = Build()
    graph = build.graph()
    given = graph.tensor("given")
    x, y = graph.compute("NEG", [given], "x"), graph.compute("NEG", [given], "y")
    a1, b2 = graph.compute("NEG", [x], "a1"), graph.compute("NEG", [y], "b2")
    a2, b1 = graph.compute("ADD", [x, b2], "a2"), graph.compute("ADD", [y, a1], "b1")
    graph.ends([given], [a2, b1])
    return build.to_bytes("circle")


def test_partitions_that_would_wait_for_each_other(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "in.circle"
    source.write_bytes(waiting_for_each_other())
    rules = ("--devices", "a,b", "--set", "name:[xa]*=a", "--default", "b")
    ran = run("annotate-affinity", source, target, *rules, "--mode", "seed")
    assert (ran.returncode, "wait for each other" in ran.stderr) == (4, True)
    assert not target.exists()
    assert run("annotate-affinity", source, target, *rules).returncode == 0
    assert len(set(affinity_of(target.read_bytes()).subgraphs[0].partitions.tolist())) == 3
    assert run("check", target).returncode == 0


def test_dump_without_affinity_and_with_a_stale_one(target: Path) -> None:
    ran = run("partition", DIAMOND)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "annotate-affinity adds it" in ran.stderr
    target.write_bytes(annotated(DIAMOND.read_bytes(), affinity(["cpu"], ([0] * 5, [0] * 5))))
    ran = run("partition", target)
    assert (ran.returncode, "stale from subgraphs[0].operators[5] on" in ran.stderr) == (1, True)


def test_affinity_through_origins(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "with_origins.circle"
    source.write_bytes(embedded(DIAMOND.read_bytes()))
    assert run("annotate-affinity", source, target, *RULES).returncode == 0
    (subgraph,) = json.loads(run("partition", source, "--reproject", target, "--json").stdout)["subgraphs"]
    assert devices_of(subgraph) == DEVICES
    (subgraph,) = json.loads(
        run("partition", source, "--reproject", target, "--set", "index:0=npu", "--json").stdout
    )["subgraphs"]
    assert devices_of(subgraph) == ["npu", *DEVICES[1:]]


def test_runtimes_take_no_notice(own_model: Path, tmp_path: Path) -> None:
    target = tmp_path / own_model.name
    ran = run("annotate-affinity", own_model, target, "--devices", "npu,cpu", "--default", "cpu")
    assert ran.returncode == 0, ran.stderr
    run_model = run_litert if title(own_model).startswith("tflite") else run_onert
    assert same_behavior(run_model(own_model), run_model(target)) is None
    with open_model(target) as model:
        assert all(value_of(model, name) is not None for name in AFFINITY_ENTRIES)
        assert check_freshness(model, affinity_of(target.read_bytes())).state == "fresh"
