"""From an assignment to the partitions of all subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.partition.growth import Step
from circletools.affinity.partition.partitions import Mode, Partition, make_partitions, partition_or_fall_back
from circletools.affinity.partition.repair import group_of
from circletools.affinity.store import Affinity
from circletools.affinity.tables import SubgraphAffinity
from circletools.errors import EditError
from circletools.model.graph import OperatorGraph
from circletools.model.operator_facts import OperatorFacts


@dataclass(frozen=True, slots=True)
class SubgraphPartitioning:
    """The device number of each operator, and the partitions in an order in which they can run.

    `demoted` operators were in a partition that was too small. `fell_back` says why mode `min` made the partitions
    and not `safe`, None where nothing was against it.
    """

    numbers: list[int]
    partitions: tuple[Partition, ...]
    demoted: frozenset[int] = frozenset()
    fell_back: str | None = None

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
    """How partitions are made, and what becomes of those of fewer than `min_size` operators.

    They go to `fallback` (the last device unless given), where that takes all of them.
    """

    mode: Mode = "min"
    min_size: int = 1
    fallback: str | None = None


def make_partitioning(
    facts: Sequence[OperatorFacts],
    assignment: Assignment,
    sizing: Sizing = Sizing(),
    on_step: Callable[[int, Step], None] | None = None,
) -> Partitioning:
    """Partition every subgraph by its assignment.

    `on_step` is told each step of growing, with its subgraph. Raises EditError where the mode cannot do it,
    ModelFormatError for a graph with cycles.
    """
    found = []
    fallback, last = sizing.fallback, len(assignment.devices) - 1
    refuge = assignment.devices.index(fallback) if fallback else last
    for index, (subgraph, assigned) in enumerate(zip(facts, assignment.numbers, strict=True)):
        demoted = _demote(subgraph.graph, assignment, index, sizing, refuge)
        numbers = [refuge if operator in demoted else number for operator, number in enumerate(assigned)]
        tell = None if on_step is None else partial(on_step, index)
        try:
            made = partitioned(subgraph.graph, numbers, sizing.mode, tell)
        except EditError as error:
            raise EditError(error.message, location=subgraph.place(), hint=error.hint) from error
        found.append(replace(made, demoted=demoted))
    return Partitioning(assignment.devices, tuple(found))


def partitioned(
    graph: OperatorGraph, numbers: Sequence[int], mode: Mode, on_step: Callable[[Step], None] | None = None
) -> SubgraphPartitioning:
    """Return the partitions of a subgraph; an operator on constants is on the device that reads it first.

    Raises EditError where the mode cannot do it.
    """
    partitions, fell_back = partition_or_fall_back(graph, numbers, mode, on_step)
    devices = list(numbers)
    for partition in partitions if graph.constants else ():
        for operator in partition.operators:
            devices[operator] = partition.device
    return SubgraphPartitioning(devices, partitions, fell_back=fell_back)


def _demote(
    graph: OperatorGraph, assignment: Assignment, subgraph: int, sizing: Sizing, refuge: int
) -> frozenset[int]:
    """Return the operators in partitions that are too small, until there are none."""
    # Whether partitions wait for each other is asked of those that are there in the end.
    tame: Mode = "safe" if sizing.mode == "seed" else sizing.mode
    numbers = list(assignment.numbers[subgraph])
    demoted: set[int] = set()
    constants = set(graph.constants)
    while sizing.min_size > 1:
        small = {
            operator
            for partition in make_partitions(graph, numbers, tame)
            if partition.device != refuge
            and len(set(partition.operators) - constants) < sizing.min_size
            and all(assignment.refusal(refuge, subgraph, operator) is None for operator in partition.operators)
            for operator in partition.operators
        }
        if not small:
            break
        demoted |= small
        for operator in small:
            numbers[operator] = refuge
    return frozenset(demoted)


def to_affinity(partitioning: Partitioning) -> Affinity:
    """Return what goes into the file; subgraphs without operators are left out."""
    subgraphs = {}
    for index, subgraph in enumerate(partitioning.subgraphs):
        if subgraph.numbers:
            devices, partitions = np.array([subgraph.numbers, subgraph.partition_of()], np.uint32)
            subgraphs[index] = SubgraphAffinity(devices, partitions)
    return Affinity(dict(enumerate(partitioning.devices)), subgraphs)
