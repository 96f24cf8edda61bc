"""Running a model whole and in parts on its devices, and taking the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from circletools.parts.package import Connections, Piece
from circletools.parts.plan import SplitPlan
from circletools.runtimes.protocol import Chain, ChainsRequest, Step
from circletools.runtimes.worker import Worker
from circletools.split.measuring.request import Device, MeasureRequest

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a chain does not run."""

    words: str


@dataclass(frozen=True, slots=True)
class Bench:
    """The model in a file on its devices; `worker` runs what is measured."""

    source: Path
    devices: tuple[Device, ...]
    worker: Worker
    request: MeasureRequest

    def whole(self, device: Device, source: Piece) -> Chain:
        """Return the chain of the whole model on one device."""
        return (Step(device.program, device.variant, str(self.source), source.inputs, source.outputs),)

    def chain(self, plan: SplitPlan, connections: Connections, directory: Path) -> Chain:
        """Return the chain of the parts of a split, each on its device."""
        named = {device.name: device for device in self.devices}
        pairs = zip(plan.parts, connections.parts, strict=True)
        return tuple(_step(named[part.device], directory, piece) for part, piece in pairs)

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
            if timed.failed is None and len(left) > 1:  # the process ended, and the step is not known
                return [self.times([chain])[0] for chain in chains]
            number, step = timed.failed or (0, self._ending(asked[0]))
            place = Path(asked[number][step].model).name
            found[left.pop(number)] = Failure(f"{place} in {asked[number][step].program}: {timed.failure}")
        return [found[number] for number in range(len(chains))]

    def _ending(self, chain: Chain) -> int:
        """Return the first step of a chain that ends the process also alone, else the last."""
        for number, step in enumerate(chain):
            if self.worker.measure(ChainsRequest(((step,),), 0.0, {}, self.request.seed)).failure:
                return number
        return len(chain) - 1


def _step(device: Device, directory: Path, piece: Piece) -> Step:
    return Step(device.program, device.variant, str(directory / piece.file), piece.inputs, piece.outputs)


def unhindered(times_us: Floats) -> Floats:
    """Return the 5th percentile over rounds: other work on the machine adds to times, often to most of them."""
    found: Floats = np.quantile(times_us, 0.05, axis=0)
    return found
