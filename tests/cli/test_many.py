"""One command over many files: order, memory, processes that end."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from circletool_cli.batch.task import Outcome, Task
from circletool_cli.batch.workers import in_order, outcomes
from hypothesis import given
from hypothesis import strategies as st

from circletools.origin.read import Origins
from tests.kit.many_support import tasks
from tests.kit.origin_support import embedded
from tests.kit.program import MLP, TOOL, TRACE, put, run
from tests.kit.support import path_of

DIAMOND = path_of("circle/diamond")
NAMES = ["a/broken.tflite", "a/deep/net.circle", "a/net.circle", "b/net.circle", "odd.TFLITE"]


@pytest.mark.parametrize("words", [["inspect"], ["check", "--json"], ["dump-origins", "--format", "csv"]])
def test_the_number_of_processes_does_not_show(words: list[str], models: Path) -> None:
    alone, four = (run(*words, models, MLP, "missing.circle", "--jobs", jobs) for jobs in ("1", "4"))
    assert alone == four
    assert alone.status == 3
    for name in (str(models / "a/broken.tflite"), "missing.circle"):
        assert name in alone.err or name.encode() in alone.out


@pytest.mark.parametrize("command", ["check", "partition"])
def test_a_line_of_json_for_each_file_in_their_order(command: str, models: Path) -> None:
    lines = run(command, models, "--json").out.splitlines()
    documents = [json.loads(line) for line in lines]
    assert [document["file"] for document in documents] == [str(models / name) for name in NAMES]
    for document, name in list(zip(documents, NAMES, strict=True))[:2]:
        assert document == json.loads(run(command, models / name, "--json").out), "the same as alone"
    assert documents[0]["error"].startswith(f"{models / NAMES[0]}: neither a TFLite nor a Circle model")


def test_text_under_the_name_of_each_file(models: Path) -> None:
    ran = run("inspect", models)
    alone = [run("inspect", models / name).out for name in NAMES[1:]]
    blocks = [f"{models / name}:\n".encode() + out for name, out in zip(NAMES[1:], alone, strict=True)]
    assert ran.out == b"\n".join(blocks)
    assert ran.err == run("inspect", models / NAMES[0]).err


def test_tables_with_a_column_for_the_file(models: Path) -> None:
    long = Origins({0: "a name that no field of a CSV table may have by default" * 3_000}, ({0: frozenset({0})},))
    put(models / "a,b.circle", embedded(MLP.read_bytes(), long))
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
    assert first == last == json.loads(run("trace-stats", TRACE, "--json").out)
    assert (wrong["file"], wrong["exit_status"]) == (str(bad), 3)
    alone = run("trace-stats", TRACE).out
    assert run("trace-stats", TRACE, TRACE).out == alone + b"\n" + alone
    assert run("trace-stats", tmp_path).status == 2


@pytest.mark.parametrize(
    ("names", "status"),
    [(["a/net.circle", "b/net.circle"], 0), (["odd.TFLITE", "b/net.circle"], 1), (["a/broken.tflite", *NAMES], 3)],
)
def test_the_greatest_exit_status_counts(names: list[str], status: int, models: Path) -> None:
    assert run("check", *(models / name for name in names)).status == status


def test_a_wrong_command_line_is_reported_once(models: Path, tmp_path: Path) -> None:
    ran = run("dump-origins", models, "--source", "[")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, b"", 1)
    rules = put(tmp_path / "rules.json", "{")
    ran = run("partition", models, "--rules", rules, "--jobs", "2")
    assert (ran.status, ran.out, ran.err.count("\n")) == (3, b"", 1)
    assert ran.err.startswith(f"error: {rules}:")
    assert run("inspect", MLP, models, "--jobs", "many").status == 2
    ran = run("inspect", MLP, "-", "--jobs", "2")
    message = "standard input cannot be used with --jobs (name a file, or leave out --jobs)"
    assert (ran.status, ran.err) == (2, f"error: {message}\n")


def test_standard_input_beside_files() -> None:
    ran = run("check", "--structure-only", MLP, "-", stdin=DIAMOND.read_bytes())
    assert (ran.status, ran.out) == (0, f"{MLP}: ok\n-: ok\n".encode())


def test_one_file_looks_as_ever(tmp_path: Path) -> None:
    plain = run("inspect", MLP, "--json")
    assert run("inspect", MLP, "--json", "--jobs", "4") == plain
    assert run("inspect", MLP, "--json", "--jobs", "auto") == plain


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
    for ended, (task, outcome) in enumerate(in_order(wanted, cast(Any, workers)), 1):
        assert (task, outcome.error) == (wanted[ended - 1], task.file)
        assert workers.started - ended < 4 + 4  # four are being worked on, and no more than 64 MiB wait
    assert ended == count


def ended_of(jobs: int, *files: str) -> list[tuple[str, Outcome]]:
    return [(task.file, outcome) for task, outcome in outcomes(tasks(*files), jobs)]


def test_a_process_that_ends_costs_its_own_file_only() -> None:
    files = ["a", "die", "b", "crash", "leave", "memory", "find", "c"]
    ended = ended_of(2, *files)
    assert [(file, outcome.status) for file, outcome in ended] == [
        *(("a", 0), ("die", 3), ("b", 0), ("crash", 3), ("leave", 3), ("memory", 3), ("find", 1), ("c", 0))
    ]
    message = {file: "".join(text for _, text in outcome.messages) for file, outcome in ended}
    assert "was killed by SIGKILL, perhaps because it ran out of memory" in (message["die"])
    assert "was killed by SIGSEGV" in (message["crash"])
    assert "ended with exit status 7" in (message["leave"])
    assert "memory: MemoryError" in (message["memory"])
    assert all(f"{file}: " in (message[file]) for file in ("die", "crash", "leave", "memory"))


def test_a_defect_in_this_process_costs_its_own_file_only() -> None:
    assert [outcome.status for _, outcome in ended_of(1, "a", "memory", "b")] == [0, 3, 0]


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
    assert f"error: {tmp_path / 'fifo'}: its process was killed by SIGKILL" in err.decode()


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    with waiting(tmp_path, "inspect") as (program, _):
        workers = children(program.pid)
        os.killpg(program.pid, signal.SIGINT)
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (-signal.SIGINT, b"")
    assert [json.loads(line)["file"] for line in out.splitlines()] in ([], [str(MLP)])
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.01)
