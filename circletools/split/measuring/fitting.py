"""What measured times say of devices: the time of a launch, of bringing and taking tensors, and of operators.

An operator that runs alone takes its own time and that of a launch, which is at most that of the fastest. What a
model takes less than its operators alone is launches first, and what is left is fusion: the runtime computes several
operators in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LEAST_SHARE = 0.01  # of what was measured: scaling never brings back what is nothing
_SWEEPS = 50


@dataclass(frozen=True, slots=True)
class Moving:
    """What it takes to bring tensors to a device, or to take them from it: for each, and for each byte."""

    overhead_us: float
    us_per_byte: float

    def of(self, size_bytes: float) -> float:
        """Return the microseconds of one tensor."""
        return self.overhead_us + size_bytes * self.us_per_byte


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators that ran together on a device, by its number, and the microseconds that they took with the launch."""

    device: int
    operators: tuple[int, ...]
    run_us: float


def fit_moving(counts: Sequence[float], sizes_bytes: Sequence[float], times_us: Sequence[float]) -> Moving:
    """Return what moving takes, by least squares of what is relatively wrong; nothing is negative."""
    columns, times = np.array([counts, sizes_bytes], np.float64).T, np.array(times_us, np.float64)
    kept = (times > 0) & (columns[:, 0] > 0)
    columns, times = columns[kept], times[kept]
    best, least = (0.0, 0.0), float(len(times))
    for chosen in ((0, 1), (0,), (1,)):
        rows = columns[:, chosen] / times[:, None]
        found = np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)[0]
        wrong = float(((rows @ found - 1) ** 2).sum())
        if (found >= 0).all() and wrong < least:
            values = dict(zip(chosen, found.tolist(), strict=True))
            best, least = (values.get(0, 0.0), values.get(1, 0.0)), wrong
    return Moving(*best)


def fit_launch(alone_us: Sequence[float], whole_us: float | None) -> tuple[float, float]:
    """Return the microseconds of a launch, and the share of the operators' time that is left when they run together.

    `alone_us` has what each took by itself, `whole_us` what all took together, None where that is not known.
    """
    alone = np.array([one for one in alone_us if np.isfinite(one)])
    if not len(alone):
        return 0.0, 1.0
    launch = float(alone.min()) if len(alone) > 1 else 0.0  # of one, nothing tells launch and work apart
    if whole_us is None:
        return launch, 1.0
    if len(alone) > 1:
        launch = min(launch, max(0.0, float(alone.sum() - whole_us) / (len(alone) - 1)))
    work = float((alone - launch).sum())
    return launch, (max(whole_us - launch, 0.0) / work if work > 0 else 1.0)


def fit_times(times_us: Floats, launches_us: Sequence[float], segments: Iterable[Segment]) -> Floats:
    """Return the times, by operator and device, that give segments their measured time: each in turn is scaled.

    That is iterative proportional fitting. Where segments contradict each other the last counts.
    """
    fitted = times_us.copy()
    kept = [segment for segment in segments if np.isfinite(fitted[list(segment.operators), segment.device]).all()]
    for _ in range(_SWEEPS):
        for segment in kept:
            place = list(segment.operators), segment.device
            target = max(segment.run_us - launches_us[segment.device], _LEAST_SHARE * segment.run_us)
            total = float(fitted[place].sum())
            if total > 0:
                fitted[place] *= target / total
    return fitted


def work_of(alone_us: float, launch_us: float, fusion: float) -> float:
    """Return the time of an operator without its launch, as it is among others."""
    return max(alone_us - launch_us, _LEAST_SHARE * alone_us) * fusion
