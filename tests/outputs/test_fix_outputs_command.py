"""The command fix-outputs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.kit.build import Build
from tests.kit.command_support import run_bytes as run
from tests.kit.oracles import is_deterministic
from tests.kit.outputs_cases import constant_listed_three_times, result_listed
from tests.kit.outputs_support import fixed, fixed_with_changes, outcomes
from tests.kit.support import edited, path_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.tflite"
    path.write_bytes(constant_listed_three_times().to_bytes())
    return path


def test_the_command_writes_what_the_library_does(source: Path, tmp_path: Path) -> None:
    target, data = tmp_path / "out.tflite", source.read_bytes()
    for arguments, expected in (
        ([], fixed(data)),
        (["--keep-constants"], fixed(data, keep_constants=True)),
        (["--detach-taps", "--keep-constants"], fixed(data, keep_constants=True, detach_taps=True)),
        (["--copy-operator", "concatenation"], fixed(data, copy_operator="concatenation")),
        (["--subgraph", "all", "--copy-operator", "reshape"], fixed(data, "all", copy_operator="reshape")),
        (["--subgraph", "0"], fixed(data, "0")),
    ):
        ran = run("fix-outputs", source, target, *arguments)
        assert (ran.returncode, ran.stdout) == (0, b""), ran.stderr
        assert target.read_bytes() == expected
    assert source.read_bytes() == data


def test_the_command_in_place_and_in_a_pipe(source: Path) -> None:
    data = source.read_bytes()
    ran = run("fix-outputs", "-", "-", stdin=data)
    assert ran.stdout == fixed(data)
    assert ran.stderr.decode().splitlines() == list(fixed_with_changes(data)[1])
    assert run("fix-outputs", source, "--in-place").returncode == 0
    assert source.read_bytes() == fixed(data)
    again = run("fix-outputs", source, "--in-place")
    assert (again.returncode, again.stderr) == (0, b"nothing to change\n")
    assert source.read_bytes() == fixed(data)


def test_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    for arguments in ([], ["--in-place"], [tmp_path / "out.tflite"], ["-"]):
        ran = run("fix-outputs", source, *arguments, "--dry-run")
        assert (ran.returncode, ran.stdout) == (0, b"")
        assert ran.stderr.decode().splitlines() == list(fixed_with_changes(data)[1])
    assert [path.name for path in tmp_path.iterdir()] == ["in.tflite"]
    assert source.read_bytes() == data
    shutil.copy(path_of("circle/mlp"), tmp_path / "clean.circle")
    assert run("fix-outputs", tmp_path / "clean.circle", "--dry-run").stderr == b"nothing to change\n"


def test_json(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tflite"
    changes = list(fixed_with_changes(source.read_bytes())[1])
    for arguments in ([target], ["--dry-run"], ["-", "--dry-run"]):
        ran = run("fix-outputs", source, *arguments, "--json")
        assert ran.returncode == 0
        document = json.loads(ran.stdout)
        assert sorted(document) == ["changes", "file", "schema_version"]
        assert document["changes"] == changes
    assert json.loads(run("fix-outputs", target, "--dry-run", "--json").stdout)["changes"] == []
    assert run("fix-outputs", source, "-", "--json").returncode == 2


def test_json_lists_only_changes_that_were_made(source: Path, tmp_path: Path) -> None:
    ran = run("fix-outputs", source, tmp_path / "missing" / "out.tflite", "--json")
    assert ran.returncode == 4
    document = json.loads(ran.stdout)
    assert sorted(document) == ["error", "exit_status", "file", "schema_version"]


@pytest.mark.parametrize("target", ["in.tflite", "missing/out.tflite", "folder", "nul\udc80/\udc80", "loop"])
def test_dry_run_looks_where_it_would_write(target: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    would, does = (run("fix-outputs", source, tmp_path / target, *more) for more in (["--dry-run"], []))
    assert would.returncode in (2, 4)
    assert (would.returncode, would.stdout, would.stderr) == (does.returncode, does.stdout, does.stderr)
    assert run("fix-outputs", source, tmp_path / "other", "--in-place", "--dry-run").returncode == 2


def test_an_output_that_nothing_produces_is_noted(tmp_path: Path) -> None:
    build = Build()
    graph = build.graph()
    x, lost = graph.tensor("x"), graph.tensor("lost")
    graph.ends([x], [x, lost])
    path = tmp_path / "in.tflite"
    path.write_bytes(build.to_bytes())
    for arguments in (["--dry-run"], [tmp_path / "out.tflite"]):
        ran = run("fix-outputs", path, *arguments)
        assert (ran.returncode, ran.stderr.decode().splitlines()) == (
            0,
            [
                "subgraphs[0].outputs[0] x: a copy of the input",
                f"note: {path}: subgraphs[0].outputs[1]: 'lost' is not an input or constant, and no operator "
                "produces it; it is not copied",
            ],
        )


def test_dry_run_fails_where_the_run_would(tmp_path: Path) -> None:
    path = tmp_path / "in.tflite"
    path.write_bytes(edited(result_listed(2).to_bytes(), lambda edit: edit.set_metadata("ONE_op_table", b"?")))
    assert run("fix-outputs", path, tmp_path / "out.tflite").returncode == 3
    assert run("fix-outputs", path, "--dry-run").returncode == 3


def test_wrong_use(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tflite"
    for arguments in (
        [source],
        [source, source],
        [source, target, "--in-place"],
        [source, target, "--subgraph", "7"],
        [source, target, "--subgraph", "main"],
        [source, target, "--copy-operator", "permute"],
    ):
        assert run("fix-outputs", *arguments).returncode == 2, arguments
    assert b"(name a file" in run("fix-outputs", source, "-", "--json").stderr
    assert b"(`circletool inspect` lists them)" in run("fix-outputs", source, target, "--subgraph", "7").stderr
    assert run("fix-outputs", tmp_path / "missing.tflite", target).returncode == 3
    assert not target.exists()


def test_the_runtimes_take_part(tmp_path: Path) -> None:
    """The comparison itself: a fix that copied another tensor would be seen."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.ends([x, y], [x, y])
    right = fixed(build.to_bytes())
    graph.ends([x, y], [y, x])
    wrong = fixed(build.to_bytes())
    for name, outcome in outcomes(right, tmp_path, "tflite").items():
        assert is_deterministic(tmp_path / "model.tflite", name)
        assert outcome.stage == "ok"
        assert outcome.outputs != outcomes(wrong, tmp_path, "tflite")[name].outputs
