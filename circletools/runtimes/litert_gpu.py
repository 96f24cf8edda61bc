"""LiteRT's GPU delegate, which runs a model on the GPU alone, with the system's Vulkan or OpenCL.

LiteRT's C interface accepts additional accelerators: one that takes no operators (the spy) is applied after the
GPU's, and sees which operators the GPU took (see `plan`). Values come from the Python interface. Importing this
module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import compiled_model
from ai_edge_litert.compiled_model import CompiledModel, HardwareAccelerator

from circletools.runtimes.inputs import filled
from circletools.runtimes.plan import Plan, Spy, nodes, placed
from circletools.runtimes.protocol import (
    Array,
    Make,
    NoDeviceError,
    Placed,
    RefusedError,
    Request,
    Verdict,
    mark,
    printed,
)

FAILURES = (RuntimeError, ValueError, RefusedError)
_CPU, _GPU = 1, 2
_DEVICES = {"": "", "TfLiteXNNPackDelegate": ""} | dict.fromkeys(
    ("LITERT_WEBGPU", "LITERT_CL", "LITERT_METAL"), "gpu"
)
_REASONS = re.compile(r"Following operations are not supported by GPU delegate:\n((?:.+\n)*?)\S+ operations will run")
_NO_GPU = re.compile(r"Couldn't load Vulkan.*|No adapters found|Failed to initialize WebGPU environment.*")
_DYNAMIC = re.compile(r"WARNING: Attempting to use a delegate that only supports static-sized tensors.*")
_NOISE = re.compile(r"^(?:INFO:|WARNING: \[|WARNING: Logging|Warning: max|[IW]\d{4} ).*\n?", re.MULTILINE)


def loads(request: Request) -> Verdict:
    """Return whether all operators run on the GPU; if not, the verdict lists the device of each operator."""
    try:
        _compile(request.model, _GPU)
    except RefusedError as error:
        try:
            verdict = placement(request)
        except RefusedError:
            raise error from None
        raise RefusedError(verdict.words or str(error), verdict.operators) from error
    return Verdict("ok")


def placement(request: Request) -> Verdict:
    """Return the operators that the GPU takes if the CPU may run the others, and the GPU's reasons for refusals."""
    since = mark()
    found = placed(_compile(request.model, _CPU | _GPU), _DEVICES)
    text = printed(since)
    reasons = list(dict.fromkeys(line for block in _REASONS.findall(text) for line in block.splitlines()))
    named = (Placed("", words, code=code) for code, _, words in (line.partition(": ") for line in reasons))
    refused = any(not one.device for one in found)
    return Verdict("refused" if refused else "ok", "; ".join(reasons), (*found, *named))


class Running:
    """The first signature of a model, running on the GPU."""

    def __init__(self, _variant: str, model: str, given: Sequence[Array | None] | None, make: Make) -> None:
        """Compile the model. Raises one of `FAILURES`."""
        self._model = compiled = CompiledModel.from_file(model, hardware_accel=HardwareAccelerator.GPU)
        key = next(iter(compiled.get_signature_list()))
        names = compiled.get_signature_by_index(0)
        taken, made = compiled.get_input_tensor_details(key), compiled.get_output_tensor_details(key)
        self.inputs = filled(given, make, ((taken[name]["dtype"], taken[name]["shape"]) for name in names["inputs"]))
        self._results = [(tuple(made[name]["shape"]), np.dtype(made[name]["dtype"])) for name in names["outputs"]]
        self._buffers = compiled.create_input_buffers(0), compiled.create_output_buffers(0)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        for buffer, value in zip(self._buffers[0], inputs, strict=True):
            buffer.write(value)
        self._model.run_by_index(0, *self._buffers)
        ends = zip(self._buffers[1], self._results, strict=True)
        return [np.array(buffer.read(int(np.prod(shape)), dtype)).reshape(shape) for buffer, (shape, dtype) in ends]


def _compile(path: str, accelerators: int) -> list[Plan]:
    """Compile a model; return the plan of each subgraph.

    Raises RefusedError if accelerators other than the CPU do not run all operators, and NoDeviceError without a GPU.
    """
    library, environment, spy = _environment()
    model, options, compiled = (c_void_p() for _ in range(3))
    spy.plans.clear()
    try:
        _call(library, "LiteRtCreateModelFromFile", environment, path.encode(), byref(model))
        _call(library, "LiteRtCreateOptions", byref(options))
        _call(library, "LiteRtSetOptionsHardwareAccelerators", options, accelerators)
        _call(library, "LiteRtCreateCompiledModel", environment, model, options, byref(compiled))
        return list(spy.plans)
    finally:
        for kind, made in (("CompiledModel", compiled), ("Options", options), ("Model", model)):
            if made:
                getattr(library, f"LiteRtDestroy{kind}")(made)


@cache
def _environment() -> tuple[Any, c_void_p, Spy]:
    """Return the library, an environment with the GPU, and the spy that is applied after the GPU."""
    folder = Path(compiled_model.__file__).parent
    files = sorted(folder.glob("libLiteRt*GpuAccelerator.so"))
    if not files:
        raise NoDeviceError("this package of LiteRT has no GPU accelerator")
    for accelerator in files:
        ctypes.CDLL(str(accelerator))  # the library looks for it by its file name alone
    library, environment, spy = ctypes.CDLL(str(folder / "libLiteRt.so")), c_void_p(), Spy()
    _call(library, "LiteRtCreateEnvironment", 0, None, byref(environment))
    _register(library, environment, spy)
    return library, environment, spy


def _call(library: Any, name: str, *arguments: object) -> None:
    since = mark()
    status = getattr(library, name)(*arguments)
    if status:
        words = _NOISE.sub("", printed(since)).strip()
        if missing := _NO_GPU.search(words):
            raise NoDeviceError(missing[0])
        words = _DYNAMIC.sub("it takes no tensors of dynamic size; convert the model with fixed input shapes", words)
        raise RefusedError(words or f"{name} returned status {status}", nodes(words))


def _register(library: Any, environment: c_void_p, spy: Spy) -> None:
    """Add an accelerator whose delegate is the spy (`litert/c/internal/litert_accelerator_registration.h`)."""

    def writing(make: Callable[[], Any]) -> Callable[..., int]:
        def write(*arguments: Any) -> int:
            arguments[-1][0] = make()
            return 0

        return write

    def delegate() -> int | None:
        wrapper = c_void_p()
        _call(library, "LiteRtWrapDelegate", c_void_p(spy.address), free, byref(wrapper))
        return wrapper.value

    free = CFUNCTYPE(None, c_void_p)(lambda _delegate: None)
    parts = {
        "LiteRtSetAcceleratorGetName": CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p))(writing(lambda: b"circletools")),
        "LiteRtSetAcceleratorGetVersion": CFUNCTYPE(c_int, c_void_p, POINTER(c_int * 3))(
            writing(lambda: (c_int * 3)(1, 0, 0))
        ),
        "LiteRtSetAcceleratorGetHardwareSupport": CFUNCTYPE(c_int, c_void_p, POINTER(c_int))(
            writing(lambda: _CPU | _GPU)
        ),
        "LiteRtSetDelegateFunction": CFUNCTYPE(c_int, *[c_void_p] * 4, POINTER(c_void_p))(writing(delegate)),
    }
    _KEPT.extend((free, *parts.values(), spy))
    accelerator = c_void_p()
    _call(library, "LiteRtCreateAccelerator", byref(accelerator))
    for part, function in parts.items():
        _call(library, part, accelerator, function)
    _call(library, "LiteRtRegisterAccelerator", environment, accelerator, None, None)


_KEPT: list[object] = []
"""Objects to which the library still refers."""
