"""Try model files in the Python of an old runtime, in child processes, since a kernel may crash.

    python resolver_worker.py CASES.json ANSWERS.json

A case is {"model": base64, "step": "build" | "allocate" | "run" | "compile"}. The answer is a list with the runtime's
message about each: "" if the step succeeded, or the values of the first output after "run" and "compile" (the run of
a CompiledModel, with the floats 1 and 2 in the file `values`). Nothing of this project is imported.
"""

import base64
import json
import os
import sys
import tempfile

import numpy as np

try:
    from tflite_runtime.interpreter import Interpreter
except ImportError:
    from ai_edge_litert.interpreter import Interpreter
try:
    from ai_edge_litert.compiled_model import CompiledModel
except ImportError:
    CompiledModel = None


def answer(case):
    """Return the runtime's answer to a case."""
    try:
        if case["step"] == "compile":
            return compiled(base64.b64decode(case["model"]))
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


def compiled(model):
    """Return the output of a CompiledModel with one input and one output of two floats."""
    if CompiledModel is None:
        return "there is no CompiledModel"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        with open(path, "wb") as file:
            file.write(model)
        np.array([1, 2], np.float32).tofile(os.path.join(folder, "values"))
        made = CompiledModel.from_file(path)
        inputs, outputs = made.create_input_buffers(0), made.create_output_buffers(0)
        inputs[0].write(some(2, np.float32))
        made.run_by_index(0, inputs, outputs)
        return outputs[0].read(2, np.float32).tolist()


def some(shape, dtype):
    """Return values to feed: fractions for floats, ones for other types, which may be indices."""
    ones = np.ones(shape, dtype)
    return (np.arange(ones.size) % 5 * 0.25 + 0.25).astype(dtype).reshape(shape) if ones.dtype.kind == "f" else ones


def apart(cases):
    """Return the answers of child processes; if a kernel crashes one, the next continues after that case."""
    answers = []
    while len(answers) < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                with os.fdopen(write, "w") as out:
                    for case in cases[len(answers) :]:
                        print(json.dumps(answer(case)), file=out, flush=True)
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            answers += [json.loads(line) for line in lines if line.endswith("\n")]
        _, status = os.waitpid(child, 0)
        if len(answers) < len(cases):
            answers.append(f"crash {status}")
    return answers


def main(asked, answers):
    """Answer all cases of a file."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with open(asked) as file:
        cases = json.load(file)
    with open(answers, "w") as file:
        json.dump(apart(cases), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
