"""What LiteRT records of a run: `python -m tests.kit.oracles.litert_events MODEL RUNS [KERNELS]` prints it as JSON.

The document has `events`, and `summary`, the text that LiteRT itself makes of them.

Each event is [tag, type, start, microseconds, number, subgraph]; types are those of tflite::Profiler::EventType. The
library is used by its C interface (litert/c/litert_profiler.h, litert_compiled_model.h), since its Python interface
has no profiler. KERNELS 2 keeps XNNPACK away, so that the built-in kernels run.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from ctypes import (
    CDLL,
    CFUNCTYPE,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_uint64,
    c_void_p,
    create_string_buffer,
    memset,
    string_at,
)
from pathlib import Path

OPERATOR = 1 << 1
DELEGATE_OPERATOR = 1 << 2
DELEGATE_PROFILED_OPERATOR = 1 << 3

_CPU = c_int(1)
_WRITE = c_int(1)
_TENSOR_TYPE_BYTES = 512  # more than LiteRtRankedTensorType has
_EVENT_WORDS = 13  # tag, type, start, elapsed, memory before (3) and after (3), two numbers, source
_NO_DELETER = CFUNCTYPE(None, c_void_p)(lambda _: None)


class LiteRt:
    """The library; calls that fail raise RuntimeError."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("ai_edge_litert")
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError("ai_edge_litert is not installed")
        self._library = CDLL(str(Path(spec.submodule_search_locations[0]) / "libLiteRt.so"))
        self._kept: list[object] = []

    def __call__(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, f"LiteRt{name}")(*arguments)
        if status:
            raise RuntimeError(f"LiteRt{name}: {status}")

    def make(self, name: str, *arguments: object) -> c_void_p:
        """Call what returns a handle through its last argument."""
        handle = c_void_p()
        self(name, *arguments, byref(handle))
        return handle

    def add_options(self, options: c_void_p, identifier: bytes, text: bytes) -> None:
        """Add options of a kind, as the TOML text that the library makes of them."""
        self._kept.append(create_string_buffer(text))
        self("AddOpaqueOptions", options, self.make("CreateOpaqueOptions", identifier, self._kept[-1], _NO_DELETER))


def record(model: Path, runs: int, kernels: int = 0) -> dict[str, object]:
    """Run the first signature `runs` times."""
    lite = LiteRt()
    environment = lite.make("CreateEnvironment", c_int(0), None)
    loaded = lite.make("CreateModelFromFile", environment, str(model).encode())
    options = lite.make("CreateOptions")
    lite("SetOptionsHardwareAccelerators", options, _CPU)
    lite.add_options(options, b"runtime_options_string", b"enable_profiling = true\n")
    lite.add_options(options, b"xnnpack", b"kernel_mode = %d\n" % kernels)
    compiled = lite.make("CreateCompiledModel", environment, loaded, options)
    recorder = lite.make("CompiledModelGetProfiler", compiled)
    buffers = [value for kind in ("Input", "Output") for value in _buffers(lite, environment, loaded, compiled, kind)]
    lite("StartProfiler", recorder)
    for _ in range(runs):
        lite("RunCompiledModel", compiled, c_size_t(0), *buffers)
    lite("StopProfiler", recorder)
    count = c_int()
    lite("GetNumProfilerEvents", recorder, byref(count))
    words = (c_uint64 * (_EVENT_WORDS * count.value))()
    lite("GetProfilerEvents", recorder, count, words)
    events = []
    for at in range(0, len(words), _EVENT_WORDS):
        tag, event_type, start, elapsed, *_, number, subgraph, _source = words[at : at + _EVENT_WORDS]
        events.append((string_at(tag).decode(), event_type & 0xFFFFFFFF, start, elapsed, number, subgraph))
    summary = c_char_p()
    lite("GetProfileSummary", recorder, compiled, byref(summary))
    return {"events": events, "summary": (summary.value or b"").decode()}


def _buffers(
    lite: LiteRt, environment: c_void_p, model: c_void_p, compiled: c_void_p, kind: str
) -> tuple[c_size_t, object]:
    graph = lite.make("GetModelSubgraph", model, c_size_t(0))
    count = c_size_t()
    lite(f"GetNumSubgraph{kind}s", graph, byref(count))
    buffers = (c_void_p * count.value)()
    for position in range(count.value):
        tensor = lite.make(f"GetSubgraph{kind}", graph, c_size_t(position))
        tensor_type = create_string_buffer(_TENSOR_TYPE_BYTES)
        lite("GetRankedTensorType", tensor, tensor_type)
        needs = lite.make(f"GetCompiledModel{kind}BufferRequirements", compiled, c_size_t(0), c_size_t(position))
        made = lite.make("CreateManagedTensorBufferFromRequirements", environment, tensor_type, needs)
        buffers[position] = made.value
        _clear(lite, made)
    return count, buffers


def _clear(lite: LiteRt, buffer: c_void_p) -> None:
    """Fill a buffer with zeros: a loop may run as often as an input says, and new memory says anything."""
    size, place = c_size_t(), c_void_p()
    lite("GetTensorBufferSize", buffer, byref(size))
    lite("LockTensorBuffer", buffer, byref(place), _WRITE)
    memset(place, 0, size.value)
    lite("UnlockTensorBuffer", buffer)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(record(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
