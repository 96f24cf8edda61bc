"""An integer program for the least total time, with rows for limits, memory and joins.

    x[o, d]      unit o is on device d
    u[t, d]      some unit on d reads tensor t
    w[t, a, b]   t is produced on a and read on b: one copy, whatever the number of readers
    f[e, d]      the ends of edge e are in one partition, on d
    p[e, d]      the same, directed at the edge's target; a unit has at most one incoming edge
    y[o]         the position of the partition of unit o in the order in which they run
    q[e]         the ends of edge e are in one partition
    v[c, d]      the number of partitions on d that read constant c
    m[c, d]      device d holds constant c

The units of a partition are connected, so a tree can join them, and the number of partitions of a device is the
number of its units minus the edges of a spanning forest among them. This counts launches and gives rows for limits:

    max-partitions=N    sum x - sum f <= N
    min-operators=N     every set of fewer units has an edge leading out:    x[o] <= sum of f around it
    max-operators=N     every larger set contains two or more partitions:   sum of f within it <= size - 2

Every edge leads to a later position (y) unless q is 1, so no partitions wait for each other. Exponentially many rows
state that f is a forest, that q is 1 only within its sets, and that each set is within the limits. Only rows that a
solution violates are added, round by round (cutting planes); the optimum under the rows so far is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from circletools.affinity.costs.table import Floats, Indices
from circletools.affinity.problem import Candidate, Problem
from circletools.affinity.solvers.groups import Partition, edges_of, gathered, group_successors, members_of
from circletools.affinity.solvers.partitions import schedule
from circletools.affinity.solvers.rows import IntegerProgram, Solved, add_memory, within_memory
from circletools.graph.algorithms import UnionFind, renumbered

_WIDTH = 60_000
"""Programs with more columns are not solved."""
_CUTS = 400
"""The maximum number of cycles added in a round."""
_LONGEST, _LEFT_OUT = 100, 12
"""The greatest length of a cycle that gets rows, and the approximate number of these rows per device."""


def is_too_large(problem: Problem) -> bool:
    """Return whether the program for a problem has too many columns to be solved."""
    count, devices = problem.table.times_us.shape
    pairs = sum(len(row) * (len(row) - 1) // 2 for row in problem.graph.beside)
    edges = sum(map(len, problem.graph.successors)) + pairs
    return bool(count * devices + len(problem.table.producers) * devices * devices + 2 * edges * devices > _WIDTH)


class Forest:
    """Sets of operators joined by edges: `home` is the set of each operator; `cycles` are edges that close cycles."""

    def __init__(self, edges: Indices, joined: Indices, count: int) -> None:
        self._beside: dict[int, list[tuple[int, int]]] = {}
        self.cycles: list[list[int]] = []
        sets = UnionFind(count)
        for edge in joined.tolist():
            a, b = edges[edge].tolist()
            if not sets.join(a, b):
                self.cycles.append([*self.path(a, b), edge])
                continue
            self._beside.setdefault(a, []).append((b, edge))
            self._beside.setdefault(b, []).append((a, edge))
        self.home = renumbered(sets.labels())

    def path(self, start: int, end: int) -> list[int]:
        """Return the edges of the path between two operators of the same set."""
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


class PartitionProgram:
    """The integer program for a problem; each round adds rows."""

    def __init__(self, problem: Problem) -> None:
        """Add the rows that are known in advance."""
        self._problem, self._program = problem, IntegerProgram()
        links = problem.table.links
        rate = links.constant_us_per_byte
        limited = np.isin(np.arange(problem.devices), [device for device, _ in problem.limits])
        counts = (links.launch_us > 0) | limited | (False if rate is None else rate > 0)
        self.counted: list[int] = np.flatnonzero(counts).tolist()
        times = np.where(problem.able, problem.table.times_us, 0.0) + links.launch_us * counts
        self._x = self._program.columns(times, problem.able, whole=True)
        self._edges = _edges(problem) if self.counted else np.zeros((0, 2), np.int64)
        self._around = gathered(len(problem), self._edges.T.reshape(-1).tolist(), [*range(len(self._edges))] * 2)
        self.is_exact: bool = True
        """Whether every valid candidate satisfies all rows."""
        one = np.repeat(np.arange(len(problem)), problem.devices)
        self._program.sums(len(problem), (one, self._x.reshape(-1), 1.0), high=1.0, low=1.0)
        self._add_copies()
        self._add_joins()
        self._add_order()
        self._add_limits()
        self._v = self._add_constants()
        add_memory(problem, self._program, self._x)

    def devices(self, values: Floats) -> list[int]:
        """Return the device of each unit in a solution."""
        found: list[int] = values[self._x].argmax(axis=1).tolist()
        return found

    def solve(self, seconds: float) -> Solved:
        """Return the best solution under the rows so far, and a lower bound."""
        return self._program.solve(seconds)

    # --- rows that are written in advance -------------------------------------------------------------------

    def _add_copies(self) -> None:
        problem, program, x = self._problem, self._program, self._x
        table, devices = problem.table, problem.devices
        every = np.arange(len(table.producers))
        copies = [table.copy_us(every, a, b) for a in range(devices) for b in range(devices)]
        costs = np.stack(copies, axis=1).reshape(-1, devices, devices) if len(every) else np.zeros((0, 1, 1))
        chosen = np.flatnonzero(costs.any(axis=(1, 2)))
        if not len(chosen):
            return
        w = program.columns(costs[chosen])
        u = program.columns(np.zeros((len(chosen), devices)))
        number = np.full(len(every), -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        inside = number[table.read] >= 0
        read, readers, makers = number[table.read[inside]], table.readers[inside], table.producers[chosen]
        alone = np.bincount(read, minlength=len(chosen)) == 1
        one = alone[read]
        for here in range(devices):
            program.rows((x[readers[one], here], 1.0), (u[read[one], here], -1.0), high=0.0, low=0.0)
            program.rows((x[readers[~one], here], 1.0), (u[read[~one], here], -1.0), high=0.0)
            into = [(w[:, source, here], 1.0) for source in range(devices)]
            program.rows(*into, (u[:, here], -1.0), high=0.0, low=0.0)
            for there in range(devices):
                program.rows((w[~alone, here, there], 1.0), (x[makers[~alone], here], -1.0), high=0.0)
            out = [(w[alone, here, there], 1.0) for there in range(devices)]  # a single reader must be on some device
            program.rows(*out, (x[makers[alone], here], -1.0), high=0.0, low=0.0)

    def _add_joins(self) -> None:
        """Add the rows, known in advance, by which edges join units in a forest."""
        problem, program, edges = self._problem, self._program, self._edges
        launch = problem.table.links.launch_us[self.counted]
        upper = problem.able[edges[:, 0]][:, self.counted] & problem.able[edges[:, 1]][:, self.counted]
        self._f = program.columns(np.tile(-launch, (len(edges), 1)), upper, whole=True)
        p = program.columns(np.zeros(self._f.shape))
        used = program.columns(np.zeros(len(self.counted)))
        sources, targets = edges.T
        for at, device in enumerate(self.counted):
            f, into, x = self._f[:, at], p[:, at], self._x[:, device]
            program.rows((f, 1.0), (x[sources], -1.0), high=0.0)
            program.rows((f, 1.0), (x[targets], -1.0), high=0.0)
            program.rows((into, 1.0), (f, -1.0), high=0.0)
            every = np.arange(len(x))
            terms = (targets, into, 1.0), (sources, f, 1.0), (sources, into, -1.0), (every, x, -1.0)
            program.sums(len(x), *terms, high=0.0)  # a unit has at most one incoming edge
            program.rows((x, 1.0), (np.full(len(x), used[at]), -1.0), high=0.0)
            program.row((f, 1.0), ([int(used[at])], 1.0), (x, -1.0), high=0.0)  # a forest has fewer edges than units
        for path in Forest(edges, np.arange(len(edges)), len(problem)).cycles:
            self._add_cycle(path)

    def _add_order(self) -> None:
        """Add the rows that make partitions run one after another.

        `y` is the position of a unit's partition; `q` is 1 if the ends of an edge are in the same one.
        """
        problem, program, edges = self._problem, self._program, self._edges
        own = sum(map(len, problem.graph.successors))  # pairs of siblings follow the edges
        count = float(len(problem))
        y = program.columns(np.zeros(len(problem)), count)
        q = self._q = program.columns(np.zeros(len(edges)))
        a, b = y[edges[:, 0]], y[edges[:, 1]]
        program.rows((b[:own], 1.0), (a[:own], -1.0), (q[:own], 1.0), high=np.inf, low=1.0)  # later unless q is 1
        program.rows((b, 1.0), (a, -1.0), (q, count), high=count)  # not later if q is 1
        program.rows((a[own:], 1.0), (b[own:], -1.0), (q[own:], count), high=count)  # nor earlier, for siblings
        program.rows((q, 1.0), *((row, -1.0) for row in self._f.T), high=np.inf, low=0.0)  # f implies q
        for device in range(problem.devices):
            x = self._x[:, device]
            program.rows((q, 1.0), (x[edges[:, 0]], 1.0), (x[edges[:, 1]], -1.0), high=1.0)  # q implies equal devices

    def _add_limits(self) -> None:
        """Add the limits on the sum over all partitions of a device."""
        problem, program = self._problem, self._program
        for device, limit in problem.limits:
            x, f = self._x[:, device], self._f[:, self.counted.index(device)]
            if limit.kind == "max-partitions":
                program.row((x, 1.0), (f, -1.0), high=limit.number)
                continue
            bytes_ = limit.measure == "bytes"
            if limit.is_upper and limit.number > 0:
                weight = (problem.made_bytes if bytes_ else problem.operators) / limit.number
                program.row((x, weight - 1.0), (f, 1.0), high=0.0)
            elif not limit.is_upper and limit.number > 0:
                each = [problem.weight(limit.measure, (unit,), device) for unit in range(len(problem))]
                program.row((x, 1.0 - np.array(each) / limit.number), (f, -1.0), high=0.0)

    def _add_constants(self) -> dict[tuple[int, int], int]:
        """Add a column for each constant and each device on which loading the constant costs time."""
        rate, found = self._problem.table.links.constant_us_per_byte, dict[tuple[int, int], int]()
        units, buffers = self._problem.contents.constants
        for at, device in enumerate(self.counted):
            if rate is None or not rate[device]:
                continue
            names, number = np.unique(buffers, return_inverse=True)
            costs = self._problem.contents.buffer_bytes[names] * rate[device]
            v = self._program.columns(costs, float(len(self._problem)))
            self._program.rows((self._x[units, device], 1.0), (v[number], -1.0), high=0.0)
            found |= {(buffer, at): column for buffer, column in zip(names.tolist(), v.tolist(), strict=True)}
        return found

    # --- rows that a solution violates ----------------------------------------------------------------------

    def add_violated_cuts(self, values: Floats) -> tuple[bool, Candidate | None]:
        """Add rows that exclude a solution; return whether any were added, and the candidate if it is valid."""
        problem = self._problem
        devices: Indices = values[self._x].argmax(axis=1)
        joined = np.flatnonzero((values[self._f] > 0.5).any(axis=1)) if self.counted else np.zeros(0, np.int64)
        forest = Forest(self._edges, joined, len(problem))
        before = self._program.height
        for path in forest.cycles[:_CUTS]:
            self._add_cycle(path)
        for home in {forest.home[self._edges[path[0], 0]] for path in forest.cycles[:_CUTS]}:
            self._add_forest(np.flatnonzero(np.array(forest.home) == home))
        if self.counted:
            self._separate(values, forest)
        candidate = None if self._program.height > before else self._candidate(devices, forest)
        self._cut_limits(devices, forest, values)
        if candidate is not None and self._program.height == before and problem.caps:
            candidate, is_certain = within_memory(problem, candidate)
            if candidate is None:
                self.is_exact &= is_certain
                self._add_no_good(devices, forest)
        return self._program.height > before, candidate

    def _separate(self, values: Floats, forest: Forest) -> None:
        """Let the ends of an edge be in one partition only if edges join both of them to others."""
        home = np.array(forest.home)[self._edges]
        for edge in np.flatnonzero((values[self._q] > 1 - 1e-6) & (home[:, 0] != home[:, 1])).tolist():
            units = [unit for unit, its in enumerate(forest.home) if its == home[edge, 0]]
            self._program.row(([int(self._q[edge])], 1.0), (self._f[self._border(units)], -1.0), high=0.0)

    def _candidate(self, devices: Indices, forest: Forest) -> Candidate:
        rows = members_of(forest.home)
        order = schedule(group_successors(self._problem.graph, forest.home, len(rows)), [row[0] for row in rows])
        return tuple(Partition(int(devices[rows[at][0]]), tuple(rows[at])) for at in order)

    def _add_cycle(self, path: Sequence[int]) -> None:
        """Limit the edges within a cycle, on each device, to one fewer than its units there."""
        if len(path) <= _LONGEST:
            self._add_forest(np.unique(self._edges[list(path)]))

    def _add_forest(self, units: Indices) -> None:
        """Force the edges among these units to form a forest (subtour elimination, with any one unit left out)."""
        for at, device in enumerate(self.counted):
            within = self._within(units.tolist(), at)
            for left_out in units[:: max(1, len(units) // _LEFT_OUT)].tolist():
                self._program.row((within, 1.0), (self._x[units[units != left_out], device], -1.0), high=0.0)

    def _border(self, units: Sequence[int]) -> list[int]:
        """Return the edges between these units and all others."""
        ends = Counter(edge for unit in units for edge in self._around[unit])
        return sorted(edge for edge, count in ends.items() if count == 1)  # inner edges are counted twice

    def _within(self, units: Sequence[int], at: int) -> Indices:
        """Return the columns of the edges among these units."""
        ends = Counter(edge for unit in units for edge in self._around[unit])
        return self._f[sorted(edge for edge, count in ends.items() if count == 2), at]

    def _cut_limits(self, devices: Indices, forest: Forest, values: Floats) -> None:
        """Add the limits that partitions violate, and the rows that count their constants."""
        problem = self._problem
        sets = [(row, int(devices[row[0]])) for row in members_of(forest.home)]
        for device, limit in problem.limits:
            at = self.counted.index(device)
            for units, its in sets if limit.kind != "max-partitions" else ():
                weight = problem.weight(limit.measure, units, device) if its == device else limit.number
                if limit.is_upper and weight > limit.number:
                    self._program.row((self._within(units, at), 1.0), high=len(units) - 2.0)
                elif not limit.is_upper and weight < limit.number:
                    border = self._f[self._border(units), at]
                    for unit in units:
                        self._program.row(([int(self._x[unit, device])], 1.0), (border, -1.0), high=0.0)
        for (buffer, at), column in self._v.items():
            readers = [
                (units, next(unit for unit in units if buffer in problem.buffers[unit]))
                for units, device in sets
                if device == self.counted[at] and any(buffer in problem.buffers[unit] for unit in units)
            ]
            if len(readers) > values[column] + 0.5:
                border = np.unique([self._f[edge, at] for units, _ in readers for edge in self._border(units)])
                first = [unit for _, unit in readers]
                x = self._x[first, self.counted[at]]
                self._program.row((x, 1.0), (border, -1.0), ([column], -1.0), high=0.0)

    def _add_no_good(self, devices: Indices, forest: Forest) -> None:
        """Exclude this combination of devices and partitions, which does not fit into memory in any order."""
        ones = [int(self._x[unit, device]) for unit, device in enumerate(devices.tolist())]
        apart: list[int] = []
        for edge, (a, b) in enumerate(self._edges.tolist()):
            if devices[a] == devices[b] and int(devices[a]) in self.counted:
                column = int(self._f[edge, self.counted.index(int(devices[a]))])
                (ones if forest.home[a] == forest.home[b] else apart).append(column)
        most = 2 * len(devices) - 2 - max(forest.home)  # the joined units form a forest
        self._program.row((ones, 1.0), (apart, -1.0), high=float(most))


def _edges(problem: Problem) -> Indices:
    """Return the pairs of units that may be joined: the edges of the graph, then pairs of siblings."""
    edges = edges_of(problem.graph)
    pairs = {pair for row in problem.graph.beside for pair in combinations(sorted(row), 2)}
    more = sorted(pairs.difference(map(tuple, np.sort(edges).tolist())))
    return np.concatenate([edges, np.array(more, np.int64).reshape(-1, 2)])
