"""The command diff: words, sections, what is left out, exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from circletools.diff.difference import SECTIONS
from tests.kit.affinity_support import with_affinity
from tests.kit.origin_support import OP, SOURCE, STAMP, embedded, rebuilt
from tests.kit.program import put, run
from tests.kit.support import ROOT, bytes_of, noted, path_of

MLP = path_of("circle/mlp")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Return `mlp` with a changed shape and name, a note and origins."""

    def change(model: Any) -> None:
        tensors = model.subgraphs[0].tensors
        tensors[5].shape, tensors[6].name = [1, 33], "renamed"

    return put(tmp_path / "other.circle", embedded(noted(rebuilt(MLP.read_bytes(), change))))


def test_no_difference(tmp_path: Path) -> None:
    assert run("diff", MLP, MLP)[:2] == (0, b"no differences\n")
    ran = run("diff", MLP, path_of("circle/mlp_external"))
    assert ran[:2] == (0, b"no differences, but the files are laid out differently\n")


def test_the_text(other: Path) -> None:
    ran = run("diff", MLP, other)
    assert (ran.status, ran.err) == (1, "")
    shown = [re.split(r"  +", line.strip()) for line in ran.out.decode().splitlines()]
    name = "torch.nn.modules.linear.Linear::linear_1"
    assert shown[0][0].startswith("larger by ")
    shown = shown[shown.index([""]) + 1 :]
    assert shown[:5] == [
        ["structure"],
        ["~ subgraphs[0].tensors[5].shape[1] __main__.Mlp::relu", "32 -> 33"],
        [f"~ subgraphs[0].tensors[6].name {name}", f"{name} -> renamed"],
        [""],
        ["metadata"],
    ]
    assert [words[0] for words in shown[5:11]] == [
        *(f"+ metadata[{entry}]" for entry in ("note", SOURCE, OP, STAMP)), "", "origins",
    ]  # fmt: skip
    assert shown[11] == ["+ origins", "sources 3, operators 3"]
    assert shown[-1] == ["7 differences: 5 added, 2 changed"]


def test_the_document(other: Path) -> None:
    ran = run("diff", MLP, other, "--json")
    document = json.loads(ran.out)
    assert ran.status == 1
    assert document["schema_version"] == 1
    assert document["before"] == {"file": str(MLP), "format": "circle", "file_bytes": MLP.stat().st_size}
    path = "subgraphs[0].tensors[5].shape[1]"
    assert {"section": "structure", "kind": "changed", "path": path, "before": 32, "after": 33} in document["changes"]
    assert json.loads(run("diff", MLP, MLP, "--json").out) | {"before": 0, "after": 0, "summary": 0} == {
        "schema_version": 1, "before": 0, "after": 0, "summary": 0, "identical_bytes": True, "changes": [],
        "notes": [],
    }  # fmt: skip


def found(*args: str | Path) -> tuple[int, set[str]]:
    """Return the exit status and the sections with a difference."""
    ran = run("diff", *args, "--json")
    return ran.status, {change["section"] for change in json.loads(ran.out)["changes"]}


def test_only_some_sections(other: Path) -> None:
    assert found(MLP, other) == (1, {"structure", "metadata", "origins"})
    assert found(MLP, other, "--only", "origins, structure") == (1, {"structure", "origins"})
    assert found(MLP, other, "--only", "file") == (0, set())
    ran = run("diff", MLP, other, "--only", "strucure")
    assert (ran.status, ran.err) == (
        2, "error: there is no section 'strucure' (did you mean 'structure'?)\n",
    )  # fmt: skip


def test_ignored_paths(other: Path) -> None:
    def rest(*globs: str) -> set[str]:
        options = [word for glob in globs for word in ("--ignore", glob)]
        return {change["path"] for change in json.loads(run("diff", MLP, other, *options, "--json").out)["changes"]}

    everything = rest()
    assert rest("subgraphs[0].tensors[5]") == everything - {"subgraphs[0].tensors[5].shape[1]"}
    assert rest("subgraphs[0].tensors[5].shap") == everything
    assert rest("subgraphs[0].tensors[?]", "metadata*") == {"origins"}
    assert rest("*.name", "*.shape[1]") == everything - {
        "subgraphs[0].tensors[5].shape[1]", "subgraphs[0].tensors[6].name",
    }  # fmt: skip
    ran = run("diff", MLP, other, "--ignore", "*")
    assert ran[:2] == (0, b"no differences besides 7 ignored\n")


def test_equal_messages_are_counted(tmp_path: Path) -> None:
    data = bytes_of("circle/transformer_block")
    first = put(tmp_path / "a.circle", with_affinity(data, ("cpu", "npu"), default="cpu"))
    second = put(tmp_path / "b.circle", with_affinity(data, ("cpu", "npu"), default="npu"))
    short, full = (run("diff", first, second, *more).out.decode() for more in ((), ("--full",)))
    assert short.count(".device ") == 3
    assert "and 38 more of this kind (--full shows all)" in short
    assert full.count(".device ") == 41
    assert short.splitlines()[-1] == full.splitlines()[-1]


def test_standard_input() -> None:
    assert run("diff", MLP, "-", stdin=MLP.read_bytes()).status == 0
    assert run("diff", "-", path_of("circle/diamond"), stdin=MLP.read_bytes()).status == 1
    ran = run("diff", "-", "-")
    assert (ran.status, ran.err) == (2, "error: only one of the models can come from standard input\n")


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    broken = put(tmp_path / "broken.circle", MLP.read_bytes()[:500])
    for pair in ((MLP, broken), (broken, MLP), (broken, broken)):
        ran = run("diff", *pair)
        assert ran.status == 3
        assert ran.err.startswith(f"error: {broken}: ")


def test_the_sections_are_documented() -> None:
    lines = (ROOT / "docs" / "diff.md").read_text(encoding="utf-8").splitlines()
    assert [line.split("`")[1] for line in lines if line.startswith("| `")][: len(SECTIONS)] == list(SECTIONS)
