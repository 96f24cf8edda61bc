"""Arm's Vela, TensorFlow Lite Micro and LiteRT's GPU delegate: what each takes, read from what it does and prints.

Each runs in the Python that has it, in a process that it may kill:

    VELA-PYTHON -m tools.measure.capabilities --only ethos-u55       pip install ethos-u-vela
    TFLM-PYTHON -m tools.measure.capabilities --only tflm            pip install tflite_micro
    lavapipe/run PYTHON -m tools.measure.capabilities --only litert-gpu     a Vulkan driver; a software one will do
"""

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from circletools.asking import operators_of
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.runtimes.operators import located
from circletools.runtimes.protocol import Request
from tools.measure.capability.single import array

CONFIGURATIONS = {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
_GPU_REFUSED = re.compile(r"Following operations are not supported by GPU delegate:\n((?:.+: .+\n)+)")
_ARENA_BYTES = 1 << 24

Place = tuple[int, int]


@dataclass(frozen=True)
class Placement:
    """What a program did with a model: the words of what it refused, each with an operator code or an output's name.

    `resident`: all of it is on the device. Refusals are not known where the program does not name them.
    """

    resident: bool
    refused: tuple[tuple[str, str], ...] = ()


def litert() -> Any:
    """Import LiteRT's compiled models."""
    return importlib.import_module("ai_edge_litert.compiled_model")


def vela() -> Any:
    """Import Vela, with the adapter that asks it."""
    return importlib.import_module("circletools.runtimes.vela")


def tflm() -> Any:
    """Import TensorFlow Lite Micro."""
    return importlib.import_module("tflite_micro.python.tflite_micro").runtime


@contextmanager
def printed(handles: tuple[int, ...]) -> Iterator[Callable[[], str]]:
    """Catch what this process writes to these handles, also what is not Python."""
    kept = [os.dup(handle) for handle in handles]
    with tempfile.TemporaryFile("w+", errors="replace") as file:

        def text() -> str:
            sys.stdout.flush()
            file.seek(0)
            return file.read()

        try:
            for handle in handles:
                os.dup2(file.fileno(), handle)
            yield text
        finally:
            sys.stdout.flush()
            for handle, old in zip(handles, kept, strict=True):
                os.dup2(old, handle)
                os.close(old)


def place_on_gpu(model: bytes) -> Placement:
    """Compile a model for LiteRT's GPU delegate. Raises RuntimeError where it names no operators."""
    hardware = importlib.import_module("ai_edge_litert.hardware_accelerator").HardwareAccelerator.GPU
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file, printed((2,)) as text:
        file.write(model)
        file.flush()
        try:
            compiled = litert().CompiledModel.from_file(file.name, hardware_accel=hardware)
            if compiled.is_fully_accelerated():
                return Placement(True)
        except RuntimeError:
            if "not supported by GPU delegate" not in text():
                raise
        lines = {line for found in _GPU_REFUSED.findall(text()) for line in found.splitlines()}
        return Placement(False, tuple((line.partition(": ")[0], line.partition(": ")[2]) for line in sorted(lines)))


def placed_by(program: str, variant: str, model: bytes) -> dict[Place, tuple[str, str]]:
    """Return device and reason of each operator that a program's adapter locates; raises what the adapter raises."""
    adapter = importlib.import_module(f"circletools.runtimes.{program}")
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file, printed((2,)), open_model(model) as opened:
        file.write(model)
        file.flush()
        verdict = located(
            adapter.placement(Request("placement", file.name, variant)), operators_of(model_graph(opened))
        )
    found = (one for one in verdict.operators if one.operator is not None)
    return {(one.subgraph or 0, one.operator or 0): (one.device, one.words) for one in found}


def ask_gpu(question: Any) -> str:
    """Ask whether the GPU delegate takes the operator."""
    try:
        placement = place_on_gpu(question.model)
    except (RuntimeError, ValueError):
        return "prepare"
    codes = {code for code, _ in placement.refused}
    return "taken" if placement.resident or not is_among(question, codes, _code) else "left"


def ask_ethos(configuration: str, question: Any) -> str:
    """Ask whether Vela puts the operator, or all of a model, on the NPU."""
    try:
        placed = placed_by("vela", configuration, question.model)
    except Exception:  # what its passes stumble over: the model does not compile
        return "load"
    asked = placed.values() if question.focus < 0 else [placed[0, question.focus]]
    return "taken" if all(device == "npu" for device, _ in asked) else "left"


def is_among(question: Any, refused: set[str], named: Callable[[Any, int], str]) -> bool:
    """Say whether the operator that is asked about is among those refused; of a whole model, whether any is."""
    if question.focus < 0 or not refused:
        return True
    with open_model(question.model) as model:
        operators = len(model.subgraphs[0].operators)
        return operators == 1 or named(model, question.focus) in refused


def _code(model: Any, index: int) -> str:
    return str(model.subgraphs[0].operators[index].code.name).removeprefix("CUSTOM:")


def output_name(model: Any, index: int) -> str:
    graph = model.subgraphs[0]
    outputs = graph.operators[index].outputs
    return str(graph.tensors[outputs[0]].name) if outputs else ""


def ask_tflm(question: Any) -> str:
    """Load, allocate and run."""
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
