"""Taking the time of models that run one after the other, each in its runtime, in one process.

The clock stands still while other work has the processors. What such work adds otherwise comes and goes, so chains
take turns, forward and backward: what slows one slows the others as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from circletools.runtimes.clock import Clock
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Array, ChainsRequest, RefusedError, Step, Timed, plain

_WARM_TURNS, _LEAST_TURNS, _MOST_TURNS = 3, 7, 1000
Durations = list[float]
"""The seconds of bringing inputs, running, and taking outputs."""


class Running(Protocol):
    """A model that is ready to run: every adapter that measures has a class of this name, and its `FAILURES`."""

    inputs: list[Array]

    def feed(self, inputs: Sequence[Array]) -> None:
        """Copy the inputs to the runtime."""

    def run(self) -> None:
        """Run once."""

    def fetch(self) -> list[Array]:
        """Copy the outputs from the runtime."""


class _StoppedError(Exception):
    """A step does not run: why, and the places of chain and step."""


def measure(request: ChainsRequest) -> Timed:
    """Return the times of chains, or where and why one does not run."""
    clock = Clock()
    try:
        return _measure(request, clock)
    finally:
        clock.close()


def _measure(request: ChainsRequest, clock: Clock) -> Timed:
    known = [dict(request.known) for _ in request.chains]
    try:
        chains = [
            [_Loaded(step, (number, at), known[number], request.seed) for at, step in enumerate(chain)]
            for number, chain in enumerate(request.chains)
        ]
        rows: list[list[list[Durations]]] = [[] for _ in chains]
        clock.watch()
        start = time.perf_counter()
        for turn in range(_WARM_TURNS + _MOST_TURNS):
            if turn >= _WARM_TURNS + _LEAST_TURNS and time.perf_counter() - start >= request.seconds:
                break
            for number in range(len(chains))[:: 1 if turn % 2 else -1]:
                taken = [loaded.take(known[number], clock) for loaded in chains[number]]
                if turn >= _WARM_TURNS:
                    rows[number].append(taken)
    except _StoppedError as stopped:
        return Timed([], {}, *stopped.args)
    values = {name: plain(value) for name, value in known[0].items()} if request.values else {}
    return Timed([np.array(row) * 1e6 for row in rows], values)


class _Loaded:
    """A step whose model is loaded; what fails in it is told with its place."""

    def __init__(self, step: Step, place: tuple[int, int], known: dict[str, Array], seed: int) -> None:
        """Load the model and run it once: the shapes of what it makes are those that the next ones get."""
        self._step, self._place = step, place
        try:
            self._adapter = import_module(f"circletools.runtimes.{step.program}")
        except ImportError as error:
            raise _StoppedError(f"{step.program} is not installed: {error}", place) from error

        def make(position: int, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
            return make_input(seed, step.inputs[position], dtype, shape)

        given = [known.get(name) for name in step.inputs]
        self._running: Running = self._try(partial(self._adapter.Running, step.variant, step.model, given, make))
        known.update(zip(step.inputs, self._running.inputs, strict=True))
        self.take(known, Clock(""))

    def take(self, known: dict[str, Array], clock: Clock) -> Durations:
        """Run once with what is known by name, and add what it makes to that."""
        durations: Durations = self._try(partial(self._take, known, clock))
        return durations

    def _take(self, known: dict[str, Array], clock: Clock) -> Durations:
        inputs = [known[name] for name in self._step.inputs]
        outputs: list[Array] = []
        running = self._running
        durations = clock.laps(lambda: running.feed(inputs), running.run, lambda: outputs.extend(running.fetch()))
        known.update(zip(self._step.outputs, outputs, strict=True))
        return durations

    def _try(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._adapter.FAILURES as error:
            kind = "" if isinstance(error, RefusedError) else f"{type(error).__name__}: "
            raise _StoppedError(f"{kind}{error}".strip(), self._place) from error
