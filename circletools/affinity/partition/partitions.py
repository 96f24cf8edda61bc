"""From a device for each operator to partitions: the modes, and an order in which the partitions can run.

seed     OpenVINO's hetero plugin design, word for word; its partitions may wait for each other
safe     the same, with such partitions broken up; for a graph that is too wide or too entangled for it, min
min      the fewest that merging makes from several starts
epochs   devices take turns; partitions need not be connected; fewest for two devices
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from circletools.affinity.partition.epochs import epoch_partitions
from circletools.affinity.partition.fewest import fewest
from circletools.affinity.partition.groups import group_successors, working
from circletools.affinity.partition.growth import Step
from circletools.affinity.partition.repair import OperatorSets, group_of, repaired, waiting_for_each_other
from circletools.affinity.partition.schedule import schedule
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from circletools.graph.dag import Dag

OnStep = Callable[[Step], None] | None
Mode = Literal["seed", "safe", "min", "epochs"]


@dataclass(frozen=True, slots=True)
class Partition:
    """Operators, ascending, that one device (by number) runs in one go."""

    device: int
    operators: tuple[int, ...]


def make_partitions(
    graph: Dag, devices: Sequence[int], mode: Mode = "min", on_step: OnStep = None
) -> tuple[Partition, ...]:
    """Return the partitions, in an order in which they can run.

    `devices` has the device number of each operator; low numbers have precedence. Only mode `seed` raises EditError:
    where its partitions wait for each other, and for a graph that is too wide or takes too many steps.
    """
    return partition_or_fall_back(graph, devices, mode, on_step)[0]


def partition_or_fall_back(
    graph: Dag, devices: Sequence[int], mode: Mode, on_step: OnStep = None
) -> tuple[tuple[Partition, ...], str | None]:
    """Return what `make_partitions` does, and why mode `safe` had to make way for `min`, None where it had not."""
    if graph.constants:
        return _with_constants(graph, devices, mode, on_step)
    fell_back = None
    try:
        partitions = _MODES[mode](graph, devices, on_step)
    except EditError as error:
        if mode != "safe":
            raise
        partitions, fell_back = fewest(graph, devices), error.message
    successors = group_successors(graph, group_of(len(graph), partitions), len(partitions))
    order = schedule(successors, [min(partition) for partition in partitions])
    if len(order) < len(partitions):
        cycle = waiting_for_each_other(graph, partitions)[0]
        first, second = (partitions[index] for index in cycle[:2])
        raise EditError(
            f"{len(cycle)} partitions wait for each other, those of operators {min(first)} and {min(second)} for two",
            hint="`mode=safe` breaks such partitions up",
        )
    made = (Partition(devices[partitions[index][0]], tuple(sorted(partitions[index]))) for index in order)
    return tuple(made), fell_back


def _with_constants(
    graph: Dag, devices: Sequence[int], mode: Mode, on_step: OnStep
) -> tuple[tuple[Partition, ...], str | None]:
    """Partition what is work."""
    operators, work = working(graph)
    tell = None
    if on_step is not None:

        def tell(step: Step) -> None:
            members, rejected = (tuple(operators[at] for at in some) for some in (step.members, step.rejected))
            on_step(Step(step.action, operators[step.operator], members, rejected))

    made, fell_back = partition_or_fall_back(work, [devices[operator] for operator in operators], mode, tell)
    rows = (Partition(its.device, tuple(operators[at] for at in its.operators)) for its in made)
    return with_constants(graph, tuple(rows)), fell_back


def with_constants(graph: Dag, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return partitions of what is work, with each operator on constants in the partition that reads it first."""
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


def _safe(graph: Dag, devices: Sequence[int], on_step: OnStep) -> OperatorSets:
    return repaired(graph, devices, seed_partitions(graph, devices, on_step))


def _fewest(graph: Dag, devices: Sequence[int]) -> OperatorSets:
    found = fewest(graph, devices)
    if graph.beside:  # to merge what nothing connects may be in the way of the rest
        found = min(found, fewest(replace(graph, beside=()), devices), key=len)
    if graph.joins_any:
        return min(found, epoch_partitions(graph, devices), key=len)
    return found


_MODES: dict[Mode, Callable[[Dag, Sequence[int], OnStep], OperatorSets]] = {
    "seed": seed_partitions,
    "safe": _safe,
    "min": lambda graph, devices, _: _fewest(graph, devices),
    "epochs": lambda graph, devices, _: epoch_partitions(graph, devices),
}
