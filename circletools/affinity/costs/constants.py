"""What it costs that partitions bring the constants that they read: in two partitions, a weight is two copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circletools.affinity.costs.memory import Contents, contents
from circletools.affinity.costs.problem import Problem
from circletools.model.operator_facts import OperatorFacts


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


def with_constants(facts: OperatorFacts, problem: Problem) -> Problem:
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
