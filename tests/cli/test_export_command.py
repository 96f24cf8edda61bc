"""The command export-affinity."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest

import circletools as ct
from circletools.affinity.store import AFFINITY_ENTRIES
from circletools.affinity.tables import AFFINITY_STAMP
from circletools.model.model import open_model
from tests.kit.exports_support import alternating, named, with_affinity
from tests.kit.outputs_support import fixed
from tests.kit.program import files_in, put, run
from tests.kit.support import bytes_of, edited, path_of

TARGETS = get_args(ct.affinity.Target)


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    """Return a model with an affinity."""
    return put(tmp_path / "mlp.circle", with_affinity(bytes_of("circle/mlp"), ["ruy", "ruy", "cpu"]))


def test_a_shell_takes_the_environment(mlp: Path) -> None:
    ran = run("export-affinity", mlp, "--to", "onert")
    assert (ran.status, ran.err) == (0, "")
    script = f"{ran.out.decode()} env"
    found = dict(
        line.split("=", 1) for line in subprocess.check_output(["/bin/sh", "-c", script], text=True).splitlines()
    )
    document = json.loads(run("export-affinity", mlp, "--to", "onert", "--json").out)
    assert document["schema_version"] == 1
    assert document["environment"].items() <= found.items()
    assert found["OP_BACKEND_MAP"] == "0=ruy;1=ruy;2=cpu"


def test_each_target_writes_what_it_shows(mlp: Path, tmp_path: Path) -> None:
    for target in TARGETS:
        model = mlp
        if target == "openvino":
            model = put(tmp_path / "a.tflite", alternating(bytes_of("tflite/scalar"), "CPU", "GPU"))
        shown = run("export-affinity", model, "--to", target)
        written = run("export-affinity", model, "--to", target, "-o", tmp_path / "out")
        assert (shown.status, shown.err, written.status, written.out, written.err) == (0, "", 0, b"", "")
        assert (tmp_path / "out").read_bytes() == shown.out
    stdin = (tmp_path / "a.tflite").read_bytes()
    assert json.loads(run("export-affinity", "-", "--to", "openvino", stdin=stdin).out) == {
        "schema_version": 1,
        "device": "HETERO:CPU,GPU",
        "affinity": {"0": "CPU", "1": "GPU", "2": "CPU"},
    }


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_without_affinity(target: str, tmp_path: Path) -> None:
    model = path_of("circle/mlp")
    ran = run("export-affinity", model, "--to", target, "-o", tmp_path / "out")
    assert (ran.status, ran.out, files_in(tmp_path)) == (4, b"", set())
    assert ran.err.startswith(f"error: {model}: the model has no affinity (annotate-affinity adds it")


def test_stale_affinity(mlp: Path, tmp_path: Path) -> None:
    data = with_affinity(bytes_of("circle/output_twice"), ["cpu", "cpu"])
    stale = put(tmp_path / "stale.circle", fixed(data))  # which adds operators and knows nothing of affinity
    ran = run("export-affinity", stale, "--to", "part")
    assert ran.status == 4
    assert ran.err == (
        f"error: {stale}: subgraphs[0].operators[2]: the affinity is stale from here on: "
        "the number of operators was 2 and is now 4 (run annotate-affinity again)\n"
    )
    renamed = put(tmp_path / "renamed.circle", mlp.read_bytes().replace(b"::linear_1", b"::linear_2"))
    assert (
        "operators[1]: the affinity is stale from here on: the operators differ"
        in run("export-affinity", renamed, "--to", "dot").err
    )
    unstamped = put(tmp_path / "unstamped.circle", edited(data, lambda edit: edit.remove_metadata(AFFINITY_STAMP)))
    assert run("export-affinity", unstamped, "--to", "part").status == 0


def test_what_is_refused_leaves_no_file(mlp: Path, tmp_path: Path) -> None:
    data = with_affinity(named("a", "b"), ["ruy", "cpu"])
    model = put(tmp_path / "a.circle", data)
    old = put(tmp_path / "old", "precious")
    for name in ("old", "new"):
        ran = run("export-affinity", model, "--to", "onert", "-o", tmp_path / name)
        assert (ran.status, ran.out) == (4, b"")
        assert ran.err.startswith(f"error: {model}: subgraphs[0].operators[0]: ruy has no kernel for TANH")
    assert (old.read_text(), files_in(tmp_path)) == ("precious", {"a.circle", "mlp.circle", "old"})
    for arguments in (["--to", "dot", "--json"], ["--to", "part", "-o", model], ["--to", "x"], []):
        assert run("export-affinity", model, *arguments).status == 2
    assert model.read_bytes() == data


def test_malformed_tables(mlp: Path, tmp_path: Path) -> None:
    for entry in AFFINITY_ENTRIES:
        with open_model(mlp) as model:
            value = bytes(model.metadata_value(entry) or b"")
        for broken in (value[:-1], b""):
            file = put(tmp_path / "x.circle", edited(mlp.read_bytes(), lambda e: e.set_metadata(entry, broken)))  # noqa: B023
            ran = run("export-affinity", file, "--to", "part")
            assert (ran.status, ran.out) == (3, b"")
            assert ran.err.startswith(f"error: {file}: {entry}: ")
