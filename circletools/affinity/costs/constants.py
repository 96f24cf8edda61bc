"""What it costs that partitions bring the constants that they read: in two partitions, a weight is two copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.affinity.costs.memory import Contents, contents
from circletools.affinity.costs.problem import Problem
from circletools.affinity.partition.groups import gathered
from circletools.graph.graph import Graph


def constants_us(what: Contents, problem: Problem, home: Sequence[int], devices: Sequence[int]) -> float:
    """Return the time for the constants of all partitions; `home` and `devices` go by operator."""
    rate = problem.links.constant_us_per_byte
    if rate is None:
        return 0.0
    operators, buffers = what.constants
    rows = np.stack(
        [np.asarray(home, np.int64)[operators], np.asarray(devices, np.int64)[operators], buffers], axis=1
    )
    rows = np.unique(rows, axis=0)
    return float((what.buffer_bytes[rows[:, 2]] * rate[rows[:, 1]]).sum())


@dataclass(frozen=True, slots=True)
class Bringing:
    """What bringing constants takes: `us` tells it of the operators of a partition and its device.

    `problem` has no constants in the times of operators.
    """

    problem: Problem
    us: Callable[[tuple[int, ...], int], float]


def make_bringing(what: Contents, problem: Problem) -> Bringing | None:
    """Return what bringing constants takes, None where that is nothing."""
    rate = problem.links.constant_us_per_byte
    if rate is None:
        return None
    read = gathered(len(problem.times_us), what.constants[0].tolist(), what.constants[1].tolist())

    def us(operators: tuple[int, ...], device: int) -> float:
        buffers = {buffer for operator in operators for buffer in read[operator]}
        return float(what.buffer_bytes[sorted(buffers)].sum() * rate[device])

    return Bringing(problem, us)


def with_constants(facts: Graph, problem: Problem) -> Problem:
    """Return the problem with the constants that each operator reads in its time, shared out among their readers.

    No partitions cost less than that, and those cost just that in which no readers of one constant are apart.
    """
    rate = problem.links.constant_us_per_byte
    if rate is None:
        return problem
    what = contents(facts)
    operators, buffers = what.constants
    readers = np.bincount(buffers, minlength=len(what.buffer_bytes))
    shares = what.buffer_bytes[buffers] / readers[buffers]
    read = np.bincount(operators, shares, minlength=len(facts))
    return replace(problem, times_us=problem.times_us + read[:, None] * rate)
