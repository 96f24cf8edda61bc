"""Devices of low total time by minimum cuts: exact for two devices without launches, otherwise near-optimal.

    two devices          one minimum cut
    more                 cuts of two devices at a time, from several starts, until none helps (swap moves)
    launches             half of one is charged to each copy in the cut; then islands are moved as a whole
    memory               a price for each byte on a device that is too full, raised until the cheapest assignment fits

The number of launches is known only once the graph is partitioned, which no cut can see. A chain has one launch more
than it has device changes, so charging each copy the launch on the other side is exact for chains; it is too much
where branches meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from circletools.affinity.candidate import Candidate, violations
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.table import CostTable, Indices
from circletools.affinity.problem import Problem
from circletools.affinity.solvers.cut import best_of_two
from circletools.affinity.solvers.islands import move_islands
from circletools.affinity.solvers.memory_rows import unit_bytes
from circletools.affinity.solvers.partitions import make_partitions

_MANY = 20_000
"""Larger problems with more than two devices use a single start, as each start costs seconds."""
_SHARE = 0.5
_HALVINGS, _RANGE = 16, 1e-15
"""The tolerance of the search for the logarithm of a price, as a share of the highest: leaves an error of 0.05 %."""
_BETTER = 1 - 1e-9


def is_exact(problem: Problem) -> bool:
    """Return whether one minimum cut gives the least total time: two devices, and only times and copies count."""
    links = problem.table.links
    free = not links.launch_us.any() and links.constant_us_per_byte is None and not problem.is_constrained
    return free and bool(problem.able.any(axis=0).sum() <= 2)


def flow(problem: Problem) -> list[Candidate]:
    """Return candidates, whatever the limits; every unit must be allowed on some device."""
    table = _shared_constants(problem)
    if not table.links.launch_us.any():
        found = [_swapped_from_all(table)]
    else:
        charged = replace(table.links, overhead_us=table.links.overhead_us + _SHARE * table.links.launch_us)
        several = len(problem) <= _MANY
        found = [_swapped_from_all(replace(table, links=charged)), *(_starts(table) if several else ())]
        found = [move_islands(table, problem.graph, devices) for devices in found]
    return [make_partitions(problem.graph, devices.tolist()) for devices in found]


def priced(problem: Problem) -> Iterator[Candidate]:
    """Yield candidates that may fit into memory, found with a price per byte on devices over capacity."""
    table, per_unit = _shared_constants(problem), unit_bytes(problem)
    known = np.where(np.isfinite(table.times_us), table.times_us, 0)
    dearest = known.max(axis=1, initial=0).sum() + table.links.overhead_us.max(initial=0) * len(table.producers)
    highest = float(dearest + table.links.us_per_byte.max(initial=0) * table.sizes_bytes.sum()) + 1.0
    prices = np.zeros(problem.devices)

    def cheapest() -> Candidate:
        devices = _swapped(replace(table, times_us=table.times_us + per_unit[:, None] * prices), next(_starts(table)))
        return make_partitions(problem.graph, devices.tolist())

    for device in problem.caps:
        low, high = highest * _RANGE, highest
        for _ in range(_HALVINGS):
            prices[device] = (low * high) ** 0.5
            found = cheapest()
            yield found
            is_full = any(one.device == device and one.limit is None for one in violations(problem, found))
            low, high = (prices[device], high) if is_full else (low, prices[device])
        prices[device] = high
        yield cheapest()


def _shared_constants(problem: Problem) -> CostTable:
    """Return the costs, with the cost of loading constants divided among the units that read each constant.

    This is a lower bound on the cost of partitions, exact if all readers of each constant are in one partition.
    """
    table = replace(problem.table, times_us=np.where(problem.able, problem.table.times_us, np.inf))
    rate = table.links.constant_us_per_byte
    if rate is None:
        return table
    units, buffers = problem.contents.constants
    readers = np.bincount(buffers, minlength=len(problem.contents.buffer_bytes))
    shares = problem.contents.buffer_bytes[buffers] / readers[buffers]
    read = np.bincount(units, shares, minlength=len(problem))
    return replace(table, times_us=table.times_us + read[:, None] * rate)


def least_bound(problem: Problem) -> float:
    """Return a lower bound: the least time of each unit, plus launches of the devices that must be used."""
    times = _shared_constants(problem).times_us.min(axis=1, initial=np.inf)
    launch = problem.table.links.launch_us.min(initial=np.inf) if len(times) else 0.0
    return float(times[np.isfinite(times)].sum()) + float(launch)


def _swapped_from_all(table: CostTable) -> Indices:
    """Return the best assignment that swap moves reach from any start."""
    starts = list(_starts(table))[: 1 if len(table.times_us) > _MANY else None]
    found = [_swapped(table, start) for start in starts]
    return min(found, key=lambda devices: evaluate(table, devices).total_us)


def _starts(table: CostTable) -> Iterator[Indices]:
    """Yield each unit's fastest device; then, for each device, an assignment that uses it where possible."""
    quickest = table.times_us.argmin(axis=1)
    yield quickest
    for device in range(table.times_us.shape[1]):
        yield np.where(np.isfinite(table.times_us[:, device]), device, quickest)


def _swapped(table: CostTable, devices: Indices) -> Indices:
    """Return the devices after swap moves on every pair of devices, the others held fixed, until none helps."""
    pairs = list(combinations(np.flatnonzero(np.isfinite(table.times_us).any(axis=0)).tolist(), 2))
    if len(pairs) == 1:
        return best_of_two(table, devices, *pairs[0])
    least = evaluate(table, devices).total_us
    waiting = list(pairs)
    while waiting:
        pair = waiting.pop(0)
        swapped = best_of_two(table, devices, *pair)
        total = evaluate(table, swapped).total_us
        if total < least * _BETTER:
            devices, least = swapped, total
            waiting = [other for other in pairs if other != pair]
    return devices
