"""Commands that change what is computed report the findings that they cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import circletools as ct
from circletools.model.model import open_model
from tests.kit.command_support import run, run_bytes
from tests.kit.support import bytes_of, edited, path_of

ALIASED = ("INPUT_ALIASED_OUTPUT", "warning", "subgraphs[0].outputs[0]")


def found(before: bytes, after: bytes) -> list[tuple[str, str, str]]:
    with open_model(before) as one, open_model(after) as other:
        return [(finding.code, finding.severity, finding.location) for finding in ct.checks.newly_found(one, other)]


def test_findings_of_the_old_model_are_not_new() -> None:
    clean = bytes_of("circle/mlp")
    broken = edited(clean, lambda edit: edit.set_outputs(0, [4]))
    worse = edited(broken, lambda edit: edit.set_outputs(0, [4, 1]))
    assert found(clean, clean) == []
    assert found(clean, broken) == [ALIASED]
    assert found(broken, broken) == []
    assert found(broken, worse) == [("CONSTANT_OUTPUT", "warning", "subgraphs[0].outputs[1]")]
    assert found(broken, clean) == []


def test_an_edit_reports_no_infos() -> None:
    clean = bytes_of("circle/mlp")
    assert found(clean, edited(clean, lambda edit: edit.set_outputs(0, [7, 6]))) == []


def test_commands_report_new_findings_of_files(tmp_path: Path) -> None:
    def rewired(edit: Any, *_: object, **_more: object) -> ct.types.RewriteResult:
        edit.set_outputs(0, [0])
        return ct.types.RewriteResult(("rewired",))

    source, to = path_of("tflite/cnn"), tmp_path / "out.tflite"
    for name, words in (("reorder", ["--outputs", "0"]), ("expose", ["--every", "ADD"]), ("sign", ["--add", "x"])):
        with mock.patch.object(ct.surgery, name, rewired):
            command = {"sign": "signature"}.get(name, name)
            shown = run(command, source, to, *words).stderr
            assert shown.startswith("rewired\n"), shown
            assert f"warning: {to}: subgraphs[0].outputs[0]: " in shown
            assert "warning" not in run_bytes(command, source, "-", *words).stderr.decode()
    with mock.patch.object(ct.outputs, "fix", rewired):
        assert f"warning: {to}: subgraphs[0].outputs[0]: " in run("fix-outputs", source, to).stderr
    with mock.patch.object(ct.surgery, "rename", rewired):
        assert "warning" not in run("rename", source, to, "--input", "0=x").stderr


def test_extract_reports_new_findings(tmp_path: Path) -> None:
    source, to = path_of("tflite/cnn"), tmp_path / "out.tflite"
    found = (ct.Finding("NO_BUFFERS", "warning", "place", "words"),)
    with mock.patch.object(ct.checks, "newly_found", return_value=found):
        assert f"warning: {to}: place: words" in run("extract", source, to, "--operators", "0").stderr
