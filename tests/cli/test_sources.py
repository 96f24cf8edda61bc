"""The tasks of a command line, and what is refused before the first one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from circletool_cli.batch.many import identities, jobs_of, mirror, named
from circletool_cli.batch.task import apply
from typer import BadParameter

import circletools as ct


def command(file: str, **_: Any) -> None:
    """Stand for a command that does nothing."""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a folder with `in/a.circle`, `in/b/c.tflite` and the empty `empty`."""
    for name in ("in/b", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("in/a.circle", "in/b/c.tflite"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def test_a_task_for_each_file_and_each_model_of_a_directory(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(top)
    options = {"rules": Path("r"), "word": "w", "none": None}
    tasks = list(named(command, ["x", "in", "empty"], options, "own"))
    assert [task.file for task in tasks] == ["x", "in/a.circle", "in/b/c.tflite", "empty"]
    assert {(task.output, task.heading) for task in tasks} == {(None, "own")}
    assert all(task.options == options for task in tasks)
    assert [task.function is command for task in tasks] == [True, True, True, False]
    assert apply(tasks[3]).error == "empty: no model in this directory (.circle, .tflite)"
    (task,) = named(command, ["x"], options)
    assert task.heading == "name"


@pytest.mark.parametrize("kind", [str, Path])
def test_results_have_the_places_of_their_models(kind: type, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(top)
    given = {"output": kind("out"), "rules": Path("r")}
    tasks = list(mirror(command, "in", given, "output"))
    assert [(task.file, task.output) for task in tasks] == [
        ("in/a.circle", "out/a.circle"),
        ("in/b/c.tflite", "out/b/c.tflite"),
    ]
    assert [task.options["output"] for task in tasks] == [kind("out/a.circle"), kind("out/b/c.tflite")]
    assert {task.options["rules"] for task in tasks} == {Path("r")}
    first, _ = mirror(command, "in", {"output": None}, "output")  # in place
    assert (first.file, first.output, first.options) == ("in/a.circle", None, {"output": None})
    for target in (kind("out"), None):
        (task,) = mirror(command, "empty", {"output": target}, "output")
        assert (task.output, apply(task).status) == (None, 3)


def refused(source: Path, given: dict[str, Any]) -> str:
    with pytest.raises(ct.UsageError) as caught:
        list(mirror(command, str(source), given, "output"))
    return str(caught.value)


def test_where_results_cannot_go(top: Path) -> None:
    source = top / "in"
    text = "the models of a directory cannot all go to standard output (name a directory)"
    assert refused(source, {"output": "-"}) == text
    file = source / "a.circle"
    text = f"{file}: an input directory needs an output directory (name a directory)"
    assert refused(source, {"output": str(file)}) == text
    beside = "(name a directory next to it, or use --in-place)"
    for place in (source, source / "new", source / "b"):
        text = f"{place}: the output directory is inside the input directory {beside}"
        assert refused(source, {"output": str(place)}) == text
    assert len(list(mirror(command, str(source), {"output": f"{source}2"}, "output"))) == 2


def test_results_are_not_written_over_other_inputs(top: Path) -> None:
    remedy = "(name another directory, or remove the link to this path)"
    (top / "out").mkdir()
    (top / "out" / "a.circle").write_bytes(b"")
    given = {"output": top / "out", "rules": top / "out" / "a.circle"}
    text = f"{top / 'out/a.circle'}: a result would overwrite an input {remedy}"
    assert refused(top / "in", given) == text
    (top / "out" / "b").mkdir()
    (top / "out" / "b" / "c.tflite").hardlink_to(top / "out" / "a.circle")
    text = f"{top / 'out/b/c.tflite'}: two results would be written to this file {remedy}"
    assert refused(top / "in", {"output": top / "out"}) == text
    # The directory of results itself is not an input.
    (top / "out" / "b" / "c.tflite").unlink()
    assert len(list(mirror(command, str(top / "in"), {"output": top / "out"}, "output"))) == 2


def test_names_of_one_file(top: Path) -> None:
    file, link = top / "in" / "a.circle", top / "link"
    link.symlink_to(file)
    assert identities(file) == identities(link) == {str(file), (file.stat().st_dev, file.stat().st_ino)}
    assert identities(top / "none") == {str(top / "none")}


def test_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert [jobs_of(given) for given in (1, "1", "12", "auto", "0", 0)] == [1, 1, 12, 3, 3, 3]
    for wrong in ("many", "-1", "²", "1.5", ""):
        with pytest.raises(BadParameter) as caught:
            jobs_of(wrong)
        assert caught.value.message == f"{wrong!r} is neither a number of processes nor 'auto'."
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0: {1, 2}}[process], raising=False)
    assert jobs_of("auto") == 2
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for count, jobs in ((4, 4), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert jobs_of("auto") == jobs
