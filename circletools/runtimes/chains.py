"""Time chains of models that run one after another in one process, each model in its own runtime.

The clock stops while this process waits for a processor that others use. Other slowdowns come and go, so the chains
take turns, in alternating order, and are all slowed equally. Turns in which the processor itself was slow are
discarded and, for a limited time, repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.runtimes.clock import Clock, Pace
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Array, ChainsRequest, Step, Timed
from circletools.runtimes.running import Running, words_of

_WARM_TURNS, _LEAST_TURNS, _MOST_TURNS = 3, 7, 1000
_PATIENCE = 10.0  # if the processor is slow, timing may take up to this multiple of the requested seconds
_TURN_S = 0.001
"""The shortest duration of a turn: a faster chain runs several times in one turn."""
Seconds = NDArray[np.float64]
Durations = list[float]
"""The seconds taken by copying inputs, by running, and by copying outputs."""


class _StoppedError(Exception):
    """A step does not run; the arguments are the reason, and the indices of its chain and of the step."""


def measure(request: ChainsRequest, pace: Pace) -> Timed:
    """Return the times of chains, or where and why one does not run; all requests to the process share `pace`."""
    clock = Clock()
    try:
        return _measure(request, clock, pace)
    finally:
        clock.close()


def _measure(request: ChainsRequest, clock: Clock, pace: Pace) -> Timed:
    known: list[dict[str, Array]] = [{} for _ in request.chains]
    try:
        chains = [
            [_Loaded(step, (number, at), known[number], request.seed) for at, step in enumerate(chain)]
            for number, chain in enumerate(request.chains)
        ]
        clock.watch()
        turns = _Turns(chains, known, clock)
        for _ in range(_WARM_TURNS):
            turns.warm_up()
        start = time.perf_counter()
        full: list[bool] = []
        while len(full) < _MOST_TURNS:
            passed = time.perf_counter() - start
            enough = len(full) >= _LEAST_TURNS and passed >= request.seconds
            if enough and (full.count(True) >= _LEAST_TURNS or passed >= _PATIENCE * request.seconds):
                break
            before = pace.is_full()
            turns.take()
            full.append(pace.is_full() and before)
    except _StoppedError as stopped:
        return Timed([], *stopped.args)
    kept = full if any(full) else [True] * len(full)
    return Timed([np.array(row)[kept] * 1e6 for row in turns.rows])


class _Turns:
    """Chains that take turns, and their times in seconds by turn, step and action."""

    def __init__(self, chains: list[list[_Loaded]], known: list[dict[str, Array]], clock: Clock) -> None:
        """Store the loaded steps, and the known tensors of each chain by name."""
        self._chains, self._known, self._clock = chains, known, clock
        self._repeats = [1] * len(chains)
        self._forward = False
        self.rows: list[list[Seconds]] = [[] for _ in chains]

    def warm_up(self) -> None:
        """Run every chain, and determine how many times it runs in a turn."""
        for number, taken in self._turn():
            self._repeats[number] = max(1, round(_TURN_S / max(float(taken.sum()) / len(taken), 1e-6)))

    def take(self) -> None:
        """Run every chain, and record its median times."""
        for number, taken in self._turn():
            self.rows[number].append(np.median(taken, axis=0))

    def _turn(self) -> Iterator[tuple[int, Seconds]]:
        for number in range(len(self._chains))[:: 1 if self._forward else -1]:
            known, chain = self._known[number], self._chains[number]
            repeats = range(self._repeats[number])
            yield number, np.array([[loaded.take(known, self._clock) for loaded in chain] for _ in repeats])
        self._forward = not self._forward


class _Loaded:
    """A step whose model is loaded; its errors name the step."""

    def __init__(self, step: Step, place: tuple[int, int], known: dict[str, Array], seed: int) -> None:
        """Load the model and run it once, since later steps need the shapes of its outputs."""
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
        """Run once with `known` tensors, by name, and add the outputs to them."""
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
            raise _StoppedError(words_of(error), self._place) from error
