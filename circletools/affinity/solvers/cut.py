"""The best devices for operators that have two to choose from, by a minimum cut.

Source side is one device, sink side the other. An operator is cut off from the side it is not on, at the price of the
side it is on. A tensor with several readers has two vertices of its own, so that its copy is paid once:

    producer --copy--> u --copy--> each reader      the producer here, some reader there
    each reader --copy--> v --copy--> producer      the other way around

What is made or read on a third device stays there: its copies are prices of one side. So the choice is exact for any
costs, also where a way by a third device would be cheaper. Capacities are 31-bit integers, in steps of a thousand
millionth of the largest.

(V. Kolmogorov, R. Zabih, What energy functions can be minimized via graph cuts?, 2004; the swaps of Y. Boykov,
O. Veksler, R. Zabih, Fast approximate energy minimization via graph cuts, 2001.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import CostTable, Floats, Indices
from circletools.errors import UsageError

_SOURCE, _SINK = 0, 1
_STEPS = 2**30 - 1  # an arc and the arc back together must fit into 31 bits


_Arcs = list[tuple[Indices, Indices, Floats]]
"""Tails, heads and costs."""


def best_of_two(problem: CostTable, devices: Indices, first: int, second: int) -> Indices:
    """Return the devices with those on `first` or `second` chosen anew among the two, at the least cost.

    An operator that one of the two cannot run stays on the other. Of equal choices the one with more on `first` is
    returned. Launches are left out. Raises UsageError where SciPy is not installed.
    """
    times = problem.times_us
    concerned = (devices == first) | (devices == second)
    free = concerned & np.isfinite(times[:, first]) & np.isfinite(times[:, second])
    # The second device is the source's: a minimum cut is read from the source, with the fewest on its side.
    vertex = np.where(devices == second, _SOURCE, _SINK)
    vertex[free] = 2 + np.arange(int(free.sum()))
    arcs: _Arcs = []
    prices = _prices_of_third(problem, devices, concerned, first, second)
    chosen = np.flatnonzero(free)
    # The cut arc is that of the other side: on the source's side, the arc to the sink.
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
    """Return the cost of copies to other devices, for each producer on `first` and on `second`."""
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
    """Add the arcs of tensors that operators of the two devices read, and return the number of vertices."""
    first, second = pair
    inside = concerned[problem.readers]
    tensors, readers = problem.read[inside], vertex[problem.readers[inside]]
    # Readers that are at a terminal are one and the same.
    pairs = np.unique(np.stack([tensors, readers], axis=1), axis=0)
    tensors, readers = pairs[:, 0], pairs[:, 1]
    producers = problem.producers
    makes = concerned[producers]
    every = np.arange(len(producers))
    # To the sink's device, from the source's or from a third; and to the source's device.
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
    """Return which other vertices are on the source's side of the minimum cut with the fewest there."""
    try:
        from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import, and an extra
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow  # noqa: PLC0415 - as above
    except ImportError as error:
        raise UsageError("choosing by cost needs SciPy", hint="pip install 'circletools[costs]'") from error
    tails, heads, costs = (np.concatenate(each) for each in zip(*arcs, strict=True))
    useful = (tails != heads) & (tails != _SINK) & (heads != _SOURCE) & (costs > 0)
    keys, where = np.unique(tails[useful] * count + heads[useful], return_inverse=True)
    tails, heads = keys // count, keys % count
    sums = np.bincount(where, costs[useful], minlength=len(keys)).astype(np.float64)
    sums = _bounded(tails, heads, sums, count)
    side = np.zeros(count, np.bool_)
    if not sums.any():
        sums = np.ones(len(keys))  # nothing is dearer than anything else
    if not len(sums):
        return side
    capacities = np.maximum(np.rint(sums / sums.max() * _STEPS), 1).astype(np.int32)
    ends = tails.astype(np.int32), heads.astype(np.int32)  # older versions of SciPy take no others
    network = csr_array((capacities, ends), shape=(count, count))
    left = network - maximum_flow(network, _SOURCE, _SINK, method="dinic").flow
    side[breadth_first_order(left, _SOURCE, return_predecessors=False)] = True
    return side


def _bounded(tails: Indices, heads: Indices, costs: Floats, count: int) -> Floats:
    """Return the costs with those of arcs at a terminal no larger than they can matter, so that steps are small.

    More than all other arcs of a vertex can carry makes no difference, as long as it is more.
    """
    out = np.bincount(tails, costs, minlength=count)
    into = np.bincount(heads, costs, minlength=count)
    bound: Floats = costs.copy()
    from_source = (tails == _SOURCE) & (heads != _SINK)
    bound[from_source] = np.minimum(costs[from_source], 1.001 * out[heads[from_source]])
    to_sink = (heads == _SINK) & (tails != _SOURCE)
    bound[to_sink] = np.minimum(costs[to_sink], 1.001 * into[tails[to_sink]])
    bound[(tails == _SOURCE) & (heads == _SINK)] = 0
    return bound
