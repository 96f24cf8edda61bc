"""onert on its cpu backend, or on those in the environment."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.oracles.inputs import make_input
from tests.oracles.onert_c import Session, StatusError
from tests.oracles.outcome import Outcome, Stage, Value

_DTYPES = {
    0: "float32",
    1: "int32",
    2: "uint8",  # quantized
    3: "bool",
    4: "uint8",
    5: "int64",
    6: "int8",
    7: "int16",
}
# A shape can be known only after the run, and a declared one can be wrong.
_OPEN_OUTPUT_BYTES = 1 << 24
_LEAST_OUTPUT_BYTES = 1 << 16
# Bytes that a runtime leaves untouched must not look like a plausible zero.
_UNWRITTEN = b"\xa5"


def run(model: Path, seed: int, enter: Callable[[str], None]) -> Outcome:
    """Run the first subgraph; this version of onert knows nothing of signatures."""
    stage: Stage = "load"
    session = Session()
    try:
        enter(stage)
        session.load(model)
        if "BACKENDS" not in os.environ:
            session.use_backends("cpu")
        stage = "prepare"
        enter(stage)
        fix_open_shapes(session)
        session.prepare()
        stage = "run"
        enter(stage)
        outcome = Outcome("onert", "ok", "", run_prepared(session, seed))
    except StatusError as error:
        if error.too_small:
            raise  # a limit of this module must not pass for the behaviour of the model
        outcome = Outcome("onert", stage, f"{error}: {_printed()}".replace(str(model), "<model>"))
    enter("close")
    session.close()
    return outcome


def fix_open_shapes(session: Session) -> None:
    """Give every open dimension the size 1, which is what converters write for LiteRT to start from."""
    for position in range(session.input_count()):
        info = session.input_info(position)
        if -1 in info.shape():
            for axis, size in enumerate(info.shape()):
                info.dims[axis] = 1 if size == -1 else size
            session.set_input_info(position, info)


def run_prepared(session: Session, seed: int) -> tuple[Value, ...]:
    """Run a session that is prepared, once; return its outputs."""
    buffers = bind(session, seed)
    session.run()
    return tuple(_value(session, position, buffer) for position, buffer in enumerate(buffers))


def bind(session: Session, seed: int) -> list[ctypes.Array[ctypes.c_char]]:
    """Bind inputs, and outputs that are large enough; return the buffers of these."""
    for position in range(session.input_count()):
        info = session.input_info(position)
        value = make_input(seed, position, np.dtype(_DTYPES[info.dtype]), info.shape())
        session.set_input(position, info.dtype, value.tobytes())
    buffers: list[ctypes.Array[ctypes.c_char]] = []
    for position in range(session.output_count()):
        info = session.output_info(position)
        # An open shape comes as -1 in it, or as no dimensions at all, just like a scalar.
        is_open = info.rank == 0 or -1 in info.shape()
        known = math.prod(info.shape()) * np.dtype(_DTYPES[info.dtype]).itemsize
        size = _OPEN_OUTPUT_BYTES if is_open else max(known, _LEAST_OUTPUT_BYTES)
        buffers.append((ctypes.c_char * size).from_buffer(bytearray(_UNWRITTEN * size)))
        session.set_output(position, info.dtype, buffers[-1])
    return buffers


def _value(session: Session, position: int, buffer: ctypes.Array[ctypes.c_char]) -> Value:
    info = session.output_info(position)
    dtype = _DTYPES[info.dtype]
    size = math.prod(info.shape()) * np.dtype(dtype).itemsize
    # The C interface has no names of outputs, only positions.
    return str(position), dtype, info.shape(), memoryview(buffer)[:size].tobytes()


def _printed() -> str:
    """Return what the runtime printed: its statuses say nothing, the reason goes to stderr only."""
    return os.pread(2, 1 << 16, 0).decode(errors="replace").strip()
