"""LiteRT's interpreter, with its default delegate XNNPACK or with its own kernels alone.

XNNPACK fuses operators, so its results change where a model is split; the variants `builtin` and `reference` compute
operators one by one. The profiler has only a C interface (litert/c/litert_profiler.h, litert_compiled_model.h).
Importing this module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from ctypes import (
    CDLL,
    CFUNCTYPE,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    create_string_buffer,
    memmove,
)
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import ai_edge_litert
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from circletools.runtimes.inputs import filled, make_input
from circletools.runtimes.plan import nodes, placed, plans
from circletools.runtimes.protocol import Array, Make, Recorded, RefusedError, Request, Verdict

_KERNELS = {
    "xnnpack": (0, "AUTO"),
    "reference": (1, "BUILTIN_REF"),
    "builtin": (2, "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
}
"""The kernel mode of the C interface, and the resolver of the Python interface, for each variant."""

_REFUSALS = (RuntimeError, ValueError)
FAILURES = (*_REFUSALS, MemoryError, RefusedError)
_FAILED = re.compile(r"failed to delegate \S+ node #(\d+)")
_DEVICES = {"": "cpu", "TfLiteXNNPackDelegate": "xnnpack"}


def loads(request: Request) -> Verdict:
    """Return whether LiteRT loads the model and allocates its tensors."""
    interpreter = _interpreter(request)
    try:
        interpreter.allocate_tensors()
    except _REFUSALS as error:
        raise _refused(error) from error
    return Verdict("ok")


def placement(request: Request) -> Verdict:
    """Return the operators of the execution plan that XNNPACK takes; the others run on LiteRT's own kernels.

    The delegate chooses operators even if tensors cannot be allocated.
    """
    interpreter = _interpreter(request)
    verdict = Verdict("ok")
    try:
        interpreter.allocate_tensors()
    except _REFUSALS as error:
        verdict = Verdict("refused", str(error))
    try:
        found = list(placed(plans(interpreter), _DEVICES))
    except _REFUSALS as error:
        raise _refused(verdict.words or error) from error
    if named := _FAILED.search(verdict.words):  # the delegate chose this operator, and then failed to prepare it
        failed = (at for at, one in enumerate(found) if (one.device, one.operator) == ("xnnpack", int(named[1])))
        for at in islice(failed, 1):
            found[at] = replace(found[at], device="", words=verdict.words)
    return replace(verdict, operators=tuple(found))


def profile(request: Request) -> Recorded:
    """Run a model with LiteRT's profiler; return the events as JSON."""
    begun = perf_counter()
    profiled = Profiled(request.model, request.variant)
    seconds = perf_counter() - begun
    events = profiled.events(request.inputs, partial(make_input, request.seed), request.repeat)
    return Recorded(json.dumps({"events": events}).encode(), seconds * 1e6)


class Running:
    """A model that is ready to run, with the given inputs or, if None, with inputs of the model's shapes."""

    def __init__(self, variant: str, model: str, given: Sequence[Array | None] | None, make: Make) -> None:
        """Load the model; without `given`, all inputs are generated. Raises one of `FAILURES`."""
        self._interpreter = interpreter = _interpreter(Request("run", model, variant))
        self._places, self._outputs = _ends(interpreter._interpreter)
        forms = _forms(interpreter._interpreter, self._places)
        self.inputs = filled(given, make, map(forms.__getitem__, self._places))
        for place, value in zip(self._places, self.inputs, strict=True):
            if forms[place][1] != value.shape:
                interpreter.resize_tensor_input(place, value.shape)
        interpreter.allocate_tensors()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        for place, value in zip(self._places, inputs, strict=True):
            # The Python binding misreads a string array without dimensions.
            is_text = value.dtype == object and not value.ndim
            self._interpreter.set_tensor(place, value.astype("S") if is_text else value)
        self._interpreter.invoke()
        values = {place: self._interpreter.get_tensor(place) for place in set(self._outputs)}
        return [values[place] for place in self._outputs]


# The public methods use kilobytes for each input or output. A model runs only if no array refers to its memory.
def _ends(binding: Any) -> tuple[list[int], list[int]]:
    """Return the indices of the input tensors and of the output tensors."""
    return binding.InputIndices().tolist(), binding.OutputIndices().tolist()


def _forms(binding: Any, places: Iterable[int]) -> dict[int, tuple[Any, tuple[int, ...]]]:
    """Return the type and shape of tensors by index."""
    shapes = {place: tuple(binding.TensorSize(place, 0).tolist()) for place in set(places)}
    return {place: (binding.TensorType(place, 0), shape) for place, shape in shapes.items()}


def _interpreter(request: Request) -> Any:
    resolver = getattr(OpResolverType, _KERNELS[request.variant][1])
    try:
        return Interpreter(model_path=request.model, num_threads=1, experimental_op_resolver_type=resolver)
    except _REFUSALS as error:
        raise _refused(error) from error


def _refused(error: Exception | str) -> RefusedError:
    text = str(error).strip()
    return RefusedError(text, nodes(text))


_CPU = c_int(1)
_WRITE = c_int(1)
_DTYPES = {1: "float32", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 8: "complex64", 9: "int8"}
_DTYPES |= {10: "float16", 11: "float64", 12: "complex128", 13: "uint64", 16: "uint32", 17: "uint16"}
"""NumPy's names for the members of TfLiteType, whose numbers LiteRtElementType uses too."""

_MOST_DIMENSIONS = 8
_NO_DELETER = CFUNCTYPE(None, c_void_p)(lambda _: None)


class _TensorType(Structure):
    """`LiteRtRankedTensorType`: element type, rank, a flag for strides, dimensions, and strides."""

    _fields_ = (
        ("element_type", c_int),
        ("rank", c_uint32),
        ("dimensions", c_int32 * _MOST_DIMENSIONS),
        ("strides", c_uint32 * 128),
    )


class _Event(Structure):
    """`ProfiledEventData` of litert/c/litert_profiler_event.h."""

    _fields_ = (
        ("tag", c_char_p),
        ("event_type", c_uint64),
        ("start_timestamp_us", c_uint64),
        ("elapsed_time_us", c_uint64),
        ("begin_mem_usage", c_uint64 * 3),
        ("end_mem_usage", c_uint64 * 3),
        ("event_metadata1", c_uint64),
        ("event_metadata2", c_uint64),
        ("event_source", c_uint64),
    )


class LiteRt:
    """The library. Calls that fail raise RefusedError."""

    def __init__(self) -> None:
        self._library = CDLL(str(next(Path(ai_edge_litert.__path__[0]).glob("*LiteRt.*"))))
        self._kept: list[object] = []

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function; its name is given without `LiteRt`."""
        status = getattr(self._library, f"LiteRt{name}")(*arguments)
        if status:
            raise RefusedError(f"LiteRt{name} fails with status {status}")

    def make(self, name: str, *arguments: object) -> c_void_p:
        """Call a function that returns a handle through its last argument."""
        handle = c_void_p()
        self(name, *arguments, byref(handle))
        return handle

    def add_options(self, options: c_void_p, identifier: bytes, text: bytes) -> None:
        """Add options of one kind, encoded as TOML text, as the library itself does."""
        self._kept.append(create_string_buffer(text))
        self("AddOpaqueOptions", options, self.make("CreateOpaqueOptions", identifier, self._kept[-1], _NO_DELETER))


class Profiled:
    """The first signature of a model, compiled by LiteRT with the profiler on."""

    def __init__(self, model: str, variant: str) -> None:
        """Compile the model. Raises RefusedError."""
        self.lite = lite = LiteRt()
        environment = lite.make("CreateEnvironment", c_int(0), None)
        loaded = lite.make("CreateModelFromFile", environment, model.encode())
        options = lite.make("CreateOptions")
        lite("SetOptionsHardwareAccelerators", options, _CPU)
        lite.add_options(options, b"runtime_options_string", b"enable_profiling = true\n")
        lite.add_options(options, b"xnnpack", b"kernel_mode = %d\nnum_threads = 1\n" % _KERNELS[variant][0])
        self.compiled = lite.make("CreateCompiledModel", environment, loaded, options)
        self.profiler = lite.make("CompiledModelGetProfiler", self.compiled)
        self._ends = [_buffers(lite, environment, loaded, self.compiled, kind) for kind in ("Input", "Output")]

    def events(self, given: Sequence[Sequence[Array]] | None, make: Make, runs: int) -> list[dict[str, Any]]:
        """Run the model, and return the recorded events. Raises RefusedError.

        Run `n` uses the inputs `given[n]`, cyclically; without `given`, inputs are generated.
        """
        lite, inputs = self.lite, self._ends[0]
        sets = given or [[make(place, dtype, shape) for place, (_, dtype, shape) in enumerate(inputs)]]
        arguments: list[object] = []
        for some in self._ends:
            arguments += c_size_t(len(some)), (c_void_p * len(some))(*(buffer.value for buffer, _, _ in some))
        lite("StartProfiler", self.profiler)
        for run in range(runs):
            if run == 0 or len(sets) > 1:
                _fill(lite, inputs, sets[run % len(sets)])
            lite("RunCompiledModel", self.compiled, c_size_t(0), *arguments)
        lite("StopProfiler", self.profiler)
        count = c_int()
        lite("GetNumProfilerEvents", self.profiler, byref(count))
        events = (_Event * count.value)()
        lite("GetProfilerEvents", self.profiler, count, events)
        return [_fields(event) for event in events]


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name, _ in _Event._fields_ if name != "event_source"} | {
        "tag": event.tag.decode("utf-8", "backslashreplace"),
        "event_type": event.event_type & 0xFFFFFFFF,
        "begin_mem_usage": list(event.begin_mem_usage),
        "end_mem_usage": list(event.end_mem_usage),
    }


_Buffer = tuple[c_void_p, np.dtype[Any], tuple[int, ...]]


def _buffers(lite: LiteRt, environment: c_void_p, model: c_void_p, compiled: c_void_p, kind: str) -> list[_Buffer]:
    """Return a zero-filled buffer for each input or output of the model, with its type and shape."""
    graph = lite.make("GetModelSubgraph", model, c_size_t(0))
    count = c_size_t()
    lite(f"GetNumSubgraph{kind}s", graph, byref(count))
    found = []
    for position in range(count.value):
        tensor = lite.make(f"GetSubgraph{kind}", graph, c_size_t(position))
        tensor_type = _TensorType()
        lite("GetRankedTensorType", tensor, byref(tensor_type))
        rank = tensor_type.rank & 0x7F
        for at in range(rank):  # a dynamic dimension counts as 1, which is what converters write for the interpreter
            tensor_type.dimensions[at] = max(1, tensor_type.dimensions[at])
        needs = lite.make(f"GetCompiledModel{kind}BufferRequirements", compiled, c_size_t(0), c_size_t(position))
        buffer = lite.make("CreateManagedTensorBufferFromRequirements", environment, byref(tensor_type), needs)
        if tensor_type.element_type not in _DTYPES:
            raise RefusedError(f"{kind.lower()} {position} has element type {tensor_type.element_type}")
        dtype = np.dtype(_DTYPES[tensor_type.element_type])
        found.append((buffer, dtype, tuple(tensor_type.dimensions[:rank])))
    return found


def _fill(lite: LiteRt, buffers: Sequence[_Buffer], values: Sequence[Array]) -> None:
    """Copy values to buffers. Raises RefusedError if the sizes differ."""
    if len(values) != len(buffers):
        raise RefusedError(f"the number of inputs is {len(buffers)}, not {len(values)}")
    for position, ((buffer, dtype, shape), value) in enumerate(zip(buffers, values, strict=True)):
        size, place = c_size_t(), c_void_p()
        lite("GetTensorBufferSize", buffer, byref(size))
        if (value.dtype, value.shape) != (dtype, shape):
            raise RefusedError(f"input {position} must be {dtype} of shape {shape}, not {value.dtype} {value.shape}")
        lite("LockTensorBuffer", buffer, byref(place), _WRITE)
        memmove(place, np.ascontiguousarray(value).ctypes.data, value.nbytes)
        lite("UnlockTensorBuffer", buffer)
