"""The costs of one subgraph as arrays: times of operators, tensors between operators, and costs of copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.solvers.groups import gathered
from circletools.graph.graph import Graph

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Links:
    """The costs of copies and launches, by device number.

    `overhead_us` and `us_per_byte` have the shape (devices, devices), source by target, with zeros on the diagonal.
    `launch_us` has the shape (devices,), and so has `constant_us_per_byte`, the cost of one byte of a partition's
    constants; None means that constants are free.
    """

    overhead_us: Floats
    us_per_byte: Floats
    launch_us: Floats
    constant_us_per_byte: Floats | None = None


@dataclass(frozen=True, slots=True)
class CostTable:
    """Operators 0..n-1, devices 0..d-1, and the tensors that pass between operators.

    `times_us` has the shape (n, d), infinite if a device cannot run an operator. `producers` and `sizes_bytes` are by
    tensor; `read` and `readers` are distinct pairs of a tensor and an operator that reads it.
    """

    times_us: Floats
    producers: Indices
    sizes_bytes: Floats
    read: Indices
    readers: Indices
    links: Links

    def copy_us(self, tensors: Indices, sources: Indices | int, targets: Indices | int) -> Floats:
        """Return the cost of copying tensors between devices."""
        overhead, rate = self.links.overhead_us[sources, targets], self.links.us_per_byte[sources, targets]
        copied: Floats = overhead + self.sizes_bytes[tensors] * rate
        return copied

    def copies(self) -> Iterator[tuple[int, list[int], Floats]]:
        """For each tensor, yield its producer, its readers, and the cost of a copy, by source and target device."""
        links, readers = self.links, gathered(len(self.producers), self.read.tolist(), self.readers.tolist())
        for maker, size, row in zip(self.producers.tolist(), self.sizes_bytes.tolist(), readers, strict=True):
            yield maker, row, links.overhead_us + size * links.us_per_byte


def make_cost_table(facts: Graph, times_us: Floats, links: Links) -> CostTable:
    """Return the costs of a subgraph. Operators on constants take no time, and their results need no copies.

    Raises ModelFormatError for a tensor that does not exist.
    """
    constants = np.zeros(len(facts) + 1, np.bool_)
    constants[list(facts.folded)] = True
    times_us = np.where(constants[:-1, None], 0.0, times_us)
    makers = facts.producer[facts.reads.values]
    made = (makers >= 0) & ~constants[makers]
    readers, read = facts.reads.operators[made], facts.reads.values[made]
    tensors, number = np.unique(read, return_inverse=True)
    return CostTable(times_us, facts.producer[tensors], facts.values.bytes[tensors], number, readers, links)


# --- the objective, shared by all code that compares assignments --------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """The time of one run in microseconds, with operators run one after another.

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
