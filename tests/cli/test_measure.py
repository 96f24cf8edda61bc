"""The command measure, with a worker whose law is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.planning import measuring as module
from tests.kit.command_support import run
from tests.kit.exports_support import named, with_affinity
from tests.kit.measuring_support import LawfulWorker

WORK = {"litert": {"p": 100.0, "q": 900.0, "r": 800.0}, "onert": {"p": 700.0, "q": 90.0, "r": 80.0}}
ON = ("a=litert:builtin", "b=onert")


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> LawfulWorker:
    made = LawfulWorker(WORK, {"litert": 4.0, "onert": 2.0})
    monkeypatch.setattr(module, "command", lambda program: ["python"])
    monkeypatch.setattr(module, "Worker", made)
    return made


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    source = tmp_path / "chain.tflite"
    source.write_bytes(with_affinity(named("p", "q", "r", kind="tflite"), list("abb")))
    with ct.open(source) as model:
        ct.split(model, tmp_path / "parts")
    return tmp_path / "parts"


def test_times_are_written_that_report_reads(parts: Path, tmp_path: Path, worker: LawfulWorker) -> None:
    times, source = tmp_path / "times.json", tmp_path / "chain.tflite"
    np.savez(tmp_path / "in.npz", np.ones(2))
    words = ["--seconds", "0.5", "--seed", "3", "--timeout", "8", "--inputs", str(tmp_path / "in.npz")]
    done = run("measure", parts, "--on", ON[0], "--on", ON[1], "-o", times, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "a: litert:builtin"
    assert "  split     2 parts          3        284.0\n" in done.stdout
    assert worker.started == [("litert", 8.0)]
    assert [(one.seed, one.seconds, len(one.given)) for one in worker.requests] == [(3, 1.5, 1)]
    again = run("measure", parts, "--on", ON[0], "--on", ON[1], "--source", source, "--json", *words)
    assert json.loads(again.stdout) == {"file": str(parts)} | json.loads(times.read_text())


def test_only_the_document_goes_to_standard_output(parts: Path) -> None:
    done = run("measure", parts, "--on", ON[0], "--on", ON[1], "-o", "-")
    assert json.loads(done.stdout)["plans"][2]["name"] == "split"
    both = run("measure", parts, "--on", ON[0], "--on", ON[1], "-o", "-", "--json")
    assert both.returncode == 2
    assert "would both go to standard output" in both.stderr


def test_what_is_wrong_is_reported(parts: Path, tmp_path: Path) -> None:
    assert run("measure", parts).returncode == 2
    assert run("measure", tmp_path).returncode == 3
    assert run("measure", parts, "-o", tmp_path / "absent" / "x").returncode != 0


def test_a_device_that_cannot_run_all_is_noted(parts: Path, worker: LawfulWorker) -> None:
    worker.work_us = {"litert": WORK["litert"], "onert": {"q": 90.0, "r": 80.0}}
    done = run("measure", parts, "--on", ON[0], "--on", ON[1])
    assert done.returncode == 0
    assert "b: the device does not run the whole model: chain.tflite in onert: no kernel for p" in done.stderr


def test_parts_that_do_not_run_are_a_finding(parts: Path, worker: LawfulWorker) -> None:
    worker.work_us = {"litert": WORK["litert"], "onert": {"q": 90.0}}
    done = run("measure", parts, "--on", ON[0], "--on", ON[1])
    assert done.returncode == 1
    assert "no kernel for r" in done.stdout


def test_a_runner_for_openvino_is_written(parts: Path, tmp_path: Path) -> None:
    source = tmp_path / "chain.tflite"
    assert run("split", source, tmp_path / "with", "--runner", "openvino").returncode == 0
    assert (tmp_path / "with" / "run_openvino.py").exists()
    assert not (parts / "run_openvino.py").exists()
    assert run("split", source, tmp_path / "with", "--runner", "openvino", "--force").returncode == 0
    assert run("verify-split", tmp_path / "with", "--on", "none").returncode == 0
