"""The best choice between two devices for each operator, by a minimum cut.

The source side is one device, the sink side the other; an operator's cut arc has the cost on its device. A tensor
with several readers has two extra vertices, so that its copy is paid once:

    producer --copy--> u --copy--> each reader      cut if the producer is on the source side, a reader is not
    each reader --copy--> v --copy--> producer      cut if a reader is on the source side, the producer is not

Values made or read on a third device stay there: their copies are costs of one side. So the choice is exact for any
costs, even if a detour over a third device would be cheaper. Capacities are 31-bit integers, in steps of a
billionth of the largest.

(V. Kolmogorov, R. Zabih, What energy functions can be minimized via graph cuts?, 2004; the swaps of Y. Boykov,
O. Veksler, R. Zabih, Fast approximate energy minimization via graph cuts, 2001.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.costs.table import CostTable, Floats, Indices
from circletools.errors import UsageError

_SOURCE, _SINK = 0, 1
_STEPS = 2**30 - 1  # the sum of an arc and its reverse must fit into 31 bits


_Arcs = list[tuple[Indices, Indices, Floats]]
"""Tails, heads and costs."""


def best_of_two(problem: CostTable, devices: Indices, first: int, second: int) -> Indices:
    """Return the devices, with operators on `first` or `second` reassigned between the two at the least cost.

    An operator that one of the two cannot run stays on the other. Among equal choices, the one with most operators on
    `first` is returned. Launches are not counted. Raises UsageError if SciPy is not installed.
    """
    times = problem.times_us
    concerned = (devices == first) | (devices == second)
    free = concerned & np.isfinite(times[:, first]) & np.isfinite(times[:, second])
    # The second device is the source's: the cut is read from the source, with the fewest operators on its side.
    vertex = np.where(devices == second, _SOURCE, _SINK)
    vertex[free] = 2 + np.arange(int(free.sum()))
    arcs: _Arcs = []
    prices = _prices_of_third(problem, devices, concerned, first, second)
    chosen = np.flatnonzero(free)
    # Cost belongs to the opposite arc: an operator on the source's side cuts its arc to the sink.
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
    """Return the cost of copies to third devices, for each producer, if it is on `first` and if on `second`."""
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
    """Add arcs for the tensors that operators of the two devices read, and return the number of vertices."""
    first, second = pair
    inside = concerned[problem.readers]
    tensors, readers = problem.read[inside], vertex[problem.readers[inside]]
    # Readers that are at a terminal share one vertex.
    pairs = np.unique(np.stack([tensors, readers], axis=1), axis=0)
    tensors, readers = pairs[:, 0], pairs[:, 1]
    producers = problem.producers
    makes = concerned[producers]
    every = np.arange(len(producers))
    # Copies to the sink's device, from the source's or a third one; then copies to the source's device.
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
    """Return the vertices on the source's side of the minimum cut whose source side is smallest."""
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
        sums = np.ones(len(keys))  # all costs are zero
    if not len(sums):
        return side
    capacities = np.maximum(np.rint(sums / sums.max() * _STEPS), 1).astype(np.int32)
    ends = tails.astype(np.int32), heads.astype(np.int32)  # older versions of SciPy require int32
    network = csr_array((capacities, ends), shape=(count, count))
    left = network - maximum_flow(network, _SOURCE, _SINK, method="dinic").flow
    side[breadth_first_order(left, _SOURCE, return_predecessors=False)] = True
    return side


def _bounded(tails: Indices, heads: Indices, costs: Floats, count: int) -> Floats:
    """Return the costs, with arcs at a terminal clipped to what can matter so that integer steps stay small.

    The clipped capacity still exceeds all that the vertex's other arcs can carry, so the cut is the same.
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
