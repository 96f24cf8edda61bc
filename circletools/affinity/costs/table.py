"""The costs of one subgraph as arrays: times of operators, tensors between operators, and costs of copies."""

from __future__ import annotations

from collections.abc import Iterator
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
        """Yield for each tensor its producer, its readers, and the cost of a copy, by source and target device."""
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
