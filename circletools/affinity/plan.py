"""From an assignment to the partitions of all subgraphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.partition.growth import Step
from circletools.affinity.partition.partition import Mode, Part, partition
from circletools.affinity.store import Affinity
from circletools.affinity.tables import NONE, SubgraphAffinity
from circletools.errors import EditError
from circletools.model import Model
from circletools.model.graph import OperatorGraph, operator_graph

__all__ = ["Plan", "SubgraphPlan", "make_plan", "to_affinity"]


@dataclass(frozen=True, slots=True)
class SubgraphPlan:
    """The device number of each operator, and the partitions in an order in which they can run."""

    numbers: list[int]
    parts: tuple[Part, ...]
    demoted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of every subgraph; `devices` are names by number."""

    devices: tuple[str, ...]
    subgraphs: tuple[SubgraphPlan, ...]


def make_plan(
    model: Model,
    assignment: Assignment,
    mode: Mode = "safe",
    *,
    min_size: int = 1,
    fallback: str | None = None,
    on_step: Callable[[int, Step], None] | None = None,
) -> Plan:
    """Partition every subgraph by its assignment.

    Partitions of fewer than `min_size` operators go to `fallback` (the last device unless given), where that takes
    all of them. `on_step` is told each step of growing, with its subgraph. Raises EditError where the mode cannot do
    it, ModelFormatError for a graph with cycles.
    """
    plans = []
    refuge = assignment.devices.index(fallback) if fallback else len(assignment.devices) - 1
    for subgraph, assigned in enumerate(assignment.numbers):
        graph = operator_graph(model, subgraph)
        # Whether partitions wait for each other is asked of those that are there in the end.
        tame: Mode = "safe" if mode == "seed" else mode
        demoted = _demote(graph, assignment, subgraph, tame, min_size, refuge)
        numbers = [refuge if operator in demoted else number for operator, number in enumerate(assigned)]
        tell = None if on_step is None else _with_subgraph(on_step, subgraph)
        try:
            plans.append(SubgraphPlan(numbers, partition(graph, numbers, mode, tell), demoted))
        except EditError as error:
            raise EditError(error.message, location=f"subgraphs[{subgraph}]", hint=error.hint) from error
    return Plan(assignment.devices, tuple(plans))


def _with_subgraph(on_step: Callable[[int, Step], None], subgraph: int) -> Callable[[Step], None]:
    return lambda step: on_step(subgraph, step)


def _demote(
    graph: OperatorGraph, assignment: Assignment, subgraph: int, mode: Mode, min_size: int, refuge: int
) -> frozenset[int]:
    """Return the operators in partitions that are too small, until there are none."""
    numbers = list(assignment.numbers[subgraph])
    demoted: set[int] = set()
    while min_size > 1:
        small = {
            operator
            for part in partition(graph, numbers, mode)
            if part.device != refuge
            and len(part.operators) < min_size
            and all(assignment.refusal(refuge, subgraph, operator) is None for operator in part.operators)
            for operator in part.operators
        }
        if not small:
            break
        demoted |= small
        for operator in small:
            numbers[operator] = refuge
    return frozenset(demoted)


def to_affinity(plan: Plan) -> Affinity:
    """Return what goes into the file; subgraphs without operators are left out."""
    subgraphs = {}
    for index, subgraph in enumerate(plan.subgraphs):
        if subgraph.numbers:
            partitions = np.full(len(subgraph.numbers), NONE, np.uint32)
            for number, part in enumerate(subgraph.parts):
                partitions[list(part.operators)] = number
            subgraphs[index] = SubgraphAffinity(np.array(subgraph.numbers, np.uint32), partitions)
    return Affinity(dict(enumerate(plan.devices)), subgraphs)
