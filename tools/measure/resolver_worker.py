"""Run in the Python of an old runtime: try model files there, each in a process of its own where asked.

    python resolver_worker.py CASES.json ANSWERS.json

A case is {"model": base64, "step": "build" | "allocate" | "run"}. The answer is a list with what the runtime said of
each: "" where the step went well, the values of the first output after "run". It imports nothing of this project.
"""

import base64
import json
import os
import sys

import numpy as np

try:
    from tflite_runtime.interpreter import Interpreter
except ImportError:
    from ai_edge_litert.interpreter import Interpreter


def answer(case):
    """Return what the runtime says of a case."""
    try:
        interpreter = Interpreter(model_content=base64.b64decode(case["model"]))
        if case["step"] == "build":
            return ""
        interpreter.allocate_tensors()
        if case["step"] == "allocate":
            return ""
        for given in interpreter.get_input_details():
            interpreter.set_tensor(given["index"], some(given["shape"], given["dtype"]))
        interpreter.invoke()
        found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).ravel()
        return found.tolist() if found.dtype.kind in "biuf" else [str(one) for one in found.tolist()]
    except (RuntimeError, ValueError, TypeError) as error:
        return str(error)


def some(shape, dtype):
    """Return values to feed: fractions for floats, ones for all else, since they may be indices."""
    ones = np.ones(shape, dtype)
    return (np.arange(ones.size) % 5 * 0.25 + 0.25).astype(dtype).reshape(shape) if ones.dtype.kind == "f" else ones


def apart(case):
    """Return the same from a process of its own: a kernel may end it."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            with os.fdopen(write, "w") as out:
                json.dump(answer(case), out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else f"crash {status}"


def main(asked, answers):
    """Answer all cases of a file."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with open(asked) as file:
        cases = json.load(file)
    found = [answer(case) if case["step"] == "build" else apart(case) for case in cases]
    with open(answers, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
