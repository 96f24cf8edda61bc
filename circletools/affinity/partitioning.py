"""Partitions of all subgraphs, made from an assignment of devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.costs.choose import place_within_limits
from circletools.affinity.partition import Partition, group_of
from circletools.affinity.problem import Sizing
from circletools.affinity.read import Affinity
from circletools.affinity.solvers.growth import Step
from circletools.affinity.solvers.partitions import Mode, make_partitions
from circletools.affinity.solvers.repair import demoted
from circletools.affinity.tables import NONE, SubgraphAffinity
from circletools.affinity.units import Units
from circletools.errors import EditError
from circletools.graph.graph import Graph
from circletools.wording import counted


@dataclass(frozen=True, slots=True)
class SubgraphPartitioning:
    """The device number of each operator, and the partitions in an order in which they can run.

    `moved` holds why an operator is not on its assigned device. `left` are partitions that remain too small.
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


def make_partitioning(
    facts: Sequence[Graph],
    assignment: Assignment,
    sizing: Sizing,
    on_step: Callable[[int, Step], None] | None = None,
) -> Partitioning:
    """Partition every subgraph according to its assignment.

    `on_step` is called with a subgraph and each step of growth. Raises EditError if the mode cannot partition the
    graph or a limit cannot be met, ModelFormatError for a graph with cycles.
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
    devices = assignment.devices
    fallback = devices.index(sizing.fallback) if sizing.fallback else len(devices) - 1
    if placed is None:
        placed = place_within_limits(facts, assignment, sizing, fallback)
    subgraph, candidate, small = placed.subgraph, placed.candidate, list[Partition]()
    if sizing.min_size > 1:
        candidate, small = demoted(subgraph.problem, candidate, sizing.min_size, fallback)
    made = _of_operators(len(units.home), subgraph.partitions(candidate))
    before = _of_operators(len(units.home), subgraph.partitions(placed.candidate)).numbers
    few = f"fewer than {counted(sizing.min_size, 'operator')}"
    moved = {
        operator: f"its partition was too small on {devices[then]}: {few}"
        if now != then
        else f"not {devices[number]}, to stay within {', '.join(map(str, sizing.limits))}"
        for operator, (number, then, now) in enumerate(zip(assigned, before, made.numbers, strict=True))
        if now != number
    }
    return replace(made, moved=moved, left=subgraph.named(small))


def partitioned(
    units: Units, numbers: Sequence[int], mode: Mode, on_step: Callable[[Step], None] | None = None
) -> SubgraphPartitioning:
    """Return the partitions of a subgraph; an operator on constants is on the device that first reads its result.

    Raises EditError if the mode cannot partition the graph.
    """
    of_units = [numbers[row[0]] for row in units.members]
    return _of_operators(len(units.home), units.partitions(make_partitions(units.graph, of_units, mode, on_step)))


def _of_operators(count: int, partitions: tuple[Partition, ...]) -> SubgraphPartitioning:
    devices = {operator: partition.device for partition in partitions for operator in partition.operators}
    return SubgraphPartitioning([devices[operator] for operator in range(count)], partitions)


def to_affinity(partitioning: Partitioning) -> Affinity:
    """Return the tables to write; subgraphs without operators are omitted."""
    subgraphs = {}
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.numbers:
            devices, partitions = np.array([subgraph.numbers, subgraph.partition_of()], np.uint32)
            subgraphs[index] = SubgraphAffinity(devices, partitions)
    return Affinity(dict(enumerate(partitioning.devices)), subgraphs)


def from_affinity(affinity: Affinity, subgraphs: int) -> Partitioning:
    """Return the partitions that a model has, with none for subgraphs without an affinity.

    An operator without a partition becomes a partition; an operator without a device has the device -1.
    """
    number = {device: at for at, device in enumerate(sorted(affinity.devices))}
    found = [SubgraphPartitioning([], ()) for _ in range(subgraphs)]
    for index, subgraph in affinity.subgraphs.items():
        numbers = [number.get(device, -1) for device in subgraph.devices.tolist()]
        rows: dict[int, list[int]] = {}
        for operator, partition in enumerate(subgraph.partitions.tolist()):
            rows.setdefault(-1 - operator if partition == NONE else partition, []).append(operator)
        partitions = tuple(Partition(numbers[row[-1]], tuple(row)) for row in rows.values())
        found[index] = SubgraphPartitioning(numbers, partitions)
    return Partitioning(affinity.names, tuple(found))
