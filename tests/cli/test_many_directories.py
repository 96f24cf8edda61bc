"""One command over directories of models."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from circletools.storage.files import models_below
from tests.kit.origin_support import embedded
from tests.kit.program import MLP, put, run
from tests.kit.support import path_of

DIAMOND = path_of("circle/diamond")
NAMES = ["a/broken.tflite", "a/deep/net.circle", "a/net.circle", "b/net.circle", "odd.TFLITE"]


def test_models_below_a_directory(models: Path) -> None:
    assert list(models_below(str(models))) == NAMES


def test_links_are_followed_and_circles_end(models: Path) -> None:
    (models / "a" / "up").symlink_to(models)
    (models / "b" / "a").symlink_to("../a")
    (models / "itself.circle").symlink_to("itself.circle")
    (models / "nowhere.circle").symlink_to("gone.circle")
    (models / "z.circle").symlink_to(MLP)
    os.mkfifo(models / "pipe.circle")
    found = list(models_below(str(models)))
    assert found == [*NAMES[:4], "itself.circle", "nowhere.circle", "odd.TFLITE", "z.circle"]
    ran = run("check", "--structure-only", models)
    assert ran.status == 3
    assert f"{models}/z.circle: ok\n" in ran.out.decode()
    assert f"error: {models}/nowhere.circle: cannot read it: No such file" in ran.err


def test_a_deep_directory(tmp_path: Path) -> None:
    names = ["d"] * 1200  # deeper than Python's stack
    for depth in range(1, len(names) + 1):
        os.mkdir(tmp_path.joinpath(*names[:depth]))
    put(tmp_path.joinpath(*names, "net.circle"), b"")
    assert list(models_below(str(tmp_path))) == [str(Path(*names, "net.circle"))]
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # noqa: S607


def test_a_directory_that_cannot_be_read(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listdir = os.listdir

    def refusing(path: str) -> list[str]:
        if path.endswith("/a"):
            raise PermissionError
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refusing)
    assert list(models_below(str(models))) == ["a", "b/net.circle", "odd.TFLITE"]


def test_a_directory_without_models(tmp_path: Path) -> None:
    ran = run("check", tmp_path, MLP)
    assert (ran.status, ran.out) == (3, f"{MLP}: ok\n".encode())
    assert ran.err == f"error: {tmp_path}: no model in this directory (.circle, .tflite)\n"


def test_models_that_are_not_read_and_an_error_for_all(models: Path) -> None:
    (models / "net.litertlm").touch()
    ran = run("requires", models, "--runtime", "litert-9")
    assert (ran.status, ran.out, ran.err.count("litert-9")) == (2, b"", 1)
    assert "3 skipped, since only .tflite files are read\n" in ran.err
    assert "1 skipped (.litertlm, .task); name the models in them" in ran.err


def test_the_results_of_a_directory_have_its_shape(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    ran = run("embed-origins", models, out, "--jobs", "2")
    assert ran.status == 3
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == set(NAMES[1:])
    for name in NAMES[1:]:
        assert (out / name).read_bytes() == embedded((models / name).read_bytes())
    assert f"{models / 'b/net.circle'}: metadata ONE_source_table: " in ran.err
    tables = tmp_path / "tables"
    assert run("dump-origins", out, "--tables", tables).status == 0
    assert {str(path.parent.relative_to(tables)) for path in tables.rglob("origins.json")} == set(NAMES[1:])


def test_a_place_that_cannot_be_made_costs_its_own_files_only(models: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    in_the_way = put(tmp_path / "out" / "a", "")
    ran = run("compact", models, tmp_path / "out")
    assert ran.status == 4
    assert ran.err.count(f": {in_the_way}: cannot make the directory: ") == 2
    assert (tmp_path / "out" / NAMES[3]).exists()
    assert (tmp_path / "out" / NAMES[4]).exists()


def test_a_directory_in_place(models: Path) -> None:
    before = {name: (models / name).read_bytes() for name in NAMES}
    assert run("embed-origins", models, "--in-place").status == 3
    after = {name: (models / name).read_bytes() for name in NAMES}
    broken = {NAMES[0]: before[NAMES[0]]}
    assert after == {name: embedded(data) for name, data in before.items() if name not in broken} | broken


def test_where_the_results_of_a_directory_cannot_go(models: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(models)
    for out in (models, models / "out", tmp_path / "link" / "out", models / NAMES[1], "-"):
        ran = run("compact", models, out)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, b"", 1), out
    assert run("compact", models) == run("compact", MLP)
    assert sorted(models_below(str(tmp_path / "models"))) == NAMES


@pytest.mark.parametrize("command", ["compact", "dump-origins"])
def test_results_are_not_written_over_inputs(command: str, tmp_path: Path) -> None:
    def contents() -> dict[str, bytes | None]:
        return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(tmp_path.rglob("*"))}

    def refused(source: str, out: str, text: str) -> None:
        before = contents()
        place: list[str | Path] = [tmp_path / out] if command == "compact" else ["--tables", tmp_path / out]
        ran = run(command, tmp_path / source, *place, "--jobs", "2")
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, b"", 1)
        assert text in ran.err
        assert contents() == before

    model = embedded(MLP.read_bytes())
    for name in ("p/b/b", "q/in/deep", "q/out", "r/in", "r/out", "s/in/x", "s/in/y", "s/out/y", "t/b/b"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("p/b/b/m", "p/b/m", "q/in/a", "q/in/z", "r/in/a", "r/out/z", "s/in/x/a", "s/in/y/a", "t/b/b/m"):
        put(tmp_path / f"{name}.circle", model)
    refused("p/b", "p", f"{tmp_path}/p/b/m.circle: a result would overwrite an input")
    refused("t/b", "t", f"{tmp_path}/t/b/m.circle: a result would be inside the input directory")
    link = tmp_path / "q/out/a.circle"
    link.symlink_to("../in/z.circle")
    refused("q/in", "q/out", f"{link}: a result would overwrite an input")
    link.unlink()
    link.hardlink_to(tmp_path / "q/in/z.circle")
    refused("q/in", "q/out", f"{link}: a result would overwrite an input")
    (tmp_path / "r/in/z.circle").symlink_to("../out/z.circle")
    refused("r/in", "r/out", f"{tmp_path}/r/out/z.circle: a result would overwrite an input")
    (tmp_path / "s/out/x").symlink_to("y")
    refused("s/in", "s/out", f"{tmp_path}/s/out/y/a.circle: two results would be written to this file")


def test_tables_are_not_written_over_inputs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tables = tmp_path / "out" / "a.circle"
    tables.mkdir(parents=True)
    model = put(tmp_path / "in" / "a.circle", embedded(MLP.read_bytes()))
    before = model.read_bytes()
    (tables / "origins.json").symlink_to(model)
    ran = run("dump-origins", tmp_path / "in", "--tables", tmp_path / "out")
    assert (ran.status, ran.err.count("a result would overwrite an input")) == (2, 1)
    assert model.read_bytes() == before
    assert list(tables.iterdir()) == [tables / "origins.json"]
