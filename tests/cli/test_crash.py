"""Whatever happens while a file is written: the old one or the complete new one, and nothing beside it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from circletool_cli.signature import parameters_of  # type: ignore[import-not-found, unused-ignore] # the installed name
from circletool_cli.table import COMMANDS  # type: ignore[import-not-found, unused-ignore] # the installed name

from circletools.edit.edit import ModelEdit
from circletools.errors import InvalidInputError
from circletools.model.model import open_model
from tests.kit.bundles import task
from tests.kit.support import ROOT, TESTDATA, bytes_of, noted

TOOL = Path(sys.executable).with_name("circletool")
AFFINITY = "--devices npu,cpu --set index:0=npu --default cpu"
WRITERS = f"""
    embed-origins in.circle out --replace
    embed-origins in.circle --replace --in-place --no-stamp
    compact in.circle --in-place
    dump-origins in.circle --tables tables
    split in.circle parts
    fix-outputs outputs.circle out
    annotate-affinity in.circle out {AFFINITY}
    metadata remove in.circle out --origins --affinity
    metadata labels in.circle out --labels labels.txt --values
    metadata get in.circle ONE_op_table -o out
    metadata set in.circle out --name note --text x
    metadata rename in.circle out --name ONE_op_table=x
    metadata describe in.circle out --name x
    compact in.circle out --prune
    extract in.circle out --operators 0
    rename in.circle out --input 0=x
    signature in.circle out --add x
    reorder outputs.circle out --outputs 2,1,0
    set-shape in.circle out --batch 2
    repair outputs.circle out --only DUPLICATE_OUTPUT
    replace in.task!a.tflite in.circle out
    expose in.circle out --every *
    export-affinity in.circle --to part -o out
    trace-export trace.html out --to perfetto
    report in.circle -o out
    requires in.task!a.tflite --lower -o out
    requires in.task!a.tflite --resolver out
    track-origins in.circle in.circle out --replace
    track-origins in.circle out --tag
    diff in.circle outputs.circle --html out
    compare in.circle --on onert,litert --html out
    profile in.circle --on onert --runs 1 -o out
    reduce in.circle out --while-refused litert:builtin
""".strip().splitlines()
"""Command lines for every output of every command. `out` and what is in `tables` are there already, `new` is not."""
ALL_CALLS = 2
"""So many are disturbed at each of their calls to the system, and the others at a sample."""
NEW = ("embed-origins", "in.circle", "new", "--replace")


def tool(*words: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([TOOL, *words], cwd=folder, capture_output=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with inputs for all commands, and old outputs."""
    folder = tmp_path_factory.mktemp("crash") / "prepared"
    folder.mkdir()
    (folder / "in.circle").write_bytes(bytes_of("circle/mlp"))
    (folder / "outputs.circle").write_bytes(bytes_of("circle/output_twice"))
    (folder / "trace.html").write_bytes((TESTDATA / "trace" / "benchmark.html").read_bytes())
    (folder / "in.task").write_bytes(task([("a.tflite", bytes_of("tflite/scalar")), ("b", b"text")]))
    (folder / "labels.txt").write_bytes(b"one\n")
    (folder / "out").write_bytes(b"what was there")
    for words in (
        ("embed-origins", "in.circle", "--in-place"),
        ("annotate-affinity", "in.circle", "--in-place", *AFFINITY.split()),
    ):
        assert tool(*words, folder=folder).returncode == 0
    (folder / "tables").mkdir()
    for name in ("ONE_source_table.bin", "origins.json"):
        (folder / "tables" / name).write_bytes(b"what was there")
    return folder


def happened(folder: Path, happenings: Iterable[str], words: Iterable[str], *sample: int) -> list[dict[str, Any]]:
    """Return what `tests.kit.crash_points` finds; what holds for everything is looked at here."""
    given = [str(folder), ",".join(happenings), *map(str, sample or (1, 1)), *words]
    command = [sys.executable, "-m", "tests.kit.crash_points", *given]
    apart = os.environ | {"TMPDIR": str(folder.parent)}
    done = subprocess.run(command, cwd=ROOT, env=apart, capture_output=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    before, after = found["before"], found["after"]
    assert before != after
    for one in found["rounds"]:
        others = [name for name in one["files"] if name not in after]
        one["strays"] = {name.partition("/")[0] for name in others}
        assert before.keys() <= one["files"].keys(), one
        for name, content in one["files"].items():
            assert name in others or content in (before.get(name), after[name]), (one, name)
        one["done"] = after.items() <= one["files"].items()
    return list(found["rounds"])


def test_every_output_of_every_command_is_in_the_list() -> None:
    for row in COMMANDS:
        for one in parameters_of(row.function):
            kind, (message, *_) = one.annotation.__origin__, one.annotation.__metadata__
            if {str, Path} & {kind, *get_args(kind)} and re.search(r"\bwrite", message.help, re.IGNORECASE):
                lines = [line.split() for line in WRITERS if line.strip().startswith(f"{row.name} ")]
                assert any(not message.names or {*message.names} & {*words} for words in lines), (row.name, one.name)


@pytest.mark.parametrize("number", range(len(WRITERS)), ids=map(str.strip, WRITERS))
def test_the_old_file_or_the_new_one(folder: Path, number: int) -> None:
    kinds = ["kill"]  # of every command; the rest is of how a file and a folder are written, whoever does it
    if number in (0, 2, 3):
        kinds += ["fail-named", "SIGTERM-named"]
    if number == 0:
        kinds += ["kill-named", "fail", "SIGTERM"]
    for name, package in ("onert", "onert"), ("litert", "ai_edge_litert"):
        if name in WRITERS[number]:
            pytest.importorskip(package)
    sample = (1, 1) if number < ALL_CALLS else (1 + number % 9, 9)
    found = happened(folder, kinds, WRITERS[number].split(), *sample)
    assert len(found) >= len(kinds)
    for one in found:
        kind, _, named = one["happening"].partition("-")
        if kind == "kill":
            assert one["status"] == -signal.SIGKILL
            # Only between its two last steps has a nameless file a name of its own.
            has_name = named or not hasattr(os, "O_TMPFILE") or one["call"] == "replace" or number in (3, 4)
            assert len(one["strays"]) <= bool(has_name), one
        elif kind == "fail":
            assert one["status"] == (0 if one["done"] else 4), one
            # The old folder stays under another name if it cannot be opened to remove it.
            assert not one["strays"] or (number, one["done"], one["call"]) == (3, True, "open"), one
        else:
            assert (one["status"], one["strays"]) == (-signal.SIGTERM, set()), one
    assert any(not one["done"] for one in found)


def test_other_signals_are_the_same(folder: Path) -> None:
    for one in happened(folder, ["SIGINT-named", "SIGHUP-named"], NEW):
        number = getattr(signal, one["happening"].partition("-")[0])
        assert (one["status"], one["strays"]) == (-number, set()), one


def start(program: str, *words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, **options)


SAVES = """
    import itertools, sys
    import circletools as ct
    name, values = sys.argv[1], sys.argv[2:]
    for value in itertools.cycle(values):
        with ct.open(name) as model:
            edit = ct.edit(model)
            edit.set_metadata("note", value.encode())
            edit.save(name, in_place=True)
        print(end=".", flush=True)
"""


def test_a_process_killed_at_any_time(large: Path) -> None:
    versions = [noted(large.read_bytes(), value=value) for value in (b"one", b"two")]
    generator = random.Random(1)  # noqa: S311
    for _ in range(12):
        process = start(SAVES, large, "one", "two")
        assert process.stdout is not None
        process.stdout.read(1 + generator.randrange(3))
        time.sleep(generator.random() / 50)
        process.kill()
        process.communicate()
        assert large.read_bytes() in versions
    # A kill between the last two steps, which take some microseconds, leaves a complete file. Where a file has a name
    # from the first byte on, it leaves what was written.
    for stray in large.parent.glob(".circletool-*"):
        assert not hasattr(os, "O_TMPFILE") or stray.read_bytes() in versions


WRITES_ONE = """
    import sys
    import circletools as ct
    source, target, value = sys.argv[1:]
    for _ in range(30):
        with ct.open(source) as model:
            edit = ct.edit(model)
            edit.set_metadata("note", value.encode())
            edit.save(target)
"""


def test_several_processes_that_write_one_file(large: Path) -> None:
    values = [b"one", b"two", b"three"]
    versions = [noted(large.read_bytes(), value=value) for value in values]
    target = large.with_name("out.circle")
    target.write_bytes(versions[0])
    processes = [start(WRITES_ONE, large, target, value.decode()) for value in values]
    while any(process.poll() is None for process in processes):
        assert target.read_bytes() in versions
    assert [process.communicate() and process.returncode for process in processes] == [0, 0, 0]
    assert sorted(path.name for path in large.parent.iterdir()) == ["in.circle", "out.circle"]


def test_two_edits_of_one_file_in_place(tmp_path: Path) -> None:
    """The second would undo the first, so it is reported."""
    path = tmp_path / "in.circle"
    path.write_bytes(bytes_of("circle/mlp"))
    with open_model(path) as one, open_model(path) as two:
        for model in (one, two):
            edit = ModelEdit(model)
            edit.set_metadata("note", b"a value")
            if model is one:
                edit.save(path, in_place=True)
                continue
            with pytest.raises(InvalidInputError, match="the input was replaced") as caught:
                edit.save(path, in_place=True)
            assert caught.value.location == str(path)
            edit.save(tmp_path / "other.circle")
    expected = noted(bytes_of("circle/mlp"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "in.circle": expected,
        "other.circle": expected,
    }


def mounted(line: str, folder: Path) -> list[str]:
    """Run shell lines where they may mount file systems that nobody else sees; return what they print."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    try:
        probe = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `unshare` here")
    if probe.returncode:
        pytest.skip(f"nothing can be mounted here: {probe.stderr.decode().strip()}")
    script = f"set -eu; t='{TOOL}'\n{line}"
    done = subprocess.run(
        [*unshare, "/bin/sh", "-c", script], cwd=folder, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode().splitlines()


def shown(path: str, reason: str) -> str:
    return f"error: {path}: cannot write it: {reason}"


@pytest.mark.parametrize("command", ["embed-origins", "compact"])
def test_a_full_disk(large: Path, command: str) -> None:
    large.with_name("disk").mkdir()
    lines = mounted(
        f"""
        mount -t tmpfs -o size=1m none disk
        printf old >disk/old
        for out in disk/old disk/new; do "$t" {command} in.circle $out 2>&1 || echo $?; done
        ls -A disk; cat disk/old
        """,
        large.parent,
    )
    full = "No space left on device"
    assert lines == [shown("disk/old", full), "4", shown("disk/new", full), "4", "old", "old"]


def test_a_disk_that_is_read_only(large: Path) -> None:
    large.with_name("disk").mkdir()
    lines = mounted(
        """
        printf old >disk/old; mount --bind disk disk; mount -o remount,ro,bind disk
        for out in disk/old disk/new; do "$t" embed-origins in.circle $out 2>&1 || echo $?; done
        ls -A disk; cat disk/old
        """,
        large.parent,
    )
    reason = "Read-only file system"
    assert lines == [shown("disk/old", reason), "4", shown("disk/new", reason), "4", "old", "old"]


def test_without_proc(large: Path) -> None:
    """There a nameless file cannot get its name, and one with a name is written after all."""
    expected = noted(large.read_bytes())
    large.write_bytes(expected)
    lines = mounted(
        """
        mount -t tmpfs none /proc
        "$t" metadata remove in.circle out.circle --name note 2>&1; ls -A
        """,
        large.parent,
    )
    assert lines == ["metadata note: removed", "in.circle", "out.circle"]
    assert noted(large.with_name("out.circle").read_bytes()) == expected


def test_a_limit_for_the_size_of_files(large: Path) -> None:
    before = large.read_bytes()
    limited = f"ulimit -f 1000; '{TOOL}' embed-origins in.circle --in-place"
    done = subprocess.run(["/bin/sh", "-c", limited], cwd=large.parent, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (4, shown("in.circle", "File too large") + "\n")
    assert {path.name: path.read_bytes() for path in large.parent.iterdir()} == {"in.circle": before}
