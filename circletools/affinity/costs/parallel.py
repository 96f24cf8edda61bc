"""Devices that run at the same time: when each operator runs where, and when all is done.

HEFT: operators in the order of what at least follows them (upward rank: own time, and the longest way on with its
copies, all averaged over devices); each goes where it ends earliest, into a gap of the device if one is long enough.
A copy starts when its operator ends, is made once for each device, and keeps neither device from running.

(H. Topcuoglu, S. Hariri, M. Wu, Performance-effective and low-complexity task scheduling for heterogeneous computing,
2002.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.affinity.costs.problem import Floats, Indices, Problem
from circletools.affinity.costs.search import least_time
from circletools.affinity.partition.groups import gathered
from circletools.affinity.partition.partitions import Partition
from circletools.graph.dag import Dag


@dataclass(frozen=True, slots=True)
class Schedule:
    """The device of each operator, when it starts and when it ends, in microseconds from the start of all."""

    devices: Indices
    starts_us: Floats
    ends_us: Floats

    @property
    def makespan_us(self) -> float:
        """Return when all is done."""
        return float(self.ends_us.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no schedule is quicker than: the longest chain of least times, and all least times shared out evenly."""

    critical_path_us: float
    shared_work_us: float

    @property
    def least_us(self) -> float:
        """Return the larger."""
        return max(self.critical_path_us, self.shared_work_us)


def quickest(problem: Problem, graph: Dag) -> Indices:
    """Return the devices whose schedule ends first: HEFT's, or what is best for one operator after the other."""
    candidates = (heft(problem, graph).devices, least_time(problem, graph))
    return min(candidates, key=lambda devices: heft(confined(problem, devices), graph).makespan_us)


def confined(problem: Problem, devices: Indices) -> Problem:
    """Return the problem with a single device for each operator; a time that is not known is none."""
    rows = np.arange(len(devices))
    times = np.full_like(problem.times_us, np.inf)
    given = problem.times_us[rows, devices]
    times[rows, devices] = np.where(np.isfinite(given), given, 0)
    return replace(problem, times_us=times)


def bounds(problem: Problem, graph: Dag) -> Bounds:
    """Return the lower bounds; copies may be none, so they have no part in them."""
    least = problem.times_us.min(axis=1, initial=np.inf)
    times = np.where(np.isfinite(least), least, 0).tolist()
    ends = [0.0] * len(graph)
    for operator in graph.order:
        ends[operator] = times[operator] + max((ends[o] for o in graph.predecessors[operator]), default=0.0)
    return Bounds(max(ends, default=0.0), sum(times) / max(problem.times_us.shape[1], 1))


def heft(problem: Problem, graph: Dag) -> Schedule:
    """Return HEFT's schedule; every operator must have a device that can run it."""
    times = problem.times_us.tolist()
    sent = zip(problem.producers[problem.read].tolist(), problem.sizes_bytes[problem.read].tolist(), strict=True)
    arriving = gathered(len(graph), problem.readers.tolist(), sent)
    count, devices = problem.times_us.shape
    overhead, per_byte = problem.links.overhead_us.tolist(), problem.links.us_per_byte.tolist()
    lanes = [_Lane() for _ in range(devices)]
    home, starts, ends = [0] * count, [0.0] * count, [0.0] * count
    for operator in _by_rank(problem, graph):
        best = (np.inf, np.inf, 0)
        for device in range(devices):
            time = times[operator][device]
            if time == np.inf:
                continue
            ready = max((ends[o] for o in graph.predecessors[operator]), default=0.0)
            for producer, size in arriving[operator]:
                source = home[producer]
                ready = max(ready, ends[producer] + overhead[source][device] + size * per_byte[source][device])
            start = lanes[device].earliest(ready, time)
            if start + time < best[0]:
                best = (start + time, start, device)
        ends[operator], starts[operator], home[operator] = best
        lanes[best[2]].take(best[1], best[0])
    return Schedule(np.array(home, np.int64), np.array(starts), np.array(ends))


def _by_rank(problem: Problem, graph: Dag) -> list[int]:
    """Return the operators by upward rank, the highest first; equal ones as they can run."""
    able = np.isfinite(problem.times_us)
    shares = np.maximum(able.sum(axis=1), 1)
    means = (np.where(able, problem.times_us, 0).sum(axis=1) / shares).tolist()
    pairs = max(able.shape[1] * (able.shape[1] - 1), 1)
    links = problem.links
    copies = (links.overhead_us.sum() + problem.sizes_bytes * links.us_per_byte.sum()) / pairs
    reads = zip(problem.readers.tolist(), copies[problem.read].tolist(), strict=True)
    readers = gathered(len(graph), problem.producers[problem.read].tolist(), reads)
    rank = [0.0] * len(graph)
    for operator in reversed(graph.order):
        behind = max((rank[o] for o in graph.successors[operator]), default=0.0)
        behind = max((rank[reader] + cost for reader, cost in readers[operator]), default=behind)
        rank[operator] = means[operator] + behind
    place = {operator: number for number, operator in enumerate(graph.order)}
    return sorted(range(len(graph)), key=lambda operator: (-rank[operator], place[operator]))


class _Lane:
    """When a device is free: gaps, the last of which has no end."""

    def __init__(self) -> None:
        self._starts, self._ends = [0.0], [np.inf]

    def earliest(self, ready: float, time: float) -> float:
        """Return when something that takes `time` can start, once it is `ready`."""
        at = bisect_right(self._ends, ready)
        while max(self._starts[at], ready) + time > self._ends[at]:
            at += 1
        return max(self._starts[at], ready)

    def take(self, start: float, end: float) -> None:
        """Take a time out of the gap that it lies in."""
        at = bisect_right(self._ends, start)
        low, high = self._starts[at], self._ends[at]
        left = [(a, b) for a, b in ((low, start), (end, high)) if b > a]
        self._starts[at : at + 1] = [a for a, _ in left]
        self._ends[at : at + 1] = [b for _, b in left]


def partitions_makespan(problem: Problem, partitions: Sequence[Partition]) -> float:
    """Return when all is done if every partition runs in one go, in this order on its device, as soon as it can.

    A partition starts when its device is free and all it reads has arrived; it takes its launch and its operators'
    times, and what it makes is there when it ends.
    """
    home = np.zeros(len(problem.times_us), np.int64)
    for number, partition in enumerate(partitions):
        home[list(partition.operators)] = number
    makers, readers = home[problem.producers[problem.read]], home[problem.readers]
    across = makers != readers
    sent = zip(makers[across].tolist(), problem.read[across].tolist(), strict=True)
    ahead = gathered(len(partitions), readers[across].tolist(), sent)
    sizes = problem.sizes_bytes.tolist()
    overhead, per_byte = problem.links.overhead_us.tolist(), problem.links.us_per_byte.tolist()
    free, ends = [0.0] * problem.times_us.shape[1], [0.0] * len(partitions)
    for number, partition in enumerate(partitions):
        times = problem.times_us[list(partition.operators), partition.device]
        start = free[partition.device]
        for maker, tensor in ahead[number]:
            source = partitions[maker].device
            copy = overhead[source][partition.device] + sizes[tensor] * per_byte[source][partition.device]
            start = max(start, ends[maker] + copy)
        work = float(times[np.isfinite(times)].sum())
        ends[number] = free[partition.device] = start + float(problem.links.launch_us[partition.device]) + work
    return max(ends, default=0.0)
