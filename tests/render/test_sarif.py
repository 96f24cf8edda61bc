"""SARIF logs match the format's own schema, for all models and for files that are not models."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.errors import CircleToolsError
from tests.kit.command_support import run_bytes
from tests.kit.presence import Lazy
from tests.kit.support import TESTDATA

jsonschema = Lazy("jsonschema")

SCHEMA = TESTDATA / "sarif" / "sarif-2.1.0-rtm.5.json"
MODELS = sorted(path for kind in ("tflite", "circle") for path in TESTDATA.rglob(f"*.{kind}"))
ODD = "a b/ü%<&>\udc80.tflite"


def complaints(log: dict[str, Any]) -> list[str]:
    """Return what the schema has against a log."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found = jsonschema.Draft4Validator(schema).iter_errors(json.loads(json.dumps(log)))
    return [f"{one.json_path}: {one.message[:200]}" for one in found]


def checked(path: Path, baseline: Path | None = None) -> dict[str, Any]:
    """Return the run of a model, or of a file that cannot be read."""
    request = ct.checks.CheckRequest(baseline=baseline)
    try:
        with ct.open(path) as model:
            return ct.render.judgement_sarif(str(path), ct.checks.judge(ct.check(model), str(path), request))
    except CircleToolsError as error:
        return ct.render.judgement_sarif(str(path), ct.checks.judge((), str(path), request), str(error))


def test_check_of_all_models(tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"nothing")
    log = ct.render.sarif_log(map(checked, [*MODELS, broken]))
    (run,) = log["runs"]
    files = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
    known = [
        (file, one["ruleId"], str(one["partialFingerprints"]))
        for file, one in zip(files, run["results"], strict=True)
    ]
    assert len({*known}) == len(known) > 5
    assert {*files} < {one["location"]["uri"] for one in run["artifacts"]}
    assert len(run["artifacts"]) == len(MODELS) + 1
    assert {one["ruleId"] for one in run["results"]} == {one["id"] for one in run["tool"]["driver"]["rules"]}
    assert run["automationDetails"] == {"id": "circletools/check/"}
    assert run["invocations"][0]["executionSuccessful"] is False
    assert complaints(log) == []


def test_findings_against_a_baseline_and_hostile_words(tmp_path: Path) -> None:
    path = TESTDATA / "tflite" / "output_twice.tflite"
    earlier = tmp_path / "earlier.json"
    with ct.open(path) as model:
        judged = ct.checks.judge(ct.check(model), str(path), ct.checks.CheckRequest())
        earlier.write_text(json.dumps(ct.render.judgement_json(str(path), judged)), encoding="utf-8")
    run, broken = checked(path, earlier), checked(earlier, earlier)
    assert {one["baselineState"] for one in run["results"]} == {"unchanged"}
    assert [one["baselineState"] for one in broken["results"]] == ["new"]
    finding = ct.Finding("DUPLICATE_OUTPUT", "warning", "subgraphs[0]\x00", "<\udc80\x07>")
    hostile = ct.render.judgement_sarif(ODD, ct.checks.judge([finding], ODD, ct.checks.CheckRequest()))
    assert complaints(ct.render.sarif_log([run, broken, hostile])) == []


@pytest.mark.parametrize("target", ["litert-gpu", "ethos-u55", "onert-ruy"])
def test_fit_of_models(target: str) -> None:
    runs = []
    for name in ("tflite/shuffle", "tflite/custom_op", "tflite/flex_op", "tflite/cnn_int8"):
        with ct.open(TESTDATA / f"{name}.tflite") as model:
            runs.append(ct.render.fit_sarif(ct.fit(model, ct.FitRequest(on=(target,)))))
    assert any(run["results"] for run in runs)
    assert complaints(ct.render.sarif_log(runs)) == []


def test_the_commands() -> None:
    for words in (["check", "--format", "sarif"], ["fit", "--on", "ethos-u55", "--format", "sarif"]):
        done = run_bytes(words[0], TESTDATA / "tflite" / "output_twice.tflite", *words[1:])
        assert complaints(json.loads(done.stdout)) == []


def test_a_wrong_log_is_seen() -> None:
    log = ct.render.sarif_log([checked(TESTDATA / "tflite" / "output_twice.tflite")])
    assert log["runs"][0]["results"]
    for place, value in (("level", "info"), ("message", "words"), ("partialFingerprints", [])):
        wrong = deepcopy(log)
        wrong["runs"][0]["results"][0][place] = value
        assert complaints(wrong)
    assert complaints({**log, "version": "2.2"})


def test_the_text_of_a_log_is_the_log() -> None:
    runs = [checked(path) for path in MODELS]
    for some in ([], runs[:1], runs):
        text = ct.render.SarifText()
        assert json.loads("".join(map(text.add, some)) + text.end()) == ct.render.sarif_log(some)
