"""Better devices than searching found, and what none take less than.

Of few operators all that may be cheaper is tried, of more where partitions need not be connected, as far as the steps
do; else an integer program looks for them, in a limited time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circletools.affinity.costs.constants import Bringing
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.exact import Keeping, cheapest
from circletools.affinity.costs.islands import settled
from circletools.affinity.costs.problem import Indices, Problem
from circletools.affinity.costs.program import least_bound, solve
from circletools.affinity.partition.partitions import Mode, Partition, make_partitions
from circletools.graph.dag import Dag

_FEW = 12
_BETTER = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Proven:
    """Devices, and the time that no assignment is below, in microseconds.

    `partitions` take less than those that the mode makes for these devices; None where there are no such.
    """

    devices: Indices
    least_us: float
    partitions: tuple[Partition, ...] | None = None


def proven(
    problem: Problem,
    graph: Dag,
    devices: Indices,
    mode: Mode,
    seconds: float,
    bringing: Bringing | None = None,
) -> Proven:
    """Return the devices, or better ones that are found, and what no others take less than.

    `bringing` is what constants take, of which `problem` has what counts for sure. The program has so many seconds.
    Of two devices without launches devices are the best as they are given. Raises UsageError where SciPy is not
    installed.
    """
    whole = bringing.problem if bringing else problem
    launched = bringing is not None or bool(problem.links.launch_us.any())

    def total(some: Indices) -> float:
        return _total(whole, some, make_partitions(graph, some.tolist(), mode) if launched else (), bringing)

    best, least = total(devices), least_bound(problem)
    if not launched and np.isfinite(problem.times_us).any(axis=0).sum() <= 2:
        return Proven(devices, best)
    connected = mode != "epochs" and not graph.joins_any
    regions = connected and not graph.beside
    if len(graph) <= _FEW or not regions:
        keeping = Keeping(cost=bringing.us) if bringing else None
        tried = cheapest(whole, graph, connected=connected, keeping=keeping, below=best)
        partitions = None
        if tried.partitions is not None:
            found = devices_of(tried.partitions, len(graph))
            if total(found) < best * _BETTER:
                devices, best = found, total(found)
            if mode == "min" and tried.least_us < best * _BETTER:
                devices, best, partitions = found, tried.least_us, tried.partitions
        least = max(least, tried.least_us)
        if tried.is_known:
            return Proven(devices, min(least, best), partitions)
    for bound in solve(problem, graph, regions=regions, seconds=seconds) if seconds else ():
        least = max(least, bound.least_us)
        for found in () if bound.devices is None else (bound.devices, settled(problem, graph, bound.devices)):
            if total(found) < best * _BETTER:
                devices, best = found, total(found)
        if best <= least / _BETTER:
            break
    return Proven(devices, min(least, best))


def _total(problem: Problem, devices: Indices, partitions: Sequence[Partition], bringing: Bringing | None) -> float:
    total = evaluate(problem, devices, [partition.device for partition in partitions]).total_us
    return total + sum(bringing.us(one.operators, one.device) for one in partitions if bringing)


def devices_of(partitions: Sequence[Partition], count: int) -> Indices:
    """Return the device of each of `count` operators."""
    devices: Indices = np.zeros(count, np.int64)
    for partition in partitions:
        devices[list(partition.operators)] = partition.device
    return devices
