"""The least total time as an integer program: a better assignment where there is one, and a bound that none is below.

    x[o, d]      operator o is on device d
    u[t, d]      somebody on d reads tensor t
    w[t, a, b]   t is made on a and read on b; sum over a is u[t, b], at most x[maker, a]
    f[e, d]      the ends of edge e are in one partition, on d
    p[e, d]      the same, and the edge leads into its target: an operator has one edge into it at most
    any[d]       somebody is on d

Launches are counted by region. Partitions are connected, so those of a device are at least as many as its operators
less the edges of a forest among them: f is at most x of both ends, and on a cycle one less than its length. Where a
path leads from one operator to another by way of a second device, the two are not in one partition; nor do partitions
wait for each other. Of cycles, paths and waits only those are written that a solution got wrong, round after round:
what holds without them is a bound all the same.

SciPy's HiGHS solves it (Q. Huangfu, J. A. J. Hall, Parallelizing the dual revised simplex method, 2018).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from circletools.affinity.costs.joins import Forest, all_between, longest_path, waiting_sets, ways_around
from circletools.affinity.costs.problem import Floats, Indices, Problem
from circletools.graph.dag import Dag

_VARIABLES = 60_000
"""Of more the program is not solved: only the sum of the least times is a bound."""
_ROUNDS = 40
_CUTS = 400
"""Cycles and paths added in a round."""
_LONGEST, _LEFT_OUT = 100, 12
"""Cycles that are written beforehand have so many operators, and so many rows, at most."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What no assignment takes less than, in microseconds; `devices` is the best that the program found, if any."""

    least_us: float
    devices: Indices | None = None


def least_bound(problem: Problem) -> float:
    """Return what the operators take at least, and the launch of what is there."""
    times = problem.times_us.min(axis=1, initial=np.inf)
    launch = problem.links.launch_us.min(initial=np.inf) if len(times) else 0.0
    return float(times[np.isfinite(times)].sum()) + float(launch)


def solve(problem: Problem, graph: Dag, *, regions: bool, seconds: float) -> Iterator[Bound]:
    """Yield bounds, each at least as high as the one before, until nothing is left to add or the time is over.

    With `regions` partitions are connected; else launches are counted along one path, which is right for any
    partitions.
    """
    ends = monotonic() + seconds
    program = _Program(problem, graph, regions=regions)
    if program.width > _VARIABLES:
        return
    for _ in range(_ROUNDS):
        left = ends - monotonic()
        if left <= 0:
            return
        found, chosen = program.solve(left)
        if found is None:
            return
        yield Bound(found, None if chosen is None else program.devices(chosen))
        if chosen is None or not program.add_what_is_wrong(chosen):
            return


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what HiGHS prints, whatever its options say, out of standard output."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what is still in C's buffers
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


class _Rows:
    """Rows of a sparse matrix, at most `high` each; equal to it where `is_equal`."""

    def __init__(self) -> None:
        self.row: list[Indices] = []
        self.column: list[Indices] = []
        self.value: list[Floats] = []
        self.low: list[Floats] = []
        self.high: list[Floats] = []
        self.count = 0

    def add(self, columns: Sequence[Indices], values: Sequence[float], high: float, low: float = -np.inf) -> None:
        """Add as many rows as each array of columns has items."""
        size = len(columns[0])
        for column, value in zip(columns, values, strict=True):
            self.row.append(self.count + np.arange(size))
            self.column.append(column)
            self.value.append(np.full(size, float(value)))
        self._bound(size, low, high)

    def add_sums(self, row: Indices, column: Indices, value: Floats, size: int, high: float, low: float) -> None:
        """Add rows by their items."""
        self.row.append(self.count + row)
        self.column.append(column)
        self.value.append(value)
        self._bound(size, low, high)

    def _bound(self, size: int, low: float, high: float) -> None:
        self.low.append(np.full(size, low))
        self.high.append(np.full(size, high))
        self.count += size


class _Program:
    def __init__(self, problem: Problem, graph: Dag, *, regions: bool) -> None:
        self._problem, self._graph = problem, graph
        self._operators, self._devices = problem.times_us.shape
        self._rows = _Rows()
        self._edges = self._edges_of(regions=regions) if problem.links.launch_us.any() else np.zeros((0, 2), np.int64)
        self._launching = self._launching_operators(regions=regions)
        self._shape()

    # --- variables ------------------------------------------------------------------------------------------

    def _edges_of(self, *, regions: bool) -> Indices:
        graph = self._graph
        if not regions:
            path = longest_path(graph)
            return np.stack([path[:-1], path[1:]], axis=1)
        edges = [(a, b) for a, row in enumerate(graph.successors) for b in row]
        return np.array(edges, np.int64).reshape(-1, 2)

    def _launching_operators(self, *, regions: bool) -> Indices:
        if regions:
            constants = np.array(self._graph.constants, np.int64)
            return np.setdiff1d(np.arange(self._operators), constants)
        return longest_path(self._graph)

    def _shape(self) -> None:
        problem, count, devices = self._problem, self._operators, self._devices
        working = np.isin(self._edges, self._launching).all(axis=1)
        self._edges = self._edges[working]
        tensors, pairs = len(problem.producers), devices * devices
        self._u = count * devices
        self._w = self._u + tensors * devices
        self._f = self._w + tensors * pairs
        self._p = self._f + len(self._edges) * devices
        self._any = self._p + len(self._edges) * devices
        self.width = self._any + devices
        if self.width > _VARIABLES:
            return
        launches = problem.links.launch_us
        times = np.where(np.isfinite(problem.times_us), problem.times_us, 0.0)
        times[self._launching] += launches
        every = np.arange(tensors)
        copies = [problem.copy_us(every, a, b) for a in range(devices) for b in range(devices)]
        on_edges = np.tile(-launches, len(self._edges))
        copied = np.stack(copies, axis=1).reshape(-1) if tensors else np.zeros(0)
        self._costs = np.concatenate(
            [times.reshape(-1), np.zeros(tensors * devices), copied, on_edges, np.zeros(self.width - self._p)]
        )
        able = np.isfinite(problem.times_us).reshape(-1)
        self._most = np.ones(self.width)
        self._most[: self._u] = able
        self._whole = np.zeros(self.width)
        self._whole[: self._u] = self._whole[self._f : self._p] = 1
        self._constrain()

    def _constrain(self) -> None:
        problem, rows, devices = self._problem, self._rows, self._devices
        count, tensors = self._operators, len(problem.producers)
        operators, every = np.repeat(np.arange(count), devices), np.arange(count * devices)
        rows.add_sums(operators, every, np.ones(len(every)), count, 1.0, 1.0)
        alone = np.bincount(problem.read, minlength=tensors) == 1
        for device in range(devices):
            u = self._u + np.arange(tensors) * devices + device
            read = u[problem.read], problem.readers * devices + device
            one = alone[problem.read]
            rows.add([read[1][one], read[0][one]], [1, -1], 0, 0)
            rows.add([read[1][~one], read[0][~one]], [1, -1], 0)
            into = [self._w + (np.arange(tensors) * devices + a) * devices + device for a in range(devices)]
            rows.add([*into, u], [1.0] * devices + [-1.0], 0, 0)
            for source in range(devices):
                made = problem.producers * devices + source
                rows.add([into[source][~alone], made[~alone]], [1, -1], 0)
        for source in range(devices):  # a single reader is somewhere
            out = [self._w + (np.flatnonzero(alone) * devices + source) * devices + b for b in range(devices)]
            rows.add([*out, problem.producers[alone] * devices + source], [1.0] * devices + [-1.0], 0, 0)
        for device in range(devices):
            f = self._f + np.arange(len(self._edges)) * devices + device
            for end in range(2):
                rows.add([f, self._edges[:, end] * devices + device], [1, -1], 0)
        self._lead_in()
        self._most[self._f : self._p] = np.tile(problem.links.launch_us > 0, len(self._edges))
        forest = Forest(self._edges, np.arange(len(self._edges)), count)
        for path in forest.cycles:
            self._add_cycle(path)
            self._add_sides(path)

    def _lead_in(self) -> None:
        """Let every operator have one edge into it at most, and each device that is used one operator without."""
        rows, devices, edges = self._rows, self._devices, np.arange(len(self._edges))
        count, launching = self._operators, self._launching
        for device in range(devices):
            f, p = (start + edges * devices + device for start in (self._f, self._p))
            rows.add([p, f], [1, -1], 0)
            sources, targets = self._edges.T
            operators = np.arange(count)
            column = np.concatenate([p, f, p, operators * devices + device])
            row = np.concatenate([targets, sources, sources, operators])
            signs = np.repeat([1.0, 1.0, -1.0, -1.0], [len(p), len(p), len(p), count])
            rows.add_sums(row, column, signs, count, 0.0, -np.inf)
            used = np.full(len(launching), self._any + device)
            rows.add([launching * devices + device, used], [1, -1], 0)
            column = np.concatenate([f, [self._any + device], launching * devices + device])
            signs = np.repeat([1.0, 1.0, -1.0], [len(f), 1, len(launching)])
            rows.add_sums(np.zeros(len(column), np.int64), column, signs, 1, 0.0, -np.inf)

    def _add_sides(self, path: Sequence[int]) -> None:
        """Let one side of a cycle of two ways join its ends only where the other is on the same device."""
        edges = {edge: self._edges[edge].tolist() for edge in path}
        after: dict[int, list[int]] = {}
        for edge, (source, _) in edges.items():
            after.setdefault(source, []).append(edge)
        targets = {target for _, target in edges.values()}
        firsts = [source for source in after if source not in targets]
        if len(firsts) != 1 or len(path) > _LONGEST:
            return
        for edge in after[firsts[0]]:
            side = [edge]
            while following := after.get(edges[side[-1]][1]):
                side.append(following[0])
            self._part(side, firsts[0], edges[side[-1]][1])

    def _add_cycle(self, path: Sequence[int]) -> None:
        """Let the edges of a cycle join no more than its operators less one, whichever, as far as they are there."""
        devices, edges = self._devices, np.array(path, np.int64)
        if len(path) > _LONGEST:
            return
        operators = np.unique(self._edges[edges])
        for device in np.flatnonzero(self._problem.links.launch_us).tolist():
            for left_out in operators[:: max(1, len(operators) // _LEFT_OUT)].tolist():
                others = operators[operators != left_out]
                columns = np.concatenate([self._f + edges * devices + device, others * devices + device])
                signs = np.repeat([1.0, -1.0], [len(edges), len(others)])
                self._rows.add_sums(np.zeros(len(columns), np.int64), columns, signs, 1, 0.0, -np.inf)

    # --- solving --------------------------------------------------------------------------------------------

    def solve(self, seconds: float) -> tuple[float | None, Floats | None]:
        """Return a bound, and the best solution; None where none was found in the time."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to import, and an extra
        from scipy.sparse import csr_array  # noqa: PLC0415 - as above

        rows = self._rows
        where = np.concatenate(rows.row), np.concatenate(rows.column)
        matrix = csr_array((np.concatenate(rows.value), where), shape=(rows.count, self.width))
        limits = LinearConstraint(matrix, np.concatenate(rows.low), np.concatenate(rows.high))
        with _silence():
            result: Any = milp(
                self._costs,
                integrality=self._whole,
                bounds=Bounds(0, self._most),
                constraints=limits,
                options={"time_limit": seconds, "mip_rel_gap": 1e-9},
            )
        bound = getattr(result, "mip_dual_bound", None)
        return None if bound is None or not np.isfinite(bound) else float(bound), result.x

    def devices(self, solution: Floats) -> Indices:
        """Return the device of each operator."""
        found: Indices = solution[: self._u].reshape(-1, self._devices).argmax(axis=1)
        return found

    # --- what is wrong in a solution ------------------------------------------------------------------------

    def add_what_is_wrong(self, solution: Floats) -> bool:
        """Add rows that rule the solution out where it joins what cannot be one partition; say whether there were."""
        devices = self.devices(solution)
        joined = solution[self._f : self._p].reshape(-1, self._devices) > 0.5
        forest = Forest(self._edges, np.flatnonzero(joined.any(axis=1)), self._operators)
        for path in forest.cycles[:_CUTS]:
            self._add_cycle(path)
        around = list(ways_around(self._graph, devices, forest))
        for path, first, last in around[:_CUTS]:
            self._part(path, first, last)
        wrong = bool(forest.cycles or around)
        waits = [] if wrong else waiting_sets(self._graph, devices, forest)
        if waits:
            places = [np.array([self._f + edge * self._devices + device]) for edge, device in waits]
            self._rows.add(places, [1.0] * len(places), len(places) - 1)
        return bool(wrong or waits)

    def _part(self, path: Sequence[int], first: int, last: int) -> None:
        """Let edges join two operators only where all that lies between is on their device."""
        own = set(self._edges[list(path)].reshape(-1).tolist())
        between = np.array(sorted(all_between(self._graph, first, last) - own), np.int64)
        inner = sorted(own - {first, last})
        for device in np.flatnonzero(self._problem.links.launch_us).tolist() if len(between) else ():
            fixed = [self._f + edge * self._devices + device for edge in path]
            fixed += [operator * self._devices + device for operator in inner]
            columns = [np.full(len(between), column) for column in fixed]
            signs = [1.0] * len(path) + [-1.0] * (len(inner) + 1)
            self._rows.add([*columns, between * self._devices + device], signs, 0)
