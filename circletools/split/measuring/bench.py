"""Running a model whole, in parts, and operator by operator, on its devices, and taking the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.read import Affinity
from circletools.affinity.store import annotate
from circletools.affinity.tables import SubgraphAffinity
from circletools.edit.edit import ModelEdit
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from circletools.parts.package import Connections, Piece
from circletools.parts.plan import SplitPlan
from circletools.parts.split import Split, split
from circletools.runtimes.protocol import Array, Chain, ChainsRequest, Step
from circletools.runtimes.worker import Worker
from circletools.split.measuring.request import Device, MeasureRequest

Floats = NDArray[np.float64]
_ALONE = 1 / 20
"""The share of the time of a plan that an operator alone gets."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a chain does not run, and which of its steps."""

    words: str
    step: int


@dataclass(frozen=True, slots=True)
class AlonePart:
    """Operators that ran alone: one, or those that one variable keeps together.

    `moved` has the number and the bytes of inputs, then of outputs; none where they did not run. `times_us` has the
    time of bringing inputs, of running and of taking outputs by device, None where it does not run them.
    """

    operators: tuple[int, ...]
    moved: tuple[tuple[int, int], tuple[int, int]] | None
    times_us: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True, slots=True)
class Bench:
    """A model on its devices: `worker` runs what is measured, `folder` takes what is written for that."""

    model: Model
    devices: tuple[Device, ...]
    worker: Worker
    request: MeasureRequest
    folder: Path

    def split(self, affinity: Affinity, name: str) -> tuple[Split, Path]:
        """Split the model by another affinity into a directory of this name. Raises what `split` does."""
        annotated, directory = self.folder / f"{name}.{self.model.format}", self.folder / name
        with ModelEdit(self.model) as edit:
            annotate(edit, affinity)
            edit.save(annotated)
        with open_model(annotated) as model:
            done = split(model, directory)
        annotated.unlink()
        return done, directory

    def alone(self) -> tuple[list[AlonePart], Split]:
        """Measure every operator alone, on each device, with the values that it gets in the model."""
        graph = graph_of(self.model, 0).dag
        ranks = np.empty(len(graph), np.uint32)
        ranks[list(graph.order)] = np.arange(len(graph))
        one = SubgraphAffinity(np.zeros(len(graph), np.uint32), ranks)
        done, directory = self.split(Affinity({0: "alone"}, {0: one}), "alone")
        known: dict[str, Array] = {}
        found = []
        for part, piece in zip(done.plan.parts, done.connections.parts, strict=True):
            chains = [(step_of(device, directory, piece),) for device in self.devices]
            times = [self._alone(chain, piece, known) for chain in chains]
            ran = all(name in known for name in (*piece.inputs, *piece.outputs))
            moved = (_size(piece.inputs, known), _size(piece.outputs, known)) if ran else None
            found.append(AlonePart(part.operators, moved, tuple(times)))
        return found, done

    def _alone(self, chain: Chain, piece: Piece, known: dict[str, Array]) -> tuple[float, float, float] | None:
        given = {name: known[name] for name in piece.inputs if name in known}
        lacking = not known.keys() >= {*piece.inputs, *piece.outputs}
        seconds = self.request.seconds * _ALONE
        # Wrong times of single operators are set right by the plans that have them.
        timed = self.worker.measure(ChainsRequest((chain,), seconds, given, self.request.seed, lacking, patience=2.0))
        if timed.failure:
            return None
        known.update({name: value for name, value in timed.values.items() if name not in known})
        feed, run, fetch = unhindered(timed.times_us[0])[0].tolist()
        return feed, run, fetch

    def whole(self, device: Device, source: Piece) -> Chain:
        """Return the chain of the whole model on one device."""
        path = self.model.source.path
        assert path is not None
        return (Step(device.program, device.variant, str(path), source.inputs, source.outputs),)

    def chain(self, plan: SplitPlan, connections: Connections, directory: Path) -> Chain:
        """Return the chain of the parts of a split, each on its device."""
        named = {device.name: device for device in self.devices}
        pairs = zip(plan.parts, connections.parts, strict=True)
        return tuple(step_of(named[part.device], directory, piece) for part, piece in pairs)

    def times(self, chains: Sequence[Chain]) -> list[Floats | Failure]:
        """Return the times of chains that take turns, by round, step and what is done, or why one does not run."""
        found: dict[int, Floats | Failure] = {}
        left = list(range(len(chains)))
        while left:
            asked = tuple(chains[number] for number in left)
            seconds = self.request.seconds * len(asked)
            timed = self.worker.measure(ChainsRequest(asked, seconds, {}, self.request.seed))
            if not timed.failure:
                found |= zip(left, timed.times_us, strict=True)
                break
            if timed.failed is None and len(left) > 1:  # the process ended, and does not say in which
                return [self.times([chain])[0] for chain in chains]
            number, step = timed.failed or (0, self._ending(asked[0]))
            place = Path(asked[number][step].model).name
            found[left.pop(number)] = Failure(f"{place} in {asked[number][step].program}: {timed.failure}", step)
        return [found[number] for number in range(len(chains))]

    def _ending(self, chain: Chain) -> int:
        """Return the first step of a chain that ends the process also alone, else the last."""
        for number, step in enumerate(chain):
            if self.worker.measure(ChainsRequest(((step,),), 0.0, {}, self.request.seed)).failure:
                return number
        return len(chain) - 1


def step_of(device: Device, directory: Path, piece: Piece) -> Step:
    """Return the step that runs a part on a device."""
    return Step(device.program, device.variant, str(directory / piece.file), piece.inputs, piece.outputs)


def unhindered(times_us: Floats) -> Floats:
    """Return the 5th percentile over rounds: other work on the machine adds to times, often to most of them."""
    found: Floats = np.quantile(times_us, 0.05, axis=0)
    return found


def _size(names: Sequence[str], known: dict[str, Array]) -> tuple[int, int]:
    return len(names), sum(known[name].nbytes for name in names)
