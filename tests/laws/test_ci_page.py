"""docs/ci.md: its commands print what it shows; what is to be pasted runs in a repository with a changed model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.presence import Lazy
from tests.kit.program import run
from tests.kit.support import ROOT, TESTDATA
from tests.laws.test_docs import blocks, check_transcripts, shell
from tests.render.test_sarif import complaints

yaml = Lazy("yaml")
TEXT = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def documents() -> list[Any]:
    return [yaml.safe_load(text) for text in blocks(TEXT, "yaml")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with the settings of the page, in whose last commit a model changed."""
    project = tmp_path / "project"
    (settings,) = blocks(TEXT, "toml")
    model = project / "models" / "net.tflite"
    model.parent.mkdir(parents=True)
    (project / "circletools.toml").write_text(settings.replace('"error"', '"warning"'), encoding="utf-8")
    for name in ("cnn", "output_twice"):
        data = (TESTDATA / "tflite" / f"{name}.tflite").read_bytes()
        model.write_bytes(data)
        (model.parent / "ä b.circle").write_bytes(data[: 999 if name == "cnn" else 4])
        who = "-c user.name=x -c user.email=x@example.org"
        shell(f"git init -q . && git add . && git {who} commit -q -m x", project)
    return project


def step(words: str, project: Path, **more: str) -> int:
    """Run a step as the hosts do; return its exit status."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"} | more
    command = ["/bin/bash", "-eo", "pipefail", "-c", words]
    return subprocess.run(command, cwd=project, env=environment, check=False).returncode


def test_github(project: Path) -> None:
    workflow = documents()[0]
    steps = [
        one for one in workflow["jobs"]["models"]["steps"] if "run" in one and not re.search("pipx|gh ", one["run"])
    ]
    base = shell("git rev-parse HEAD~1", project).strip()
    assert [step(one["run"], project, **dict.fromkeys(one.get("env", ()), base)) for one in steps] == [3, 3, 0]
    log = json.loads((project / "findings.sarif").read_text(encoding="utf-8"))
    assert complaints(log) == []
    assert {one["ruleId"] for one in log["runs"][0]["results"]} == {
        "DUPLICATE_OUTPUT",
        "OUTPUT_TAP",
        "UNREADABLE_MODEL",
    }
    comment = (project / "comment.md").read_text(encoding="utf-8")
    assert "**models/net.tflite**: " in comment
    assert "\n\n**models/ä b.circle** cannot be compared\n\n" in comment
    for row in ("file, bytes", "operators", "MACs", "check", "fit on litert-gpu"):
        assert f"| {row} |" in comment


@pytest.mark.runtime
def test_every_night(project: Path, tmp_path: Path) -> None:
    (_, _, night) = documents()[1]["jobs"]["speed"]["steps"]
    words = night["run"].replace("%F", "%N")
    again = "\n".join(line for line in words.splitlines() if " profile " not in line)
    assert step(words, project, HOME=str(tmp_path)) == 0
    today = project / "today.json"
    times = re.compile(r"(?<=elapsed_time_us\": )\d+")
    today.write_text(times.sub(lambda time: f"1{time[0]:>04}", today.read_text(encoding="utf-8")), encoding="utf-8")
    assert step(again, project, HOME=str(tmp_path)) == 1
    assert len([*(tmp_path / "speed").iterdir()]) == 1


def test_gitlab(project: Path) -> None:
    job = documents()[2]["models"]
    _, also, check = job["script"]
    assert (step(also, project), step(check, project)) == (0, 3), "a job ends with the first command that fails"
    assert (project / job["artifacts"]["reports"]["junit"]).read_text(encoding="utf-8").startswith("<?xml")
    issues = json.loads((project / job["artifacts"]["reports"]["codequality"]).read_text(encoding="utf-8"))
    assert {"description", "check_name", "fingerprint", "severity", "location"} == {*issues[0]}
    assert len({one["fingerprint"] for one in issues}) == len(issues) == 3
    assert {one["location"]["path"] for one in issues} == {"models/net.tflite", "models/ä b.circle"}


def test_pre_commit(project: Path) -> None:
    (hook,) = documents()[3]["repos"][0]["hooks"]
    (ours,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"].startswith(ours["entry"])
    assert [hook[name] for name in ("id", "name", "language", "files")] == [
        ours[name] for name in ("id", "name", "language", "files")
    ]
    assert re.search(hook["files"], "models/net.tflite")
    assert step(f"{hook['entry']} models/net.tflite", project) == 0


def test_the_gate_in_python(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "cnn.tflite").symlink_to(TESTDATA / "tflite" / "cnn.tflite")
    (example,) = blocks(TEXT, "python")
    assert shell(f"python - <<'END'\n{example}\nEND", tmp_path) == "models/cnn.tflite\nresident\n"


def test_the_transcripts_and_options(tmp_path: Path) -> None:
    check_transcripts(TEXT, tmp_path, 1)
    offered = run("check", "--help").out.decode()
    table = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert [form for form in table if form not in offered] == []
