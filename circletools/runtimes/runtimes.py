"""The runtimes, as the child process of `worker` has them: one function each, from a request to an answer.

LiteRT runs without its default delegate: XNNPACK fuses operators, and what it fuses depends on where the cuts are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.runtimes.inputs import make_input
from circletools.runtimes.worker import Answer, Request, Runtime

Array = NDArray[Any]


def load(runtime: Runtime) -> Callable[[Request], Answer]:
    """Import a runtime and return the function that runs a model in it."""
    return _litert() if runtime == "litert" else _onert()


def _litert() -> Callable[[Request], Answer]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415

    def run(request: Request) -> Answer:
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

    return run


def _onert() -> Callable[[Request], Answer]:
    from circletools.runtimes import onert_run  # noqa: PLC0415 - these load the runtime's library
    from circletools.runtimes.onert_c import Session, StatusError  # noqa: PLC0415

    def run(request: Request) -> Answer:
        session = Session()
        made: list[Array] = []

        def value(position: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
            given = request.inputs
            made.append(make_input(request.seed, position, dtype, shape) if given is None else given[position])
            return made[-1]

        try:
            session.load(Path(request.model))
            session.use_backends("cpu")
            if request.inputs is None:
                onert_run.fix_open_shapes(session)
            elif len(request.inputs) != session.input_count():
                return Answer([], [], f"the model has {session.input_count()} inputs, not {len(request.inputs)}")
            else:
                onert_run.fix_shapes(session, [array.shape for array in request.inputs])
            session.prepare()
            buffers = onert_run.bind(session, value)
            session.run()
            outputs = onert_run.results(session, buffers)
        except (StatusError, KeyError) as error:  # KeyError: a type that the interface does not have
            return Answer([], [], f"{type(error).__name__}: {error}")
        finally:
            session.close()
        return Answer(made, outputs)

    return run


def _plain(array: Array) -> Array:
    """Return an array that any process can read: some dtypes are known only where their package is imported."""
    return array if array.dtype.kind in "biufcOSU" else array.view(np.dtype(f"u{array.dtype.itemsize}"))
