"""What can be asked: targets, and a baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.fit.request import key_of
from circletools.fit.verdicts import Fit
from tests.fit.test_fit import write_table
from tests.kit.build import Build, row
from tests.kit.support import bytes_of

MODEL = row("NEG", "TANH", "COS").to_bytes()


@pytest.mark.parametrize("on", [(), ("",)])
def test_no_target(on: tuple[str, ...]) -> None:
    with ct.open(MODEL) as model, pytest.raises(ct.UsageError) as raised:
        ct.fit(model, ct.FitRequest(on=on))
    first, second, *_ = ct.affinity.shipped()
    assert str(raised.value) == f"no target is named (write `on={first},{second}`)"


def test_targets_that_are_not_there(tmp_path: Path) -> None:
    own = write_table(tmp_path, {}, "xnnpack")
    cases: list[tuple[tuple[str, ...], type[ct.CircleToolsError], str]] = [
        (("xnnpak",), ct.UsageError, "there is no capability table 'xnnpak' (did you mean 'xnnpack'?)"),
        ((str(tmp_path / "no.json"),), ct.InvalidInputError, f"{tmp_path / 'no.json'}: cannot read it"),
        (("xnnpack", own), ct.UsageError, f"`on={own}`: duplicate capability table for 'xnnpack'"),
    ]
    for on, kind, message in cases:
        with ct.open(MODEL) as model, pytest.raises(kind) as raised:
            ct.fit(model, ct.FitRequest(on=on))
        assert str(raised.value).startswith(message)
        assert raised.value.names_file


def fitted(data: bytes, table: str, baseline: Path | None = None, *, renamed: bool = False) -> Fit:
    with ct.open(data) as model:
        return ct.fit(model, ct.FitRequest(on=(table,), baseline=baseline, renamed=renamed))


@pytest.fixture
def table(tmp_path: Path) -> str:
    return write_table(tmp_path, {"TANH": [{}]})


def write(folder: Path, *documents: Any) -> Path:
    path = folder / "old.json"
    path.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    return path


def counts(found: Fit) -> tuple[list[bool], int, int]:
    (target,) = found.targets
    return [one.is_new for one in target.misfits], target.fixed, found.new_refusals


def test_known_refusals_are_not_new(tmp_path: Path, table: str) -> None:
    old = write(tmp_path, ct.render.fit_json(fitted(MODEL, table)))
    found = fitted(MODEL, table, old)
    assert counts(found) == ([False, False], 0, 0)
    assert found.has_baseline
    assert found.targets[0].verdict == "not_resident"


def test_what_is_not_measured_is_unknown_until_the_baseline_has_it(tmp_path: Path) -> None:
    data = bytes_of("tflite/custom_op")
    old, same = fitted(row("RELU").to_bytes(), "xnnpack"), fitted(data, "xnnpack")
    for earlier, unknown in ((old, 1), (same, 0)):
        baseline = write(tmp_path, ct.render.fit_json(earlier))
        assert fitted(data, "xnnpack", baseline).unknown_count == unknown
    assert (old.unknown_count, same.unknown_count) == (0, 1)


def test_what_is_new_and_what_is_gone(tmp_path: Path, table: str) -> None:
    old = write(tmp_path, ct.render.fit_json(fitted(MODEL, table)))
    assert counts(fitted(row("NEG", "TANH", "TANH").to_bytes(), table, old)) == ([False], 1, 0)
    assert counts(fitted(row("TANH", "NEG", "COS").to_bytes(), table, old)) == ([True, False], 1, 1)
    assert counts(fitted(row("NEG", "TANH", "COS", "NEG").to_bytes(), table, old)) == ([False, False, True], 0, 1)


def test_each_finding_counts_once(tmp_path: Path, table: str) -> None:
    finding = {"code": "NEG", "reason": "npu does not support NEG", "origin": ["(noname)"]}
    old = write(
        tmp_path, {"schema_version": 1, "file": "<bytes>", "targets": [{"target": "npu", "findings": [finding] * 2}]}
    )
    build = Build()
    graph = build.graph()
    for _ in range(3):
        graph.operator("NEG", [graph.tensor("x")], [])
    assert counts(fitted(build.to_bytes(), table, old)) == ([False, False, True], 0, 1)


def test_what_was_not_measured_can_be_new_but_is_no_refusal(tmp_path: Path) -> None:
    asked = write_table(tmp_path, {}, measured=[{"operators": ["ADD"]}])
    old = write(tmp_path, {"schema_version": 1, "targets": []})
    assert counts(fitted(MODEL, asked, old)) == ([True] * 3, 0, 0)


def test_indices_in_reasons_may_move() -> None:
    assert key_of("A", "operator 12, which operator 3", ["x"]) == ("A", "operator, which operator", ("x",))
    assert key_of("A", "input 1 has rank 5", []) != key_of("A", "input 1 has rank 6", [])


def test_another_target_in_the_baseline(tmp_path: Path, table: str) -> None:
    document = ct.render.fit_json(fitted(MODEL, table))
    document["targets"][0]["target"] = "other"
    assert counts(fitted(MODEL, table, write(tmp_path, document))) == ([True, True], 0, 2)


def test_the_model_with_the_same_name_counts(tmp_path: Path, table: str) -> None:
    document = ct.render.fit_json(fitted(MODEL, table))
    others = [{**document, "file": name, "targets": []} for name in ("a", "b")]
    broken = {"file": "c", "schema_version": 1, "exit_status": 3, "error": "it is broken"}
    assert counts(fitted(MODEL, table, write(tmp_path, *others, document, broken))) == ([False, False], 0, 0)
    assert counts(fitted(MODEL, table, write(tmp_path, *others))) == ([True, True], 0, 2)
    assert counts(fitted(MODEL, table, write(tmp_path, broken))) == ([True, True], 0, 2)
    moved = write(tmp_path, {**document, "file": "elsewhere"})
    assert counts(fitted(MODEL, table, moved)) == ([True, True], 0, 2)
    assert counts(fitted(MODEL, table, moved, renamed=True)) == ([False, False], 0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "this is not a baseline (use a file that `circletool fit --json` wrote)"),
        ("7", "this is not a baseline (use a file that `circletool fit --json` wrote)"),
        ("{}", "this is not a baseline (use a file that `circletool fit --json` wrote)"),
        ('{"schema_version": 1}', "this is not a baseline (use a file that `circletool fit --json` wrote)"),
        ('{"schema_version": 2, "targets": []}', "schema_version 2 is not known"),
        ('{"schema_version": 1, "targets": [{"target": "npu"}]}', "this is not a baseline"),
        (
            '{"schema_version": 1, "targets": [{"target": "npu", "findings": [{"code": "A"}]}]}',
            "this is not a baseline",
        ),
        ("{", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_invalid_baselines(text: str, message: str, tmp_path: Path, table: str) -> None:
    old = tmp_path / "old.json"
    old.write_text(text, encoding="utf-8")
    with pytest.raises(ct.InvalidInputError) as raised:
        fitted(MODEL, table, old)
    assert str(raised.value).startswith(str(old))
    assert message in str(raised.value)
    assert raised.value.names_file
