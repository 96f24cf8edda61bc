"""What rules say of operators: they bind, and some may match nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from tests.planning.test_planner import TWO, devices_of, planned, written


def test_small_partitions_go_to_the_default_device(tmp_path: Path) -> None:
    operators: dict[str, Any] = {"TANH": [{}], "FULLY_CONNECTED": [{}], "MUL": [{}]}
    table = str(written(tmp_path, "npu.json", {"device": "npu", "operators": operators}))
    plan = planned(devices=TWO, capabilities=(table,), default="cpu", min_size=2)
    assert devices_of(plan) == ["npu", "npu", "cpu", "cpu", "cpu", "cpu"]
    text = "its partition was too small on npu: fewer than 2 operators; before: the first device that supports it"
    assert plan.reason(0, 3) == text
    plan = planned(devices=TWO, capabilities=(table,), rules=("index:1=cpu",), default="cpu", min_size=2)
    assert devices_of(plan) == ["cpu"] * 6
    assert plan.reason(0, 1) == "rule index:1=cpu"


def test_rules_bind() -> None:
    plan = planned(devices=TWO, rules=("index:0-1,3=npu",), default="cpu", min_size=2)
    assert devices_of(plan) == ["npu", "npu", "cpu", "npu", "cpu", "cpu"]
    (note,) = plan.notes
    assert (note.code, note.location) == ("PARTITION_TOO_SMALL", "subgraphs[0]")
    assert note.message.startswith(
        "the plan keeps 1 partition of fewer than 2 operators (the first has operator 3): rules"
    )


PART = "[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opcode\n[OPCODE]\n"


@pytest.mark.parametrize(("words", "notes", "devices"), [
    ("TANH=npu\nSOFTMAX=npu\n", [("UNMATCHED_RULE", ":7", "op:SOFTMAX matches no operator")], "cnc"),
    ("TANH =npu\n", [], "cnc"),
    ("TANH = npu\n", [("BLANKS_IN_PART_FILE", "", "the spaces around names were removed")], "cnc"),
    (" =npu\n", [("UNMATCHED_RULE", ":6", "matches no operator")], "ccc"),
])  # fmt: skip
def test_a_rule_of_a_part_file_may_match_nothing(
    words: str, notes: list[tuple[str, str, str]], devices: str, tmp_path: Path
) -> None:
    rules = tmp_path / "x.part"
    rules.write_text(PART + words, encoding="utf-8")
    plan = planned(rules_file=rules)
    assert "".join(device[0] for device in devices_of(plan))[:3] == devices
    assert [(note.code, note.location) for note in plan.notes] == [(code, f"{rules}{at}") for code, at, _ in notes]
    assert all(text in note.message for note, (_, _, text) in zip(plan.notes, notes, strict=True))


@pytest.mark.parametrize("count", [20, 21, 22])
def test_the_first_of_many_rules_without_a_match_are_reported(count: int, tmp_path: Path) -> None:
    rules = tmp_path / "x.part"
    rules.write_text(PART + "".join(f"CODE{number}=npu\n" for number in range(count)), encoding="utf-8")
    messages = [note.message for note in planned(rules_file=rules).notes]
    assert messages[:20] == [f"op:CODE{number} matches no operator" for number in range(20)]
    more = {20: [], 21: ["other rules that match nothing: 1"], 22: ["other rules that match nothing: 2"]}
    assert messages[20:] == more[count]


def test_a_rule_that_matches_nothing_is_an_error_unless_that_is_allowed() -> None:
    request: dict[str, Any] = {"devices": TWO, "rules": ("op:SOFTMAX=npu", "op:TANH=npu"), "default": "cpu"}
    with pytest.raises(ct.UsageError, match="op:SOFTMAX matches no operator"):
        planned(**request)
    plan = planned(**request, allow_unmatched=True)
    assert devices_of(plan)[:3] == ["cpu", "npu", "cpu"]
    assert [note.code for note in plan.notes] == ["UNMATCHED_RULE"]
