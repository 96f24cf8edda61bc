"""Random problems of cost, and the least cost by trying everything: literal, and apart from the code it checks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from circletools.affinity.costs.table import CostTable, Links
from circletools.affinity.solvers.partitions import make_partitions
from circletools.graph.algorithms import Dag
from tests.kit.partition_support import dag_of, seeded


class Case(NamedTuple):
    """A problem in plain words: times by operator and device; tensors as producer, size and readers."""

    times: list[list[float]]
    tensors: list[tuple[int, float, list[int]]]
    overhead: list[list[float]]
    per_byte: list[list[float]]
    launch: list[float]

    def problem(self) -> tuple[CostTable, Dag]:
        """Return the problem and its graph as the library has them."""
        read = [(tensor, reader) for tensor, (_, _, readers) in enumerate(self.tensors) for reader in readers]
        pairs = np.array(read, np.int64).reshape(-1, 2)
        devices = len(self.launch)
        problem = CostTable(
            np.array(self.times).reshape(-1, devices),
            np.array([producer for producer, _, _ in self.tensors], np.int64),
            np.array([size for _, size, _ in self.tensors], np.float64),
            pairs[:, 0],
            pairs[:, 1],
            Links(np.array(self.overhead), np.array(self.per_byte), np.array(self.launch)),
        )
        edges = {(producer, reader) for producer, _, readers in self.tensors for reader in readers}
        return problem, dag_of(len(self.times), edges)

    def cost(self, devices: Sequence[int]) -> float:
        """Return what it costs without launches, as in docs/costs.md."""
        total = sum(self.times[operator][device] for operator, device in enumerate(devices))
        for producer, size, readers in self.tensors:
            here = devices[producer]
            for there in {devices[reader] for reader in readers} - {here}:
                total += self.overhead[here][there] + size * self.per_byte[here][there]
        return total

    def launches(self, devices: Sequence[int]) -> float:
        """Return what launching each partition costs."""
        _, graph = self.problem()
        return sum(self.launch[partition.device] for partition in make_partitions(graph, devices))

    def every(self) -> Iterator[tuple[int, ...]]:
        """Yield every assignment to devices that can run the operators."""
        able = [[device for device, time in enumerate(row) if time < inf] for row in self.times]
        return itertools.product(*able)


def random_case(seed: int, most: int, devices: int, *, launch: bool = False) -> Case:
    """Return a random case of at most `most` operators, each of which some device can run."""
    generator = seeded(seed)
    count = generator.randint(1, most)
    times = [[generator.choice((inf, *map(float, range(0, 30, 3)))) for _ in range(devices)] for _ in range(count)]
    for row in times:
        row[generator.randrange(devices)] = float(generator.randint(0, 20))
    tensors = []
    share = generator.choice((0.15, 0.3, 0.6))
    for producer in range(count):
        for _ in range(generator.randint(1, 2)):
            readers = [reader for reader in range(producer + 1, count) if generator.random() < share]
            if readers:
                tensors.append((producer, float(generator.randint(0, 12)), readers))

    def table(largest: int) -> list[list[float]]:
        rows = [[float(generator.randint(0, largest)) for _ in range(devices)] for _ in range(devices)]
        return [[0.0 if a == b else cost for b, cost in enumerate(row)] for a, row in enumerate(rows)]

    launches = [float(generator.randint(0, 9)) if launch else 0.0 for _ in range(devices)]
    return Case(times, tensors, table(8), table(2), launches)


CODES = ("FullyConnected", "Tanh", "Logistic", "Mul", "ReLU", "Add")
"""onert's names of the operators of circle/diamond."""


def diamond_trace(path: Path, backends: Sequence[str] = ("cpu",), leave_out: Sequence[int] = ()) -> Path:
    """Write a trace of onert of circle/diamond: operator i took i + 1 us, backends take turns."""
    events: list[dict[str, str]] = []
    for index, code in enumerate(CODES):
        if index not in leave_out:
            track = f"$0 sess, $0 subg, {backends[index % len(backends)]}"
            for phase, time in (("B", 100 * index), ("E", 100 * index + index + 1)):
                events.append({"name": f"@{index} {code}", "tid": track, "ph": phase, "ts": str(time)})
    path.write_text(json.dumps({"traceEvents": [*events, {}]}))
    return path
