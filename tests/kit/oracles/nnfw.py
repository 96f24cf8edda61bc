"""The tests' own use of onert's C interface (`nnfw.h`), apart from the one of the product.

    session = Session()
    session("load_model_from_file", b"m.circle")
    session("prepare")

The package is only located, not imported: importing it loads a second copy of the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import (
    CDLL,
    Array,
    Structure,
    byref,
    c_char,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_void_p,
    create_string_buffer,
)
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.kit.presence import need

OK, TOO_SMALL = 0, 5
STATUSES = ("NO_ERROR", "ERROR", "UNEXPECTED_NULL", "INVALID_STATE", "OUT_OF_MEMORY", "INSUFFICIENT_OUTPUT_SIZE")
TYPES = dict(enumerate(("float32", "int32", "uint8", "bool", "uint8", "int64", "int8", "int16")))
"""The dtype of each NNFW_TYPE; the first uint8 is quantized."""

UNWRITTEN = b"\xa5"
"""Fills the outputs before a run: what is not written must not look like a plausible zero."""
_LEAST_BYTES, _OPEN_BYTES = 1 << 16, 1 << 24  # of an output: a declared shape may be wrong, or open

Value = Callable[[int, np.dtype[Any], tuple[int, ...]], NDArray[Any]]
Bound = Array[c_char]


class TensorInfo(Structure):
    """`nnfw_tensorinfo`; the runtime writes as many dimensions as there are, more than the 6 it has room for."""

    _fields_ = (("dtype", c_int32), ("rank", c_int32), ("dims", c_int32 * 32))

    def shape(self) -> tuple[int, ...]:
        """Return the dimensions, -1 for one that is open."""
        return tuple(self.dims[: self.rank])

    def numpy(self) -> np.dtype[Any]:
        """Return the dtype; KeyError for one that the interface does not have."""
        return np.dtype(TYPES[self.dtype])


class StatusError(Exception):
    """A call did not return NNFW_STATUS_NO_ERROR."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"nnfw_{name}: {STATUSES[status] if 0 <= status < len(STATUSES) else status}")
        self.too_small = status == TOO_SMALL


@cache
def _library() -> CDLL:
    need("onert")
    spec = find_spec("onert")
    assert spec is not None
    assert spec.origin is not None
    return CDLL(str(Path(spec.origin).parent / "native" / "libonert.so"))


class Session:
    """An `nnfw_session`. What is bound to it lives as long."""

    def __init__(self) -> None:
        self._pointer = c_void_p()
        self._bound: list[object] = []
        self._check("create_session", byref(self._pointer))

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function of the session, by its name without `nnfw_`."""
        self._check(name, self._pointer, *arguments)

    @staticmethod
    def _check(name: str, *arguments: object) -> None:
        status = getattr(_library(), f"nnfw_{name}")(*arguments)
        if status != OK:
            raise StatusError(name, status)

    def infos(self, side: str) -> list[TensorInfo]:
        """Return what there is to say of each `input` or `output`; of outputs, after a run, how they came out."""
        count = c_uint32()
        self(f"{side}_size", byref(count))
        found = [TensorInfo() for _ in range(count.value)]
        for position, info in enumerate(found):
            self(f"{side}_tensorinfo", c_uint32(position), byref(info))
        return found

    def resize(self, position: int, shape: Sequence[int]) -> None:
        """Give an input a shape."""
        info = self.infos("input")[position]
        info.rank = len(shape)
        info.dims[: len(shape)] = shape
        self("set_input_tensorinfo", c_uint32(position), byref(info))

    def bind(self, side: str, position: int, dtype: int, memory: Bound, size: int | None = None) -> None:
        """Bind memory to an input or output."""
        self._bound.append(memory)
        length = c_size_t(len(memory) if size is None else size)
        self(f"set_{side}", c_uint32(position), c_int(dtype), memory, length)

    def feed(self, position: int, dtype: int, data: bytes) -> None:
        """Bind a copy of `data` to an input."""
        self.bind("input", position, dtype, create_string_buffer(data, max(1, len(data))), len(data))


def fix_open_shapes(session: Session) -> None:
    """Make every dynamic dimension 1, which is what converters write for LiteRT to start from."""
    for position, info in enumerate(session.infos("input")):
        if -1 in info.shape():
            session.resize(position, [abs(size) for size in info.shape()])


def bind(session: Session, value: Value) -> list[Bound]:
    """Bind inputs, asking for the value of each, and outputs that are large enough; return the memory of these."""
    for position, info in enumerate(session.infos("input")):
        session.feed(position, info.dtype, value(position, info.numpy(), info.shape()).tobytes())
    buffers: list[Bound] = []
    for position, info in enumerate(session.infos("output")):
        # A dynamic shape comes as -1, or as no dimensions at all, just like that of a scalar.
        is_open = info.rank == 0 or -1 in info.shape()
        size = _OPEN_BYTES if is_open else max(math.prod(info.shape()) * info.numpy().itemsize, _LEAST_BYTES)
        buffers.append((c_char * size).from_buffer(bytearray(UNWRITTEN * size)))
        session.bind("output", position, info.dtype, buffers[-1])
    return buffers


def results(session: Session, buffers: Sequence[Bound]) -> list[NDArray[Any]]:
    """Return the outputs after a run."""
    arrays = []
    for info, buffer in zip(session.infos("output"), buffers, strict=True):
        size = math.prod(info.shape()) * info.numpy().itemsize
        arrays.append(np.frombuffer(bytes(memoryview(buffer)[:size]), info.numpy()).reshape(info.shape()))
    return arrays
