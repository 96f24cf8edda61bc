"""Ask Arm's Vela, TensorFlow Lite Micro and LiteRT's GPU delegate, by their behavior and messages.

Each runs in the Python in which it is installed, in a process that it may crash:

    VELA-PYTHON -m tools.measure.capabilities --only ethos-u55       pip install ethos-u-vela
    TFLM-PYTHON -m tools.measure.capabilities --only tflm            pip install tflite_micro
    lavapipe/run PYTHON -m tools.measure.capabilities --only litert-gpu     a Vulkan driver, such as a software one
"""

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from circletools.asking import operators_of
from circletools.graph.build import graph_of, model_graph
from circletools.model.model import open_model
from circletools.runtimes.operators import located
from circletools.runtimes.protocol import Request
from tools.measure.capability.single import array

CONFIGURATIONS = {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
_ARENA_BYTES = 1 << 30

Place = tuple[int, int]


def adapter(program: str) -> Any:
    """Import a program, together with the adapter that queries it."""
    return importlib.import_module(f"circletools.runtimes.{program}")


def tflm() -> Any:
    """Import TensorFlow Lite Micro."""
    return importlib.import_module("tflite_micro.python.tflite_micro").runtime


@contextmanager
def silent() -> Iterator[None]:
    """Redirect this process's errors, including those of native code, to a file that adapters read."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        try:
            os.dup2(file.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def placed_by(program: str, variant: str, model: bytes) -> dict[Place, tuple[str, str]]:
    """Return the device and reason of each operator that a program's adapter locates. Raises the adapter's errors.

    An answer that fits several operators of a code, whose outputs have no names, counts for the last one left.
    """
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file, silent(), open_model(model) as opened:
        file.write(model)
        file.flush()
        answer = adapter(program).placement(Request("placement", file.name, variant))
        subgraphs = operators_of(model_graph(opened))
        verdict = located(answer, subgraphs)
    found = {(one.subgraph or 0, one.operator): one for one in verdict.operators if one.operator is not None}
    for one in verdict.operators:
        if one.operator is None and one.device not in ("", verdict.others) and not one.tensor:
            alike = (place for place, at in found.items() if at.device == verdict.others)
            places = [place for place in alike if subgraphs[place[0]][0][place[1]] == one.code]
            found |= dict.fromkeys(places[-1:], one)
    return {place: (one.device, one.words) for place, one in found.items()}


def ask_placed(program: str, variant: str, device: str, question: Any) -> str:
    """Return whether a program places the operator, or the whole model, on a device."""
    try:
        placed = placed_by(program, variant, question.model)
    except Exception:  # any error means that the model does not compile
        return "load"
    asked = placed.values() if question.focus < 0 else [placed[0, question.focus]]
    return "taken" if all(found == device for found, _ in asked) else "left"


def placing(program: str, variant: str, device: str) -> tuple[Callable[[Any], str], Callable[[], Any]]:
    """Return two functions: one asks what a program places on a device, the other imports the program."""
    return partial(ask_placed, program, variant, device), partial(adapter, program)


def ask_sdk(module: ModuleType, question: Any) -> str:
    """Ask a module as in docs/measure-a-device.md; for one of several operators, use the names it lists as left."""
    answer = str(module.ask(question.model))
    if answer != "left" or question.focus < 0 or not hasattr(module, "refused"):
        return answer
    return answer if is_among(question, set(module.refused(question.model))) else "taken"


def is_among(question: Any, refused: set[str]) -> bool:
    """Return whether the operator in question is among the refused ones, by the name of its first output."""
    if not refused:
        return True
    with open_model(question.model) as model:
        names = graph_of(model, 0).operators.first_result_names
        return len(names) == 1 or names[question.focus] in refused


def ask_tflm(question: Any) -> str:
    """Load the model, allocate its tensors, and run it."""
    stage = "load"
    try:
        interpreter = tflm().Interpreter.from_bytes(question.model, arena_size=_ARENA_BYTES)
        stage = "run"
        for index, operand in enumerate(one for one in getattr(question, "inputs", ()) if one.kind == "computed"):
            value = array(operand)
            if value is not None:
                interpreter.set_input(value, index)
        interpreter.invoke()
    except (RuntimeError, ValueError, MemoryError):
        return stage
    return "taken"
