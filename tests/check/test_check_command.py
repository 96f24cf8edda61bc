"""The commands verify and check."""

from __future__ import annotations

import json
from pathlib import Path

from tests.check.test_check import tapped, written
from tests.kit.command_support import run_bytes as run
from tests.kit.outputs_support import findings_of, with_outputs
from tests.kit.support import own_models, path_of, title

CLEAN = "circle/mlp"


def test_exit_statuses(tmp_path: Path) -> None:
    """The worst of several models counts: 3 invalid, 1 findings, 0 clean or for information."""
    clean, odd = path_of(CLEAN), written(tmp_path, with_outputs(lambda _: [1, 1]), "odd.circle")
    broken, info = written(tmp_path, b"no model", "broken.circle"), written(tmp_path, tapped(), "info.circle")
    missing = tmp_path / "missing.circle"
    for paths, status in (
        ([clean], 0),
        ([info], 0),
        ([clean, info], 0),
        ([odd], 1),
        ([odd, clean], 1),
        ([broken], 3),
        ([broken, odd], 3),
        ([odd, missing, clean], 3),
    ):
        assert run("check", *paths).returncode == status, paths
    assert run("check").returncode == 2
    ran = run("check", clean, odd, broken)
    assert [line for line in ran.stdout.decode().splitlines() if not line.startswith(" ")] == [
        f"{clean}: ok",
        f"{odd}: findings",
        f"{broken}: invalid",
    ]
    assert run("check", "--structure-only", odd).returncode == 0


def test_json(tmp_path: Path) -> None:
    odd, broken = written(tmp_path, with_outputs(lambda _: [1, 1])), written(tmp_path, b"no model", "broken.circle")
    ran = run("check", path_of(CLEAN), odd, broken, "--json")
    assert ran.returncode == 3
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {document.pop("schema_version") for document in documents} == {1}
    clean, found, invalid = documents
    assert clean == {"file": str(path_of(CLEAN)), "verdict": "ok", "error": None, "findings": []}
    assert (found["verdict"], found["error"]) == ("findings", None)
    assert found["findings"] == [
        {
            "code": "DUPLICATE_OUTPUT",
            "severity": "warning",
            "location": "subgraphs[0].outputs[1]",
            "message": "'negative' is already output 0; run `circletool fix-outputs`",
        }
    ]
    assert (invalid["verdict"], invalid["findings"]) == ("invalid", [])
    assert invalid["error"]


def test_standard_input() -> None:
    ran = run("check", "-", stdin=with_outputs(lambda _: [1, 1]))
    assert ran.returncode == 1
    assert b"DUPLICATE_OUTPUT" in ran.stdout


def test_own_models_that_have_findings() -> None:
    """Those that were made for it, and no others, make `check` fail."""
    failing = {title(path).split("/")[1] for path in own_models() if _fails(path)}
    assert failing >= {"constant_output", "input_as_output", "output_twice"}
    assert not failing & {"mlp", "cnn", "while_loop", "if_cond", "lstm", "transformer_block", "variable"}


def _fails(path: Path) -> bool:
    return any(finding.severity != "info" for finding in findings_of(path.read_bytes()))
