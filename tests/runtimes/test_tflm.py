"""Requests to TensorFlow Lite Micro, with a module in its place that gives set answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.runtimes.child import run_with
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Array, Placed, RefusedError, Request, Verdict, same
from tests.kit.fake_programs import adapter, printing_to

FLOAT = np.dtype(np.float32)


class Interpreter:
    """Takes two inputs and gives them back in the other order, more by one with every run."""

    def __init__(self, model: str) -> None:
        self.model, self.runs = model, 0
        self.values: dict[int, Array] = {}

    @classmethod
    def from_file(cls, model: str, arena_size: int) -> Interpreter:
        assert arena_size == 512 << 20 or 12345 <= arena_size < 12400  # as in docs/runtimes.md, or a trial
        if arena_size < 12384:
            raise RuntimeError("it does not fit")
        if model.startswith("refused: "):
            os.write(2, model.removeprefix("refused: ").encode())
            raise RuntimeError("no")
        return cls(model)

    def print_allocations(self) -> None:
        if self.model != "silent":
            os.write(2, b"[Recording] Arena allocation total 12345 bytes\n[Recording] and so on\n")

    def get_input_details(self, place: int) -> dict[str, Any]:
        return {"dtype": np.float32, "shape": [(2, 3), (4,)][place]}

    def get_output_details(self, place: int) -> dict[str, Any]:
        return {"dtype": np.float32, "shape": [(4,), (2, 3)][place]}

    def set_input(self, value: Array, place: int) -> None:
        self.values[place] = value

    def invoke(self) -> None:
        self.runs += 1
        if self.model == "fails":
            os.write(2, b"Node ADD (number 0) failed to invoke\n")
            raise RuntimeError("it failed")

    def get_output(self, place: int) -> Array:
        return self.values[1 - place] + np.float32(self.runs)


Ask = Callable[..., Any]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return what asks, after something was printed for another model."""
    path, runtime = "tflite_micro.python.tflite_micro", type("runtime", (), {"Interpreter": Interpreter})
    modules: dict[str, dict[str, Any]] = {"tflite_micro": {}, "tflite_micro.python": {}, path: {"runtime": runtime}}
    module = adapter("tflm", modules, monkeypatch)

    def asked(question: Any, *request: Any) -> Any:
        with printing_to(tmp_path / "errors"):
            os.write(2, b"Node ADD (number 1) failed to prepare\nArena allocation total 7 bytes\n")
            return getattr(module, question, partial(run_with, module))(Request(question, *request))

    return asked


@pytest.mark.parametrize("question", ["loads", "placement"])
def test_all_operators_run_in_an_arena_of_so_many_bytes(question: Any, ask: Ask) -> None:
    assert ask(question, "m") == Verdict("ok", others="cpu", arena_bytes=12384)
    assert ask(question, "silent") == Verdict("ok", others="cpu")


@pytest.mark.parametrize(
    ("printed", "operator"),
    [
        ("Failed to get registration from op code CUSTOM", Placed(code="CUSTOM")),
        ("Node TANH (number 5f) failed to prepare", Placed(operator=5, code="TANH")),
    ],
)
def test_a_refusal_names_the_operator_that_was_printed(printed: str, operator: Placed, ask: Ask) -> None:
    with pytest.raises(RefusedError) as caught:
        ask("loads", f"refused: {printed}\n")
    assert str(caught.value) == f"{printed} no"
    (named,) = caught.value.operators
    assert (named.operator, named.code, named.words) == (operator.operator, operator.code, f"{printed} no")
    assert ask("run", f"refused: {printed}").failure == f"{printed} no"


def test_each_run_has_its_outputs(ask: Ask) -> None:
    made = [make_input(3, 0, FLOAT, (2, 3)), make_input(3, 1, FLOAT, (4,))]
    answer = ask("run", "m", "", None, 3, 2)
    assert (answer.failure, same(answer.inputs, made)) == ("", None)
    assert same(answer.outputs, [value + np.float32(run) for run in (1, 2) for value in made[::-1]]) is None
    given = [[np.zeros((2, 3), np.float32), np.ones(4, np.float32)], made]
    answer = ask("run", "m", "", given)
    assert same(answer.inputs, given[0]) is None
    assert same(answer.outputs, [given[0][1] + 1, given[0][0] + 1, made[1] + 2, made[0] + 2]) is None


def test_why_a_run_fails_is_what_was_printed(ask: Ask) -> None:
    answer = ask("run", "fails")
    assert (answer.inputs, answer.outputs) == ([], [])
    assert answer.failure == "Node ADD (number 0) failed to invoke it failed"
    with pytest.raises(RefusedError) as caught:
        ask("loads", "fails")
    assert [(one.operator, one.code) for one in caught.value.operators] == [(0, "ADD")]
