"""One inference in LiteRT.

LiteRT runs without its default delegate: XNNPACK fuses operators, and what it fuses depends on where the cuts are.
Importing this module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Answer, Array, Request


def run(request: Request) -> Answer:
    """Run a model once."""
    try:
        interpreter = Interpreter(
            model_path=request.model,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        details = interpreter.get_input_details()
        inputs = request.inputs
        if inputs is None:
            inputs = [
                make_input(request.seed, position, np.dtype(detail["dtype"]), detail["shape"])
                for position, detail in enumerate(details)
            ]
        if len(inputs) != len(details):
            return Answer([], [], f"the model has {len(details)} inputs, not {len(inputs)}")
        for detail, value in zip(details, inputs, strict=True):
            if tuple(detail["shape"]) != value.shape:
                interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        for detail, value in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        outputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    except (RuntimeError, ValueError, MemoryError) as error:
        return Answer([], [], f"{type(error).__name__}: {error}".strip())
    return Answer(inputs, [_plain(output) for output in outputs])


def _plain(array: Array) -> Array:
    """Return an array that any process can read: some dtypes are known only where their package is imported."""
    return array if array.dtype.kind in "biufcOSU" else array.view(np.dtype(f"u{array.dtype.itemsize}"))
