"""The manners of a linter: formats, selection, baseline, statistics, exit statuses, hooks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import circletools as ct
from tests.check.test_check import tapped
from tests.kit.command_support import run
from tests.kit.outputs_support import with_outputs
from tests.kit.support import ROOT, path_of

CLEAN = path_of("circle/mlp")
TWICE = "DUPLICATE_OUTPUT"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a directory with one model of each verdict, and one with a finding for information."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "broken.circle").write_bytes(b"no model")
    (folder / "clean.circle").write_bytes(CLEAN.read_bytes())
    (folder / "odd.circle").write_bytes(with_outputs(lambda _: [1, 1, 1]))
    (folder / "tapped.circle").write_bytes(tapped())
    return folder


def lines(text: str, folder: Path) -> list[str]:
    return text.replace(f"{folder}/", "").splitlines()


def test_the_summary_is_of_all_models(models: Path) -> None:
    ran = run("check", models)
    assert ran.returncode == 3
    assert ran.stderr.splitlines()[-1] == "4 models: 2 warnings, 1 informational; 1 cannot be read"
    (models / "broken.circle").unlink()
    assert run("check", models, "--select", TWICE, "--ignore", TWICE).stderr == "3 models: no findings\n"
    assert run("check", models / "odd.circle").stderr == ""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_statistics(models: Path, jobs: str) -> None:
    ran = run("check", models, "--statistics", "--jobs", jobs)
    assert lines(ran.stdout, models) == [
        "broken.circle: invalid",
        "clean.circle: ok",
        "odd.circle: findings",
        "tapped.circle: ok",
        "count  severity  code",
        "    2  warning   DUPLICATE_OUTPUT",
        "    1  info      OUTPUT_TAP",
    ]
    assert run("check", CLEAN, "--statistics").stdout == f"{CLEAN}: ok\n"
    refused = run("check", CLEAN, "--statistics", "--json")
    assert (refused.returncode, refused.stderr) == (
        2,
        "error: --statistics requires --format text (count the findings in the document)\n",
    )


def test_what_is_selected_decides(models: Path) -> None:
    odd = models / "odd.circle"
    for options, status, verdict in (
        (["--select", "OUTPUT_TAP,NOT_USED"], 0, "ok"),
        (["--ignore", TWICE], 0, "ok"),
        (["--select", TWICE], 1, "findings"),
        (["--fail-on", "error"], 0, "findings"),
        (["--fail-on", "never"], 0, "findings"),
        (["--fail-on", "warning"], 1, "findings"),
    ):
        ran = run("check", odd, *options)
        assert (ran.returncode, ran.stdout.splitlines()[0]) == (status, f"{odd}: {verdict}"), options
    assert run("check", models / "broken.circle", "--fail-on", "never").returncode == 3


def test_a_wrong_command_line_is_reported_once(models: Path) -> None:
    for options, status, message in (
        (["--select", "OUTPUT_TAB"], 2, "there is no finding 'OUTPUT_TAB' (did you mean 'OUTPUT_TAP'?)"),
        (["--ignore", f"{TWICE},X"], 2, "there is no finding 'X' (available: "),
        (["--baseline", models / "none.json"], 3, f"{models / 'none.json'}: cannot read it: No such file"),
    ):
        ran = run("check", models, *options)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (status, "", 1)
        assert ran.stderr.startswith(f"error: {message}")


def test_a_baseline_of_a_directory(models: Path, tmp_path: Path) -> None:
    (models / "broken.circle").unlink()
    old = tmp_path / "old.jsonl"
    old.write_text(run("check", models, "--json").stdout, encoding="utf-8")
    ran = run("check", models, "--baseline", old)
    assert (ran.returncode, ran.stderr) == (0, "3 models: no new findings, 3 known\n")
    assert lines(ran.stdout, models) == ["clean.circle: ok", "odd.circle: ok", "tapped.circle: ok"]
    (models / "odd.circle").write_bytes(with_outputs(lambda _: [1, 1, 1, 1]))
    ran = run("check", models / "odd.circle", "--baseline", old, "--json")
    model = json.loads(ran.stdout)
    assert (ran.returncode, model["verdict"], model["new_count"], model["fixed_count"]) == (1, "findings", 1, 0)
    assert [one["is_new"] for one in model["findings"]] == [False, False, True]
    again = tmp_path / "again.json"
    again.write_text(ran.stdout, encoding="utf-8")
    renamed = (models / "odd.circle").rename(models / "new.circle")
    assert [run("check", one, "--baseline", again).returncode for one in (renamed, models)] == [0, 1]


def test_formats_of_one_model_are_those_of_the_library(models: Path) -> None:
    odd = models / "odd.circle"
    with ct.open(odd) as model:
        found = ct.checks.judge(ct.check(model), str(odd), ct.checks.CheckRequest())
    for form, expected in (
        ("json", json.dumps(ct.render.judgement_json(str(odd), found), indent=2) + "\n"),
        ("sarif", json.dumps(ct.render.sarif_log([ct.render.judgement_sarif(str(odd), found)]), indent=2) + "\n"),
        ("github", "".join(f"{line}\n" for line in ct.render.judgement_github(str(odd), found))),
        ("gitlab", ct.render.judgement_gitlab(str(odd), found)),
        ("junit", ct.render.JUNIT_BEGIN + ct.render.junit_suite(str(odd), found) + ct.render.JUNIT_END),
    ):
        ran = run("check", odd, "--format", form)
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, expected, ""), form
    assert run("check", odd, "--json").stdout == run("check", odd, "--format", "json").stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_several_models_are_one_document(models: Path, jobs: str) -> None:
    ran = run("check", models, "--format", "junit", "--jobs", jobs)
    suites = ElementTree.fromstring(ran.stdout.encode())  # noqa: S314  (our own)
    assert ran.returncode == 3
    assert [(Path(one.get("name", "")).stem, one.get("failures"), one.get("errors")) for one in suites] == [
        ("broken", "0", "1"),
        ("clean", "0", "0"),
        ("odd", "2", "0"),
        ("tapped", "0", "0"),
    ]
    log = json.loads(run("check", models, "--format", "sarif", "--jobs", jobs).stdout)
    (whole,) = log["runs"]
    assert [one["ruleId"] for one in whole["results"]] == ["UNREADABLE_MODEL", TWICE, TWICE, "OUTPUT_TAP"]
    assert len(whole["artifacts"]) == 4
    issues = json.loads(run("check", models, "--format", "gitlab", "--jobs", jobs).stdout)
    assert [one["severity"] for one in issues] == ["blocker", "major", "major", "info"]
    assert json.loads(run("check", CLEAN, CLEAN, "--format", "gitlab", "--jobs", jobs).stdout) == []
    github = run("check", models, "--format", "github", "--jobs", jobs).stdout.splitlines()
    assert [line.split()[0] for line in github] == ["::error", "::warning", "::warning", "::notice"]


def test_a_model_that_is_not_there_is_in_the_document(models: Path) -> None:
    ran = run("check", CLEAN, models / "none.circle", "--format", "junit")
    (error,) = ElementTree.fromstring(ran.stdout.encode()).iter("error")  # noqa: S314
    assert (ran.returncode, "none.circle" in error.get("message", "")) == (3, True)


def test_explain() -> None:
    title, meaning, remedy = run("check", "--explain", TWICE).stdout.splitlines()[:3]
    assert (title, remedy) == ("DUPLICATE_OUTPUT (warning; info in called subgraphs)", "  To do: run `fix-outputs`")
    assert meaning.startswith("  an output is the same tensor as an earlier output")
    assert run("check", "--explain", "TWICE").returncode == 2


def test_the_hook_and_the_action_name_the_command() -> None:
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["entry"], hook["language"]) == ("circletool check", "python")
    assert [bool(re.search(hook["files"], name)) for name in ("a/b.tflite", "c.circle", "d.onnx")] == [
        True,
        True,
        False,
    ]
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = action["runs"]["steps"]
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in steps)  # inputs are never code
    given = " ".join(value for step in steps for value in step["env"].values())
    assert set(re.findall(r"inputs\.(\w+)", given)) == set(action["inputs"])
