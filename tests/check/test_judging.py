"""Which findings count: selection, baseline, and what makes a model fail."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.findings import fingerprint
from circletools.judging import CheckInputs

DOUBLE = ct.Finding("DUPLICATE_OUTPUT", "warning", "subgraphs[0].outputs[1]", "'x1' is already output 0")
TAP = ct.Finding("OUTPUT_TAP", "info", "subgraphs[0].outputs[0]", "operator 3 reads 'x1'")
ORIGIN = ct.Finding("UNKNOWN_SOURCE_ID", "error", "metadata ONE_op_table", "source 7")
ALL = (DOUBLE, TAP, ORIGIN)


def moved(finding: ct.Finding, **changed: str) -> ct.Finding:
    fields = {name: getattr(finding, name) for name in ("code", "severity", "location", "message")}
    return ct.Finding(**{**fields, **changed})


def judged(*findings: ct.Finding, **request: Any) -> ct.checks.Judgement:
    return ct.checks.judge(findings, "a.tflite", ct.checks.CheckRequest(**request))


def against(earlier: tuple[ct.Finding, ...], *findings: ct.Finding, **request: Any) -> ct.checks.Judgement:
    return ct.checks.judge(
        findings, "a.tflite", CheckInputs(ct.checks.CheckRequest(**request), {os.path.abspath("a.tflite"): earlier})
    )


def written(folder: Path, *documents: object) -> Path:
    path = folder / "old.json"
    path.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    return path


@pytest.mark.parametrize("field", ["select", "ignore"])
def test_a_code_that_does_not_exist(field: str) -> None:
    with pytest.raises(ct.UsageError, match=r"there is no finding .OUTPUT_TAB. .did you mean 'OUTPUT_TAP'") as caught:
        judged(**{field: ("OUTPUT_TAP", "OUTPUT_TAB")})
    assert caught.value.names_file


@pytest.mark.parametrize(
    ("fail_on", "expected"),
    [("warning", [True, False, True]), ("error", [False, False, True]), ("never", [False, False, False])],
)
def test_what_fails(fail_on: str, expected: list[bool]) -> None:
    assert [judged(one, fail_on=fail_on).failing for one in ALL] == expected
    assert judged(TAP, DOUBLE).failing
    assert not judged().failing


def test_what_the_baseline_has_is_not_new() -> None:
    found = against(ALL, *ALL)
    assert (found.findings, found.new, found.fixed, found.failing) == (ALL, (), 0, False)
    found = against((TAP,), *ALL)
    assert (found.is_new, found.new, found.fixed, found.failing) == ((True, False, True), (DOUBLE, ORIGIN), 0, True)
    assert against((ORIGIN, TAP), TAP).fixed == 1


def test_numbers_may_change_but_not_names() -> None:
    assert against((DOUBLE,), moved(DOUBLE, location="subgraphs[0].outputs[22]")).new == ()
    assert against((TAP,), moved(TAP, message="operator 41 reads 'x1'")).new == ()
    for changed in (
        {"message": "'x2' is already output 0"},
        {"location": "subgraphs[0].inputs[1]"},
        {"severity": "info"},
        {"code": "CONSTANT_OUTPUT"},
    ):
        found = against((DOUBLE,), moved(DOUBLE, **changed))
        assert (found.is_new, found.fixed) == ((True,), 1), changed


def test_the_same_place_precedes_a_similar_one() -> None:
    other = moved(DOUBLE, location="subgraphs[0].outputs[2]")
    assert against((other,), DOUBLE, other).new == (DOUBLE,)
    assert against((DOUBLE,), DOUBLE, other).new == (other,)
    assert against((DOUBLE,), DOUBLE, DOUBLE).is_new == (False, True)
    third = moved(DOUBLE, location="subgraphs[0].outputs[3]")
    found = against((DOUBLE, other), third)
    assert (found.new, found.fixed) == ((), 1)


def test_what_is_not_selected_is_not_fixed() -> None:
    assert against((), *ALL, select=("OUTPUT_TAP", "UNKNOWN_SOURCE_ID"), ignore=("OUTPUT_TAP",)).findings == (ORIGIN,)
    assert against(ALL, ignore=("OUTPUT_TAP",)).fixed == 2
    assert against(ALL, DOUBLE, select=("DUPLICATE_OUTPUT",)).fixed == 0


def document(file: str, findings: Sequence[ct.Finding]) -> dict[str, Any]:
    """Return what `check --json` writes about a file."""
    return ct.render.judgement_json(file, ct.checks.judge(findings, file, ct.checks.CheckRequest()))


def test_a_baseline_of_one_model_is_about_another_only_if_renamed(tmp_path: Path) -> None:
    one = document("other.tflite", ALL)
    found = judged(*ALL, baseline=written(tmp_path, one))
    assert (found.new, found.fixed) == (ALL, 0)
    assert judged(*ALL, baseline=written(tmp_path, one), renamed=True).new == ()
    assert judged(*ALL, baseline=written(tmp_path, one, document("b", ())), renamed=True).new == ALL
    (tmp_path / "other.tflite").touch()  # it has that name still
    assert judged(*ALL, baseline=written(tmp_path, one), renamed=True).new == ALL
    two = written(tmp_path, document("a.tflite", (TAP,)), one, document("a.tflite", ALL))
    assert judged(*ALL, baseline=two).new == (DOUBLE, ORIGIN)  # the first of that name


def test_a_model_that_was_lost_has_no_findings(tmp_path: Path) -> None:
    lost = {"file": "b", "schema_version": 1, "exit_status": 3, "error": "it died"}
    path = written(tmp_path, lost, document("a.tflite", ALL), document("c", ()))
    assert judged(*ALL, baseline=path).new == ()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"schema_version": 2}, "schema_version 2 is not known"),
        ([], "this is not a baseline"),
        ({}, "this is not a baseline"),
        ({"schema_version": 1, "file": "a", "findings": [{"code": "X"}]}, "this is not a baseline"),
        ({"schema_version": 1, "file": 3, "findings": []}, "this is not a baseline"),
    ],
)
def test_invalid_baselines(tmp_path: Path, document: object, message: str) -> None:
    path = written(tmp_path, document)
    with pytest.raises(ct.InvalidInputError, match=message) as caught:
        judged(baseline=path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.names_file


def test_fingerprints_are_those_of_findings_less_their_numbers() -> None:
    assert fingerprint(DOUBLE) == fingerprint(moved(DOUBLE, location="subgraphs[1].outputs[12]"))
    assert len({fingerprint(one) for one in (*ALL, moved(DOUBLE, message="'y' is already output 0"))}) == 4
    assert len(fingerprint(TAP)) == 16
