"""The child process of a runtime or compiler: it answers requests until the connection is closed.

A chain is timed by turns: all chains run alternately, in alternating order, so that a slow machine slows all of them
equally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from circletools.runtimes.inputs import RANDOM_INPUTS, make_input
from circletools.runtimes.protocol import (
    Answer,
    Array,
    ChainsRequest,
    Missing,
    NoDeviceError,
    Recorded,
    RefusedError,
    Request,
    Step,
    Timed,
    Verdict,
    plain,
    words_of,
)

_WARM_TURNS, _LEAST_TURNS, _MOST_TURNS = 3, 7, 1000
_TURN_S = 0.001
"""The shortest duration of a turn: a faster chain runs several times in one turn."""


class Running(Protocol):
    """A loaded model; each adapter has a class with this name, and `FAILURES`, the exceptions that its methods raise.

    The arguments are a variant, a file, the given inputs (None to generate them), and a function that makes inputs.
    """

    inputs: list[Array]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run once; return the outputs."""


def serve(program: str, distribution: str, handle: int) -> None:
    """Send the package's version, or Missing, then answer requests, over the connection with this descriptor."""
    connection: Connection = Connection(handle)
    try:
        module = import_module(f"circletools.runtimes.{program.replace('-', '_')}")
    except ImportError as error:
        connection.send(Missing(str(error)))
        return
    try:
        connection.send(version(distribution))
    except PackageNotFoundError:
        connection.send("")
    while True:
        try:
            request: Request | ChainsRequest = connection.recv()
        except EOFError:
            return
        connection.send(_answer(module, request, connection) if isinstance(request, Request) else measure(request))


def _answer(module: Any, request: Request, connection: Connection) -> Answer | Recorded | Verdict | Missing:
    ask = getattr(module, request.question, partial(run_with, module, connection=connection))
    try:
        found: Answer | Recorded | Verdict = ask(request)
    except NoDeviceError as error:
        return Missing(str(error))
    except (RefusedError, MemoryError) as error:
        if isinstance(error, RefusedError):
            return Verdict("refused", words_of(error), error.operators)
        return Verdict("memory", words_of(error))
    return found


def run_with(adapter: Any, request: Request, connection: Connection | None = None) -> Answer:
    """Run a model with each of the requested inputs, and with those that follow over the connection."""
    given = request.inputs[0] if request.inputs else None
    outputs: list[Array] = []
    try:
        running: Running = adapter.Running(request.variant, request.model, given, partial(make_input, request.seed))
        for inputs in request.inputs or [running.inputs] * request.repeat:
            outputs += map(plain, running.run(inputs))
        for _ in range(request.following):
            assert connection is not None
            connection.send(outputs)
            outputs = [*map(plain, running.run(connection.recv()))]
    except (*adapter.FAILURES, MemoryError) as error:
        return Answer([], [], words_of(error))
    return Answer(running.inputs, outputs)


class _StoppedError(Exception):
    """A step does not run; the arguments are the reason, and the indices of its chain and of the step."""


def measure(request: ChainsRequest) -> Timed:
    """Return the times of chains, or the step that does not run and the reason."""
    known: list[dict[str, Array]] = [{**request.given} for _ in request.chains]
    rows: list[list[Any]] = [[] for _ in request.chains]
    repeats = [1] * len(known)
    try:
        chains = [
            [_Loaded(step, (number, at), known[number], request) for at, step in enumerate(chain)]
            for number, chain in enumerate(request.chains)
        ]
        for turn in range(-_WARM_TURNS, _MOST_TURNS):
            if turn == 0:
                start = perf_counter()
            if turn >= _LEAST_TURNS and perf_counter() - start >= request.seconds:
                break
            for number in range(len(chains))[:: -1 if turn % 2 else 1]:
                runs = range(repeats[number])
                taken = np.array([[step.take(known[number]) for step in chains[number]] for _ in runs])
                if turn < 0:
                    repeats[number] = max(1, round(_TURN_S / max(float(taken.sum()) / len(taken), 1e-6)))
                else:
                    rows[number].append(np.median(taken, axis=0))
    except _StoppedError as stopped:
        return Timed([], *stopped.args)
    return Timed([np.array(row) * 1e6 for row in rows])


class _Loaded:
    """A step whose model is loaded; its errors name the step."""

    def __init__(self, step: Step, place: tuple[int, int], known: dict[str, Array], request: ChainsRequest) -> None:
        """Load the model and run it once, since later steps need the shapes of its outputs."""
        self._step, self._place, self._note = step, place, "" if request.given else f" ({RANDOM_INPUTS})"
        try:
            self._adapter = import_module(f"circletools.runtimes.{step.program}")
        except ImportError as error:
            raise _StoppedError(f"{step.program} is not installed: {error}", place) from error

        def make(position: int, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
            return make_input(request.seed, step.inputs[position], dtype, shape)

        given = [known.get(name) for name in step.inputs]
        self._running: Running = self._try(partial(self._adapter.Running, step.variant, step.model, given, make))
        known.update(zip(step.inputs, self._running.inputs, strict=True))
        self.take(known)

    def take(self, known: dict[str, Array]) -> float:
        """Run once with `known` tensors, by name, and add the outputs to them; return the time in seconds."""
        inputs = [known[name] for name in self._step.inputs]
        start = perf_counter()
        outputs = self._try(partial(self._running.run, inputs), self._note)
        seconds = perf_counter() - start
        known.update(zip(self._step.outputs, outputs, strict=True))
        return seconds

    def _try(self, call: Callable[[], Any], note: str = "") -> Any:
        try:
            return call()
        except (*self._adapter.FAILURES, NoDeviceError) as error:
            raise _StoppedError(words_of(error) + note, self._place) from error
