"""Costs of partitions: transfers between them, estimated times, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.affinity.costs.constants import constants_us
from circletools.affinity.costs.evaluate import Estimate, evaluate
from circletools.affinity.costs.memory import Footprint, contents, footprints
from circletools.affinity.costs.table import CostTable
from circletools.affinity.costs.times import Costs, cost_tables
from circletools.affinity.partitioning import Partitioning, SubgraphPartitioning
from circletools.affinity.read import Affinity
from circletools.affinity.tables import NONE
from circletools.affinity.transfers import Transfers, transfers
from circletools.errors import EditError
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser

_EXACT = 1e-6
"""The share to which the integer program is exact."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The costs of the partitions of a subgraph: times where they are known, memory where it was asked for.

    `memory` goes by device number. `least_us` is what no choice of devices takes less than, where that is known.
    """

    transfers: Transfers
    estimate: Estimate | None = None
    memory: tuple[Footprint, ...] | None = None
    least_us: float | None = None

    @property
    def excess(self) -> float | None:
        """Return by which share of the least the estimate may be too long, 0 where it is optimal; None if unknown."""
        if self.estimate is None or self.least_us is None:
            return None
        over = self.estimate.total_us - self.least_us
        if over <= _EXACT * max(self.least_us, self.estimate.total_us):
            return 0.0
        return over / self.least_us if self.least_us > 0 else None


@dataclass(frozen=True, slots=True)
class Evaluator:
    """How the partitions of a model are evaluated; `tables` are those of its subgraphs, where costs are known.

    `least_us` is what no choice of devices takes less than, by subgraph.
    """

    facts: Sequence[Graph]
    tables: Sequence[CostTable] | None = None
    memory: bool = False
    least_us: Sequence[float | None] = ()

    def evaluate(self, partitioning: Partitioning) -> tuple[Evaluation, ...]:
        """Return the cost of each subgraph."""
        return tuple(
            self._subgraph(index, planned, len(partitioning.devices))
            for index, planned in enumerate(partitioning.subgraphs)
        )

    def _subgraph(self, index: int, planned: SubgraphPartitioning, devices: int) -> Evaluation:
        facts = self.facts[index]
        crossing = transfers(facts, planned.partition_of(), planned.numbers)
        used = footprints(contents(facts), facts.dag, planned.partitions, devices) if self.memory else None
        memory = None if used is None else tuple(used)
        if self.tables is None:
            return Evaluation(crossing, memory=memory)
        table = self.tables[index]
        estimate = evaluate(table, planned.numbers, [partition.device for partition in planned.partitions])
        if table.links.constant_us_per_byte is not None:
            brought = constants_us(contents(facts), table, planned.partition_of(), planned.numbers)
            estimate = replace(estimate, constants_us=brought)
        return Evaluation(crossing, estimate, memory, self.least_us[index] if self.least_us else None)


def affinity_estimates(chooser: Chooser, affinity: Affinity, costs: Costs) -> dict[int, Estimate]:
    """Return the costs of the subgraphs with an affinity, by index. Raises EditError for one without a device."""
    for index, subgraph in sorted(affinity.subgraphs.items()):
        unassigned = np.flatnonzero(subgraph.devices == NONE)
        if len(unassigned):
            place = f"subgraphs[{index}].operators[{unassigned[0]}]"
            raise EditError("an operator without a device takes no time", location=place, hint="annotate-affinity")
    if not affinity.devices:
        return {}
    number = {device: number for number, device in enumerate(sorted(affinity.devices))}
    problems = cost_tables(chooser, [affinity.devices[device] for device in number], costs)
    found = {}
    for index, subgraph in sorted(affinity.subgraphs.items()):
        numbers = [number[device] for device in subgraph.devices.tolist()]
        # An operator in no partition runs by itself.
        launched = {
            (-1 - operator if partition == NONE else partition): numbers[operator]
            for operator, partition in enumerate(subgraph.partitions.tolist())
        }
        home = [-1 - at if row == NONE else row for at, row in enumerate(subgraph.partitions.tolist())]
        brought = constants_us(contents(chooser.facts[index]), problems[index], home, numbers)
        estimate = evaluate(problems[index], numbers, list(launched.values()))
        found[index] = replace(estimate, constants_us=brought)
    return found
