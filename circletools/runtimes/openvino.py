"""OpenVINO: the conversion of a TFLite model, and a device's compiler.

Importing this module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
import openvino

from circletools.runtimes.inputs import inputs_by_run
from circletools.runtimes.protocol import Answer, Array, Make, Placed, Recorded, RefusedError, Request, Verdict

FAILURES = (RuntimeError, ValueError, TypeError, RefusedError)
_CODES = re.compile(r"No translator found for (\S+) node|operation of type (\S+) and name")
_LINES = re.compile(r"(?:Exception from|Check '.*failed at|FrontEnd API failed with).*")


def loads(request: Request) -> Verdict:
    """Return whether OpenVINO converts the model and compiles it for a device."""
    _compiled(request)
    return Verdict("ok")


def placement(request: Request) -> Verdict:
    """Return the operators that the device takes: all that it compiles, less those that `query_model` leaves out."""
    core, model, _ = _compiled(request)
    taken = core.query_model(model, request.variant)
    left = [one for one in model.get_ordered_ops() if one.get_friendly_name() not in taken]
    words = f"query_model leaves out {{}} on {request.variant}"
    refused = [
        Placed("", words.format(one.get_type_name()), tensor=name)
        for one in left
        for end in one.outputs()
        for name in end.get_names()
    ]
    return Verdict("ok", "", tuple(refused), request.variant.lower())


def run(request: Request) -> Answer:
    """Run a model."""
    try:
        _, model, compiled = _compiled(request)
    except RefusedError as error:
        return Answer([], [], str(error))
    runs = inputs_by_run(request, map(_form, model.inputs))
    asked = compiled.create_infer_request()
    outputs: list[Any] = []
    try:
        for inputs in runs:
            found = asked.infer(dict(enumerate(inputs)))
            outputs += [np.array(found[end]) for end in compiled.outputs]
    except RuntimeError as error:
        return Answer([], [], _short(error))
    return Answer(runs[0], outputs)


def profile(request: Request) -> Recorded:
    """Run a model with OpenVINO's counters; a table for each run, as benchmark_app's detailed counters."""
    begun = perf_counter()
    _, model, compiled = _compiled(request, {"PERF_COUNT": True})
    seconds = perf_counter() - begun
    asked = compiled.create_infer_request()
    lines: list[str] = []
    try:
        for inputs in inputs_by_run(request, map(_form, model.inputs)):
            asked.infer(dict(enumerate(inputs)))
            lines += ["layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)"]
            for one in asked.get_profiling_info():
                times = (f"{time.total_seconds() * 1000:.3f}" for time in (one.real_time, one.cpu_time))
                lines += [";".join((one.node_name, str(one.status), one.node_type, one.exec_type, *times))]
    except RuntimeError as error:
        raise RefusedError(_short(error)) from error
    return Recorded("\n".join([*lines, ""]).encode(), seconds * 1e6)


class Running:
    """A model that is ready to run, with inputs of any shape that it takes."""

    def __init__(self, variant: str, model: str, given: Sequence[Array | None], make: Make) -> None:
        """Compile it. Raises one of `FAILURES`."""
        _, read, self._compiled = _compiled(Request("run", model, variant))
        self.inputs = [
            make(place, *_form(end)) if value is None else value
            for place, (end, value) in enumerate(zip(read.inputs, given, strict=True))
        ]
        self._asked = self._compiled.create_infer_request()

    def feed(self, inputs: Sequence[Array]) -> None:
        """Copy the inputs to the runtime."""
        for place, value in enumerate(inputs):
            self._asked.set_input_tensor(place, openvino.Tensor(value))

    def run(self) -> None:
        """Run once."""
        self._asked.infer(share_outputs=True)

    def fetch(self) -> list[Array]:
        """Copy the outputs from the runtime."""
        count = len(self._compiled.outputs)
        return [np.array(self._asked.get_output_tensor(place).data) for place in range(count)]


def _form(end: Any) -> tuple[Any, list[int]]:
    """Return type and shape of an input; open sizes are 1."""
    sizes = [1 if size.is_dynamic else size.get_length() for size in end.get_partial_shape()]
    return end.get_element_type().to_dtype(), sizes


def _compiled(request: Request, more: Mapping[str, Any] = MappingProxyType({})) -> tuple[Any, Any, Any]:
    core = _core()
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1} if request.variant == "CPU" else {}
    try:
        model = core.read_model(request.model)
        return core, model, core.compile_model(model, request.variant, {**hints, **more})
    except (RuntimeError, ValueError) as error:
        text = _short(error)
        codes = [one or two for one, two in _CODES.findall(str(error))]
        raise RefusedError(text, [Placed("", text, code=code) for code in codes]) from error


@cache
def _core() -> Any:
    return openvino.Core()


def _short(error: Exception) -> str:
    """Return the message of an error, without the places in OpenVINO's source."""
    return " ".join(_LINES.sub("", str(error)).split()) or str(error).strip()
