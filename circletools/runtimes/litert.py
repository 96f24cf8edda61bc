"""LiteRT's interpreter, with its default delegate XNNPACK or with its own kernels alone.

XNNPACK fuses operators, so its results change where a model is split; the variants `builtin` and `reference` compute
operators one by one. Importing this module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from circletools.runtimes.inputs import filled, make_input
from circletools.runtimes.litert_c import Profiled
from circletools.runtimes.plan import nodes, placed, plans
from circletools.runtimes.protocol import Array, Make, Placed, Recorded, RefusedError, Request, Verdict

_RESOLVERS = {"xnnpack": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}
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
        found = placed(plans(interpreter), _DEVICES)
    except _REFUSALS as error:
        raise _refused(verdict.words or error) from error
    return Verdict(verdict.status, verdict.words, _not_delegated(found, verdict.words))


def _not_delegated(found: Sequence[Placed], words: str) -> tuple[Placed, ...]:
    """Return the operators that the delegate chose, except the one that it then failed to prepare."""
    named = _FAILED.search(words)
    if named is None:
        return tuple(found)
    wanted = "xnnpack", int(named[1])
    at = next((at for at, one in enumerate(found) if (one.device, one.operator) == wanted), None)
    return tuple(replace(one, device="", words=words) if place == at else one for place, one in enumerate(found))


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
        details = interpreter.get_input_details()
        self.inputs = filled(given, make, ((detail["dtype"], detail["shape"]) for detail in details))
        for detail, value in zip(details, self.inputs, strict=True):
            if tuple(detail["shape"]) != value.shape:
                interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        self._places = [detail["index"] for detail in details]
        self._outputs = [detail["index"] for detail in interpreter.get_output_details()]

    def feed(self, inputs: Sequence[Array]) -> None:
        for place, value in zip(self._places, inputs, strict=True):
            # The Python binding misreads a string array without dimensions.
            is_text = value.dtype == object and not value.ndim
            self._interpreter.set_tensor(place, value.astype("S") if is_text else value)

    def run(self) -> None:
        self._interpreter.invoke()

    def fetch(self) -> list[Array]:
        return [self._interpreter.get_tensor(place) for place in self._outputs]


def _interpreter(request: Request) -> Any:
    resolver = getattr(OpResolverType, _RESOLVERS[request.variant])
    try:
        return Interpreter(model_path=request.model, num_threads=1, experimental_op_resolver_type=resolver)
    except _REFUSALS as error:
        raise _refused(error) from error


def _refused(error: Exception | str) -> RefusedError:
    text = str(error).strip()
    return RefusedError(text, nodes(text))
