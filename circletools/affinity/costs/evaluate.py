"""The objective: the cost of an assignment of operators to devices, shared by all code that compares assignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.table import CostTable, Indices


@dataclass(frozen=True, slots=True)
class Estimate:
    """The time of one run in microseconds, with operators run one after the other.

    `operators_without_time` are on a device that has no time for them, and count as 0. `constants_us` is the time to
    load the constants of the partitions, each with a copy of its own.
    """

    operators_us: float
    copies_us: float
    launches_us: float
    operators_without_time: int
    constants_us: float = 0.0

    @property
    def total_us(self) -> float:
        """Return the total."""
        return self.operators_us + self.copies_us + self.launches_us + self.constants_us


def evaluate(
    problem: CostTable, numbers: Sequence[int] | Indices, launched: Sequence[int] | Indices = ()
) -> Estimate:
    """Return the cost with operators on devices `numbers`; `launched` lists the device of each launched partition.

    sum of times + sum over tensors, and other devices that read them, of one copy + sum over partitions of a launch
    """
    devices = np.asarray(numbers, np.int64)
    times = problem.times_us[np.arange(len(devices)), devices]
    known = np.isfinite(times)
    tensors, targets = crossings(problem, devices)
    copies = problem.copy_us(tensors, devices[problem.producers[tensors]], targets)
    launches = problem.links.launch_us[np.asarray(launched, np.int64)]
    operators_us, copies_us, launches_us = (float(part.sum()) for part in (times[known], copies, launches))
    return Estimate(operators_us, copies_us, launches_us, int((~known).sum()))


def crossings(problem: CostTable, devices: Indices) -> tuple[Indices, Indices]:
    """Return each pair of a tensor and a device to which it is copied, as two arrays."""
    targets = devices[problem.readers]
    across = targets != devices[problem.producers[problem.read]]
    count = problem.times_us.shape[1]
    pairs = np.unique(problem.read[across] * count + targets[across])
    return pairs // count, pairs % count


def constants_us(what: Contents, problem: CostTable, home: Sequence[int], devices: Sequence[int]) -> float:
    """Return the time to load each partition's constants; `home` and `devices` are by operator."""
    rate = problem.links.constant_us_per_byte
    if rate is None:
        return 0.0
    operators, buffers = what.constants
    rows = np.stack(
        [np.asarray(home, np.int64)[operators], np.asarray(devices, np.int64)[operators], buffers], axis=1
    )
    rows = np.unique(rows, axis=0)
    return float((what.buffer_bytes[rows[:, 2]] * rate[rows[:, 1]]).sum())
