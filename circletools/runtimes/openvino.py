"""Convert a TFLite model with OpenVINO, and compile it for a device.

Importing this module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import openvino

from circletools.runtimes.inputs import filled, make_input
from circletools.runtimes.protocol import Array, Make, NoDeviceError, Placed, Recorded, RefusedError, Request, Verdict

FAILURES = (RuntimeError, ValueError, TypeError, RefusedError)
_CODES = re.compile(r"No translator found for (\S+) node|operation of type (\S+) and name")
_NO_DEVICE = re.compile("Cannot load library|is not registered")
_core = cache(openvino.Core)
_LINES = re.compile(r"(?:Exception from|Check '.*failed at|FrontEnd API failed with).*")


def loads(request: Request) -> Verdict:
    """Return whether OpenVINO converts the model and compiles it for a device."""
    _compiled(request)
    return Verdict("ok")


def placement(request: Request) -> Verdict:
    """Return the operators that a device takes: all that it compiles, except those that `query_model` omits."""
    core, model, _ = _compiled(request)
    taken = core.query_model(model, request.variant)
    left = [one for one in model.get_ordered_ops() if one.get_friendly_name() not in taken]
    words = f"query_model omits {{}} on {request.variant}"
    refused = [
        Placed("", words.format(one.get_type_name()), tensor=name)
        for one in left
        for end in one.outputs()
        for name in end.get_names()
    ]
    return Verdict("ok", "", tuple(refused), request.variant.lower())


def profile(request: Request) -> Recorded:
    """Run a model with OpenVINO's counters; return a table for each run, like benchmark_app's detailed counters.

    The CPU's counters are means over all runs so far, in whole microseconds; each table has the times of its own run.
    """
    begun, make = perf_counter(), partial(make_input, request.seed)
    given = request.inputs[0] if request.inputs else None
    running = Running(request.variant, request.model, given, make, PERF_COUNT=True)
    seconds = perf_counter() - begun
    tables: list[list[Any]] = []
    for inputs in request.inputs or [running.inputs] * request.repeat:
        running.run(inputs)
        tables.append(running.asked.get_profiling_info())
    times = [[round(one.real_time.total_seconds() * 1e6) for one in rows] for rows in zip(*tables, strict=True)]
    times = [run_times(means) for means in times] if request.variant == "CPU" else times
    lines: list[str] = []
    for number, rows in enumerate(tables):
        lines += ["layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)"]
        for one, each in zip(rows, times, strict=True):
            status = "Status.EXECUTED" if each[number] else one.status
            lines += [f"{one.node_name};{status};{one.node_type};{one.exec_type}" + f";{each[number] / 1000:.3f}" * 2]
    return Recorded("\n".join([*lines, ""]).encode(), seconds * 1e6)


def run_times(means: Sequence[int]) -> list[int]:
    """Return the time of each run; `means` has, after each run, the mean of all runs so far, rounded down.

    The sum of the first n runs is thus known to within n. Of the possible sums, those on the shortest path are taken,
    so that times change only where the means show a change.
    """
    lows = [0, *(number * mean for number, mean in enumerate(means, 1))]
    sums = [0.0]
    while (at := len(sums) - 1) < len(means):
        low, high = (0.0, at), (math.inf, at)  # bounds of the slope, and where they were found
        for number in range(at + 1, len(lows)):
            least, most = ((one - sums[at]) / (number - at) for one in (lows[number], lows[number] + number - 1))
            if least > high[0] or most < low[0]:
                slope, end = high if least > high[0] else low
                break
            low, high = max(low, (least, number)), min(high, (most, -number))
        else:
            slope, end = (low[0] + high[0]) / 2, len(means)
        sums += [sums[at] + slope * passed for passed in range(1, max(1, abs(end) - at) + 1)]
    return [round(after) - round(before) for before, after in pairwise(sums)]


class Running:
    """A model that is ready to run, with inputs of any shape that it supports."""

    def __init__(
        self, variant: str, model: str, given: Sequence[Array | None] | None, make: Make, **more: Any
    ) -> None:
        """Compile the model, with `more` options. Raises one of `FAILURES`."""
        _, read, self._compiled = _compiled(Request("run", model, variant), **more)
        self.inputs = filled(given, make, map(_form, read.inputs))
        self.asked = self._compiled.create_infer_request()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        for place, value in enumerate(inputs):
            self.asked.set_input_tensor(place, openvino.Tensor(value))
        try:
            self.asked.infer(share_outputs=True)
        except RuntimeError as error:
            raise RefusedError(_short(error)) from error
        count = len(self._compiled.outputs)
        return [np.array(self.asked.get_output_tensor(place).data) for place in range(count)]


def _form(end: Any) -> tuple[Any, list[int]]:
    """Return the type and shape of an input; dynamic dimensions count as 1."""
    sizes = [1 if size.is_dynamic else size.get_length() for size in end.get_partial_shape()]
    return end.get_element_type().to_dtype(), sizes


def _compiled(request: Request, **more: Any) -> tuple[Any, Any, Any]:
    core = _core()
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1} if request.variant == "CPU" else {}
    try:
        model = core.read_model(request.model)
        return core, model, core.compile_model(model, request.variant, {**hints, **more})
    except (RuntimeError, ValueError) as error:
        text = _short(error)
        if _NO_DEVICE.search(text):
            raise NoDeviceError(text) from error
        codes = [one or two for one, two in _CODES.findall(str(error))]
        raise RefusedError(text, [Placed("", text, code=code) for code in codes]) from error


def _short(error: Exception) -> str:
    """Return the message of an error without its locations in OpenVINO's source."""
    return " ".join(_LINES.sub("", str(error)).split()) or str(error).strip()
