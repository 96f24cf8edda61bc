"""Load and compile models with onert, and run them with inputs and outputs that the caller binds.

Importing this module loads the runtime's library, which comes with an optional package.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter

import numpy as np

from circletools.runtimes.child import run_with
from circletools.runtimes.comparison import same
from circletools.runtimes.inputs import filled, make_input
from circletools.runtimes.onert_c import CAN_ALLOCATE, Bound, Session, StatusError, TensorInfo
from circletools.runtimes.protocol import (
    Array,
    Make,
    Placed,
    Recorded,
    RefusedError,
    Request,
    Verdict,
    mark,
    printed,
    words_of,
)

FAILURES = (StatusError, KeyError, ValueError, RefusedError)

# Some shapes are known only after the run, and a shape in the file can be wrong.
_OPEN_OUTPUT_BYTES = 1 << 24
_LEAST_OUTPUT_BYTES = 1 << 16
# Bytes that a runtime does not write must not look like a plausible zero.
_UNWRITTEN = b"\xa5"
_FEWEST_BYTES = 4  # so many such bytes are unlikely to be values
_OPERATION = re.compile(r"Unsupported operation: (\w+)|NYI for operation '(\w+)'")


def bind_outputs(session: Session) -> list[Bound]:
    """Bind sufficiently large output buffers, and return them."""
    buffers: list[Bound] = []
    for position, info in enumerate(session.infos("output")):
        # A dynamic shape contains -1 or has no dimensions at all, like a scalar's.
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
    """Return, after the run, the outputs that the runtime allocated."""
    ends = map(session.allocated, range(len(session.infos("output"))))
    return [_array(info, ctypes.string_at(address, _size(info))) for info, address in ends]


def _size(info: TensorInfo) -> int:
    return int(np.prod(info.shape())) * info.numpy().itemsize


def _array(info: TensorInfo, data: bytes) -> Array:
    return np.frombuffer(data, info.numpy()).reshape(info.shape())


def loads(request: Request) -> Verdict:
    """Return whether onert loads the model and compiles it for a backend."""
    session = Session()
    since = mark()
    try:
        _load(session, request.variant, request.model)
        # A dynamic dimension is 1, which is what converters write for LiteRT.
        session.fix_shapes([tuple(map(abs, info.shape())) for info in session.infos("input")])
        session("prepare")
    except (StatusError, KeyError) as error:
        text = " ".join(printed(since).split()) or str(error)
        named = [Placed("", text, code=one or two) for one, two in _OPERATION.findall(text)]
        raise RefusedError(text, named) from error
    finally:
        session("close_session")
    return Verdict("ok", others=request.variant)


placement = loads
"""The same as `loads`: either all operators run or none; a refusal names at most the first unsupported one."""


def called(request: Request) -> Verdict:
    """Return whether outputs that the runtime allocates (as in onert's Python package) equal those a caller binds.

    If the model does not run with bound outputs, nothing is compared.
    """
    own = run_with(sys.modules[__name__], request)
    if own.failure or not CAN_ALLOCATE:
        return Verdict("ok")
    try:
        running = Running(
            request.variant, request.model, own.inputs, partial(make_input, request.seed), allocate=True
        )
        running.feed(own.inputs)
        running.run()
        words = same(own.outputs, running.fetch())
    except FAILURES as error:
        words = words_of(error)
    return Verdict("differs", f"with outputs allocated by onert, as in `infer`: {words}") if words else Verdict("ok")


def profile(request: Request) -> Recorded:
    """Run a model with onert's tracing; the file `trace.chrome.json` is complete once the process has ended."""
    folder = mkdtemp()
    settings = {"TRACING_MODE": "1", "WORKSPACE_DIR": folder, "NUM_THREADS": "1"}
    os.environ |= settings  # a session reads the environment variables when it is created
    begun, given = perf_counter(), request.inputs[0] if request.inputs else None
    try:
        running = Running(request.variant, request.model, given, partial(make_input, request.seed))
        seconds = perf_counter() - begun
        for inputs in request.inputs or [running.inputs] * request.repeat:
            running.feed(inputs)
            running.run()
    except FAILURES as error:
        raise RefusedError(words_of(error)) from error
    finally:
        for name in settings:
            del os.environ[name]
    return Recorded(b"", seconds * 1e6, file=str(Path(folder, "trace.chrome.json")))


class Running:
    """A model that is ready to run; with `allocate`, the runtime allocates the outputs."""

    def __init__(
        self, variant: str, model: str, given: Sequence[Array | None] | None, make: Make, *, allocate: bool = False
    ) -> None:
        """Compile the model. Raises one of `FAILURES`."""
        self._session = session = Session()
        _load(session, variant, model)
        if allocate:
            session.allocate_outputs()
        infos = session.infos("input")
        self.inputs = filled(given, make, ((info.numpy(), map(abs, info.shape())) for info in infos))
        session.fix_shapes([value.shape for value in self.inputs])
        session("prepare")
        self._bound = [(ctypes.c_char * max(1, value.nbytes))() for value in self.inputs]
        for place, (info, buffer, value) in enumerate(zip(infos, self._bound, self.inputs, strict=True)):
            session.bind("input", place, info.dtype, buffer, value.nbytes)
        self._buffers = None if allocate else bind_outputs(session)

    def feed(self, inputs: Sequence[Array]) -> None:
        for buffer, value in zip(self._bound, inputs, strict=True):
            if value.nbytes > len(buffer):
                raise RefusedError(f"an input has {value.nbytes} bytes, but had {len(buffer)} in the first run")
            ctypes.memmove(buffer, np.ascontiguousarray(value).ctypes.data, value.nbytes)

    def run(self) -> None:
        self._session("run")

    def fetch(self) -> list[Array]:
        if self._buffers is None:
            return _allocated(self._session)
        found = results(self._session, self._buffers)
        for place, (array, buffer) in enumerate(zip(found, self._buffers, strict=True)):
            few = (
                array.nbytes >= _FEWEST_BYTES
                and bytes(memoryview(buffer)[:_FEWEST_BYTES]) == _UNWRITTEN * _FEWEST_BYTES
            )
            if few and array.tobytes() == _UNWRITTEN * array.nbytes:
                raise RefusedError(f"onert writes nothing to output {place}")
        return found

    def __del__(self) -> None:
        """Free the session."""
        self._session("close_session")


def _load(session: Session, variant: str, model: str) -> None:
    session("load_model_from_file", model.encode())
    session("set_available_backends", variant.encode())
