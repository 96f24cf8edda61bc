"""LiteRT, as its Python users have it: the default delegates, one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from tests.kit.oracles.inputs import make_input
from tests.kit.oracles.outcome import Outcome, Stage, Value

# What the interpreter turns its errors into. Anything else is a fault of this harness, and is raised.
_REFUSALS = (RuntimeError, ValueError, MemoryError)


class _Steps:
    """Announces the steps of one run, and remembers the latest to name the one that failed."""

    def __init__(self, enter: Callable[[str], None]) -> None:
        self._enter = enter
        self.stage: Stage = "load"

    def __call__(self, stage: Stage, of: str = "") -> None:
        self.stage = stage
        self._enter(f"{stage}{of}")


def run(model: Path, seed: int, enter: Callable[[str], None]) -> Outcome:
    """Run the main subgraph, then each signature in an interpreter of its own."""
    step = _Steps(enter)
    failures: list[tuple[Stage, str]] = []
    keys: list[str] = []
    outputs: tuple[Value, ...] = ()
    try:
        step("load")
        interpreter = Interpreter(model_path=str(model), num_threads=1)
        keys = sorted(interpreter.get_signature_list())
        outputs = _run_main(interpreter, seed, step)
    except _REFUSALS as error:
        failures.append((step.stage, _text(error, model)))
        if step.stage == "load":
            return Outcome("litert", "load", failures[0][1])

    # A signature can work where the main subgraph does not, and the other way round: all are tried.
    signatures: dict[str, tuple[Value, ...]] = {}
    for key in keys:
        try:
            signatures[key] = _run_signature(model, key, seed, step)
        except _REFUSALS as error:
            failures.append((step.stage, f"signature {key!r}: {_text(error, model)}"))
    if failures:
        message = "\n".join(text for _, text in failures)
        return Outcome("litert", failures[0][0], message, outputs, signatures)
    return Outcome("litert", "ok", "", outputs, signatures)


def _run_main(interpreter: Interpreter, seed: int, step: _Steps) -> tuple[Value, ...]:
    step("prepare")
    interpreter.allocate_tensors()
    step("run")
    interpreter.reset_all_variables()
    for position, detail in enumerate(interpreter.get_input_details()):
        value = make_input(seed, position, np.dtype(detail["dtype"]), detail["shape"])
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return tuple(_value(d["name"], interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details())


def _run_signature(model: Path, key: str, seed: int, step: _Steps) -> tuple[Value, ...]:
    step("load", f" of signature {key!r}")
    interpreter = Interpreter(model_path=str(model), num_threads=1)
    step("prepare", f" of signature {key!r}")
    runner = interpreter.get_signature_runner(key)
    inputs = {
        name: make_input(seed, name, np.dtype(detail["dtype"]), detail["shape"])
        for name, detail in runner.get_input_details().items()
    }
    step("run", f" of signature {key!r}")
    outputs: dict[str, NDArray[Any]] = runner(**inputs)
    return tuple(_value(name, outputs[name]) for name in sorted(outputs))


def _value(name: str, array: NDArray[Any]) -> Value:
    if array.dtype.kind in "SO":
        data = b"".join(len(item).to_bytes(4, "little") + item for item in map(bytes, array.flat))
        return name, "string", array.shape, data
    return name, array.dtype.name, array.shape, array.tobytes()


def _text(error: Exception, model: Path) -> str:
    return f"{type(error).__name__}: {error}".replace(str(model), "<model>").strip()
