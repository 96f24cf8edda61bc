"""Assignments that may fit into the memory of devices, whatever they take: tried where the cheap ones do not fit.

Devices are filled one after the other in execution order, as OpenVINO's `query_model` does. Of few operators, every
assignment is tried that constants, and what single operators read and make, do not rule out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.problem import Floats, Indices, Problem
from circletools.affinity.partition.groups import gathered
from circletools.graph.dag import Dag

_FEW_DEVICES, _SEVERAL_OPERATORS = 3, 2_000
"""Of more, devices are filled in their order, and in that order turned."""
_FEW_OPERATORS, _ROWS = 20, 3**12
"""Of so many operators every assignment is looked at, where there are not more: 12 of three devices."""

Excess = Callable[[Indices], Mapping[int, int]]
"""What is too much on each device that has a limit."""


def fillings(problem: Problem, graph: Dag, excess: Excess) -> Iterator[Indices]:
    """Yield the devices filled in their order, and in other orders."""
    count = problem.times_us.shape[1]
    numbers = tuple(range(count))
    turned = (numbers[at:] + numbers[:at] for at in numbers)
    orders = permutations(numbers) if count <= _FEW_DEVICES and len(graph) <= _SEVERAL_OPERATORS else turned
    for order in orders:
        yield _filled(problem, graph, order, excess)


def _filled(problem: Problem, graph: Dag, order: tuple[int, ...], excess: Excess) -> Indices:
    able = np.isfinite(problem.times_us)
    last = able[:, order].shape[1] - 1 - able[:, order[::-1]].argmax(axis=1)
    devices: Indices = np.array(order, np.int64)[last]
    rest = np.array(graph.order, np.int64)
    for device in order:
        row = rest[able[rest, device]]
        low, high = 0, len(row) + 1  # so many fit; so many do not
        while high - low > 1:
            middle = (low + high) // 2
            trial = devices.copy()
            trial[row[:middle]] = device
            low, high = (low, middle) if excess(trial).get(device, 0) else (middle, high)
        devices[row[:low]] = device
        rest = rest[~np.isin(rest, row[:low])]
    return devices


@dataclass(frozen=True, slots=True)
class Table:
    """Assignments, a row each, and what they take at least, in microseconds."""

    devices: NDArray[np.int8]
    least_us: Floats


def everything(problem: Problem, what: Contents, caps: Mapping[int, int]) -> Table | None:
    """Return all assignments that may fit, the cheapest first; None where there are too many to look at."""
    count = len(problem.times_us)
    if count > _FEW_OPERATORS:
        return None
    buffers = gathered(count, what.constants[0].tolist(), what.constants[1].tolist())
    needs = _needs(what, count)
    able = [np.flatnonzero(row) for row in np.isfinite(problem.times_us)]
    weight = [sum(what.buffer_bytes[buffer] for buffer in row) for row in buffers]
    order = sorted(range(count), key=lambda operator: (len(able[operator]), -weight[operator] - needs[operator]))
    table = np.zeros((1, count), np.int8)
    held, most = {device: np.zeros(1) for device in caps}, {device: np.zeros(1) for device in caps}
    readers: dict[int, list[int]] = {}
    for operator in order:
        choices = able[operator]
        if len(table) * len(choices) > _ROWS:
            return None
        which = np.repeat(np.arange(len(table)), len(choices))
        table = table[which]
        table[:, operator] = np.tile(choices, len(which) // max(len(choices), 1))
        fits = np.ones(len(table), np.bool_)
        for device, cap in caps.items():
            here = table[:, operator] == device
            held[device] = held[device][which]
            most[device] = np.maximum(most[device][which], here * needs[operator])
            for buffer in buffers[operator]:
                others = (table[:, readers.get(buffer, [])] == device).any(axis=1)
                held[device] += (here & ~others) * what.buffer_bytes[buffer]
            fits &= held[device] + most[device] <= cap
        for buffer in buffers[operator]:
            readers.setdefault(buffer, []).append(operator)
        table = table[fits]
        held, most = ({device: row[fits] for device, row in rows.items()} for rows in (held, most))
    times = _times(problem, table)
    cheapest_first = np.argsort(times, kind="stable")
    return Table(table[cheapest_first], times[cheapest_first])


def _times(problem: Problem, table: NDArray[np.int8]) -> Floats:
    """Return what operators and copies take, by row of assignments."""
    total: Floats = np.zeros(len(table))
    for operator, times in enumerate(problem.times_us):
        total += times[table[:, operator]]
    for maker, row, copies in problem.copies():
        for device in range(len(copies)):
            total += copies[table[:, maker], device] * (table[:, row] == device).any(axis=1)
    return total


def _needs(what: Contents, count: int) -> list[float]:
    """Return the bytes of tensors that are there at least while an operator runs: what it reads and makes."""
    made = what.producers >= 0
    total = np.bincount(what.producers[made], what.sizes_bytes[made], minlength=count).astype(np.float64)
    total += np.bincount(what.readers, what.sizes_bytes[what.read], minlength=count)
    return [float(bytes_) for bytes_ in total]
