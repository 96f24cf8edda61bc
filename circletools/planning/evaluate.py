"""Costs of partitions: transfers between them, estimated times, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from circletools.affinity.costs.evaluate import Estimate, constants_us, evaluate
from circletools.affinity.costs.memory import Footprint, contents, footprints
from circletools.affinity.costs.table import CostTable
from circletools.affinity.partitioning import Partitioning, SubgraphPartitioning
from circletools.affinity.transfers import Transfers, transfers
from circletools.graph.graph import Graph

_EXACT = 1e-6
"""The relative accuracy of the integer program: a smaller excess counts as optimal."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The costs of a subgraph's partitions: times if they are known, memory if it was requested.

    `memory` is by device number. `least_us` is a lower bound on the time of any choice of devices, if known.
    """

    transfers: Transfers
    estimate: Estimate | None = None
    memory: tuple[Footprint, ...] | None = None
    least_us: float | None = None

    @property
    def excess(self) -> float | None:
        """Return by what share of the bound the estimate may exceed the optimum: 0 if optimal, None if unknown."""
        if self.estimate is None or self.least_us is None:
            return None
        over = self.estimate.total_us - self.least_us
        if over <= _EXACT * max(self.least_us, self.estimate.total_us):
            return 0.0
        return over / self.least_us if self.least_us > 0 else None


def evaluated(
    facts: Sequence[Graph],
    partitioning: Partitioning,
    tables: Sequence[CostTable] | None,
    least_us: Sequence[float | None] = (),
    *,
    memory: bool = False,
) -> tuple[Evaluation, ...]:
    """Return the cost of each subgraph; `tables` are the subgraphs' cost tables, if costs are known.

    `least_us` is a lower bound on the time of any choice of devices, by subgraph.
    """
    found = []
    for index, (graph, planned) in enumerate(zip(facts, partitioning.subgraphs, strict=True)):
        crossing = transfers(graph, planned.partition_of(), planned.numbers)
        used = None
        if memory:
            used = tuple(footprints(contents(graph), graph.dag, planned.partitions, len(partitioning.devices)))
        estimate = None if tables is None else estimated(graph, tables[index], planned)
        found.append(Evaluation(crossing, estimate, used, least_us[index] if least_us and estimate else None))
    return tuple(found)


def estimated(graph: Graph, table: CostTable, planned: SubgraphPartitioning) -> Estimate:
    """Return the times of a subgraph in which every operator has a device."""
    estimate = evaluate(table, planned.numbers, [partition.device for partition in planned.partitions])
    if table.links.constant_us_per_byte is None:
        return estimate
    brought = constants_us(contents(graph), table, planned.partition_of(), planned.numbers)
    return replace(estimate, constants_us=brought)
