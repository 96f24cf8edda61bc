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
from pathlib import Path
from typing import Any

from circletools.model.model import open_model
from tools.measure.capability.single import array

CONFIGURATIONS = {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
_ON_CPU = re.compile(r"^   CPU: .*? = (.*) \(outputs ", re.MULTILINE)
_COUNTED = re.compile(r"^CPU operators = (\d+)", re.MULTILINE)
_GPU_REFUSED = re.compile(r"Following operations are not supported by GPU delegate:\n((?:.+: .+\n)+)")
_ARENA_BYTES = 1 << 24


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
    """Import Vela."""
    return importlib.import_module("ethosu.vela.vela")


def tflm() -> Any:
    """Import TensorFlow Lite Micro."""
    return importlib.import_module("tflite_micro.python.tflite_micro").runtime


@contextmanager
def _printed(handles: tuple[int, ...]) -> Iterator[Callable[[], str]]:
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
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file, _printed((2,)) as printed:
        file.write(model)
        file.flush()
        try:
            compiled = litert().CompiledModel.from_file(file.name, hardware_accel=hardware)
            if compiled.is_fully_accelerated():
                return Placement(True)
        except RuntimeError:
            if "not supported by GPU delegate" not in printed():
                raise
        lines = {line for found in _GPU_REFUSED.findall(printed()) for line in found.splitlines()}
        return Placement(False, tuple((line.partition(": ")[0], line.partition(": ")[2]) for line in sorted(lines)))


def place_on_ethos(configuration: str, model: bytes) -> Placement:
    """Compile a model with Vela. Raises RuntimeError where it cannot."""
    with tempfile.TemporaryDirectory() as folder, _printed((1,)) as printed:
        path = Path(folder, "model.tflite")
        path.write_bytes(model)
        options = ["--accelerator-config", configuration, "--show-cpu-operations", "--output-dir", folder]
        try:
            vela().main([*options, str(path)])
        except SystemExit as ended:
            raise RuntimeError(f"vela ended with {ended.code}") from ended
        count = _COUNTED.search(printed())
        if count is None:
            raise RuntimeError("vela names no operators")
        names = _ON_CPU.findall(printed())
    return Placement(count[1] == "0", tuple((name, "on the CPU") for name in names))


def ask_gpu(question: Any) -> str:
    """Ask whether the GPU delegate takes the operator."""
    try:
        placement = place_on_gpu(question.model)
    except (RuntimeError, ValueError):
        return "prepare"
    codes = {code for code, _ in placement.refused}
    return "taken" if placement.resident or not is_among(question, codes, _code) else "left"


def ask_ethos(configuration: str, question: Any) -> str:
    """Ask whether Vela puts the operator on the NPU."""
    try:
        placement = place_on_ethos(configuration, question.model)
    except Exception:  # what its passes stumble over: the model does not compile
        return "load"
    names = {name for name, _ in placement.refused}
    return "taken" if placement.resident or not is_among(question, names, output_name) else "left"


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
