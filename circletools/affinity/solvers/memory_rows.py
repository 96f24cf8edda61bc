"""Rows of an integer program for device memory: a lower bound on what is live while a unit runs, in any order.

    constants that the device holds
    + what the unit reads and makes, on its device; its inputs also on the device that made them
    + tensors made before the unit and read after it in every order, on the device that made them

The order in which partitions run may need more memory; `orders` checks that for each candidate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import Floats, Indices
from circletools.affinity.problem import Problem
from circletools.affinity.solvers.rows import IntegerProgram
from circletools.graph.dag import Dag

_MANY = 1_000
"""In larger problems, the row of a unit has only the tensors that it reads and makes."""


def add_memory(problem: Problem, program: IntegerProgram, x: Indices) -> None:
    """Add rows for all devices with limited memory; `x` are the columns of units on devices."""
    what, count = problem.contents, len(problem)
    units, buffers = what.constants
    names, number = np.unique(buffers, return_inverse=True)
    reaches = _reaches(problem.graph) if problem.caps and count <= _MANY else None
    makers, readers, sizes = what.producers, what.readers, what.sizes_bytes
    made = np.flatnonzero(makers >= 0)
    bytes_made = problem.made_bytes
    for device, cap in problem.caps.items():
        holds = program.columns(np.zeros(len(names)))
        program.rows((x[units, device], 1.0), (holds[number], -1.0), high=0.0)
        both = program.columns(np.zeros(len(readers)))  # the tensor is on the device while one of its readers runs
        has_maker = makers[what.read] >= 0
        program.rows((x[readers, device], 1.0), (both, -1.0), high=0.0)
        program.rows((x[makers[what.read[has_maker]], device], 1.0), (both[has_maker], -1.0), high=0.0)
        constant_bytes = what.buffer_bytes[names]
        for unit in range(count):
            reads = np.flatnonzero(readers == unit)
            lasting = _lasting(problem, reaches, unit, made, set(what.read[reads].tolist()))
            program.row(
                (holds, constant_bytes),
                (both[reads], sizes[what.read[reads]]),
                ([int(x[unit, device])], float(bytes_made[unit])),
                (x[makers[lasting], device], sizes[lasting]),
                high=float(cap),
            )


def _lasting(problem: Problem, reaches: NDArray[np.bool_] | None, unit: int, made: Indices, own: set[int]) -> Indices:
    """Return the tensors that are made before a unit and read after it in every order."""
    what = problem.contents
    if reaches is None:
        return np.zeros(0, np.int64)
    behind = np.zeros(len(what.sizes_bytes), np.bool_)
    behind[what.read[reaches[unit, what.readers]]] = True
    behind[what.kept] = True
    lasting = made[reaches[what.producers[made], unit] & behind[made]]
    return np.array([tensor for tensor in lasting.tolist() if tensor not in own], np.int64)


def _reaches(graph: Dag) -> NDArray[np.bool_]:
    """Return which unit reaches which other units."""
    reaches = np.zeros((len(graph), len(graph)), np.bool_)
    for unit in reversed(graph.order):
        for after in graph.successors[unit]:
            reaches[unit] |= reaches[after]
            reaches[unit, after] = True
    return reaches


def unit_bytes(problem: Problem) -> Floats:
    """Return the most bytes that each unit needs: the constants it reads and the tensors it produces."""
    units, buffers = problem.contents.constants
    read = np.bincount(units, problem.contents.buffer_bytes[buffers], minlength=len(problem))
    return problem.made_bytes + read
