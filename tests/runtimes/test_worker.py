"""The process that runs models, with a replacement for LiteRT that is controlled by the model's name."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circletools.errors import UsageError
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import same
from circletools.runtimes.worker import Worker

LITERT = """
    import ctypes, os, sys, time
    import numpy as np

    class OpResolverType:
        BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3

    class Interpreter:
        def __init__(self, model_path, num_threads, experimental_op_resolver_type):
            self.model, self.values, self.shape = model_path, {}, (2, 3)
            assert (num_threads, experimental_op_resolver_type) == (1, 3)
            print("on standard output")

        InputIndices, OutputIndices = lambda self: np.array([4, 7]), lambda self: np.array([7, 4])
        TensorType, TensorSize = lambda self, *_: np.float32, lambda self, *_: np.array(self.shape)
        _interpreter = property(lambda self: self)

        def resize_tensor_input(self, index, shape):
            print("resized", index, shape, file=sys.stderr)

        def allocate_tensors(self):
            if self.model == "refused":
                print("the reason", file=sys.stderr)
                raise ValueError("no")
            if self.model == "silent":
                raise ValueError("no")
            if self.model == "talks":
                print("x" * (65536 - 5), "the reason", sep="\\n", file=sys.stderr, flush=True)
                raise ValueError("no")

        def set_tensor(self, index, value):
            self.values[index] = value

        def invoke(self):
            if self.model == "crash":
                os.abort()
            if self.model == "exit":
                os._exit(7)
            if self.model == "hang":
                time.sleep(600)

        def get_tensor(self, index):
            value = self.values[index]
            return value.view(np.dtype("V4")) if self.model == "opaque" else value
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ai_edge_litert" / "interpreter.py"
    path.parent.mkdir()
    (path.parent / "__init__.py").touch()
    path.write_text(textwrap.dedent(LITERT))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return path


@pytest.fixture
def worker(program: Path) -> Iterator[Worker]:
    with Worker("litert:builtin", 1.5) as worker:
        yield worker


def test_inputs_are_made_from_the_seed_where_none_are_given(worker: Worker) -> None:
    expected = [make_input(3, place, np.dtype(np.float32), (2, 3)) for place in (0, 1)]
    answer = worker.run(Path("echo"), seed=3)
    assert answer.failure == ""
    assert same(answer.inputs, expected) is None
    assert same(answer.outputs, expected[::-1]) is None


def test_given_inputs_are_used(worker: Worker) -> None:
    given = [np.full((2, 3), 1, np.float32), np.full((4, 1), 2, np.float32)]
    answer = worker.run(Path("echo"), given)
    assert same(answer.inputs, given) is None
    assert same(answer.outputs, given[::-1]) is None
    assert same(worker.run(Path("echo")).inputs, worker.run(Path("echo"), seed=0).inputs) is None
    assert worker.run(Path("echo"), given[:1]).failure.startswith("the number of inputs is 2, not 1")


def test_the_folder_one_is_in_hides_no_package(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = program.parents[1] / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(elsewhere)
    with Worker("litert:builtin", 1.5) as worker:
        assert worker.run(Path("echo")).failure == ""


def test_a_dtype_that_only_the_runtime_knows_comes_as_its_bits(worker: Worker) -> None:
    answer = worker.run(Path("opaque"))
    assert [output.dtype for output in answer.outputs] == [np.uint32, np.uint32]


def test_a_refusal_comes_with_the_last_line_that_was_printed(worker: Worker) -> None:
    answer = worker.run(Path("refused"))
    assert (answer.inputs, answer.outputs, answer.failure) == ([], [], "ValueError: no the reason")
    assert worker.run(Path("silent")).failure == "ValueError: no"
    assert worker.run(Path("echo")).failure == ""


def test_only_the_beginning_of_the_output_is_read(worker: Worker) -> None:
    assert worker.run(Path("talks")).failure == "ValueError: no the"


@pytest.mark.parametrize(
    ("model", "failure"),
    [
        ("crash", "litert ended with signal 6 (SIGABRT)"),
        ("exit", "litert ended with status 7"),
        ("hang", "no answer in 1.5 s"),
    ],
)
def test_after_a_crash_or_a_hang_another_process_continues(worker: Worker, model: str, failure: str) -> None:
    assert worker.run(Path(model)).failure == failure
    assert worker.run(Path("echo")).failure == ""


def test_a_runtime_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"litert is not installed \(pip install ai-edge-litert, or"):
        Worker("litert")
    with pytest.raises(UsageError, match=r"onert is not installed \(pip install onert, or"):
        Worker("onert")


def test_a_runtime_that_cannot_be_imported_is_named(program: Path, worker: Worker) -> None:
    assert worker.run(Path("exit")).failure == "litert ended with status 7"
    program.write_text("import os; os._exit(3)")  # as when the system ends a program that has started before
    assert worker.run(Path("echo")).failure == "litert ended with status 3"
    program.write_text("raise ImportError('no library')")
    with Worker("litert:builtin") as other, pytest.raises(UsageError, match="litert is not installed: no library"):
        other.run(Path("echo"))


def test_a_runtime_that_does_not_start_is_named(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text("import time; time.sleep(600)")
    monkeypatch.setattr("circletools.runtimes.worker._START_SECONDS", 0.25)
    with Worker("litert:builtin") as worker, pytest.raises(UsageError, match=r"litert does not start in 0\.25 s"):
        worker.run(Path("echo"))


FLOATS = np.array([0.0, 1.0], np.float32)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ([], [], None),
        ([FLOATS], [FLOATS.copy()], None),
        ([np.float32("nan")], [np.float32("nan")], None),
        ([FLOATS], [], "the numbers of outputs differ: 1 and 0"),
        ([FLOATS, FLOATS], [FLOATS, -FLOATS], "output 1: 2 of 2 values differ"),
        ([FLOATS], [FLOATS.astype(np.float64)], "output 0 is float32[2] and float64[2]"),
        ([FLOATS], [np.array([-0.0, 1.0], np.float32)], "output 0: 1 of 2 values differ"),
        ([FLOATS], [FLOATS.reshape(1, 2)], "output 0 is float32[2] and float32[1, 2]"),
        ([np.array([b"a"], object)], [np.array([b"a"], object)], None),
        ([np.array([b"a"], object)], [np.array([b"b"], object)], "output 0: the strings differ"),
    ],
)
def test_outputs_are_compared_bit_by_bit(first: list[object], second: list[object], text: str | None) -> None:
    assert same(*([np.asarray(value) for value in values] for values in (first, second))) == text
