"""onert's C interface (`nnfw.h`).

    session = Session()
    session("load_model_from_file", b"m.circle")
    session("prepare")

onert's Python session lets the runtime allocate the outputs, and then returns buffers that the runtime keeps using;
`allocate_outputs` and `allocated` make the same calls.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from ctypes import CDLL, Array, Structure, byref, c_char, c_int, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Final

import numpy as np

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

Bound = Array[c_char]


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


def _load() -> CDLL:
    # The package is only located, not imported, since an import would load a second copy of the library.
    spec = importlib.util.find_spec("onert")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("onert is not installed")
    return CDLL(str(Path(spec.submodule_search_locations[0]) / "native" / "libonert.so"))


_LIBRARY = _load()
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

    def allocate_outputs(self) -> None:
        """Let the runtime allocate the outputs; call this before `prepare`."""
        self("set_prepare_config", c_int(_INTERNAL_OUTPUT_ALLOC), None)

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
