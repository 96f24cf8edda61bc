"""Ask programs about whole models: whether a target runs the whole model, and which operators it refuses."""

import contextlib
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from circletools.model.model import open_model
from circletools.runtimes.plan import plans
from tools.measure import litert_plugin
from tools.measure.capability import accelerators
from tools.measure.capability.runtimes import DEVICES, TAKEN, Device
from tools.measure.capability.witness import Whole

Answer = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """The program that judges a target: `prepare` imports it, `answer` asks it about the model in a file."""

    prepare: Callable[[], object]
    answer: Callable[[Path], Answer]


def ask(program: Program, path: Path) -> str:
    """Return, as JSON, whether the whole model runs on the target, and the refused operator codes, if known."""
    try:
        return json.dumps(program.answer(path))
    except Exception as error:  # any error means that the program refuses the model
        return json.dumps({"resident": False, "words": repr(error)[:200]})


def _in_partitions(path: Path) -> Answer:
    """Return the operators that LiteRT's default delegate does not take."""
    litert = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=path.read_bytes(), num_threads=1)
    with contextlib.suppress(RuntimeError, ValueError):
        interpreter.allocate_tensors()  # missing kernels are reported only after the delegate has taken its operators
    found = plans(interpreter)
    left = [(at, step.operators[0]) for at, plan in enumerate(found) for step in plan if not step.delegate]
    return {"resident": not left, "refused": _codes(path, left)}


def _on_accelerator(program: str, variant: str, device: str, path: Path) -> Answer:
    """Return the operators that a program refuses to place on a device."""
    placed = accelerators.placed_by(program, variant, path.read_bytes())
    left = [place for place, (found, _) in placed.items() if found != device]
    refused = [place for place in left if placed[place][1]]
    return {"resident": not left, "refused": _codes(path, refused or left)}


def _by_plugin(path: Path) -> Answer:
    """Return the operators that a compiler plugin of LiteRT does not take."""
    left = litert_plugin.staying(path.read_bytes())
    return {"resident": left == [], "refused": left and sorted({code for code, _ in left})}


def _codes(path: Path, places: list[tuple[int, int]]) -> list[str]:
    with open_model(path) as model:
        return sorted({model.subgraphs[at].operators[step].code.name for at, step in places})


def _as_one(device: Device, path: Path) -> Answer:
    """Return whether a program runs a model; a failure during the run may be due to the inputs."""
    outcome = device.ask(Whole(path.read_bytes()))
    return {"resident": None if outcome == "run" else outcome == TAKEN, "words": outcome}


def _programs() -> dict[str, Program]:
    found = {device.name: Program(device.prepare, partial(_as_one, device)) for device in DEVICES}
    found["xnnpack"] = Program(found["xnnpack"].prepare, _in_partitions)
    found["intel-npu"] = Program(litert_plugin.prepare, _by_plugin)
    placing = {name: ("vela", variant, "npu") for name, variant in accelerators.CONFIGURATIONS.items()}
    placing["litert-gpu"] = ("litert_gpu", "", "gpu")
    for name, how in placing.items():
        found[name] = Program(found[name].prepare, partial(_on_accelerator, *how))
    return found


PROGRAMS = _programs()
"""The programs by target."""
