"""Find devices with a low total time by minimum cuts: exact for two devices without launches, otherwise near-optimal.

    two devices          one minimum cut
    more devices         cuts of two devices at a time, from several starts, until no cut helps (swap moves)
    launches             half of a launch is charged to each copy in the cut

The number of launches is known only once the graph is partitioned, so no cut can count them. A chain has one launch
more than it has device changes, so charging each copy with the launch on the other side is exact for chains; where
branches meet, the charge is too high.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import CostTable, Floats, Indices, evaluate
from circletools.affinity.problem import Candidate, Problem
from circletools.affinity.solvers.partitions import make_partitions
from circletools.errors import UsageError

# --- the best choice between two devices for each operator, by a minimum cut ----------------------------------
# The source side is one device, the sink side the other; each operator cuts an arc with its cost on the device it
# gets. A tensor with several readers has two extra vertices, so that its copy is paid once:
#
#     producer --copy--> u --copy--> each reader      cut if the producer is on the source side, a reader is not
#     each reader --copy--> v --copy--> producer      cut if a reader is on the source side, the producer is not
#
# Operators on a third device stay there, so copies to and from it are costs of one side. The choice is thus exact for
# any costs, even if a detour over a third device would be cheaper. Capacities are 31-bit integers, in steps of a
# billionth of the largest.
#
# (V. Kolmogorov, R. Zabih, What energy functions can be minimized via graph cuts?, 2004; the swaps of Y. Boykov,
# O. Veksler, R. Zabih, Fast approximate energy minimization via graph cuts, 2001.)


_SOURCE, _SINK = 0, 1
_STEPS = 2**30 - 1  # the sum of an arc and its reverse must fit into 31 bits


_Arcs = list[tuple[Indices, Indices, Floats]]
"""The tails, heads and costs of arcs."""


def best_of_two(problem: CostTable, devices: Indices, first: int, second: int) -> Indices:
    """Return the devices, with operators on `first` or `second` reassigned between the two at the least cost.

    An operator that one of the two cannot run stays on the other. Among equal choices, the one with the most
    operators on `first` is returned. Launches are not counted. Raises UsageError if SciPy is not installed.
    """
    times = problem.times_us
    concerned = (devices == first) | (devices == second)
    free = concerned & np.isfinite(times[:, first]) & np.isfinite(times[:, second])
    # The second device is on the source side, because the cut returned has the fewest operators there.
    vertex = np.where(devices == second, _SOURCE, _SINK)
    vertex[free] = 2 + np.arange(int(free.sum()))
    arcs: _Arcs = []
    prices = _prices_of_third(problem, devices, concerned, first, second)
    chosen = np.flatnonzero(free)
    # A cost belongs to the opposite arc: an operator on the source side cuts its arc to the sink.
    arcs.append((vertex[chosen], np.full(len(chosen), _SINK), times[chosen, second] + prices[1][chosen]))
    arcs.append((np.full(len(chosen), _SOURCE), vertex[chosen], times[chosen, first] + prices[0][chosen]))
    count = _add_copies(problem, devices, concerned, vertex, (first, second), arcs)
    on_second = _source_side(arcs, count)[vertex[chosen]]
    result = devices.copy()
    result[chosen] = np.where(on_second, second, first)
    return result


def _prices_of_third(
    problem: CostTable, devices: Indices, concerned: NDArray[np.bool_], first: int, second: int
) -> tuple[Floats, Floats]:
    """Return the cost of copies to third devices for each producer if it is on `first`, and if it is on `second`."""
    outside = ~concerned[problem.readers] & concerned[problem.producers[problem.read]]
    count = problem.times_us.shape[1]
    pairs = np.unique(problem.read[outside] * count + devices[problem.readers[outside]])
    tensors, targets = pairs // count, pairs % count
    makers = problem.producers[tensors]
    copied = (problem.copy_us(tensors, device, targets) for device in (first, second))
    first_us, second_us = (np.bincount(makers, each, len(devices)).astype(np.float64) for each in copied)
    return first_us, second_us


def _add_copies(
    problem: CostTable,
    devices: Indices,
    concerned: NDArray[np.bool_],
    vertex: Indices,
    pair: tuple[int, int],
    arcs: _Arcs,
) -> int:
    """Add arcs for the tensors that operators on the two devices read; return the number of vertices."""
    first, second = pair
    inside = concerned[problem.readers]
    tensors, readers = problem.read[inside], vertex[problem.readers[inside]]
    # Readers at the same terminal share a vertex.
    pairs = np.unique(np.stack([tensors, readers], axis=1), axis=0)
    tensors, readers = pairs[:, 0], pairs[:, 1]
    producers = problem.producers
    makes = concerned[producers]
    every = np.arange(len(producers))
    # Copies to the sink's device, from the source's device or a third one; then copies to the source's device.
    to_first = problem.copy_us(every, np.where(makes, second, devices[producers]), first)
    to_second = problem.copy_us(every, np.where(makes, first, devices[producers]), second)
    tails = np.where(makes, vertex[producers], _SOURCE)
    heads = np.where(makes, vertex[producers], _SINK)
    several = np.bincount(tensors, minlength=len(producers)) > 1
    one = ~several[tensors]
    alone, reader = tensors[one], readers[one]
    arcs.append((tails[alone], reader, to_first[alone]))
    arcs.append((reader, heads[alone], to_second[alone]))
    count = int(vertex.max(initial=_SINK)) + 1
    shared = np.flatnonzero(several)
    down, up = np.zeros(len(producers), np.int64), np.zeros(len(producers), np.int64)
    down[shared] = count + 2 * np.arange(len(shared))
    up[shared] = down[shared] + 1
    arcs.append((tails[shared], down[shared], to_first[shared]))
    arcs.append((up[shared], heads[shared], to_second[shared]))
    many, reader = tensors[~one], readers[~one]
    arcs.append((down[many], reader, to_first[many]))
    arcs.append((reader, up[many], to_second[many]))
    return count + 2 * len(shared)


def _source_side(arcs: _Arcs, count: int) -> NDArray[np.bool_]:
    """Return the vertices on the source side of the minimum cut whose source side is smallest."""
    try:
        from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import, and an extra
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow  # noqa: PLC0415 - as above
    except ImportError as error:
        raise UsageError("a limit or a cost needs SciPy", hint="pip install 'circletools[costs]'") from error
    tails, heads, costs = (np.concatenate(each) for each in zip(*arcs, strict=True))
    useful = (tails != heads) & (tails != _SINK) & (heads != _SOURCE) & (costs > 0)
    keys, where = np.unique(tails[useful] * count + heads[useful], return_inverse=True)
    tails, heads = keys // count, keys % count
    sums = np.bincount(where, costs[useful], minlength=len(keys)).astype(np.float64)
    sums = _bounded(tails, heads, sums, count)
    side = np.zeros(count, np.bool_)
    if not sums.any():
        sums = np.ones(len(keys))  # all costs are zero
    if not len(sums):
        return side
    capacities = np.maximum(np.rint(sums / sums.max() * _STEPS), 1).astype(np.int32)  # no positive cost becomes 0
    ends = tails.astype(np.int32), heads.astype(np.int32)  # older versions of SciPy require int32
    network = csr_array((capacities, ends), shape=(count, count))
    left = network - maximum_flow(network, _SOURCE, _SINK, method="dinic").flow
    side[breadth_first_order(left, _SOURCE, return_predecessors=False)] = True  # reachable in the residual graph
    return side


def _bounded(tails: Indices, heads: Indices, costs: Floats, count: int) -> Floats:
    """Return the costs; arcs at a terminal are clipped to the highest useful cost, so that integer steps stay small.

    A clipped capacity still exceeds the sum of the vertex's other arcs, so the cut is the same.
    """
    # Nothing leaves the sink, and nothing enters the source, so an arc between the two becomes 0.
    most = np.where(tails == _SOURCE, 1.001 * np.bincount(tails, costs, minlength=count)[heads], costs)
    most = np.where(heads == _SINK, np.minimum(most, 1.001 * np.bincount(heads, costs, minlength=count)[tails]), most)
    return np.minimum(costs, most)


_MANY = 20_000
"""Larger problems with more than two devices use a single start, because each start takes seconds."""
_SHARE = 0.5
_BETTER = 1 - 1e-9


def is_exact(problem: Problem) -> bool:
    """Return whether a minimum cut is optimal: there are two devices, and only times and copies count."""
    links = problem.table.links
    free = not links.launch_us.any() and links.constant_us_per_byte is None and not problem.is_constrained
    return free and bool(problem.able.any(axis=0).sum() <= 2)


def flow(problem: Problem) -> list[Candidate]:
    """Return candidates that may violate limits; every unit must be allowed on some device."""
    table = _shared_constants(problem)
    if not table.links.launch_us.any():
        found = [_swapped_from_all(table)]
    else:
        charged = replace(table.links, overhead_us=table.links.overhead_us + _SHARE * table.links.launch_us)
        several = len(problem) <= _MANY
        found = [_swapped_from_all(replace(table, links=charged)), *(_starts(table) if several else ())]
    return [make_partitions(problem.graph, devices.tolist()) for devices in found]


def _shared_constants(problem: Problem) -> CostTable:
    """Return the costs, with the cost of loading constants divided among the units that read each constant.

    The result is a lower bound on the cost of partitions; it is exact if no constant is read in several partitions.
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
    """Return a lower bound: the sum of each unit's least time, plus launches of the devices that must be used."""
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
    """Return the devices after swap moves between all pairs of devices, repeated until none helps."""
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
