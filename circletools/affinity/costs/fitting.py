"""Assignments that may fit into the memory of devices, whatever they take: tried where the cheap ones do not fit.

Devices are filled one after the other in execution order, as OpenVINO's `query_model` does. Of few operators, every
assignment is tried that constants, and what single operators read and make, do not rule out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations

import numpy as np

from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.problem import Indices, Problem
from circletools.affinity.partition.groups import gathered
from circletools.model.graph import OperatorGraph

_FEW_DEVICES, _SEVERAL_OPERATORS = 3, 2_000
"""Of more, devices are filled in their order, and in that order turned."""
_FEW_OPERATORS = 16
_STEPS = 300_000

Excess = Callable[[Indices], Mapping[int, int]]
"""What is too much on each device that has a limit."""


def fillings(problem: Problem, graph: OperatorGraph, excess: Excess) -> Iterator[Indices]:
    """Yield the devices filled in their order, and in other orders."""
    count = problem.times_us.shape[1]
    numbers = tuple(range(count))
    turned = (numbers[at:] + numbers[:at] for at in numbers)
    orders = permutations(numbers) if count <= _FEW_DEVICES and len(graph) <= _SEVERAL_OPERATORS else turned
    for order in orders:
        yield _filled(problem, graph, order, excess)


def _filled(problem: Problem, graph: OperatorGraph, order: tuple[int, ...], excess: Excess) -> Indices:
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


def everything(problem: Problem, what: Contents, caps: Mapping[int, int]) -> Iterator[Indices]:
    """Yield all assignments of few operators that may fit; none of many operators.

    After so many steps it ends: then it is not known whether there is another.
    """
    count = len(problem.times_us)
    if count > _FEW_OPERATORS:
        return
    buffers = gathered(count, what.constants[0].tolist(), what.constants[1].tolist())
    needs = _needs(what, count)
    able = [np.flatnonzero(row).tolist() for row in np.isfinite(problem.times_us)]
    weight = [sum(what.buffer_bytes[buffer] for buffer in row) for row in buffers]
    order = sorted(range(count), key=lambda operator: (len(able[operator]), -weight[operator] - needs[operator]))
    devices = np.zeros(count, np.int64)
    held: list[dict[int, int]] = [{} for _ in range(problem.times_us.shape[1])]  # buffer -> how many read it
    steps = _STEPS

    def place(at: int) -> Iterator[Indices]:
        nonlocal steps
        if at == count:
            yield devices.copy()
            return
        operator = order[at]
        for device in able[operator]:
            steps -= 1
            if steps < 0:
                return
            for buffer in buffers[operator]:
                held[device][buffer] = held[device].get(buffer, 0) + 1
            devices[operator] = device
            needed = max((needs[other] for other in order[: at + 1] if devices[other] == device), default=0)
            if sum(what.buffer_bytes[buffer] for buffer in held[device]) + needed <= caps.get(device, np.inf):
                yield from place(at + 1)
            for buffer in buffers[operator]:
                held[device][buffer] -= 1
                if not held[device][buffer]:
                    del held[device][buffer]

    yield from place(0)


def _needs(what: Contents, count: int) -> list[float]:
    """Return the bytes of tensors that are there at least while an operator runs: what it reads and makes."""
    made = what.producers >= 0
    total = np.bincount(what.producers[made], what.sizes_bytes[made], minlength=count).astype(np.float64)
    total += np.bincount(what.readers, what.sizes_bytes[what.read], minlength=count)
    return [float(bytes_) for bytes_ in total]
