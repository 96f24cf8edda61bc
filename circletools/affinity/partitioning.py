"""From an assignment to the partitions of all subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.assign.rules import Rule
from circletools.affinity.costs.memory import excess_bytes
from circletools.affinity.costs.problem import Problem
from circletools.affinity.limiting import Limiter, LimitError, Room
from circletools.affinity.limits import Limit, Weights
from circletools.affinity.meeting import meet
from circletools.affinity.partition.growth import Step
from circletools.affinity.partition.partitions import Mode, Partition, make_partitions, partition_or_fall_back
from circletools.affinity.partition.repair import group_of
from circletools.affinity.read import Affinity
from circletools.affinity.tables import SubgraphAffinity
from circletools.affinity.units import Units, contents_of, make_units
from circletools.errors import EditError
from circletools.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class SubgraphPartitioning:
    """The device number of each operator, and the partitions in an order in which they can run.

    `moved` has why operators are not where they were assigned. `fell_back` says why mode `min` made the partitions
    and not `safe`, None where nothing was against it. `left` are partitions that are too small, and stay.
    """

    numbers: list[int]
    partitions: tuple[Partition, ...]
    moved: Mapping[int, str] = field(default_factory=dict)
    fell_back: str | None = None
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
    stay. `problems` are the costs, where they are known.
    `units` and `problems` go by subgraph; without `units` every operator is one.
    """

    mode: Mode = "min"
    min_size: int = 1
    fallback: str | None = None
    limits: tuple[Limit, ...] = ()
    units: Sequence[Units] = ()
    problems: Sequence[Problem] | None = None
    caps: Mapping[int, int] = field(default_factory=dict)

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
    if sizing.min_size < 2 and not sizing.limits:
        chosen = assignment.partitions[facts.index] if assignment.partitions else None
        if chosen is not None:
            return _of_units(units, chosen)
        return partitioned(units, assigned, sizing.mode, tell)
    # Whether partitions wait for each other is asked of those that are there in the end.
    tame: Mode = "safe" if sizing.mode == "seed" else sizing.mode
    room, numbers = _room(facts, assignment, sizing, units), [assigned[row[0]] for row in units.members]
    limiter = Limiter(room, lambda numbers: make_partitions(units.graph, numbers, tame))
    try:
        settled = limiter.settle(numbers)
    except LimitError as unmet:
        if sizing.mode == "seed":
            raise unmet.not_found() from unmet
        found = meet(room, numbers, unmet, connected=tame != "epochs" and not units.graph.joins_any)
        limiter.left = [one for one in found if room.is_small(one.operators, one.device)]
        limiter.moved = dict.fromkeys(
            range(len(numbers)), f"not {{}}, to keep to {', '.join(map(str, sizing.limits))}"
        )
        made = _of_units(units, found)
    else:
        made = partitioned(units, units.of_operators(settled), sizing.mode, tell)
        if any(limit.parts for limit in sizing.limits):
            made = replace(made, partitions=units.partitions(limiter.partitions(settled)))
    moved = {
        operator: words.format(assignment.devices[assigned[operator]])
        for unit, words in limiter.moved.items()
        for operator in units.members[unit]
        if made.numbers[operator] != assigned[operator]
    }
    return replace(made, moved=moved, left=units.partitions(limiter.left))


def _room(facts: Graph, assignment: Assignment, sizing: Sizing, units: Units) -> Room:
    devices, subgraph = assignment.devices, facts.index
    last = len(devices) - 1
    refuge = devices.index(sizing.fallback) if sizing.fallback else last
    what = contents_of(facts, units)
    problem = None if sizing.problems is None else units.problem(sizing.problems[subgraph])
    rules = [rule if isinstance(rule, Rule) else None for rule in assignment.decided_by[subgraph]]

    def takes(unit: int, device: int) -> bool:
        known = device == refuge or devices[device] in assignment.refusals
        return known and all(assignment.refusal(device, subgraph, one) is None for one in units.members[unit])

    def rule_of(unit: int) -> Rule | None:
        return next((rules[operator] for operator in units.members[unit] if rules[operator]), None)

    return Room(
        units,
        [(devices.index(limit.device), limit) for limit in sizing.limits],
        sizing.min_size,
        Weights(facts, units, problem),
        problem,
        takes,
        rule_of,
        [refuge, *(device for device in range(len(devices)) if device != refuge)],
        lambda partitions: not any(excess_bytes(what, units.graph, partitions, len(devices), sizing.caps).values()),
    )


def partitioned(
    units: Units, numbers: Sequence[int], mode: Mode, on_step: Callable[[Step], None] | None = None
) -> SubgraphPartitioning:
    """Return the partitions of a subgraph; an operator on constants is on the device that reads it first.

    Raises EditError where the mode cannot do it.
    """
    of_units = [numbers[row[0]] for row in units.members]
    made, fell_back = partition_or_fall_back(units.graph, of_units, mode, on_step)
    return replace(_of_units(units, made), fell_back=fell_back)


def _of_units(units: Units, made: Sequence[Partition]) -> SubgraphPartitioning:
    partitions = units.partitions(made)
    devices = {operator: partition.device for partition in partitions for operator in partition.operators}
    return SubgraphPartitioning([devices[operator] for operator in range(len(units.home))], partitions)


def to_affinity(partitioning: Partitioning) -> Affinity:
    """Return what goes into the file; subgraphs without operators are left out."""
    subgraphs = {}
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.numbers:
            devices, partitions = np.array([subgraph.numbers, subgraph.partition_of()], np.uint32)
            subgraphs[index] = SubgraphAffinity(devices, partitions)
    return Affinity(dict(enumerate(partitioning.devices)), subgraphs)
