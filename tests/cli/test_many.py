"""One command over many files: order, processes, directories, logs, interruptions."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from circletool_cli.batch.run import in_order
from circletool_cli.batch.run_log import RunLog
from circletool_cli.batch.task import Outcome, Task, apply
from circletool_cli.batch.workers import Processes, ThisProcess, Workers
from hypothesis import given
from hypothesis import strategies as st

from circletools.check import check
from circletools.errors import UsageError
from circletools.model import open_model
from circletools.storage.discover import models_below
from tests.cli.test_cli import MLP, TOOL, TRACE, put, run
from tests.kit.many_support import tasks
from tests.kit.origin_support import embedded
from tests.kit.support import ROOT, path_of

DIAMOND = path_of("circle/diamond")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a directory of models: equal names in different places, one that is broken, one with findings."""
    top = tmp_path / "models"
    for folder in ("b", "a", "a/deep"):
        (top / folder).mkdir(parents=True)
        put(top / folder / "net.circle", (MLP if folder == "b" else DIAMOND).read_bytes())
    put(top / "a" / "broken.tflite", b"no model at all")
    put(top / "odd.TFLITE", path_of("tflite/output_twice").read_bytes())
    put(top / "a" / "notes.txt", "not a model")
    put(top / ".hidden.circle", b"")
    return top


NAMES = ["a/broken.tflite", "a/deep/net.circle", "a/net.circle", "b/net.circle", "odd.TFLITE"]


# --- what several files look like ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["check", "--json"],
        ["dump-origins", "--format", "csv"],
    ],
)
def test_the_number_of_processes_does_not_show(words: list[str], models: Path) -> None:
    alone, four = (run(*words, models, MLP, "missing.circle", "--jobs", jobs) for jobs in ("1", "4"))
    assert alone == four
    assert alone.status == 3
    for name in (str(models / "a/broken.tflite"), "missing.circle"):
        assert name in alone.err or name.encode() in alone.out


@pytest.mark.parametrize("command", ["check", "dump-affinity"])
def test_a_line_of_json_for_each_file_in_their_order(command: str, models: Path) -> None:
    lines = run(command, models, "--json").out.splitlines()
    documents = [json.loads(line) for line in lines]
    assert [document.pop("file") for document in documents] == [str(models / name) for name in NAMES]
    for document, name in list(zip(documents, NAMES, strict=True))[:2]:
        alone = run(command, models / name, "--json").out
        if alone:
            assert document == json.loads(alone)
        else:
            assert document["exit_status"] == 3
            assert document["error"].startswith(f"{models / name}: neither a TFLite nor a Circle model")


def test_text_under_the_name_of_each_file(models: Path) -> None:
    ran = run("inspect", models)
    alone = [run("inspect", models / name).out for name in NAMES[1:]]
    blocks = [f"{models / name}:\n".encode() + out for name, out in zip(NAMES[1:], alone, strict=True)]
    assert ran.out == b"\n".join(blocks)
    assert ran.err == run("inspect", models / NAMES[0]).err


def test_tables_with_a_column_for_the_file(models: Path) -> None:
    put(models / "a,b.circle", embedded(MLP.read_bytes()))
    ran = run("dump-origins", models, "--format", "csv")
    table = list(csv.reader(io.StringIO(ran.out.decode())))
    assert [row[0] for row in table].count("file") == 1
    expected = [table[0]]
    for name in ["a,b.circle", *NAMES[1:]]:
        alone = run("dump-origins", models / name, "--format", "csv").out.decode()
        expected += [[str(models / name), *row] for row in list(csv.reader(io.StringIO(alone)))[1:]]
    assert sorted(table) == sorted(expected)


def test_traces(tmp_path: Path) -> None:
    bad = put(tmp_path / "bad", b"\x89PNG\0\0")
    ran = run("trace-stats", TRACE, bad, TRACE, "--json")
    first, wrong, last = (json.loads(line) for line in ran.out.splitlines())
    assert ran.status == 3
    assert first == last == {"file": str(TRACE), **json.loads(run("trace-stats", TRACE, "--json").out)}
    assert (wrong["file"], wrong["exit_status"]) == (str(bad), 3)
    for form in ("text", "markdown"):
        alone = run("trace-stats", TRACE, "--format", form).out
        assert run("trace-stats", TRACE, TRACE, "--format", form).out == alone + b"\n" + alone
    assert run("trace-stats", tmp_path).status == 2


@pytest.mark.parametrize(
    ("names", "status"),
    [(["a/net.circle", "b/net.circle"], 0), (["odd.TFLITE", "b/net.circle"], 1), (["a/broken.tflite", *NAMES], 3)],
)
def test_the_greatest_exit_status_counts(names: list[str], status: int, models: Path) -> None:
    assert run("check", *(models / name for name in names)).status == status


def test_a_wrong_command_line_is_told_once(models: Path, tmp_path: Path) -> None:
    ran = run("dump-origins", models, "--source", "[")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, b"", 1)
    rules = put(tmp_path / "rules.json", "{")
    ran = run("partition", models, "--rules", rules, "--jobs", "2")
    assert (ran.status, ran.out, ran.err.count("\n")) == (3, b"", 1)
    assert ran.err.startswith(f"error: {rules}:")
    assert run("inspect", MLP, models, "--jobs", "many").status == 2
    assert run("inspect", MLP, "-", "--jobs", "2").status == 2
    assert run("inspect", models, "--resume").status == 2
    assert run("inspect", models, "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1").status == 2


def test_standard_input_beside_files() -> None:
    ran = run("verify", MLP, "-", stdin=DIAMOND.read_bytes())
    assert (ran.status, ran.out) == (0, f"{MLP}: ok\n-: ok\n".encode())


def test_one_file_looks_as_ever(tmp_path: Path) -> None:
    plain = run("inspect", MLP, "--json")
    assert run("inspect", MLP, "--json", "--jobs", "4", "--log", tmp_path / "log") == plain
    assert run("inspect", MLP, "--json", "--jobs", "auto") == plain


# --- order and memory ---------------------------------------------------------------------------------------


class Shuffled:
    """A workers of four that ends its tasks in any order, with results of 20 MB."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._tasks: list[tuple[int, Task]] = []
        self.started = 0

    @property
    def free(self) -> bool:
        return len(self._tasks) < 4

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def start(self, number: int, task: Task) -> None:
        self.started += 1
        self._tasks.append((number, task))

    def wait(self) -> tuple[int, Outcome]:
        number, task = self._tasks.pop(self._random.randrange(len(self._tasks)))
        return number, Outcome(0, _LARGE, (), error=task.file)

    def close(self) -> None:
        pass


_LARGE = bytes(20 << 20)


@given(st.integers(0, 30), st.integers())
def test_outcomes_come_in_the_order_of_their_tasks(count: int, seed: int) -> None:
    workers, wanted = Shuffled(seed), tasks(*map(str, range(count)))
    ended = 0
    for ended, (task, outcome) in enumerate(in_order(wanted, workers), 1):
        assert (task, outcome.error) == (wanted[ended - 1], task.file)
        assert workers.started - ended < 4 + 4  # four are being worked on, and no more than 64 MiB wait
    assert ended == count


# --- processes that end -------------------------------------------------------------------------------------


def outcomes(workers: Workers, *files: str) -> list[tuple[str, Outcome]]:
    with closing(workers):
        return [(task.file, outcome) for task, outcome in in_order(tasks(*files), workers)]


def test_a_process_that_ends_costs_its_own_file_only() -> None:
    files = ["a", "die", "b", "crash", "leave", "memory", "find", "c"]
    ended = outcomes(Processes(2), *files)
    assert [(file, outcome.status) for file, outcome in ended] == [
        *(("a", 0), ("die", 3), ("b", 0), ("crash", 3), ("leave", 3), ("memory", 3), ("find", 1), ("c", 0)),
    ]
    said = {file: "".join(text for _, text in outcome.messages) for file, outcome in ended}
    assert "was ended by SIGKILL, as for lack of memory" in (said["die"])
    assert "was ended by SIGSEGV" in (said["crash"])
    assert "ended with exit status 7" in (said["leave"])
    assert "memory: MemoryError" in (said["memory"])
    assert all(f"{file}: " in (said[file]) for file in ("die", "crash", "leave", "memory"))


def test_a_defect_in_this_process_costs_its_own_file_only() -> None:
    assert [outcome.status for _, outcome in outcomes(ThisProcess(), "a", "memory", "b")] == [0, 3, 0]


@contextmanager
def waiting(folder: Path, *args: str | Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the program with two processes on a pipe that nobody writes to, beside other files.

    Yields the program when one of its processes waits for the pipe, and that process.
    """
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    command = [TOOL, *args, MLP, fifo, DIAMOND, "--json", "--jobs", "2"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, start_new_session=True, **pipes) as program:
        try:
            writer = os.open(fifo, os.O_WRONLY)  # waits until somebody reads
            try:
                (reader,) = [pid for pid in children(program.pid) if fifo in opened(pid)]
                yield program, reader
            finally:
                os.close(writer)
        finally:
            program.kill()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def opened(pid: int) -> set[Path]:
    folder = Path(f"/proc/{pid}/fd")
    return {Path(os.readlink(name)) for name in folder.iterdir() if name.exists() or name.is_symlink()}


def test_a_killed_process_is_reported_for_its_file(tmp_path: Path) -> None:
    with waiting(tmp_path, "inspect") as (program, reader):
        os.kill(reader, signal.SIGKILL)
        out, err = program.communicate(timeout=60)
    first, lost, last = (json.loads(line) for line in out.splitlines())
    assert (first["file"], last["file"]) == (str(MLP), str(DIAMOND))
    assert (lost["file"], lost["exit_status"], program.returncode) == (str(tmp_path / "fifo"), 3, 3)
    assert f"error: {tmp_path / 'fifo'}: the process that worked on it was ended by SIGKILL" in err.decode()


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    with waiting(tmp_path, "inspect", "--log", tmp_path / "log") as (program, _):
        while not (tmp_path / "log").read_bytes():
            time.sleep(0.01)
        workers = children(program.pid)
        os.killpg(program.pid, signal.SIGINT)
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (-signal.SIGINT, b"")
    assert [json.loads(line)["file"] for line in out.splitlines()] == [str(MLP)]
    assert [json.loads(line)["file"] for line in (tmp_path / "log").read_text().splitlines()] == [str(MLP)]
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.01)


# --- directories --------------------------------------------------------------------------------------------


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
    ran = run("verify", models)
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


def test_the_results_of_a_directory_have_its_shape(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    ran = run("embed-origins", models, out, "--jobs", "2")
    assert ran.status == 3
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == set(NAMES[1:])
    for name in NAMES[1:]:
        assert (out / name).read_bytes() == embedded((models / name).read_bytes())
    assert f"{models / 'b/net.circle'}: metadata ONE_source_table: " in ran.err
    tables = tmp_path / "tables"
    assert run("extract-origins", out, tables).status == 0
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


@pytest.mark.parametrize("command", ["compact", "extract-origins"])
def test_results_are_not_written_over_inputs(command: str, tmp_path: Path) -> None:
    def contents() -> dict[str, bytes | None]:
        return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(tmp_path.rglob("*"))}

    def refused(source: str, out: str, said: str) -> None:
        before = contents()
        ran = run(command, tmp_path / source, tmp_path / out, "--jobs", "2", "--log", tmp_path / "log")
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, b"", 1)
        assert said in ran.err
        assert contents() == before

    model = embedded(MLP.read_bytes())
    for name in ("p/b/b", "q/in/deep", "q/out", "r/in", "r/out", "s/in/x", "s/in/y", "s/out/y", "t/b/b"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("p/b/b/m", "p/b/m", "q/in/a", "q/in/z", "r/in/a", "r/out/z", "s/in/x/a", "s/in/y/a", "t/b/b/m"):
        put(tmp_path / f"{name}.circle", model)
    refused("p/b", "p", f"{tmp_path}/p/b/m.circle: a result would be written over an input")
    refused("t/b", "t", f"{tmp_path}/t/b/m.circle: a result would lie in the input")
    link = tmp_path / "q/out/a.circle"
    link.symlink_to("../in/z.circle")
    refused("q/in", "q/out", f"{link}: a result would be written over an input")
    link.unlink()
    link.hardlink_to(tmp_path / "q/in/z.circle")
    refused("q/in", "q/out", f"{link}: a result would be written over an input")
    (tmp_path / "r/in/z.circle").symlink_to("../out/z.circle")
    refused("r/in", "r/out", f"{tmp_path}/r/out/z.circle: a result would be written over an input")
    (tmp_path / "s/out/x").symlink_to("y")
    refused("s/in", "s/out", f"{tmp_path}/s/out/y/a.circle: two results would be written to this one file")


def test_tables_are_not_written_over_inputs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    tables = tmp_path / "out" / "a.circle"
    tables.mkdir(parents=True)
    model = put(tmp_path / "in" / "a.circle", embedded(MLP.read_bytes()))
    before = model.read_bytes()
    (tables / "origins.json").symlink_to(model)
    ran = run("extract-origins", tmp_path / "in", tmp_path / "out")
    assert (ran.status, ran.err.count("a result would be written over an input")) == (2, 1)
    assert model.read_bytes() == before
    assert list(tables.iterdir()) == [tables / "origins.json"]


# --- the log ------------------------------------------------------------------------------------------------


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
    assert run("verify", *again[1:]).out.count(b"\n") == 5


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
