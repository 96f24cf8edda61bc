"""The devices of least total time: exact for two devices without launches, near it for more, and with launches.

    two devices          one minimum cut
    more                 cuts of two devices at a time, from several starts, until none gets better
    launches             charged to copies in the cut, in several shares; then islands are moved as a whole
    proof                an integer program, in a limited time (see `proof`)

How many launches there are is known only when the graph is partitioned, which no cut can see. A chain has one more
than it has changes of device, so there charging each copy the launch on the other side is exact; where branches meet
it is too much. So several shares are tried, and partitioning tells which candidate takes the least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from circletools.affinity.costs.cut import best_of_two
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.islands import settled
from circletools.affinity.costs.problem import Indices, Problem
from circletools.affinity.partition.partitions import Mode, make_partitions
from circletools.graph.dag import Dag

_SHARES = (0.0, 0.25, 0.5, 1.0)
_MANY = 20_000
"""Of so many operators and more than two devices, one start is taken: each costs seconds."""
_SEVERAL = 5_000
"""Of more operators one share is taken, that which is best or near it elsewhere: partitioning takes its time, too."""
_ONE_SHARE = 0.5
_BETTER = 1 - 1e-9


def least_time(problem: Problem, graph: Dag, mode: Mode = "min", *, quick: bool = False) -> Indices:
    """Return the device of each operator; every one must have a device that can run it.

    Launches are those of partitions made in `mode`; if it is to be `quick`, one share of them and
    one start are tried. Raises EditError where the mode cannot partition the graph.
    """
    if not problem.links.launch_us.any():
        return _without_launches(problem, quick=quick)
    if quick or len(graph) > _SEVERAL:
        return settled(problem, graph, _without_launches(_charged(problem, _ONE_SHARE), quick=quick))
    found = [_without_launches(_charged(problem, share)) for share in _SHARES]
    found += [settled(problem, graph, devices) for devices in (*found, *_starts(problem))]
    return min(found, key=lambda devices: evaluate(problem, devices, launches(graph, devices, mode)).total_us)


def launches(graph: Dag, devices: Indices, mode: Mode = "min") -> list[int]:
    """Return the device of each partition."""
    return [partition.device for partition in make_partitions(graph, devices.tolist(), mode)]


def _charged(problem: Problem, share: float) -> Problem:
    """Return the problem with a share of the launch on each copy's target."""
    links = problem.links
    return replace(problem, links=replace(links, overhead_us=links.overhead_us + share * links.launch_us))


def _without_launches(problem: Problem, *, quick: bool = False) -> Indices:
    pairs = list(combinations(np.flatnonzero(np.isfinite(problem.times_us).any(axis=0)).tolist(), 2))
    starts = _starts(problem)
    if len(pairs) <= 1:
        devices = next(starts)
        return best_of_two(problem, devices, *pairs[0]) if pairs else devices
    if quick or len(problem.times_us) > _MANY:
        return _swapped(problem, next(starts), pairs)
    found = [_swapped(problem, start, pairs) for start in starts]
    return min(found, key=lambda devices: evaluate(problem, devices).total_us)


def _starts(problem: Problem) -> Iterator[Indices]:
    """Yield each operator's quickest device; and each device for all that it can run."""
    quickest = problem.times_us.argmin(axis=1)
    yield quickest
    for device in range(problem.times_us.shape[1]):
        yield np.where(np.isfinite(problem.times_us[:, device]), device, quickest)


def _swapped(problem: Problem, devices: Indices, pairs: list[tuple[int, int]]) -> Indices:
    """Return the devices with every pair at its best, the others being what they are."""
    least = evaluate(problem, devices).total_us
    waiting = list(pairs)
    while waiting:
        pair = waiting.pop(0)
        swapped = best_of_two(problem, devices, *pair)
        total = evaluate(problem, swapped).total_us
        if total < least * _BETTER:
            devices, least = swapped, total
            waiting = [other for other in pairs if other != pair]
    return devices
