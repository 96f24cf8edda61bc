"""A cluster of two worker processes on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from circletool_cli.batch.run import in_order

from tests.kit.many_support import tasks
from tests.kit.presence import Lazy
from tests.kit.program import MLP, put, run
from tests.kit.support import path_of

dask, distributed = Lazy("dask"), Lazy("distributed")
clusters = Lazy("circletool_cli.batch.cluster", "distributed")

DIAMOND = path_of("circle/diamond")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Yield the address of a scheduler with two workers, whose second death gives up a task."""
    with (
        warnings.catch_warnings(),
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
        ) as cluster,
    ):
        yield cluster.scheduler_address


def test_a_cluster_says_what_one_process_does(scheduler: str, tmp_path: Path) -> None:
    broken = put(tmp_path / "broken.circle", b"no model")
    files = [MLP, broken, *[MLP, DIAMOND] * 20]
    for words in (["check", "--json"], ["inspect"]):
        assert run(*words, *files, "--scheduler", scheduler) == run(*words, *files)


def test_names_are_absolute_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    put(tmp_path / "a.circle", MLP.read_bytes())
    log = tmp_path / "log"
    words = ("check", "a.circle", MLP, "--scheduler", scheduler, "--log", "log")
    assert run(*words, cwd=tmp_path).out == f"{tmp_path / 'a.circle'}: ok\n{MLP}: ok\n".encode()
    assert [json.loads(line)["exit_status"] for line in log.read_text().splitlines()] == [0, 0]
    ran = run("check", "a.circle", MLP, "--log", "log", "--resume", cwd=tmp_path)
    assert (ran.out, ran.err) == (b"", "2 done before: log\n")
    (tmp_path / "in").mkdir()
    put(tmp_path / "in" / "a.circle", MLP.read_bytes())
    assert run("embed-origins", "in", "out", "--scheduler", scheduler, cwd=tmp_path).status == 0
    assert run("embed-origins", "in/a.circle", "here.circle", cwd=tmp_path).status == 0
    assert (tmp_path / "out" / "a.circle").read_bytes() == (tmp_path / "here.circle").read_bytes()


def test_a_worker_that_dies_costs_its_own_file_only(scheduler: str) -> None:
    files = ["a", "die", *map(str, range(20)), "memory", "z"]
    with closing(clusters.Cluster(scheduler)) as workers:
        ended = [(task.file, outcome) for task, outcome in in_order(tasks(*files), workers)]
    assert [file for file, _ in ended] == files
    failed = {file: outcome.error for file, outcome in ended if outcome.status}
    assert set(failed) == {"die", "memory"}
    assert str(failed["die"]).startswith("die: several workers died of it")


def test_no_scheduler() -> None:
    for address, said in (
        ("tcp://127.0.0.1:1", "cannot reach the scheduler"),
        ("no address", "not an address"),
        ("tcp://127.0.0.1", "not an address"),
        ("tcp://127.0.0.1:99999", "cannot reach the scheduler"),
        ("x://y:1", "not an address"),
    ):
        ran = run("check", MLP, MLP, "--scheduler", address)
        assert (ran.status, ran.out) == (2, b""), address
        assert ran.err.splitlines()[-1].startswith(f"error: --scheduler {address}: {said}")


WITHOUT = """
import sys
sys.modules["distributed"] = None
from circletool_cli.main import main
main()
"""


def test_without_dask() -> None:
    command = [sys.executable, "-c", WITHOUT, "check", str(MLP), "--scheduler", "tcp://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: --scheduler needs Dask (pip install 'circletools[dask]')\n"
