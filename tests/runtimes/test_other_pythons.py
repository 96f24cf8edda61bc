"""Programs of another Python that refuse, crash, hang or take memory: each gives a verdict with its message."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from circletools.errors import UsageError
from circletools.runtimes.programs import PROGRAMS, command, named, variable
from circletools.runtimes.worker import Worker
from tests.kit.fake_programs import fake_litert
from tests.kit.support import bytes_of

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(bytes_of("tflite/scalar"))
    return path


def ask(what: str, model: Path, monkeypatch: pytest.MonkeyPatch, seconds: float = 60.0) -> tuple[str, str]:
    """Return status and words of the verdict of a program that does something."""
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(model.parent, what))
    with Worker("litert", seconds, 4 * GIB) as worker:
        verdict = worker.loads(model)
        assert worker.loads(model).status == verdict.status
    return verdict.status, verdict.words


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("nothing", "ok", ""),
        ("unreadable", "refused", "no such format"),
        ("refuse", "refused", "no kernel for this.Node number 1 (TANH) failed to prepare."),
        (
            "eat",
            "memory",
            "MemoryError: Unable to allocate 6.00 GiB for an array with shape (6442450944,) and data type uint8",
        ),
        (
            "eat natively",
            "memory",
            "litert ended with signal 6 (SIGABRT); its last output: "
            "terminate called after throwing an instance of 'std::bad_alloc'",
        ),
    ],
)
def test_what_a_program_does_is_a_verdict(
    what: str, status: str, words: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what.startswith("eat"):
        pytest.importorskip("resource")  # with which the memory is limited
    assert ask(what, model, monkeypatch) == (status, words)


def test_a_program_that_hangs_is_given_up(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask("hang", model, monkeypatch, 0.25) == ("timeout", "no answer in 0.25 s")


def test_the_last_line_of_output_is_shortened(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, words = ask("complain", model, monkeypatch)
    assert (status, words.partition("its last output: ")[2]) == ("crash", "x" * 499 + "y")


def test_what_a_crash_leaves_is_removed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, words = ask("crash", model, monkeypatch)
    text, _, printed = words.partition("; its last output: ")
    assert (status, text) == ("crash", "litert ended with signal 6 (SIGABRT)")
    assert "circletools-" in printed
    assert not Path(printed).exists()


def test_a_larger_model_gets_more_memory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resource")
    large = model.with_name("large.tflite")
    with large.open("wb") as file:
        file.write(model.read_bytes())
        file.truncate(GIB)
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(model.parent, "eat"))
    with Worker("litert", 60.0, 5 * GIB) as worker:
        assert worker.loads(model).status == "memory"
        assert worker.loads(large).status == "ok"
        assert worker.loads(model).status == "ok"


@pytest.mark.parametrize(("given", "beyond"), [((), 8 * GIB), ((60.0, 3 * GIB), 3 * GIB)])
def test_how_much_memory_there_is(
    given: tuple[float, int], beyond: int, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a process for models of up to 128 MiB; one that is larger gets another."""
    pytest.importorskip("resource")
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(model.parent, "limits"))
    sizes = (model.stat().st_size, 128 * MIB, 128 * MIB + 1) if given else (128 * MIB,)
    found = []
    with Worker("litert", *given) as worker:
        for size in sizes:
            os.truncate(model, size)
            answer = worker.run(model)
            assert answer.failure == ""
            found.append(answer.outputs[0].tolist())
    limits = [beyond + 256 * MIB if size <= 128 * MIB else beyond + 4 * size for size in sizes]
    assert [limit for _, limit in found] == limits
    assert len({process for process, _ in found}) == len(set(limits))


def test_runs_are_repeated_in_one_session(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(model.parent, "nothing"))
    with Worker("litert:reference") as worker:
        answer = worker.run(model, [np.zeros(2, np.float32)], repeat=3)
    assert [output.tolist() for output in answer.outputs] == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lite", r"no runtime or compiler is called 'lite' \(did you mean 'litert'\?\)"),
        ("", "no runtime or compiler is called ''"),
        ("vela:ethos-u99", "vela has no variant 'ethos-u99'"),
    ],
)
def test_names_that_mean_nothing(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Worker(name)


def test_names_and_variants() -> None:
    assert named("litert") == ("litert", "xnnpack")
    assert named("vela:ethos-u85-256") == ("vela", "ethos-u85-256")
    assert variable("litert-gpu") == "CIRCLETOOLS_LITERT_GPU_PYTHON"


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_program_that_is_not_installed_is_named(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delenv(variable(program), raising=False)
    hint = f"pip install {PROGRAMS[program].distribution}, or name a Python that has it in {variable(program)}"
    with pytest.raises(UsageError) as caught:
        command(program)
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        f"{program} is not installed",
        hint,
        2,
    )


@pytest.mark.parametrize(
    ("python", "text"),
    [
        ("/nowhere/python", "litert: /nowhere/python cannot be started: No such file or directory"),
        ("sh -c 'echo no Python >&2'", "litert is not installed: its process ended at once: no Python"),
        ("{} -S", "litert is not installed: its process ended at once: ModuleNotFoundError: No module named 'numpy'"),
    ],
)
def test_another_python_without_the_program(python: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", python.format(sys.executable))
    with Worker("litert") as worker, pytest.raises(UsageError) as caught:
        worker.loads(Path("model.tflite"))
    assert caught.value.message == text


def test_a_circle_model_is_not_given_to_a_reader_of_tflite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.circle"
    path.write_bytes(bytes_of("circle/mlp"))
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", "/nowhere/python")
    with Worker("litert") as worker:
        assert {worker.loads(path).words, worker.run(path).failure} == {"litert cannot read Circle models"}
