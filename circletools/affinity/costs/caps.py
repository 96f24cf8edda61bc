"""Assignments that keep to the memory of devices.

A price for each byte on a device that is too full is raised until the cheapest assignment fits, then lowered as far
as it still does. What differs between the last that fits and the first that does not is given back in execution
order, as much as fits, then single operators. Whether it fits is always asked of the partitions that come out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.fitting import everything, fillings
from circletools.affinity.costs.memory import Contents, excess_bytes, prices
from circletools.affinity.costs.problem import Floats, Indices, Problem
from circletools.affinity.costs.search import least_time
from circletools.affinity.partition.partitions import Partition
from circletools.graph.dag import Dag

_HALVINGS = 16
_TRIES, _LEAST_TRIES = 200_000, 10  # operators partitioned; single operators moved
_FEW_DEVICES = 4
_LEAVES, _LEAVES_MORE = 5_000, 1_000  # assignments of which it is seen whether they fit; where something does
_RANGE = 1e-15  # of the highest price; 16 halvings of its logarithm leave 0.05 %

Partitioner = Callable[[Indices], tuple[Partition, ...]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The devices found; `excess_bytes` is what is too much on each device of `caps`, all zero where it fits."""

    devices: Indices
    excess_bytes: Mapping[int, int]

    @property
    def fits(self) -> bool:
        """Say whether every device has room."""
        return not any(self.excess_bytes.values())


def least_time_within(
    problem: Problem, graph: Dag, what: Contents, caps: Mapping[int, int], partitioner: Partitioner
) -> Fitted:
    """Return devices that keep to `caps` (bytes, by device number), of little total time.

    Of few operators that is the least there is, of more not always: it is a knapsack. Where none is found that fits,
    the one with the least excess. A device more never makes it worse: of more operators, where nothing fits, fewer
    devices are tried.
    """
    taken = np.isfinite(problem.times_us)
    numbers = np.flatnonzero(taken.any(axis=0) | (len(taken) == 0)).tolist()
    least = 1 if len(numbers) <= _FEW_DEVICES else len(numbers)
    for count in range(len(numbers), least - 1, -1):
        for chosen in combinations(numbers, count):
            times = np.full_like(problem.times_us, np.inf)
            times[:, chosen] = problem.times_us[:, chosen]
            if np.isfinite(times).any(axis=1).all():
                search = _Search(replace(problem, times_us=times), graph, what, caps, partitioner)
                fitted = search.run()
                if fitted.fits or search.is_known:
                    return fitted
                if count == len(numbers):
                    whole = fitted
    return whole


@dataclass
class _Search:
    _problem: Problem
    _graph: Dag
    _what: Contents
    _caps: Mapping[int, int]
    _partitioner: Partitioner

    def __post_init__(self) -> None:
        self._bytes = prices(self._what, len(self._graph))
        self._best: Fitted | None = None
        self.is_known = False
        self._least = (np.inf, np.inf)

    def run(self) -> Fitted:
        per_byte = dict.fromkeys(self._caps, 0.0)
        found = self._look(self._solve(per_byte))
        if found.fits:
            return found
        self.is_known = self._try_everything()
        if self.is_known:
            for device in () if self._found.fits else self._caps:
                self._look(self._solve(per_byte | {device: self._prohibitive()}))
            return self._found
        # A device that has room may fill up with what others give away; so each may come again.
        for _ in range(2 * len(self._caps)):
            full = max(found.excess_bytes, key=lambda device: found.excess_bytes[device])
            found = self._raise(per_byte, full, found)
            if found.fits:
                break
        if not self._found.fits:
            for devices in fillings(self._problem, self._graph, lambda devices: self._look(devices).excess_bytes):
                if self._look(devices).fits:
                    break
        self._take_back()
        return self._found

    @property
    def _found(self) -> Fitted:
        assert self._best is not None
        return self._best

    def _try_everything(self) -> bool:
        """Look at what may fit and be better, the cheapest first; say whether that was all, or something fits."""
        table = everything(self._problem, self._what, self._caps)
        if table is None:
            return False
        for number, least_us in enumerate(table.least_us.tolist()):
            fits = self._found.fits
            if (fits and least_us >= self._least[1]) or number >= (_LEAVES_MORE if fits else _LEAVES):
                return fits
            self._look(table.devices[number].astype(np.int64))
        return True

    def _take_back(self) -> None:
        """Move single operators to the capped devices, those that save most first, where that fits and is cheaper."""
        times = self._problem.times_us
        for device in self._caps:
            now = times[np.arange(len(times)), self._found.devices]
            saved = np.where(np.isfinite(times[:, device]), now - times[:, device], -np.inf)
            saved[self._found.devices == device] = -np.inf
            order = np.argsort(-saved, kind="stable")[: max(_LEAST_TRIES, _TRIES // max(len(times), 1))]
            for operator in order[np.isfinite(saved[order])].tolist():
                devices = self._found.devices.copy()
                devices[operator] = device
                self._look(devices)

    def _raise(self, per_byte: dict[int, float], device: int, over: Fitted) -> Fitted:
        """Set the price of a device so that it is no longer too full, as low as can be."""
        high = self._prohibitive()
        under = self._look(self._solve(per_byte | {device: high}))
        low, per_byte[device] = max(per_byte[device], high * _RANGE), high
        if under.excess_bytes[device]:
            return under  # what is left there has nowhere else to go
        for _ in range(_HALVINGS):
            middle = (low * high) ** 0.5
            found = self._look(self._solve(per_byte | {device: middle}))
            if found.excess_bytes[device]:
                low, over = middle, found
            else:
                high, under = middle, found
        per_byte[device] = high
        return self._given_back(over, under, device)

    def _prohibitive(self) -> float:
        """Return a price at which one byte costs more than all operators and copies at their dearest."""
        problem, times = self._problem, self._problem.times_us
        dearest = np.where(np.isfinite(times), times, 0).max(axis=1, initial=0).sum()
        links, devices = problem.links, times.shape[1]
        sizes = problem.sizes_bytes
        copies = links.overhead_us.max() * len(sizes) + links.us_per_byte.max() * sizes.sum()
        return float(dearest + devices * copies + links.launch_us.max() * len(times)) + 1.0

    def _given_back(self, over: Fitted, under: Fitted, device: int) -> Fitted:
        """Return `under` with as much of what `over` has on the device as still fits, from the start or the end."""
        order = np.asarray(self._graph.order, np.int64)
        differing = order[(over.devices[order] == device) & (under.devices[order] != device)]
        best = under
        for row in (differing, differing[::-1]):
            low, high = 0, len(row)
            while high - low > 1:
                middle = (low + high) // 2
                devices = under.devices.copy()
                devices[row[:middle]] = device
                found = self._look(devices)
                if found.excess_bytes[device]:
                    high = middle
                else:
                    low, best = middle, found
        return best

    def _solve(self, per_byte: Mapping[int, float]) -> Indices:
        times: Floats = self._problem.times_us.copy()
        for device, price in per_byte.items():
            times[:, device] += price * self._bytes
        return least_time(replace(self._problem, times_us=times), self._graph, quick=any(per_byte.values()))

    def _look(self, devices: Indices) -> Fitted:
        """Evaluate an assignment, and keep it if it is the best so far: what fits before what does not."""
        partitions = self._partitioner(devices)
        excess = excess_bytes(self._what, self._graph, partitions, self._problem.times_us.shape[1], self._caps)
        cost = evaluate(self._problem, devices, [partition.device for partition in partitions])
        rank = (float(sum(excess.values())), cost.total_us)
        fitted = Fitted(devices, excess)
        if self._best is None or rank < self._least:
            self._best, self._least = fitted, rank
        return fitted
