"""Run every model of this folder in LiteRT or onert, each in a process of its own, and print the result.

Run it with a Python that has ai-edge-litert and onert (the project's `test` extra):

    python testdata/run_models.py                   # every model
    python testdata/run_models.py circle/*.circle   # these

The inputs are small fixed numbers (an unknown dimension becomes 2); nothing is compared, the question is
only whether the runtime takes the model. A process of its own, because a runtime may crash; it imports one
of the two runtimes, not both.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


def sample(shape: list[int], dtype: Any) -> Any:
    """Give an input array: ones of the right type, strings for a string tensor."""
    shape = [2 if size < 0 else size for size in shape]
    if np.dtype(dtype).kind in "SO":
        return np.full(shape, b"two", dtype=object)
    return np.ones(shape, dtype=dtype)


def run_litert(path: Path) -> str:
    """Run the model's first subgraph, and every signature, in LiteRT."""
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    interpreter = Interpreter(model_path=str(path))
    for detail in interpreter.get_input_details():
        if -1 in detail["shape_signature"]:
            interpreter.resize_tensor_input(detail["index"], sample(detail["shape_signature"], "u1").shape)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], sample(list(detail["shape"]), detail["dtype"]))
    interpreter.invoke()
    results = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    text = describe(results)
    for name in interpreter.get_signature_list():
        runner = interpreter.get_signature_runner(name)
        inputs = {
            key: sample(list(detail["shape_signature"]), detail["dtype"])
            for key, detail in runner.get_input_details().items()
        }
        text += f"; {name}: {describe(list(runner(**inputs).values()))}"
    return text


def run_onert(path: Path) -> str:
    """Run the model in onert's interpreter for CPUs."""
    from onert import infer  # noqa: PLC0415
    from onert.native.libnnfw_api_pybind import prepare_config  # noqa: PLC0415

    session = infer.session(str(path))
    wanted = [(list(info.dims[: info.rank]), info.dtype) for info in session.get_inputs_tensorinfo()]
    inputs = [sample(shape, dtype) for shape, dtype in wanted]
    if all(size >= 0 for shape, _ in wanted for size in shape):
        # What `infer` does itself, but without setting the types again: that fails for quantized inputs.
        session.session.set_prepare_config(prepare_config.ENABLE_INTERNAL_OUTPUT_ALLOC)
        session.session.prepare()
        session._prepared = True
    return describe(session.infer(inputs))


def describe(results: list[Any]) -> str:
    """Give the types and shapes of the results."""
    return ", ".join(f"{result.dtype}{list(result.shape)}" for result in results) or "no output"


def run_here(path: Path) -> int:
    """Run one model in this process; the last line printed is the result."""
    warnings.simplefilter("ignore")
    runtimes = {".tflite": run_litert, ".circle": run_onert}
    try:
        print("ok:", runtimes[path.suffix](path))
    except Exception as error:  # a runtime raises what it likes
        print("fails:", type(error).__name__, " ".join(str(error).split())[:120])
        return 1
    return 0


def run_apart(path: Path) -> str:
    """Run one model in a new process and give the line to report."""
    command = [sys.executable, __file__, "--here", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    if done.returncode < 0:
        return f"fails: signal {-done.returncode}"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("ok:", "fails:"))]
    reasons = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    return " | ".join([*lines, *(reasons if done.returncode else [])]) or f"fails: exit {done.returncode}"


def main(arguments: list[str]) -> int:
    """Report on the files named, or on every model of the folder."""
    if arguments[:1] == ["--here"]:
        return run_here(Path(arguments[1]))
    paths = [Path(name) for name in arguments]
    for path in paths or sorted([*HERE.glob("circle/*.circle"), *HERE.glob("tflite/*.tflite")]):
        print(f"{path.name:36s} {run_apart(path)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
