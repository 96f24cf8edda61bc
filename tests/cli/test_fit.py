"""The command fit: exit statuses, forms, directories, a baseline, and the page about it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import circletools as ct
from tests.kit.command_support import run
from tests.kit.presence import need
from tests.kit.program import put
from tests.kit.support import ROOT, noted, path_of
from tests.laws.test_docs import blocks, shell

CNN = path_of("tflite/cnn")
_DOCS = ROOT / "docs"
PAGE, GPU = ((_DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("fit", "gpu"))


def test_the_exit_status_of_what_is_not_known(tmp_path: Path) -> None:
    table = put(tmp_path / "npu.json", '{"operators": {}, "measured": [{"operators": ["TANH"]}]}')
    refused = path_of("tflite/output_twice")
    assert run("fit", CNN, "--on", table, "--strict").returncode == 1
    assert run("fit", CNN, "--on", table, "--strict", "--format", "github").stdout.startswith("::error ")
    for files, status in (((CNN,), 5), ((CNN, CNN), 5), ((refused, CNN), 1), ((CNN, refused), 1), ((CNN, table), 3)):
        assert run("fit", *files, "--on", table).returncode == status


@pytest.mark.parametrize(
    ("model", "targets", "status"),
    [
        ("tflite/cnn", "xnnpack", 0),
        ("tflite/cnn", "xnnpack, litert-cpu", 0),
        ("tflite/cnn", "onert-ruy", 1),
        ("tflite/cnn", "xnnpack,onert-ruy", 1),
        ("tflite/flex_op", "litert-cpu", 1),
    ],
)
def test_the_exit_status(model: str, targets: str, status: int) -> None:
    ran = run("fit", path_of(model), "--on", targets)
    assert (ran.returncode, ran.stderr) == (status, "")
    assert ran.stdout.startswith("target ")


def test_forms() -> None:
    with ct.open(CNN) as model:
        found = ct.fit(model, ct.FitRequest(on=("onert-ruy",)))
    assert run("fit", CNN, "--on", "onert-ruy").stdout.splitlines() == list(ct.render.fit_text(found))
    document = json.loads(run("fit", CNN, "--on", "onert-ruy", "--json").stdout)
    assert document == {"file": str(CNN)} | ct.render.fit_json(found)
    assert run("fit", CNN, "--on", "tflm", "--on", "xnnpack").stdout == run("fit", CNN, "--on", "tflm,xnnpack").stdout
    log = json.loads(run("fit", CNN, "--on", "onert-ruy", "--format", "sarif").stdout)
    assert log == ct.render.sarif_log([ct.render.fit_sarif(found)])
    suite = ct.render.junit_suite(str(CNN), ct.render.fit_judgement(found))
    assert suite in run("fit", CNN, "--on", "onert-ruy", "--format", "junit").stdout
    assert suite.count("<failure") == found.targets[0].refused
    assert len(json.loads(run("fit", CNN, "--on", "onert-ruy", "--format", "gitlab").stdout)) == suite.count(
        "<testcase"
    )


def test_usage() -> None:
    ran = run("fit", CNN)
    assert (ran.returncode, "Missing option '--on'" in ran.stderr) == (2, True)
    ran = run("fit", CNN, "--on", "xnnpack,")
    assert (ran.returncode, ran.stderr.startswith("error: the list of targets has an empty entry")) == (2, True)
    assert "tflm is a target, not a model (separate" in run("fit", CNN, "tflm", "--on", "xnnpack").stderr


def test_programs_that_are_asked() -> None:
    ran = run("fit", CNN, "--on", "xnnpack", "--with", "onert")
    assert (ran.returncode, ran.stderr.startswith("error: onert cannot test any of the targets in --on")) == (2, True)
    need("ai_edge_litert")
    ran = run("fit", CNN, "--on", "xnnpack", "--with", "litert", "--timeout", "100")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^xnnpack: resident according to litert:xnnpack \S+$", ran.stdout, re.M)


def test_a_program_that_disagrees_gives_status_1(tmp_path: Path) -> None:
    need("ai_edge_litert")
    table = put(tmp_path / "xnnpack.json", '{"device": "xnnpack", "operators": {"*": [{}]}}')
    ran = run("fit", path_of("tflite/while_loop"), "--on", table, "--with", "litert", "--json")
    (target,) = json.loads(ran.stdout)["targets"]
    assert (ran.returncode, target["verdict"], target["asked"][0]["verdict"]) == (1, "resident", "not_resident")
    assert {one["table_takes"] for one in target["asked"][0]["disagreements"]} == {True}


def test_help_lists_the_built_in_tables() -> None:
    words = "".join(run("fit", "--help").stdout.split())  # a name is broken at its hyphen
    assert f"capabilityfiles,oranyof{','.join(ct.affinity.shipped())}." in words


def test_notes_are_messages(tmp_path: Path) -> None:
    broken = put(tmp_path / "broken.tflite", noted(CNN.read_bytes(), "ONE_op_table", b"\1\0\0\0"))
    ran = run("fit", broken, "--on", "onert-ruy")
    assert ran.stderr.startswith("warning: metadata ONE_op_table: ")
    assert ran.returncode == 1
    assert run("fit", broken, "--on", "xnnpack").stderr == ""  # nothing is refused, so that nobody asked


def test_directories(models: Path) -> None:
    ran = run("fit", models, "--on", "onert-ruy", "--json")
    documents = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["file"], one.get("exit_status")) for one in documents] == [
        (str(models / "a/broken.tflite"), 3),
        *((str(models / name), None) for name in ("a/deep/net.circle", "a/net.circle", "b/net.circle", "odd.TFLITE")),
    ]
    assert ran.returncode == 3
    (models / "a/broken.tflite").unlink()
    assert run("fit", models, "--on", "onert-ruy").returncode == 1
    old = models.parent / "old.jsonl"
    old.write_text(run("fit", models, "--on", "onert-ruy", "--json").stdout, encoding="utf-8")
    ran = run("fit", models, "--on", "onert-ruy", "--baseline", old)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.findall(r"^onert-ruy .* (\d+) +(\d+)$", ran.stdout, re.M) == [("0", "0")] * 4
    (models / "b/net.circle").write_bytes((models / "a/net.circle").read_bytes())
    assert run("fit", models, "--on", "onert-ruy", "--baseline", old).returncode == 1


def test_a_wrong_command_line_is_reported_once(models: Path) -> None:
    for words in (["--on", "xnnpak"], ["--on", "xnnpack", "--baseline", models / "none.json"]):
        for form in ([], ["--format", "sarif"]):
            ran = run("fit", models, *words, *form)
            assert (ran.stdout, ran.stderr.count("\n")) == ("", 1)
            assert ran.returncode in (2, 3)


def shows_what_is_printed(page: str, folder: Path) -> int:
    """Run the commands of a page, and return how many there are."""
    (folder / "testdata").symlink_to(ROOT / "testdata")
    steps = [step for block in blocks(page, "console") for step in re.split(r"^\$ ", block, flags=re.M)[1:]]
    for step in steps:
        command, _, expected = step.partition("\n")
        assert shell(f"{{ {command}\n}} || [ $? -eq 1 ]", folder) == expected
    return len(steps)


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    assert shows_what_is_printed(PAGE, tmp_path) == 2
    (example,) = blocks(PAGE, "python")
    printed = shell(f"python - <<'END'\n{example}\nEND", tmp_path)
    assert printed.splitlines()[2] == "onert-cpu resident []"


def test_the_page_about_the_gpu_shows_what_is_printed_and_what_was_exported(tmp_path: Path) -> None:
    assert shows_what_is_printed(GPU, tmp_path) == 3
    source = (ROOT / "testdata" / "shufflenet.py").read_text(encoding="utf-8")
    module, changed = blocks(GPU, "python")
    assert module in source
    assert changed in source
    assert source.splitlines()[12 - 1] == module.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "steps"),
    [("refused", 2), ("diff", 2), ("digest", 2), ("affinity", 1), ("split", 3), ("tracking", 2), ("requires", 3)],
)
def test_short_pages_show_what_is_printed(name: str, steps: int, tmp_path: Path) -> None:
    assert shows_what_is_printed((_DOCS / f"{name}.md").read_text(encoding="utf-8"), tmp_path) == steps


def test_the_page_has_every_field() -> None:
    document = json.loads(run("fit", CNN, "--on", "onert-ruy", "--json").stdout)
    target = document["targets"][0]
    fields = {*document, *target, *target["findings"][0], *target["sources"][0]} - {"schema_version"}
    fields |= {"program", "version", "words", "disagreements", "table_takes"}  # of programs
    assert [name for name in sorted(fields) if f"`{name}`" not in PAGE] == []
