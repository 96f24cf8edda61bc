"""What runtimes do about aliased outputs when they load a model, and need not do once it is fixed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.build import Build
from tests.kit.outputs_cases import CASES, constant_beside_an_add, input_twice_beside_neg, result_listed
from tests.kit.outputs_support import fixed, vector
from tests.kit.presence import Lazy, need
from tests.kit.support import bytes_of, read, with_root

openvino = Lazy("openvino")


@pytest.mark.parametrize("build", [lambda: result_listed(3), constant_beside_an_add, input_twice_beside_neg])
def test_openvino_counts_the_outputs(build: Callable[[], Build], tmp_path: Path) -> None:
    """It merges outputs that share a tensor, and drops constants."""
    data = build().to_bytes()
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    wanted = len(vector(read(data)["subgraphs"][0]["outputs"]))
    core = openvino.Core()
    assert len(core.read_model(path).outputs) < wanted
    path.write_bytes(fixed(data))
    assert len(core.read_model(path).outputs) == wanted


def permutes(data: bytes, folder: Path) -> int:
    """Count the Permute operators in the graphs that onert itself draws of what it is about to run."""
    need("onert")
    folder.mkdir()
    path = folder / "model.circle"
    path.write_bytes(data)
    program = "import sys, pathlib, tests.kit.oracles.onert as onert; onert.run(pathlib.Path(sys.argv[1]), 0, str)"
    environment = os.environ | {"GRAPH_DOT_DUMP": "2", "PYTHONPATH": with_root()}
    # As a program of its own: the graphs are drawn into the folder that it runs in. It reads its messages back.
    with (folder / "messages").open("w+b") as messages:
        command = [sys.executable, "-c", program, str(path)]
        subprocess.run(command, cwd=folder, env=environment, check=True, stderr=messages, timeout=60)
    drawings = [path.read_text(encoding="utf-8") for path in folder.glob("*.dot")]
    assert drawings
    return sum("Permute" in line for drawing in drawings for line in drawing.splitlines())


# A body's Permute for its condition or a loop's values is there in any case: only what a fix takes away counts.
ODD = {name: build().to_bytes("circle") for name, (build, _) in CASES.items() if not name.startswith("while")}
for exported in ("output_twice", "input_as_output", "constant_output"):
    ODD[exported] = bytes_of(f"circle/{exported}")


@pytest.mark.parametrize("name", list(ODD)[::2])
def test_onert_inserts_no_permute(name: str, tmp_path: Path) -> None:
    before, after = permutes(ODD[name], tmp_path / "before"), permutes(fixed(ODD[name]), tmp_path / "after")
    assert before >= 1
    assert after == 0


COMPILED = """
import sys
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

interpreter, model = Interpreter(sys.argv[1]), CompiledModel.from_file(sys.argv[1])
interpreter.allocate_tensors()
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
for buffer, one in zip(inputs, interpreter.get_input_details()):
    values = np.linspace(-1, 1, one["shape"].prod(), dtype=np.float32).reshape(one["shape"])
    interpreter.set_tensor(one["index"], values)
    buffer.write(values)
interpreter.invoke()
model.run_by_index(0, inputs, outputs)
wanted = [interpreter.get_tensor(one["index"]).ravel() for one in interpreter.get_output_details()]
sys.exit(not all(np.array_equal(buffer.read(one.size, one.dtype), one) for buffer, one in zip(outputs, wanted)))
"""


@pytest.mark.parametrize("name", ["output_twice", "input_as_output"])
def test_a_compiled_model_of_litert_returns_the_values_of_the_interpreter(name: str, tmp_path: Path) -> None:
    need("ai_edge_litert")
    path = tmp_path / "model.tflite"
    for data, status in ((bytes_of(f"tflite/{name}"), 1), (fixed(bytes_of(f"tflite/{name}")), 0)):
        path.write_bytes(data)
        ran = subprocess.run([sys.executable, "-c", COMPILED, str(path)], check=False, timeout=60)
        assert ran.returncode == status
