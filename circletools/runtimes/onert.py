"""onert: loading, compiling, and inference with inputs and outputs bound by the caller.

Importing this module loads the runtime's library, which comes with an optional package.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any

import numpy as np

from circletools.runtimes.comparison import same
from circletools.runtimes.inputs import inputs_by_run
from circletools.runtimes.onert_c import CAN_ALLOCATE, Session, StatusError, TensorInfo
from circletools.runtimes.protocol import (
    Answer,
    Array,
    Make,
    Placed,
    Recorded,
    RefusedError,
    Request,
    Verdict,
    mark,
    printed,
)

Bound = ctypes.Array[ctypes.c_char]
FAILURES = (StatusError, KeyError, ValueError)
DTYPES = {
    0: "float32",
    1: "int32",
    2: "uint8",  # quantized
    3: "bool",
    4: "uint8",
    5: "int64",
    6: "int8",
    7: "int16",
}
"""The dtype of each `NNFW_TYPE`."""

# A shape can be known only after the run, and a declared one can be wrong.
_OPEN_OUTPUT_BYTES = 1 << 24
_LEAST_OUTPUT_BYTES = 1 << 16
# Bytes that a runtime leaves untouched must not look like a plausible zero.
_UNWRITTEN = b"\xa5"
_FEWEST_BYTES = 4  # of which no plausible values are just these
_OPERATION = re.compile(r"Unsupported operation: (\w+)|NYI for operation '(\w+)'")


def fix_open_shapes(session: Session) -> None:
    """Give every open dimension the size 1, which is what converters write for LiteRT to start from."""
    fix_shapes(
        session, [tuple(map(abs, session.input_info(index).shape())) for index in range(session.input_count())]
    )


def fix_shapes(session: Session, shapes: Sequence[tuple[int, ...]]) -> None:
    """Give the inputs these shapes; before `prepare`."""
    for position, shape in enumerate(shapes):
        info = session.input_info(position)
        if info.shape() != shape:
            info.rank = len(shape)
            info.dims[: len(shape)] = shape
            session.set_input_info(position, info)


def dtype_of(info: TensorInfo) -> np.dtype[Any]:
    """Return the dtype of a tensor."""
    return np.dtype(DTYPES[info.dtype])


def bind_outputs(session: Session) -> list[Bound]:
    """Bind outputs that are large enough; return their buffers."""
    buffers: list[Bound] = []
    for position in range(session.output_count()):
        info = session.output_info(position)
        # An open shape comes as -1 in it, or as no dimensions at all, just like a scalar.
        is_open = info.rank == 0 or -1 in info.shape()
        known = math.prod(info.shape()) * dtype_of(info).itemsize
        size = _OPEN_OUTPUT_BYTES if is_open else max(known, _LEAST_OUTPUT_BYTES)
        buffers.append((ctypes.c_char * size).from_buffer(bytearray(_UNWRITTEN * size)))
        session.set_output(position, info.dtype, buffers[-1])
    return buffers


def results(session: Session, buffers: Sequence[Bound]) -> list[Array]:
    """Return the outputs, after the run."""
    arrays = []
    for position, buffer in enumerate(buffers):
        info = session.output_info(position)
        size = math.prod(info.shape()) * dtype_of(info).itemsize
        arrays.append(np.frombuffer(memoryview(buffer)[:size].tobytes(), dtype_of(info)).reshape(info.shape()))
    return arrays


def _allocated(session: Session) -> list[Array]:
    """Return the outputs that the runtime allocated, after the run."""
    arrays = []
    for position in range(session.output_count()):
        info, address = session.allocated(position)
        size = math.prod(info.shape()) * dtype_of(info).itemsize
        arrays.append(np.frombuffer(ctypes.string_at(address, size), dtype_of(info)).reshape(info.shape()))
    return arrays


def _unwritten(arrays: Sequence[Array]) -> int | None:
    """Return the first output that has only what its buffer was filled with, None where there is none."""
    for place, array in enumerate(arrays):
        if array.nbytes >= _FEWEST_BYTES and array.tobytes() == _UNWRITTEN * array.nbytes:
            return place
    return None


def loads(request: Request) -> Verdict:
    """Return whether onert loads the model and compiles it for a backend."""
    session = Session()
    since = mark()
    try:
        _prepare(session, request)
    except (StatusError, KeyError) as error:
        text = " ".join(printed(since).split()) or str(error)
        named = [Placed("", text, code=one or two) for one, two in _OPERATION.findall(text)]
        raise RefusedError(text, named) from error
    finally:
        session.close()
    return Verdict("ok", others=request.variant)


def placement(request: Request) -> Verdict:
    """Placement for onert: all operators or none; reports at most the first unsupported one."""
    return loads(request)


def called(request: Request) -> Verdict:
    """Return whether outputs that the runtime allocates, as in the package's Python, are those that a caller binds.

    Where it does not run with these, there is nothing to compare.
    """
    own = run(request)
    if own.failure or not CAN_ALLOCATE:
        return Verdict("ok")
    made = run(replace(request, inputs=[own.inputs]), allocate=True)
    words = made.failure or same(own.outputs, made.outputs)
    return Verdict("differs", f"outputs that onert allocates, as `infer` has it: {words}") if words else Verdict("ok")


def run(request: Request, *, allocate: bool = False) -> Answer:
    """Run a model or a package; with `allocate`, the runtime allocates the outputs, as in the package's Python."""
    session = Session()
    try:
        count = _prepare(session, request, allocate)
        infos = [session.input_info(position) for position in range(count)]
        runs = inputs_by_run(request, ((dtype_of(info), info.shape()) for info in infos))
        if len(runs[0]) != count:
            return Answer([], [], f"the model has {count} inputs, not {len(runs[0])}")
        buffers = [] if allocate else bind_outputs(session)
        outputs = []
        for inputs in runs:
            for position, (info, value) in enumerate(zip(infos, inputs, strict=True)):
                session.set_input(position, info.dtype, value.tobytes())
            session.run()
            found = _allocated(session) if allocate else results(session, buffers)
            if (place := _unwritten(found)) is not None:
                return Answer([], [], f"onert writes nothing to output {place}")
            outputs += found
    except (StatusError, KeyError) as error:  # KeyError: a type that the interface does not have
        return Answer([], [], f"{type(error).__name__}: {error}")
    finally:
        session.close()
    return Answer(runs[0], outputs)


def profile(request: Request) -> Recorded:
    """Run a model with onert's tracing; its `trace.chrome.json` is whole when the process has ended."""
    folder = mkdtemp()
    os.environ |= {"TRACING_MODE": "1", "WORKSPACE_DIR": folder}  # a session reads them when it is made
    begun = perf_counter()
    session = Session()
    try:
        count = _prepare(session, request)
        seconds = perf_counter() - begun
        infos = [session.input_info(position) for position in range(count)]
        runs = inputs_by_run(request, ((dtype_of(info), info.shape()) for info in infos))
        bind_outputs(session)
        for inputs in runs:
            for position, (info, value) in enumerate(zip(infos, inputs, strict=True)):
                session.set_input(position, info.dtype, value.tobytes())
            session.run()
    except FAILURES as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    finally:
        session.close()
        del os.environ["TRACING_MODE"], os.environ["WORKSPACE_DIR"]
    return Recorded(b"", seconds * 1e6, file=str(Path(folder, "trace.chrome.json")))


class Running:
    """A model that is ready to run: with inputs of the shapes that are given, and of its own where None is."""

    def __init__(self, variant: str, model: str, given: Sequence[Array | None], make: Make) -> None:
        """Compile it. Raises one of `FAILURES`."""
        self._session = session = Session()
        session.load(Path(model))
        session.use_backends(variant)
        infos = [session.input_info(position) for position in range(session.input_count())]
        self.inputs = [
            make(place, dtype_of(info), tuple(map(abs, info.shape()))) if value is None else value
            for place, (info, value) in enumerate(zip(infos, given, strict=True))
        ]
        fix_shapes(session, [value.shape for value in self.inputs])
        session.prepare()
        self._bound = [(ctypes.c_char * max(1, value.nbytes))() for value in self.inputs]
        for place, (info, buffer, value) in enumerate(zip(infos, self._bound, self.inputs, strict=True)):
            session.bind_input(place, info.dtype, buffer, value.nbytes)
        self._buffers = bind_outputs(session)

    def feed(self, inputs: Sequence[Array]) -> None:
        """Copy the inputs to the runtime."""
        for buffer, value in zip(self._bound, inputs, strict=True):
            ctypes.memmove(buffer, np.ascontiguousarray(value).ctypes.data, value.nbytes)

    def run(self) -> None:
        """Run once."""
        self._session.run()

    def fetch(self) -> list[Array]:
        """Copy the outputs from the runtime."""
        return results(self._session, self._buffers)

    def __del__(self) -> None:
        """Free the session."""
        self._session.close()


def _prepare(session: Session, request: Request, allocate: bool = False) -> int:
    """Load and compile, unless the inputs are not as many as given; return how many there are."""
    session.load(Path(request.model))
    session.use_backends(request.variant)
    if allocate:
        session.let_it_allocate()
    count = session.input_count()
    if request.inputs is None:
        fix_open_shapes(session)
    elif len(request.inputs[0]) == count:
        fix_shapes(session, [array.shape for array in request.inputs[0]])
    else:
        return count
    session.prepare()
    return count
