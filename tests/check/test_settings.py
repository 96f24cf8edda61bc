"""Settings of a project: what counts, and for which files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import circletools as ct
from tests.kit.command_support import run_bytes as run
from tests.kit.support import path_of

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python reads TOML since 3.11")
TWICE = path_of("tflite/output_twice")


def project(folder: Path, name: str, text: str) -> Path:
    """Make a project with settings and two models, each with a warning."""
    for place in ("old/a.tflite", "new/b.tflite"):
        (folder / place).parent.mkdir()
        (folder / place).write_bytes(TWICE.read_bytes())
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 1),
        ('[check]\nfail-on = "error"', 0),
        ('[check]\nignore = ["DUPLICATE_OUTPUT"]', 0),
        ('[check.per-file-ignores]\n"old/*" = ["DUPLICATE_OUTPUT"]', 1),
        ('[check.per-file-ignores]\n"old/*" = ["DUPLICATE_OUTPUT"]\n"b.tflite" = ["DUPLICATE_OUTPUT"]', 0),
    ],
)
@pytest.mark.parametrize("name", ["circletools.toml", "pyproject.toml"])
def test_settings_are_found_and_count(
    text: str, status: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = text.replace("[check", "[tool.circletools.check") if name == "pyproject.toml" else text
    file = project(tmp_path, name, whole)
    monkeypatch.chdir(tmp_path / "new")
    assert run("check", tmp_path).returncode == status
    assert run("check", tmp_path, "--config", file).returncode == status
    ran = run("check", tmp_path / "old", tmp_path / "new", "--fail-on", "never")  # the matched file comes first
    assert (ran.returncode, b"warning: per-file-ignores" in ran.stderr) == (0, False)
    warned = run("check", tmp_path / "new", tmp_path / "new" / "b.tflite", "--format", "sarif").stderr.decode()
    assert warned == "warning: per-file-ignores: 'old/*' matches none of these models\n" * ("old/*" in text)


def test_a_baseline_is_beside_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, "circletools.toml", '[check]\nbaseline = "known.jsonl"')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "known.jsonl").write_bytes(run("check", "old", "new", "--json", "--config", "/dev/null").stdout)
    for place, names in (
        (".", ("old/",)),
        (".", (".",)),
        (".", (tmp_path,)),
        ("old", (".",)),
        ("old", ("a.tflite",)),
    ):
        monkeypatch.chdir(tmp_path / place)
        assert run("check", *names).returncode == 0
    (tmp_path / "old" / "a.tflite").rename(tmp_path / "new" / "a.tflite")
    assert run("check", "../new").returncode == 1


@pytest.mark.parametrize(
    "text",
    ["[check", "[check]\nfail-on = 1", '[check]\nignore = "A"', "[check]\nno = 1", "[other]\n", "check = 1",
     '[check.per-file-ignores]\n"*" = [1]', ("#" + "." * 900 + "\n") * 9, "a = " + "[" * 9000, "a = " + "9" * 9000,
     "[check]\nbaseline = 1", "[check]\nper-file-ignores = 1"],
)  # fmt: skip
def test_wrong_settings_are_refused_by_name(text: str, tmp_path: Path) -> None:
    file = project(tmp_path, "circletools.toml", text)
    with pytest.raises(ct.InvalidInputError, match="invalid settings") as raised:
        ct.checks.read_settings(file)
    assert not any(word in str(raised.value) for word in ("object", "operand", "recursion", "sys.", "codec"))
    assert run("check", tmp_path, "--config", file).returncode == 3
    file.write_text('[check]\nselect = ["A"]')
    assert b"circletools.toml: there is no finding 'A'" in run("check", tmp_path, "--config", file).stderr
