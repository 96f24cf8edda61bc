"""Run splits in OpenVINO by their runner, and count the operators that are where they should be.

    python -m tools.measure.on_openvino FOLDER_OR_MODEL... --seed 1

Every model that OpenVINO reads gets two maps of devices, CPU and a second CPU plugin. Nodes are those of the runtime
models of the parts, and OpenVINO tells the device that has them; values are compared with those of the whole on CPU.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import openvino

from circletools.affinity.partitioning import partitioned
from circletools.affinity.read import Affinity
from circletools.affinity.store import annotate
from circletools.affinity.tables import SubgraphAffinity
from circletools.affinity.units import make_units
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from circletools.parts.package import RUNNER
from circletools.parts.split import Split, split
from circletools.runtimes.inputs import make_input
from tools.measure.splits import drawn, models_of

_DEVICES = {0: "CPU", 1: "CPUB"}
_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def look(core: Any, path: Path, kind: str, seed: int) -> str:
    """Return in words how many operators of a split are on their device."""
    with TemporaryDirectory() as name, open_model(path) as model:
        source, folder = Path(name) / path.name, Path(name) / "parts"
        row = drawn(model, kind, Random(f"{seed} {kind} {path.name}"))[0]  # noqa: S311
        made = partitioned(make_units(graph_of(model, 0)), row, "min")
        ids = SubgraphAffinity(*np.array([made.numbers, made.partition_of()], np.uint32))
        with ModelEdit(model) as edit:
            annotate(edit, Affinity(_DEVICES, {0: ids}))
            edit.save(source)
        with open_model(source) as annotated:
            done = split(annotated, folder, runner="openvino")
        namespace: dict[str, Any] = {"__file__": str(folder / RUNNER), "__name__": "runner"}
        exec((folder / RUNNER).read_text(), namespace)  # noqa: S102 - what is looked at
        runner = namespace["Runner"](core=core, config=dict.fromkeys(_DEVICES.values(), _EXACT))
        return f"{_placed(runner, done, made.numbers)}, {_values(core, runner, path, seed)}"


def _placed(runner: Any, done: Split, numbers: Sequence[int]) -> str:
    every = Counter(operator for part in done.plan.parts for operator in part.operators)
    there, nodes = set[int](), 0
    for (part, _, found), (_, _, compiled) in zip(runner.places(), runner.parts, strict=True):
        nodes += len(compiled.get_runtime_model().get_ops())
        for operator in part["operators"]:  # what has no device of its own is in each part that needs it
            wanted = part["device"] if every[operator] > 1 else _DEVICES[numbers[operator]]
            if found == [wanted]:
                there.add(operator)
    return f"{len(there)} of {len(every)} operators on their device, {len(runner.parts)} parts, {nodes} nodes"


def _values(core: Any, runner: Any, path: Path, seed: int) -> str:
    whole = core.compile_model(core.read_model(path), "CPU", _EXACT)
    inputs = [
        make_input(
            seed, place, end.get_element_type().to_dtype(),
            [1 if size.is_dynamic else size.get_length() for size in end.get_partial_shape()],
        )
        for place, end in enumerate(whole.inputs)
    ]  # fmt: skip
    ran, found = whole(inputs), runner(inputs)
    expected = [ran[place] for place in range(len(whole.outputs))]
    scale = [max(1.0, float(np.abs(one.astype(float)).max(initial=0))) for one in expected]
    off = max(
        (
            float(np.abs(one.astype(float) - other.reshape(one.shape)).max(initial=0)) / size
            for one, other, size in zip(expected, found, scale, strict=True)
        ),
        default=0.0,
    )
    return f"values off by {off:.1e}"


def main(arguments: Sequence[str]) -> int:
    """Print a line for each split; the status is 1 where an operator is elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    paths = list(models_of(given.models))
    if len(paths) > 1:  # OpenVINO can end the process
        again = [sys.executable, "-m", "tools.measure.on_openvino", "--seed", str(given.seed)]
        statuses = [subprocess.run([*again, str(path)], check=False).returncode for path in paths]
        return int(1 in statuses)
    core = openvino.Core()
    core.register_plugin("openvino_intel_cpu_plugin", "CPUB")
    elsewhere = 0
    for path in paths:
        for kind in ("codes", "blocks"):
            try:
                found = look(core, path, kind, given.seed)
            except (CircleToolsError, RuntimeError, ValueError) as error:
                found = f"not run: {' '.join(str(error).split())[:160]}"
            numbers = [int(word) for word in found.split()[:3:2] if word.isdigit()]
            elsewhere += len(set(numbers)) > 1
            sys.stdout.write(f"{path.name} {kind}: {found}\n")
            sys.stdout.flush()
    return int(elsewhere > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
