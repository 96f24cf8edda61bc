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

import numpy as np

from circletools.runtimes.comparison import same
from circletools.runtimes.inputs import inputs_by_run
from circletools.runtimes.onert_c import CAN_ALLOCATE, Bound, Session, StatusError, TensorInfo
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

FAILURES = (StatusError, KeyError, ValueError)

# A shape can be known only after the run, and a declared one can be wrong.
_OPEN_OUTPUT_BYTES = 1 << 24
_LEAST_OUTPUT_BYTES = 1 << 16
# Bytes that a runtime leaves untouched must not look like a plausible zero.
_UNWRITTEN = b"\xa5"
_FEWEST_BYTES = 4  # of which no plausible values are just these
_OPERATION = re.compile(r"Unsupported operation: (\w+)|NYI for operation '(\w+)'")


def fix_open_shapes(session: Session) -> None:
    """Give every open dimension the size 1, which is what converters write for LiteRT to start from."""
    fix_shapes(session, [tuple(map(abs, info.shape())) for info in session.infos("input")])


def fix_shapes(session: Session, shapes: Sequence[tuple[int, ...]]) -> None:
    """Give the inputs these shapes; before `prepare`."""
    for position, (info, shape) in enumerate(zip(session.infos("input"), shapes, strict=True)):
        if info.shape() != shape:
            session.resize(position, shape)


def bind_outputs(session: Session) -> list[Bound]:
    """Bind outputs that are large enough; return their buffers."""
    buffers: list[Bound] = []
    for position, info in enumerate(session.infos("output")):
        # An open shape comes as -1 in it, or as no dimensions at all, just like a scalar.
        is_open = info.rank == 0 or -1 in info.shape()
        size = _OPEN_OUTPUT_BYTES if is_open else max(_size(info), _LEAST_OUTPUT_BYTES)
        buffers.append((ctypes.c_char * size).from_buffer(bytearray(_UNWRITTEN * size)))
        session.bind("output", position, info.dtype, buffers[-1])
    return buffers


def results(session: Session, buffers: Sequence[Bound]) -> list[Array]:
    """Return the outputs, after the run."""
    ends = zip(session.infos("output"), buffers, strict=True)
    return [_array(info, memoryview(buffer)[: _size(info)].tobytes()) for info, buffer in ends]


def _allocated(session: Session) -> list[Array]:
    """Return the outputs that the runtime allocated, after the run."""
    ends = map(session.allocated, range(len(session.infos("output"))))
    return [_array(info, ctypes.string_at(address, _size(info))) for info, address in ends]


def _size(info: TensorInfo) -> int:
    return math.prod(info.shape()) * info.numpy().itemsize


def _array(info: TensorInfo, data: bytes) -> Array:
    return np.frombuffer(data, info.numpy()).reshape(info.shape())


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
        session("close_session")
    return Verdict("ok", others=request.variant)


placement = loads
"""All operators or none; a refusal has at most the first unsupported one."""


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
    """Run a model or a package; with `allocate`, the runtime allocates the outputs, as in the package's Python.

    Raises RefusedError for another number of inputs than the model has.
    """
    session = Session()
    try:
        _prepare(session, request, allocate)
        inputs = _inputs(session, request)
        buffers = [] if allocate else bind_outputs(session)
        outputs = []
        for given in inputs:
            _run(session, given)
            found = _allocated(session) if allocate else results(session, buffers)
            if (place := _unwritten(found)) is not None:
                return Answer([], [], f"onert writes nothing to output {place}")
            outputs += found
    except (StatusError, KeyError) as error:  # KeyError: a type that the interface does not have
        return Answer([], [], f"{type(error).__name__}: {error}")
    finally:
        session("close_session")
    return Answer(inputs[0], outputs)


def profile(request: Request) -> Recorded:
    """Run a model with onert's tracing; its `trace.chrome.json` is whole when the process has ended."""
    folder = mkdtemp()
    os.environ |= {"TRACING_MODE": "1", "WORKSPACE_DIR": folder}  # a session reads them when it is made
    begun = perf_counter()
    session = Session()
    try:
        _prepare(session, request)
        seconds = perf_counter() - begun
        bind_outputs(session)
        for inputs in _inputs(session, request):
            _run(session, inputs)
    except FAILURES as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    finally:
        session("close_session")
        del os.environ["TRACING_MODE"], os.environ["WORKSPACE_DIR"]
    return Recorded(b"", seconds * 1e6, file=str(Path(folder, "trace.chrome.json")))


def _inputs(session: Session, request: Request) -> list[list[Array]]:
    return inputs_by_run(request, ((info.numpy(), info.shape()) for info in session.infos("input")))


def _run(session: Session, inputs: Sequence[Array]) -> None:
    for position, (info, value) in enumerate(zip(session.infos("input"), inputs, strict=True)):
        session.feed(position, info.dtype, value.tobytes())
    session("run")


class Running:
    """A model that is ready to run: with inputs of the shapes that are given, and of its own where None is."""

    def __init__(self, variant: str, model: str, given: Sequence[Array | None], make: Make) -> None:
        """Compile it. Raises one of `FAILURES`."""
        self._session = session = Session()
        session("load_model_from_file", model.encode())
        session("set_available_backends", variant.encode())
        infos = session.infos("input")
        self.inputs = [
            make(place, info.numpy(), tuple(map(abs, info.shape()))) if value is None else value
            for place, (info, value) in enumerate(zip(infos, given, strict=True))
        ]
        fix_shapes(session, [value.shape for value in self.inputs])
        session("prepare")
        self._bound = [(ctypes.c_char * max(1, value.nbytes))() for value in self.inputs]
        for place, (info, buffer, value) in enumerate(zip(infos, self._bound, self.inputs, strict=True)):
            session.bind("input", place, info.dtype, buffer, value.nbytes)
        self._buffers = bind_outputs(session)

    def feed(self, inputs: Sequence[Array]) -> None:
        """Copy the inputs to the runtime."""
        for buffer, value in zip(self._bound, inputs, strict=True):
            ctypes.memmove(buffer, np.ascontiguousarray(value).ctypes.data, value.nbytes)

    def run(self) -> None:
        """Run once."""
        self._session("run")

    def fetch(self) -> list[Array]:
        """Copy the outputs from the runtime."""
        return results(self._session, self._buffers)

    def __del__(self) -> None:
        """Free the session."""
        self._session("close_session")


def _prepare(session: Session, request: Request, allocate: bool = False) -> None:
    """Load and compile. Raises RefusedError for another number of inputs than the model has."""
    session("load_model_from_file", request.model.encode())
    session("set_available_backends", request.variant.encode())
    if allocate:
        session.let_it_allocate()
    if request.inputs is None:
        fix_open_shapes(session)
    else:
        count, given = len(session.infos("input")), request.inputs[0]
        if len(given) != count:
            raise RefusedError(f"the model has {count} inputs, not {len(given)}")
        fix_shapes(session, [array.shape for array in given])
    session("prepare")
