"""From a device for each operator to partitions: the modes, and an order in which the partitions can run.

seed     OpenVINO's hetero plugin design, word for word; its partitions may wait for each other
safe     the same, with such partitions broken up
min      fewer, by merging from several starts; never more than safe
epochs   devices take turns; partitions need not be connected; fewest for two devices
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from circletools.affinity.partition.epochs import epoch_partitions
from circletools.affinity.partition.groups import group_successors
from circletools.affinity.partition.growth import Step
from circletools.affinity.partition.levels import fewest
from circletools.affinity.partition.repair import OperatorSets, group_of, repaired, waiting_for_each_other
from circletools.affinity.partition.schedule import schedule
from circletools.affinity.partition.seed import seed_partitions
from circletools.errors import EditError
from circletools.model.graph import OperatorGraph

OnStep = Callable[[Step], None] | None
Mode = Literal["seed", "safe", "min", "epochs"]


@dataclass(frozen=True, slots=True)
class Partition:
    """Operators, ascending, that one device (by number) runs in one go."""

    device: int
    operators: tuple[int, ...]


def make_partitions(
    graph: OperatorGraph, devices: Sequence[int], mode: Mode = "safe", on_step: OnStep = None
) -> tuple[Partition, ...]:
    """Return the partitions, in an order in which they can run.

    `devices` has the device number of each operator; low numbers have precedence. Raises EditError where the
    partitions of mode `seed` wait for each other, and for a graph that is too wide or takes too many steps.
    """
    partitions = _MODES[mode](graph, devices, on_step)
    successors = group_successors(graph, group_of(len(graph), partitions), len(partitions))
    order = schedule(successors, [min(partition) for partition in partitions])
    if len(order) < len(partitions):
        cycle = waiting_for_each_other(graph, partitions)[0]
        first, second = (partitions[index] for index in cycle[:2])
        raise EditError(
            f"{len(cycle)} partitions wait for each other, those of operators {min(first)} and {min(second)} for two",
            hint="--mode safe breaks such partitions up",
        )
    return tuple(Partition(devices[partitions[index][0]], tuple(sorted(partitions[index]))) for index in order)


def _safe(graph: OperatorGraph, devices: Sequence[int], on_step: OnStep) -> OperatorSets:
    return repaired(graph, devices, seed_partitions(graph, devices, on_step))


_MODES: dict[Mode, Callable[[OperatorGraph, Sequence[int], OnStep], OperatorSets]] = {
    "seed": seed_partitions,
    "safe": _safe,
    "min": lambda graph, devices, on_step: fewest(graph, devices, _safe(graph, devices, on_step)),
    "epochs": lambda graph, devices, _: epoch_partitions(graph, devices),
}
