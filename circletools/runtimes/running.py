"""The interface of a model that is ready to run in any of the programs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Answer, Array, RefusedError, Request, plain


class Running(Protocol):
    """A loaded model; each adapter has a class with this name, and `FAILURES`, the exceptions that its methods raise.

    The arguments are a variant, a file, the given inputs (None to generate them), and a function that makes inputs.
    """

    inputs: list[Array]

    def feed(self, inputs: Sequence[Array]) -> None:
        """Copy the inputs to the runtime."""

    def run(self) -> None:
        """Run once."""

    def fetch(self) -> list[Array]:
        """Copy the outputs from the runtime."""


def run_with(adapter: Any, request: Request) -> Answer:
    """Run a model with each of the requested inputs."""
    given = request.inputs[0] if request.inputs else None
    outputs: list[Array] = []
    try:
        running: Running = adapter.Running(request.variant, request.model, given, partial(make_input, request.seed))
        for inputs in request.inputs or [running.inputs] * request.repeat:
            running.feed(inputs)
            running.run()
            outputs += map(plain, running.fetch())
    except (*adapter.FAILURES, MemoryError) as error:
        return Answer([], [], words_of(error))
    return Answer(running.inputs, outputs)


def words_of(error: Exception) -> str:
    """Return the message of an error, preceded by its class unless it is a refusal."""
    kind = "" if isinstance(error, RefusedError) else f"{type(error).__name__}: "
    return f"{kind}{error}".strip()
