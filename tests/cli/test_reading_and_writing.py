"""Exit statuses, files, standard streams and the terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.origin_support import OP, SOURCE, STAMP, embedded
from tests.kit.program import MLP, TOOL, Ran, compacted, files_in, put, run
from tests.kit.pseudo_terminal import on_terminal
from tests.kit.support import noted


def test_status_0_done(tmp_path: Path) -> None:
    ran = run("embed-origins", MLP, tmp_path / "out.circle")
    assert (ran.status, ran.out) == (0, b"")
    assert re.findall(r"^metadata (\S+): \d+ bytes$", ran.err, re.M) == [SOURCE, OP, STAMP]
    assert (tmp_path / "out.circle").read_bytes() == embedded(MLP.read_bytes())


def test_status_1_findings() -> None:
    ran = run("dump-origins", MLP)
    assert (ran.status, ran.out) == (1, b"")
    assert ran.err == f"warning: {MLP}: the model has no origins; run `circletool embed-origins`\n"


def test_status_2_usage() -> None:
    ran = run("embed-origins", MLP)
    assert ran == Ran(2, b"", "error: no output file (name one, or use --in-place)\n")


def test_status_3_invalid_input(tmp_path: Path) -> None:
    ran = run("inspect", put(tmp_path / "x.circle", b"no model at all"))
    assert (ran.status, ran.out) == (3, b"")
    assert ran.err.startswith(f"error: {tmp_path / 'x.circle'}: neither a TFLite nor a Circle model")
    missing = run("inspect", tmp_path / "missing.circle")
    assert (missing.status, missing.out) == (3, b"")
    assert missing.err == f"error: {tmp_path / 'missing.circle'}: cannot read it: No such file or directory\n"


def test_status_4_impossible_edit(twice: Path, tmp_path: Path) -> None:
    ran = run("embed-origins", twice, tmp_path / "out.circle")
    assert (ran.status, ran.out) == (4, b"")
    assert ran.err.startswith(f"error: {twice}: the model already has origins ({SOURCE}, {OP}) (--replace ")


@pytest.mark.parametrize("args", [["no-such-command"], ["inspect"], ["inspect", "--no-such-option", "x"], ["check"]])
def test_a_wrong_command_line(args: list[str]) -> None:
    ran = run(*args)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.err.startswith("Usage: circletool")


def test_in_place(tmp_path: Path) -> None:
    model = put(tmp_path / "a.circle", MLP.read_bytes())
    model.chmod(0o640)
    assert run("embed-origins", model, "--in-place").status == 0
    assert model.read_bytes() == embedded(MLP.read_bytes())
    assert model.stat().st_mode & 0o777 == 0o640
    assert run("metadata", "remove", model, "--origins", "--in-place").status == 0
    assert model.read_bytes() == MLP.read_bytes()
    assert files_in(tmp_path) == {"a.circle"}


@pytest.mark.parametrize("command", [["embed-origins"], ["metadata", "remove", "--name", "note"], ["compact"]])
def test_one_file_as_input_and_output(command: list[str], tmp_path: Path) -> None:
    data = noted(MLP.read_bytes())
    model = put(tmp_path / "a.circle", data)
    (tmp_path / "link.circle").symlink_to(model)
    (tmp_path / "hard.circle").hardlink_to(model)
    for name in ("link.circle", "hard.circle") if command == ["compact"] else ("a.circle",):
        ran = run(*command, model, tmp_path / name)
        assert (ran.status, model.read_bytes()) == (2, data)
        assert ran.err == f"error: {tmp_path / name}: input and output are the same file (use --in-place)\n"
    assert run(*command, model, model, "--in-place").status == 0
    assert model.read_bytes() != data


def test_standard_input_and_output() -> None:
    data = MLP.read_bytes()
    ran = run("embed-origins", "-", "-", stdin=data)
    assert (ran.status, ran.out) == (0, embedded(data))
    assert run("metadata", "remove", "-", "-", "--origins", stdin=ran.out).out == data
    assert run("compact", "-", "-", stdin=ran.out).out == compacted(ran.out)
    assert run("check", "--structure-only", "-", stdin=data).out == b"-: ok\n"
    assert json.loads(run("inspect", "-", "--json", stdin=data).out)["file_bytes"] == len(data)
    assert run("dump-origins", "-", "--format", "csv", stdin=ran.out).out.count(b"\n") == 4
    assert run("inspect", "-").err.startswith("error: <standard input>: neither")


@pytest.mark.parametrize("command", [["embed-origins"], ["metadata", "remove", "--origins"], ["compact"]])
def test_no_binary_on_a_terminal(command: list[str]) -> None:
    ran = on_terminal([TOOL, *command, MLP, "-"], piped="stderr")
    assert (ran.status, ran.sent) == (2, "")
    assert ran.piped.startswith("error: the output is binary, and standard output is a terminal")


def test_a_failing_edit_leaves_no_file(twice: Path, tmp_path: Path) -> None:
    old = put(tmp_path / "old.circle", "precious")
    broken = put(tmp_path / "broken.circle", MLP.read_bytes()[:300])
    before = files_in(tmp_path)
    for source, status in ((twice, 4), (broken, 3)):
        for target in (old, tmp_path / "new.circle"):
            assert run("embed-origins", source, target).status == status
    assert run("metadata", "remove", twice, old, "--name", SOURCE, "--name", "typo").status == 2
    assert run("compact", broken, old).status == 3
    assert run("embed-origins", twice, "--in-place").status == 4
    assert twice.read_bytes() == embedded(MLP.read_bytes())
    assert (old.read_bytes(), files_in(tmp_path)) == (b"precious", before)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "out.circle"
    ran = run("embed-origins", MLP, nowhere)
    assert ran == Ran(4, b"", f"error: {nowhere}: cannot write it: No such file or directory\n")
    ran = run("compact", MLP, tmp_path)
    assert ran == Ran(2, b"", f"error: {tmp_path}: the output is a directory; name a file\n")
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize("args", [["inspect", MLP], ["compact", MLP, "-"]])
def test_a_full_disk_behind_standard_output(args: list[str | Path]) -> None:
    with open("/dev/full", "wb") as full:
        ran = run(*args, stdout=full)
    assert ran.status != 0
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("args", [["inspect", MLP], ["compact", MLP, "-"], ["inspect", "missing.circle"]])
def test_a_closed_standard_output(args: list[str | Path]) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", str(TOOL), *map(str, args)]
    done = subprocess.run(closed, capture_output=True, check=False)
    assert done.returncode in (3, 4)
    assert done.stderr.startswith(b"error: ")


def test_a_pipe_without_a_reader() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = run("inspect", MLP, stdout=writing)
    finally:
        os.close(writing)
    assert ran == Ran(-signal.SIGPIPE, b"", "")


def test_nothing_to_change(tmp_path: Path) -> None:
    ran = run("metadata", "remove", MLP, tmp_path / "out.circle", "--origins")
    assert (ran.status, ran.err) == (0, "nothing to change\n")
    assert (tmp_path / "out.circle").read_bytes() == MLP.read_bytes()
    before = (tmp_path / "out.circle").stat()
    assert run("fix-outputs", tmp_path / "out.circle", "--in-place").err == "nothing to change\n"
    assert (tmp_path / "out.circle").stat().st_ino == before.st_ino


def test_names_of_files_are_bytes(tmp_path: Path) -> None:
    name = "\udcff.circle"
    put(tmp_path / name, MLP.read_bytes())
    assert run("check", "--structure-only", name, cwd=tmp_path).out == b"\xff.circle: ok\n"
    assert run("check", "--structure-only", "\udcfe", cwd=tmp_path).err.startswith("error: \udcfe: cannot read it")


def test_color_only_on_a_terminal() -> None:
    ran = on_terminal([TOOL, "dump-origins", MLP], piped="stdout")
    assert ran.lines[0].startswith("\033[33mwarning:\033[0m ")
    ran = on_terminal([TOOL, "embed-origins", MLP])
    assert ran.lines[0].startswith("\033[31merror:\033[0m ")
    assert "\033" not in run("embed-origins", MLP).err


def test_no_color() -> None:
    ran = on_terminal([TOOL, "embed-origins", MLP], more={"NO_COLOR": "1"})
    assert ran.lines[0].startswith("error: no output file")
    ran = on_terminal([TOOL, "embed-origins", MLP], more={"NO_COLOR": ""})  # empty counts as not set
    assert ran.lines[0].startswith("\033[31m")


def test_results_have_no_color_on_a_terminal() -> None:
    ran = on_terminal([TOOL, "inspect", MLP])
    assert ran.status == 0
    assert ran.lines == [line.rstrip() for line in run("inspect", MLP).out.decode().splitlines()]
