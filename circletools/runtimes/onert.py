"""Load and compile models with onert's C interface (`nnfw.h`), and run them with bound inputs and outputs.

onert's Python session lets the runtime allocate the outputs, and then returns buffers that the runtime keeps using;
`Running` with `allocate` makes the same calls. Importing this module loads the runtime's library, which
comes with an optional package.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from ctypes import CDLL, Structure, byref, c_char, c_int, c_int32, c_size_t, c_uint32, c_void_p
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any, Final

import numpy as np

from circletools.runtimes.child import run_with
from circletools.runtimes.inputs import filled, make_input
from circletools.runtimes.protocol import (
    Array,
    Make,
    NoDeviceError,
    Placed,
    Recorded,
    RefusedError,
    Request,
    Verdict,
    mark,
    printed,
    same,
    words_of,
)

_STATUS: Final = (
    "NO_ERROR",
    "ERROR",
    "UNEXPECTED_NULL",
    "INVALID_STATE",
    "OUT_OF_MEMORY",
    "INSUFFICIENT_OUTPUT_SIZE",
    "DEPRECATED_API",
)
_DTYPES = ("float32", "int32", "uint8", "bool", "uint8", "int64", "int8", "int16")
"""The dtype of each `NNFW_TYPE`; the first uint8 is the quantized one."""

Bound = ctypes.Array[c_char]


class TensorInfo(Structure):
    """`nnfw_tensorinfo` with extra room: the runtime writes `rank` dimensions, although the struct holds only 6."""

    _fields_ = (("dtype", c_int32), ("rank", c_int32), ("dims", c_int32 * 32))

    def shape(self) -> tuple[int, ...]:
        """Return the dimensions, with -1 for dynamic ones."""
        return tuple(self.dims[: self.rank])

    def numpy(self) -> np.dtype[Any]:
        """Return the dtype. Raises KeyError for a type outside `_DTYPES`."""
        return np.dtype(dict(enumerate(_DTYPES))[self.dtype])


class StatusError(Exception):
    """A call did not return NNFW_STATUS_NO_ERROR."""

    def __init__(self, function: str, status: int) -> None:
        self.name = dict(enumerate(_STATUS)).get(status, str(status))
        super().__init__(f"nnfw_{function}: {self.name}")


# These are not part of the C interface, but the library exports them and the Python package calls them.
_GET_OUTPUT = "_Z15nnfw_get_outputP12nnfw_sessionjP15nnfw_tensorinfoPPKv"
_INTERNAL_OUTPUT_ALLOC = 1


def _open_library() -> CDLL:
    # The package is only located, not imported, since an import would load a second copy of the library.
    spec = importlib.util.find_spec("onert")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("onert is not installed")
    return CDLL(str(Path(spec.submodule_search_locations[0]) / "native" / "libonert.so"))


_LIBRARY = _open_library()
CAN_ALLOCATE: Final = hasattr(_LIBRARY, _GET_OUTPUT)


class Session:
    """One `nnfw_session`; bound buffers stay alive as long as the session.

    After `prepare` has failed, a session can only be closed; any other call crashes.
    """

    def __init__(self) -> None:
        self._handle = c_void_p()
        self._bound: list[object] = []
        self._check("create_session", byref(self._handle))

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function of the session; its name is given without `nnfw_`. Raises StatusError."""
        self._check(name, self._handle, *arguments)

    @staticmethod
    def _check(name: str, *arguments: object) -> None:
        status = getattr(_LIBRARY, name if name == _GET_OUTPUT else f"nnfw_{name}")(*arguments)
        if status:
            raise StatusError(name, status)

    def infos(self, side: str) -> list[TensorInfo]:
        """Return the dtype and shape of each `input` or `output`; after a run, outputs have their actual shapes."""
        count = c_uint32()
        self(f"{side}_size", byref(count))
        found = [TensorInfo() for _ in range(count.value)]
        for position, info in enumerate(found):
            self(f"{side}_tensorinfo", c_uint32(position), byref(info))
        return found

    def fix_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Set the shapes of the inputs; call this before `prepare`."""
        for position, (info, shape) in enumerate(zip(self.infos("input"), shapes, strict=True)):
            if info.shape() != shape:
                info.rank = len(shape)
                info.dims[: len(shape)] = shape
                self("set_input_tensorinfo", c_uint32(position), byref(info))

    def bind(self, side: str, position: int, dtype: int, memory: Bound, size: int | None = None) -> None:
        """Bind memory, or its first `size` bytes, to an `input` or `output`; inputs must be filled for every run."""
        self._bound.append(memory)
        length = c_size_t(len(memory) if size is None else size)
        self(f"set_{side}", c_uint32(position), c_int(dtype), memory, length)

    def allocated(self, position: int) -> tuple[TensorInfo, int]:
        """Return the dtype, shape and address of an output that the runtime allocated."""
        info, address = TensorInfo(), c_void_p()
        self(_GET_OUTPUT, c_uint32(position), byref(info), byref(address))
        return info, address.value or 0


FAILURES = (StatusError, KeyError, ValueError, RefusedError)

# Some shapes are known only after the run, and a shape in the file can be wrong.
_OPEN_OUTPUT_BYTES = 1 << 24
_LEAST_OUTPUT_BYTES = 1 << 16
# Bytes that a runtime does not write must not look like a plausible zero.
_UNWRITTEN = b"\xa5"
_FEWEST_BYTES = 4  # four such bytes are unlikely to be a value
_OPERATION = re.compile(r"Unsupported operation: (\w+)|NYI for operation '(\w+)'")


def _bind_outputs(session: Session) -> list[Bound]:
    buffers: list[Bound] = []
    for position, info in enumerate(session.infos("output")):
        # A dynamic shape contains -1 or has no dimensions at all, like a scalar's.
        is_open = info.rank == 0 or -1 in info.shape()
        size = _OPEN_OUTPUT_BYTES if is_open else max(_size(info), _LEAST_OUTPUT_BYTES)
        buffers.append((ctypes.c_char * size).from_buffer(bytearray(_UNWRITTEN * size)))
        session.bind("output", position, info.dtype, buffers[-1])
    return buffers


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
        _prepare(session, request.variant)
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
    """Return whether a model runs, and whether outputs that onert allocates (as in Python) equal bound ones."""
    since = mark()
    own = run_with(sys.modules[__name__], request)
    if own.failure:
        return Verdict("refused", " ".join(printed(since).split()) or own.failure)
    if not CAN_ALLOCATE:
        return Verdict("ok")
    try:
        running = Running(
            request.variant, request.model, own.inputs, partial(make_input, request.seed), allocate=True
        )
        words = same(own.outputs, running.run(own.inputs))
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
            running.start(inputs)
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
            session("set_prepare_config", c_int(_INTERNAL_OUTPUT_ALLOC), None)
        infos = session.infos("input")
        self.inputs = filled(given, make, ((info.numpy(), map(abs, info.shape())) for info in infos))
        session.fix_shapes([value.shape for value in self.inputs])
        _prepare(session, variant)
        self._bound = [(ctypes.c_char * max(1, value.nbytes))() for value in self.inputs]
        for place, (info, buffer, value) in enumerate(zip(infos, self._bound, self.inputs, strict=True)):
            session.bind("input", place, info.dtype, buffer, value.nbytes)
        self._buffers = None if allocate else _bind_outputs(session)

    def start(self, inputs: Sequence[Array]) -> None:
        """Run once, without copying the outputs."""
        for buffer, value in zip(self._bound, inputs, strict=True):
            if value.nbytes > len(buffer):
                raise RefusedError(f"an input has {value.nbytes} bytes, but had {len(buffer)} in the first run")
            ctypes.memmove(buffer, np.ascontiguousarray(value).ctypes.data, value.nbytes)
        self._session("run")

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        self.start(inputs)
        infos = self._session.infos("output")
        if self._buffers is None:
            ends = map(self._session.allocated, range(len(infos)))
            return [_array(info, ctypes.string_at(address, _size(info))) for info, address in ends]
        pairs = zip(infos, self._buffers, strict=True)
        found = [_array(info, memoryview(buffer)[: _size(info)].tobytes()) for info, buffer in pairs]
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


def _prepare(session: Session, variant: str) -> None:
    since = mark()
    try:
        session("prepare")
    except StatusError:
        if "No loaded backends available" in printed(since):
            raise NoDeviceError(f"its package has no backend {variant!r}") from None
        raise
