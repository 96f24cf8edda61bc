"""onert's C interface, as far as one inference needs it.

The Python session of the package lets the runtime allocate the outputs, and then hands out buffers that the runtime
goes on using: `let_it_allocate` and `allocated` are what it calls.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Final

_STATUS: Final = (
    "NO_ERROR",
    "ERROR",
    "UNEXPECTED_NULL",
    "INVALID_STATE",
    "OUT_OF_MEMORY",
    "INSUFFICIENT_OUTPUT_SIZE",
    "DEPRECATED_API",
)


class TensorInfo(ctypes.Structure):
    """`nnfw_tensorinfo`, with room to spare: the runtime writes `rank` dimensions, though it has room for 6."""

    _fields_ = (("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.c_int32 * 16))

    def shape(self) -> tuple[int, ...]:
        """Return the dimensions; -1 where the model leaves one open."""
        return tuple(self.dims[: self.rank])


class StatusError(Exception):
    """A call returned something else than NNFW_STATUS_NO_ERROR."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function}: {dict(enumerate(_STATUS)).get(status, status)}")


_POINTER, _INDEX = ctypes.c_void_p, ctypes.c_uint32
_ARGUMENTS: Final = {
    "nnfw_create_session": (_POINTER,),
    "nnfw_close_session": (_POINTER,),
    "nnfw_load_model_from_file": (_POINTER, ctypes.c_char_p),
    "nnfw_set_available_backends": (_POINTER, ctypes.c_char_p),
    "nnfw_prepare": (_POINTER,),
    "nnfw_run": (_POINTER,),
    "nnfw_input_size": (_POINTER, _POINTER),
    "nnfw_output_size": (_POINTER, _POINTER),
    "nnfw_input_tensorinfo": (_POINTER, _INDEX, _POINTER),
    "nnfw_output_tensorinfo": (_POINTER, _INDEX, _POINTER),
    "nnfw_set_input_tensorinfo": (_POINTER, _INDEX, _POINTER),
    "nnfw_set_input": (_POINTER, _INDEX, ctypes.c_int32, _POINTER, ctypes.c_size_t),
    "nnfw_set_output": (_POINTER, _INDEX, ctypes.c_int32, _POINTER, ctypes.c_size_t),
    "nnfw_set_prepare_config": (_POINTER, ctypes.c_int32, ctypes.c_char_p),
    # Not of the C interface, but exported, and what the package's Python calls.
    "_Z15nnfw_get_outputP12nnfw_sessionjP15nnfw_tensorinfoPPKv": (_POINTER, _INDEX, _POINTER, _POINTER),
}
_GET_OUTPUT = next(reversed(_ARGUMENTS))
_INTERNAL_OUTPUT_ALLOC = 1


def _load() -> dict[str, Callable[..., int]]:
    # The package is only located, not imported: importing it loads a second copy of what is called here.
    spec = importlib.util.find_spec("onert")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("onert is not installed")
    library = ctypes.CDLL(str(Path(spec.submodule_search_locations[0]) / "native" / "libonert.so"))
    functions: dict[str, Callable[..., int]] = {}
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name, None) if name == _GET_OUTPUT else getattr(library, name)
        if function is None:
            continue
        function.argtypes, function.restype = arguments, ctypes.c_int
        functions[name] = function
    return functions


_FUNCTIONS: Final = _load()
CAN_ALLOCATE: Final = _GET_OUTPUT in _FUNCTIONS


def _call(name: str, *arguments: object) -> None:
    status = _FUNCTIONS[name](*arguments)
    if status:
        raise StatusError(name, status)


class Session:
    """One `nnfw_session`; keeps the bound buffers alive as long as itself."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        self._bound: list[object] = []
        _call("nnfw_create_session", ctypes.byref(self._handle))

    def close(self) -> None:
        """Free the session."""
        _call("nnfw_close_session", self._handle)

    def load(self, model: Path) -> None:
        """Load the file; the runtime infers the format from its extension."""
        _call("nnfw_load_model_from_file", self._handle, str(model).encode())

    def use_backends(self, names: str) -> None:
        """Restrict the backends, separated by `;`."""
        _call("nnfw_set_available_backends", self._handle, names.encode())

    def prepare(self) -> None:
        """Compile. After a failure the session can only be closed: any other call on it crashes."""
        _call("nnfw_prepare", self._handle)

    def let_it_allocate(self) -> None:
        """Let the runtime allocate the outputs; before `prepare`."""
        _call("nnfw_set_prepare_config", self._handle, _INTERNAL_OUTPUT_ALLOC, None)

    def run(self) -> None:
        """Run once."""
        _call("nnfw_run", self._handle)

    def input_count(self) -> int:
        """Return the number of inputs."""
        return self._count("nnfw_input_size")

    def output_count(self) -> int:
        """Return the number of outputs."""
        return self._count("nnfw_output_size")

    def input_info(self, position: int) -> TensorInfo:
        """Return dtype and shape of an input."""
        return self._info("nnfw_input_tensorinfo", position)

    def output_info(self, position: int) -> TensorInfo:
        """Return dtype and shape of an output; after the run, the shape it came out with."""
        return self._info("nnfw_output_tensorinfo", position)

    def set_input_info(self, position: int, info: TensorInfo) -> None:
        """Fix the shape of an input."""
        _call("nnfw_set_input_tensorinfo", self._handle, position, ctypes.byref(info))

    def set_input(self, position: int, dtype: int, data: bytes) -> None:
        """Bind `data`."""
        self.bind_input(position, dtype, ctypes.create_string_buffer(data, max(1, len(data))), len(data))

    def bind_input(self, position: int, dtype: int, buffer: ctypes.Array[ctypes.c_char], size: int) -> None:
        """Bind the first `size` bytes of a buffer, which may be filled anew before each run."""
        self._bound.append(buffer)
        _call("nnfw_set_input", self._handle, position, dtype, buffer, size)

    def set_output(self, position: int, dtype: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
        """Bind `buffer`."""
        self._bound.append(buffer)
        _call("nnfw_set_output", self._handle, position, dtype, buffer, len(buffer))

    def allocated(self, position: int) -> tuple[TensorInfo, int]:
        """Return dtype and shape of an output that the runtime allocated, and its address."""
        info, address = TensorInfo(), ctypes.c_void_p()
        _call(_GET_OUTPUT, self._handle, position, ctypes.byref(info), ctypes.byref(address))
        return info, address.value or 0

    def _count(self, function: str) -> int:
        count = ctypes.c_uint32()
        _call(function, self._handle, ctypes.byref(count))
        return count.value

    def _info(self, function: str, position: int) -> TensorInfo:
        info = TensorInfo()
        _call(function, self._handle, position, ctypes.byref(info))
        return info
