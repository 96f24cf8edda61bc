"""From an assignment to the partitions of all subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.assign.rules import Rule
from circletools.affinity.candidate import Placed
from circletools.affinity.costs.table import Links, make_cost_table
from circletools.affinity.limits import Limit
from circletools.affinity.partition import Partition, group_of
from circletools.affinity.problem import make_subgraph
from circletools.affinity.read import Affinity
from circletools.affinity.solvers.growth import Step
from circletools.affinity.solvers.partitions import Mode, make_partitions
from circletools.affinity.solvers.repair import demoted
from circletools.affinity.solvers.solve import solve
from circletools.affinity.tables import SubgraphAffinity
from circletools.affinity.units import Units, make_units
from circletools.errors import EditError
from circletools.graph.graph import Graph
from circletools.wording import counted


@dataclass(frozen=True, slots=True)
class SubgraphPartitioning:
    """The device number of each operator, and the partitions in an order in which they can run.

    `moved` has why operators are not where they were assigned. `left` are partitions that are too small, and stay.
    """

    numbers: list[int]
    partitions: tuple[Partition, ...]
    moved: Mapping[int, str] = field(default_factory=dict)
    left: tuple[Partition, ...] = ()

    def partition_of(self) -> list[int]:
        """Return the number of the partition of each operator."""
        return group_of(len(self.numbers), [partition.operators for partition in self.partitions])


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partitions of every subgraph; `devices` are names by number."""

    devices: tuple[str, ...]
    subgraphs: tuple[SubgraphPartitioning, ...]


@dataclass(frozen=True, slots=True)
class Sizing:
    """How partitions are made: of which units, in what mode, and within what limits.

    Partitions of fewer than `min_size` operators go to `fallback` (the last device unless given), or another device
    that is known to take all of them and has room within `caps` (bytes, by device number); those that none takes
    stay. `units` go by subgraph; without them every operator is one.
    `seconds` is how long the integer program may look for partitions within the limits.
    """

    mode: Mode = "min"
    min_size: int = 1
    fallback: str | None = None
    limits: tuple[Limit, ...] = ()
    units: Sequence[Units] = ()
    caps: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 10.0

    def units_of(self, facts: Graph) -> Units:
        """Return the units of a subgraph."""
        return self.units[facts.index] if self.units else make_units(facts)


def make_partitioning(
    facts: Sequence[Graph],
    assignment: Assignment,
    sizing: Sizing = Sizing(),
    on_step: Callable[[int, Step], None] | None = None,
) -> Partitioning:
    """Partition every subgraph by its assignment.

    `on_step` is told each step of growing, with its subgraph. Raises EditError where the mode cannot do it or a limit
    cannot be met, ModelFormatError for a graph with cycles.
    """
    found = []
    for index, subgraph in enumerate(facts):
        tell = None if on_step is None else partial(on_step, index)
        try:
            found.append(_partitioned(subgraph, assignment, sizing, tell))
        except EditError as error:
            raise EditError(error.message, location=subgraph.place(), hint=error.hint) from error
    return Partitioning(assignment.devices, tuple(found))


def _partitioned(
    facts: Graph, assignment: Assignment, sizing: Sizing, tell: Callable[[Step], None] | None
) -> SubgraphPartitioning:
    units, assigned = sizing.units_of(facts), assignment.numbers[facts.index]
    placed = assignment.placed[facts.index] if assignment.placed else None
    if sizing.mode == "seed" or (placed is None and sizing.min_size < 2 and not sizing.limits):
        return partitioned(units, assigned, sizing.mode, tell)
    if placed is None:
        placed = _within_limits(facts, assignment, sizing)
    subgraph, candidate, small = placed.subgraph, placed.candidate, list[Partition]()
    if sizing.min_size > 1:
        candidate, small = demoted(subgraph.problem, candidate, sizing.min_size, _fallback(assignment, sizing))
    made = _of_operators(len(units.home), subgraph.partitions(candidate))
    before = _of_operators(len(units.home), subgraph.partitions(placed.candidate)).numbers
    few, names = f"fewer than {counted(sizing.min_size, 'operator')}", assignment.devices
    moved = {
        operator: f"its partition was too small on {names[then]}: {few}"
        if now != then
        else f"not {names[number]}, to keep to {', '.join(map(str, sizing.limits))}"
        for operator, (number, then, now) in enumerate(zip(assigned, before, made.numbers, strict=True))
        if now != number
    }
    return replace(made, moved=moved, left=subgraph.named(small))


def _fallback(assignment: Assignment, sizing: Sizing) -> int:
    return assignment.devices.index(sizing.fallback) if sizing.fallback else len(assignment.devices) - 1


def _within_limits(facts: Graph, assignment: Assignment, sizing: Sizing) -> Placed:
    """Return partitions within the limits that leave most operators where they are, and are the fewest."""
    devices, index = assignment.devices, facts.index
    count, fallback = len(devices), _fallback(assignment, sizing)
    units, assigned = sizing.units_of(facts), np.array(assignment.numbers[index], np.int64)
    rows = np.arange(len(assigned))
    able = np.array(
        [
            [
                (device == fallback or devices[device] in assignment.refusals)
                and not isinstance(assignment.decided_by[index][operator], Rule)
                and assignment.refusal(device, index, operator) is None
                for device in range(count)
            ]
            for operator in rows.tolist()
        ],
        np.bool_,
    ).reshape(len(rows), count)
    able[rows, assigned] = True
    # Moving one operator is dearer than all partitions; the order of devices matters less than a partition.
    times = np.full((len(rows), count), float(len(rows) + 1))
    times += (np.arange(count) != fallback) * np.arange(1, count + 1) / (count * (len(rows) + 1))
    times[rows, assigned] = 0
    free = Links(np.zeros((count, count)), np.zeros((count, count)), np.ones(count))
    table = make_cost_table(facts, np.where(able, times, np.inf), free)
    limits = [(devices.index(limit.device), limit) for limit in sizing.limits]
    whole = make_subgraph(facts, units, table, limits, sizing.caps, devices)
    if not limits:  # there is nothing that the least moves could be looked for
        numbers = [assigned[units.members[unit][0]] for unit in whole.working]
        return Placed(whole, make_partitions(whole.problem.graph, [int(number) for number in numbers]))
    return Placed(whole, solve(whole.problem, sizing.seconds).candidate)


def partitioned(
    units: Units, numbers: Sequence[int], mode: Mode, on_step: Callable[[Step], None] | None = None
) -> SubgraphPartitioning:
    """Return the partitions of a subgraph; an operator on constants is on the device that reads it first.

    Raises EditError where the mode cannot do it.
    """
    of_units = [numbers[row[0]] for row in units.members]
    return _of_operators(len(units.home), units.partitions(make_partitions(units.graph, of_units, mode, on_step)))


def _of_operators(count: int, partitions: tuple[Partition, ...]) -> SubgraphPartitioning:
    devices = {operator: partition.device for partition in partitions for operator in partition.operators}
    return SubgraphPartitioning([devices[operator] for operator in range(count)], partitions)


def to_affinity(partitioning: Partitioning) -> Affinity:
    """Return what goes into the file; subgraphs without operators are left out."""
    subgraphs = {}
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.numbers:
            devices, partitions = np.array([subgraph.numbers, subgraph.partition_of()], np.uint32)
            subgraphs[index] = SubgraphAffinity(devices, partitions)
    return Affinity(dict(enumerate(partitioning.devices)), subgraphs)
