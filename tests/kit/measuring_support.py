"""A worker that measures by a law: what operators, launches and moving take on each program is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import numpy as np

from circletools.model.model import Model, open_model
from circletools.runtimes.protocol import ChainsRequest, Step, Timed

ROUNDS = 12


class LawfulWorker:
    """Stands for `Worker`: `work_us` has the time of operators by program and by the name of the first output.

    A program that has no time for an operator does not run it; `fused` has the share of it in models of several
    operators; a chain with one of the `crashing` (program, name) ends the process.
    """

    def __init__(
        self,
        work_us: Mapping[str, Mapping[str, float]],
        launch_us: Mapping[str, float],
        fused: Mapping[str, float] | None = None,
        crashing: tuple[str, str] = ("", ""),
    ) -> None:
        self.work_us, self.launch_us, self.fused, self.crashing = work_us, launch_us, fused or {}, crashing
        self.requests: list[ChainsRequest] = []
        self.started: list[tuple[str, float]] = []

    def __call__(self, program: str, timeout_s: float) -> LawfulWorker:
        """Start it, like the class that it replaces."""
        self.started.append((program, timeout_s))
        return self

    def __enter__(self) -> LawfulWorker:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""

    def measure(self, request: ChainsRequest) -> Timed:
        """Return times by the law, each round a little slower than the one before but the first two quarters."""
        times = []
        for number, chain in enumerate(request.chains):
            rows = []
            for at, step in enumerate(chain):
                found = self._step(step)
                if found == "crash":
                    return Timed([], "ended with signal 11")
                if isinstance(found, str):
                    return Timed([], found, (number, at))
                rows.append(found)
            once = np.array(rows)
            slower = np.maximum(0, np.arange(ROUNDS) - ROUNDS // 2)[:, None]
            times.append(once + slower)
        self.requests.append(request)
        return Timed(times)

    def _step(self, step: Step) -> float | str:
        with open_model(Path(step.model)) as model:
            names = [row[0].decode() for row in model.output_names(0) if row]
            if self.crashing[0] == step.program and self.crashing[1] in names:
                return "crash"
            costs = self.work_us[step.program]
            if missing := [name for name in names if name not in costs and not isinstance(costs, defaultdict)]:
                return f"no kernel for {missing[0]}"
            moved = [_moved(model, ends) for ends in (model.subgraphs[0].inputs, model.subgraphs[0].outputs)]
        share = self.fused.get(step.program, 1.0) if len(names) > 1 else 1.0
        run = self.launch_us[step.program] + share * sum(costs[name] for name in names)
        return run + sum(moved)


def _moved(model: Model, ends: Iterable[int]) -> float:
    """Return the microseconds of moving tensors of FLOAT32."""
    return sum(1 + prod(model.subgraphs[0].tensors[at].shape) / 4 for at in ends)
