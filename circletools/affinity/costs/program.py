"""The least total time as an integer program: a better assignment where there is one, and a bound that none is below.

    x[o, d]      operator o is on device d
    u[t, d]      somebody on d reads tensor t
    w[t, a, b]   t is made on a and read on b; sum over a is u[t, b], at most x[maker, a]
    f[e, d]      the ends of edge e are in one partition, on d

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from circletools.affinity.costs.problem import Floats, Indices, Problem
from circletools.affinity.partition.groups import group_successors, members_of, strong_components
from circletools.model.graph import OperatorGraph

_VARIABLES = 60_000
"""Of more the program is not solved: only the sum of the least times is a bound."""
_ROUNDS = 40
_CUTS = 400
"""Cycles and paths added in a round."""
_AROUND = 200
"""Operators that are looked at for a way around."""


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


def solve(problem: Problem, graph: OperatorGraph, *, regions: bool, seconds: float) -> Iterator[Bound]:
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
    def __init__(self, problem: Problem, graph: OperatorGraph, *, regions: bool) -> None:
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
            path = _longest(graph)
            return np.stack([path[:-1], path[1:]], axis=1) if len(path) > 1 else np.zeros((0, 2), np.int64)
        edges = [(a, b) for a, row in enumerate(graph.successors) for b in row]
        return np.array(edges, np.int64).reshape(-1, 2)

    def _launching_operators(self, *, regions: bool) -> Indices:
        if regions:
            constants = np.array(self._graph.constants, np.int64)
            return np.setdiff1d(np.arange(self._operators), constants)
        return _longest(self._graph)

    def _shape(self) -> None:
        problem, count, devices = self._problem, self._operators, self._devices
        working = np.isin(self._edges, self._launching).all(axis=1)
        self._edges = self._edges[working]
        tensors, pairs = len(problem.producers), devices * devices
        self._u = count * devices
        self._w = self._u + tensors * devices
        self._f = self._w + tensors * pairs
        self.width = self._f + len(self._edges) * devices
        if self.width > _VARIABLES:
            return
        launches = problem.links.launch_us
        times = np.where(np.isfinite(problem.times_us), problem.times_us, 0.0)
        times[self._launching] += launches
        every = np.arange(tensors)
        copies = [problem.copy_us(every, a, b) for a in range(devices) for b in range(devices)]
        on_edges = np.tile(-launches, len(self._edges))
        copied = np.stack(copies, axis=1).reshape(-1) if tensors else np.zeros(0)
        self._costs = np.concatenate([times.reshape(-1), np.zeros(tensors * devices), copied, on_edges])
        able = np.isfinite(problem.times_us).reshape(-1)
        self._most = np.ones(self.width)
        self._most[: self._u] = able
        self._whole = np.zeros(self.width)
        self._whole[: self._u] = self._whole[self._f :] = 1
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
        joined = solution[self._f :].reshape(-1, self._devices) > 0.5
        forest = _Forest(self._edges, np.flatnonzero(joined.any(axis=1)), self._operators)
        wrong = [*forest.cycles, *_around(self._graph, devices, forest)]
        for path, between in wrong[:_CUTS]:
            for device in range(self._devices):
                columns = [np.array([self._f + edge * self._devices + device]) for edge in path]
                outside = [] if between is None else [np.array([between * self._devices + device])]
                signs = [1.0] * len(path) + [-1.0] * len(outside)
                self._rows.add([*columns, *outside], signs, len(path) - 1)
        waits = [] if wrong else _waits(self._graph, devices, forest)
        if waits:
            places = [np.array([self._f + edge * self._devices + device]) for edge, device in waits]
            self._rows.add(places, [1.0] * len(places), len(places) - 1)
        return bool(wrong or waits)


Cut = tuple[list[int], int | None]
"""Edges that cannot all join, unless an operator is on their device."""


class _Forest:
    """Operators that edges join: `home` is the set of each, `cycles` are edges of which one is too many."""

    def __init__(self, edges: Indices, joined: Indices, count: int) -> None:
        self._beside: dict[int, list[tuple[int, int]]] = {}
        self.cycles: list[Cut] = []
        root = list(range(count))

        def find(operator: int) -> int:
            while root[operator] != operator:
                root[operator] = operator = root[root[operator]]
            return operator

        for edge in joined.tolist():
            a, b = edges[edge].tolist()
            if find(a) == find(b):
                self.cycles.append(([*self.path(a, b), edge], None))
                continue
            root[find(a)] = find(b)
            self._beside.setdefault(a, []).append((b, edge))
            self._beside.setdefault(b, []).append((a, edge))
        self.home = [find(operator) for operator in range(count)]

    def path(self, start: int, end: int) -> list[int]:
        """Return the edges from one operator to another of its set."""
        came: dict[int, tuple[int, int]] = {start: (-1, -1)}
        pending = [start]
        for operator in pending:
            for other, edge in self._beside.get(operator, ()):
                if other not in came:
                    came[other] = operator, edge
                    pending.append(other)
        path = []
        while end != start:
            end, edge = came[end]
            path.append(edge)
        return path


def _around(graph: OperatorGraph, devices: Indices, forest: _Forest) -> Iterator[Cut]:
    """Yield what joins two operators though a path leads from one to the other by way of another device."""
    home = forest.home
    for operator in graph.order:
        # `via` is the first operator of another device on the way.
        own, device = home[operator], devices[operator]
        via = {other: other if devices[other] != device else -1 for other in graph.successors[operator]}
        pending = [other for other in via if home[other] != own]
        for at in pending:
            afters = graph.successors[at]
            back = next((after for after in afters if home[after] == own and via[at] >= 0), None)
            if back is not None:
                yield forest.path(operator, back), via[at]
                break
            if len(pending) < _AROUND:
                news = [after for after in afters if home[after] != own and after not in via]
                via |= {new: via[at] if via[at] >= 0 or devices[new] == device else new for new in news}
                pending += news


def _waits(graph: OperatorGraph, devices: Indices, forest: _Forest) -> list[tuple[int, int]]:
    """Return edges, with their device, that join sets which wait for each other; none where none do."""
    _, numbers = np.unique(forest.home, return_inverse=True)
    group = numbers.tolist()
    successors = group_successors(graph, group, max(group) + 1)
    cycle = next((row for row in strong_components(successors) if len(row) > 1), None)
    if cycle is None:
        return []
    # The shortest way from one of them back to it, by the edges between operators.
    inside, start = set(cycle), cycle[0]
    came: dict[int, tuple[int, int]] = {}
    pending = [start]
    members = members_of(group)
    for at in pending:
        for operator in members[at]:
            for other in graph.successors[operator]:
                if group[other] in inside and group[other] != at and group[other] not in came:
                    came[group[other]] = operator, other
                    pending.append(group[other])
        if start in came:
            break
    found: list[tuple[int, int]] = []
    source, entered = came[start]
    while True:  # backwards: from where a set is left to where it is entered
        before = came[group[source]] if group[source] != start else (-1, entered)
        found += ((edge, int(devices[source])) for edge in forest.path(before[1], source))
        if group[source] == start:
            break
        source = before[0]
    return found if len({device for _, device in found}) > 1 else []


def _longest(graph: OperatorGraph) -> Indices:
    """Return the longest path of operators that are work."""
    constants = set(graph.constants)
    length, back = [1] * len(graph), [-1] * len(graph)
    for operator in graph.order:
        for other in graph.predecessors[operator]:
            if other not in constants and length[other] + 1 > length[operator]:
                length[operator], back[operator] = length[other] + 1, other
    work: Iterable[int] = (operator for operator in range(len(graph)) if operator not in constants)
    at = max(work, key=length.__getitem__, default=-1)
    path = []
    while at >= 0:
        path.append(at)
        at = back[at]
    return np.array(path[::-1], np.int64)
