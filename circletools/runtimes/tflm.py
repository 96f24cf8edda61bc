"""TensorFlow Lite Micro: the operators that its interpreter resolves, and the arena that it needs.

Importing this module imports the runtime, which is an optional package.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tflite_micro.python.tflite_micro import runtime

from circletools.runtimes.inputs import filled
from circletools.runtimes.protocol import Array, NoDeviceError, Placed, RefusedError, Request, Verdict, mark, printed

FAILURES = (RuntimeError, ValueError, RefusedError)
# This is more than any microcontroller's memory; the system provides pages only when they are used.
_ARENA_BYTES, _MOST_PREPARING = 1 << 29, 1 << 14
_UNKNOWN = re.compile(r"Failed to get registration from op code (\w+)")
_NODE = re.compile(r"Node (\w+) \(number (\d+)f?\) failed to (?:prepare|invoke)")
_VELA = b"\x07\0\0\0ethos-u\0"  # the custom code of a program that Vela compiled
_TOTAL = re.compile(r"Arena allocation total (\d+) bytes")


def loads(request: Request) -> Verdict:
    """Return whether the model loads and runs on zeros, and the smallest arena in which it loads, in 16-byte steps.

    The allocator records that size, except for models with few operators, which need more memory during preparation.
    """
    running = Running(request.variant, request.model, None, lambda _place, kind, shape: np.zeros(shape, kind))
    running.run(running.inputs)
    verdict = running.verdict
    if verdict.arena_bytes is None:
        return verdict
    sizes = range(-(-verdict.arena_bytes // 16) * 16, verdict.arena_bytes + _MOST_PREPARING, 16)
    return replace(verdict, arena_bytes=next((size for size in sizes if _fits(request.model, size)), sizes[-1]))


placement = loads
"""The same as `loads`: either all operators run or none; a refusal names the first unsupported one."""


class Running:
    """A model that is ready to run."""

    def __init__(self, _variant: str, model: str, given: Sequence[Array | None] | None, make: Any) -> None:
        """Load the model. Raises RefusedError."""
        self._interpreter, self.verdict = _loaded(model)
        forms = ((detail["dtype"], detail["shape"]) for detail in _details(self._interpreter.get_input_details))
        self.inputs = filled(given, make, forms)
        self._outputs = range(len(list(_details(self._interpreter.get_output_details))))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        for place, value in enumerate(inputs):
            self._interpreter.set_input(value, place)
        since = mark()
        try:
            self._interpreter.invoke()
        except FAILURES as error:
            raise _refusal(printed(since), error) from error
        return [np.array(self._interpreter.get_output(place)) for place in self._outputs]


def _details(ask: Any) -> Any:
    """Yield the details of each input or output; their number is unknown, but an index past the last is an error."""
    place = 0
    while True:
        try:
            detail = ask(place)
        except (IndexError, RuntimeError, ValueError):
            return
        yield detail
        place += 1


def _fits(model: str, arena_bytes: int) -> bool:
    """Return whether a model loads in an arena. A child process tries it, since the interpreter can crash."""
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=runtime.Interpreter.from_file, args=(model,), kwargs={"arena_size": arena_bytes})
    child.start()
    child.join()
    return child.exitcode == 0


def _refusal(text: str, error: Exception) -> RefusedError:
    """Return an error with the operators that the interpreter named in `text`."""
    words = " ".join(f"{text} {error}".split())
    named = [Placed("", words, code=code) for code in _UNKNOWN.findall(text)]
    return RefusedError(
        words, [*named, *(Placed("", words, None, int(at), code) for code, at in _NODE.findall(text))]
    )


def _loaded(model: str) -> tuple[Any, Verdict]:
    since = mark()
    try:
        interpreter = runtime.Interpreter.from_file(model, arena_size=_ARENA_BYTES)
    except (RuntimeError, ValueError) as error:
        if Path(model).is_file() and _VELA in Path(model).read_bytes():
            raise NoDeviceError("its package has no kernel for Ethos-U") from error
        raise _refusal(printed(since), error) from error
    since = mark()
    interpreter.print_allocations()
    total = _TOTAL.search(printed(since))
    return interpreter, Verdict("ok", others="cpu", arena_bytes=int(total[1]) if total else None)
