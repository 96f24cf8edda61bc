"""Form partitions, given a device for each operator, in either mode, and order the partitions so that they can run.

seed     the design of OpenVINO's hetero plugin, exactly; its partitions may wait for each other
min      as few connected partitions as merging can form
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Literal

from circletools.affinity.solvers.groups import Partition, group_of, group_successors, working
from circletools.affinity.solvers.min import OperatorSets, fewest_turns, minimum_partitions
from circletools.affinity.solvers.seed import OnStep, Step, seed_partitions
from circletools.errors import EditError
from circletools.graph.algorithms import Dag, strong_components


def schedule(successors: Sequence[Sequence[int]], priority: Sequence[int]) -> list[int]:
    """Return the groups in topological order; among those that can run, the one with the lowest `priority` is first.

    Groups that wait for each other, and groups that depend on them, are omitted.
    """
    waiting = [0] * len(successors)
    for row in successors:
        for successor in row:
            waiting[successor] += 1
    ready = [(priority[group], group) for group, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order = []
    while ready:
        _, group = heappop(ready)
        order.append(group)
        for successor in successors[group]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                heappush(ready, (priority[successor], successor))
    return order


Mode = Literal["seed", "min"]


def make_partitions(
    graph: Dag, devices: Sequence[int], mode: Mode = "min", on_step: OnStep = None
) -> tuple[Partition, ...]:
    """Return the partitions in an order in which they can run.

    `devices` holds the device number of each operator; low numbers take precedence. Only mode `seed` raises
    EditError: for partitions that wait for each other, and for a graph that is too large or takes too many steps.
    """
    operators, work = working(graph)
    of_work = [devices[operator] for operator in operators]
    if mode == "seed":
        made = seed_partitions(work, of_work, None if on_step is None else _renamed(on_step, operators))
    else:
        made = minimum_partitions(work, of_work)
        if work.joins_any:
            made = min(made, fewest_turns(work, of_work), key=len)
    rows = (Partition(of_work[row[0]], tuple(operators[at] for at in sorted(row))) for row in _in_order(work, made))
    return with_constants(graph, tuple(rows))


def _renamed(on_step: Callable[[Step], None], operators: Sequence[int]) -> Callable[[Step], None]:
    """Return a callback that translates the operators of steps to indices in the whole graph."""

    def renamed(step: Step) -> None:
        members, rejected = (tuple(operators[at] for at in some) for some in (step.members, step.rejected))
        on_step(Step(step.action, operators[step.operator], members, rejected))

    return renamed


def _in_order(graph: Dag, partitions: OperatorSets) -> OperatorSets:
    """Return the partitions in topological order. Raises EditError if some wait for each other."""
    successors = group_successors(graph, group_of(len(graph), partitions), len(partitions))
    order = schedule(successors, [min(partition) for partition in partitions])
    if len(order) < len(partitions):
        cycle = next(row for row in strong_components(successors) if len(row) > 1)
        first, second = (min(partitions[index]) for index in cycle[:2])
        raise EditError(
            f"{len(cycle)} partitions wait for each other, for example those of operators {first} and {second}",
            hint="`mode=min` forms no such partitions",
        )
    return [partitions[index] for index in order]


def with_constants(graph: Dag, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return the partitions with each operator that depends only on constants added to that of its first reader."""
    if not graph.constants:
        return tuple(partitions)
    rows = [list(partition.operators) for partition in partitions]
    home = {operator: number for number, row in enumerate(rows) for operator in row}
    constants = set(graph.constants)
    for operator in reversed(graph.order):
        if operator in constants:
            home[operator] = min(home[reader] for reader in graph.successors[operator])
            rows[home[operator]].append(operator)
    whole = (Partition(its.device, tuple(sorted(row))) for its, row in zip(partitions, rows, strict=True))
    return tuple(whole)
