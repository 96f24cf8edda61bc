"""The log of a run over many models, and going on from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from circletool_cli.batch.run_log import RunLog
from circletool_cli.batch.task import Outcome, Task, apply

from circletools.check import check
from circletools.errors import UsageError
from circletools.model.model import open_model
from circletools.version import __version__
from tests.kit.many_support import tasks
from tests.kit.program import MLP, put, run
from tests.kit.support import ROOT, path_of

DIAMOND = path_of("circle/diamond")
NAMES = ["a/broken.tflite", "a/deep/net.circle", "a/net.circle", "b/net.circle", "odd.TFLITE"]


def lines_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_the_log_has_a_line_for_each_model(models: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert run("check", models, "--jobs", "2", "--log", log).status == 3
    lines = lines_of(log)
    assert [line["path"] for line in lines] == NAMES
    assert [line["file"] for line in lines] == [str(models / name) for name in NAMES]
    assert [line["size_bytes"] for line in lines] == [(models / name).stat().st_size for name in NAMES]
    assert [(line["status"], line["exit_status"]) for line in lines[:2]] == [("invalid", 3), ("ok", 0)]
    with open_model(models / NAMES[4]) as model:
        found = check(model)
    assert (lines[4]["status"], lines[4]["findings"]) == ("findings", len(found))
    assert "neither a TFLite nor a Circle model" in lines[0]["error"]
    assert {line["command"] for line in lines} == {"check"}
    assert all(line["seconds"] > 0 for line in lines)
    document = (ROOT / "docs" / "many.md").read_text(encoding="utf-8")
    assert [field for field in lines[0] if f"`{field}`" not in document] == []


def test_resuming(models: Path, tmp_path: Path) -> None:
    log, again = tmp_path / "log.jsonl", ("check", models, "--log", tmp_path / "log.jsonl", "--resume")
    whole = run("check", models, "--log", log)
    text = log.read_bytes()
    end = text.index(b"\n", text.index(b"\n") + 1) + 1
    log.write_bytes(text[: end + 40])  # two whole lines and a torn one
    ran = run(*again)
    broken = f"{models / NAMES[0]}: invalid\n".encode()  # was not done: it may be mended, or a disk was
    assert ran.out == broken + whole.out.split(b"\n", 2)[2]
    assert ran.err.endswith(f"1 done before: {log}\n")
    assert log.read_bytes().startswith(text[:end])
    assert [line["path"] for line in lines_of(log)] == [*NAMES[:2], NAMES[0], *NAMES[2:]]
    put(models / NAMES[0], MLP.read_bytes())
    os.utime(models / NAMES[1], ns=(1, 1))
    ran = run(*again)
    assert ran.status == 1  # as found before in the last one
    assert ran.out.decode() == "".join(f"{models / name}: ok\n" for name in NAMES[:2])
    assert run(*again) == (1, b"", f"5 done before: {log}\n")
    assert run(*again, "--json").out.count(b"\n") == 5  # another task
    assert run("check", "--structure-only", *again[1:]).out.count(b"\n") == 5


def test_resuming_looks_for_the_results(models: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    words = ("embed-origins", models, out, "--log", log, "--resume")
    (models / NAMES[0]).unlink()
    assert run(*words).status == 0
    (out / NAMES[2]).unlink()
    ran = run(*words)
    assert f"{models / NAMES[2]}: metadata ONE_op_table" in ran.err
    assert ran.err.endswith(f"3 done before: {log}\n")
    assert (out / NAMES[2]).exists()


def test_resuming_in_place(models: Path, tmp_path: Path) -> None:
    words = ("embed-origins", models, "--in-place", "--log", tmp_path / "log", "--resume")
    (models / NAMES[0]).unlink()
    assert run(*words).status == 0
    assert run(*words) == (0, b"", f"4 done before: {tmp_path / 'log'}\n")


def test_a_file_that_is_no_log_is_left_alone(models: Path) -> None:
    document = json.dumps({"schema_version": 1, "key": "", "exit_status": 0}).encode()
    begin = b'{"log": "circletool", "schema_version": '
    for content in (
        *(MLP.read_bytes(), b"[" * 100_000 + b"\n", b"x", b"{", b"{\n}\n", b'{"a": 1}\n', b'{"schema_version": '),
        *(document, document + b"\n", begin[:-1], begin + b"1}", begin + b"1}\n", begin + b"[" * 100_000),
    ):
        file = put(models / "mistaken", content)
        with pytest.raises(UsageError, match="not a log of circletool"):
            RunLog(file, resume=True)
        assert file.read_bytes() == content
    os.mkfifo(models / "pipe")
    with pytest.raises(UsageError, match="a log must be a regular file"):
        RunLog(models / "pipe", resume=False)
    ran = run("check", models, "--log", models)
    assert (ran.status, ran.err) == (4, f"error: {models}: cannot write the log: Is a directory\n")


def test_a_log_that_ends_anywhere(tmp_path: Path) -> None:
    first, second = (replace(task, path="\udcff") for task in tasks("find", "b"))
    log = tmp_path / "log"

    def written(*several: Task) -> bytes:
        with closing(RunLog(log, resume=False)) as run_log:
            for task in several:
                run_log.write(task, apply(task))
        return log.read_bytes()

    whole = written(first, second)
    middle = whole.index(b"\n") + 1
    for end in range(len(whole) + 1):
        log.write_bytes(whole[:end])
        if 0 < end <= whole.index(b" 1, ") or end == middle - 1:  # might be something else: nobody may cut it
            with pytest.raises(UsageError, match="byte 0"):
                written()
            assert log.read_bytes() == whole[:end]
            continue
        kept = whole[: 0 if end < middle else middle if end < len(whole) else end]
        assert written() == kept, end
    log.write_bytes(whole[: middle + 9] + bytes(20))  # a disk that lost its power
    assert written() == whole[:middle]
    assert whole[:middle] + written(second)[middle:] == log.read_bytes()
    assert len(lines_of(log)) == 2
    log.write_bytes(b"torn" + whole)
    with pytest.raises(UsageError, match="byte 0"):
        written()


def test_a_log_that_is_another_file_of_the_command(models: Path, tmp_path: Path) -> None:
    model, rules = models / NAMES[3], put(tmp_path / "rules.json", "")
    (tmp_path / "link").symlink_to(tmp_path / "out" / NAMES[3])
    (tmp_path / "same").hardlink_to(rules)
    before = model.read_bytes()
    cases: list[tuple[str | Path, ...]] = [
        (model, "check", models),
        (tmp_path / "new", "compact", model, tmp_path / "new"),
        (tmp_path / "link", "compact", models, tmp_path / "out"),
        (tmp_path / "same", "partition", model, "--rules", rules),
    ]
    for log, *words in cases:
        ran = run(*words, "--log", log)
        assert (ran.status, ran.out) == (2, b""), words
        assert ran.err == f"error: {log}: the log is also an input or an output (name another file)\n"
    assert (model.read_bytes(), rules.read_bytes()) == (before, b"")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "out").exists()


def test_opening_a_log_spares_what_another_run_adds(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")  # whose locks the two runs take
    log, count = tmp_path / "log", 400
    with closing(RunLog(log, resume=False)) as run_log:
        for task in (first := tasks(*map(str, range(200)))):
            run_log.write(task, Outcome(0, b"", ()))
    adding = subprocess.Popen([sys.executable, "-c", ADDING, log, str(count)], cwd=ROOT)
    opened = 0
    with adding:
        while adding.poll() is None:
            RunLog(log, resume=False).close()
            opened += 1
    assert opened
    assert adding.returncode == 0
    assert len(lines_of(log)) == len(first) + count


ADDING = """
import os, sys
from contextlib import closing
from pathlib import Path
from circletool_cli.batch.run_log import RunLog
from circletool_cli.batch.task import Outcome
from tests.kit.many_support import tasks

os.fsync = lambda _: None  # as fast as it can: the disk is not what is tested
write = os.write
os.write = lambda file, data: write(file, data[: len(data) // 2 + 1])  # in many steps
with closing(RunLog(Path(sys.argv[1]), resume=False)) as run_log:
    for task in tasks(*map(str, range(int(sys.argv[2])))):
        run_log.write(task, Outcome(0, b"", ()))
"""


def test_a_line_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options: dict[str, Any] = {"rules": Path("r"), "several": (Path("a"), 1), "none": None, "off": False}
    options |= {"on": True, "zero": 0, "output": "out/net"}
    task = Task(check_like, "net", options, "below/net", "out/net")
    outcome = Outcome(1, b"", (), 2, "bad", 0.12345678, 7, 8)
    umask = os.umask(0)
    try:
        with closing(RunLog(log, resume=False)) as run_log:
            run_log.write(task, outcome)
            run_log.write(replace(task, output=None), replace(outcome, status=9, findings=None, error=None))
    finally:
        os.umask(umask)
    assert log.stat().st_mode & 0o777 == 0o666
    first, second = lines_of(log)
    same = {
        "log": "circletool",
        "schema_version": 1,
        "file": "net",
        "path": "below/net",
        "key": os.path.abspath("net"),
    }
    same |= {"command": "check-like", "version": __version__, "size_bytes": 7, "mtime_ns": 8, "seconds": 0.123457}
    told = {"rules": "r", "several": ["a", 1], "on": True, "zero": 0}
    assert first == {
        **same,
        **{"options": told, "output": os.path.abspath("out/net"), "status": "findings", "exit_status": 1},
        **{"findings": 2, "error": "bad"},
    }
    assert second == {
        **same,
        **{"options": {**told, "output": "out/net"}, "output": None, "status": "invalid", "exit_status": 9},
        **{"findings": None, "error": None},
    }


def check_like(file: str, **_: Any) -> None:
    """Stand for a command."""


@pytest.mark.parametrize(
    ("status", "word"), [(0, "ok"), (1, "findings"), (2, "usage"), (3, "invalid"), (4, "refused"), (7, "invalid")]
)
def test_what_was_done_before(status: int, word: str, tmp_path: Path) -> None:
    file, out, log = put(tmp_path / "f", "12"), put(tmp_path / "out", ""), tmp_path / "log"
    task = Task(check_like, str(file), {"rules": Path("r")}, "f", str(out))
    known = file.stat()
    with closing(RunLog(log, resume=False)) as run_log:
        run_log.write(task, Outcome(status, b"", (), size_bytes=2, mtime_ns=known.st_mtime_ns))
        assert run_log.done(task) is None  # not of this run
    assert lines_of(log)[0]["status"] == word

    def done(other: Task, *, resume: bool = True) -> int | None:
        run_log = RunLog(log, resume=resume)
        found: int | None = run_log.done(other)
        run_log.close()
        return found

    assert done(task) == (status if status < 2 else None)
    assert done(task, resume=False) is None
    changes: list[dict[str, Any]] = [{"options": {}}, {"function": run}, {"output": None}, {"file": str(out)}]
    for change in changes:
        assert done(replace(task, **change)) is None
    assert done(replace(task, path="elsewhere", several=False)) == (status if status < 2 else None)
    out.unlink()
    assert done(task) is None
    put(out, "")
    os.utime(file, ns=(0, known.st_mtime_ns + 1))
    assert done(task) is None
    put(file, "123")
    os.utime(file, ns=(0, known.st_mtime_ns))
    assert done(task) is None
    file.unlink()
    assert done(task) is None


@pytest.mark.parametrize(
    "entry",
    [
        ["key", "exit_status"],
        {"key": 1, "exit_status": 0},
        {"exit_status": 0},
        {"key": "a"},
        {"key": "a", "exit_status": "0"},
        {"key": "a", "exit_status": None},
    ],
)
def test_a_line_that_is_no_entry_of_a_log(entry: Any, tmp_path: Path) -> None:
    begin = '{"log": "circletool", "schema_version": '
    good = begin + '1, "key": "a", "exit_status": 0}\n'
    text = json.dumps(entry)
    bad = f"{begin}1, {text[1:]}\n" if isinstance(entry, dict) else f"{text}\n"
    log = put(tmp_path / "log", good + bad)
    with pytest.raises(UsageError) as caught:
        RunLog(log, resume=True)
    said = f"{log}: not a log of circletool: unexpected content at byte {len(good)} (name another file)"
    assert str(caught.value) == said
    assert log.read_text() == good + bad
    put(log, good)
    RunLog(log, resume=True).close()
