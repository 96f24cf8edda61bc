"""One inference in onert, with inputs and outputs bound by the caller."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.runtimes.onert_c import Session, TensorInfo

Array = NDArray[Any]
Bound = ctypes.Array[ctypes.c_char]
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


def bind(session: Session, value: Callable[[int, np.dtype[Any], tuple[int, ...]], Array]) -> list[Bound]:
    """Bind inputs, asking for the value of each, and outputs that are large enough; return the buffers of these."""
    for position in range(session.input_count()):
        info = session.input_info(position)
        session.set_input(position, info.dtype, value(position, dtype_of(info), info.shape()).tobytes())
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
