"""The costs of partitions: transfers between them, estimated times, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circletools.affinity.costs.table import CostTable, Estimate, Footprint, contents, estimate, footprints
from circletools.affinity.partitioning import Partitioning, SubgraphPartitioning
from circletools.graph.graph import Graph
from circletools.model.views import text


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor that one partition produces and others read. `size_bytes` is None if the shape is not known."""

    tensor_index: int
    name: str
    producer_partition: int
    consumer_partitions: tuple[int, ...]
    copies: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Transfers:
    """The cuts of a subgraph, and their totals; each copy brings one tensor to one other device.

    `launches` is the number of partitions; `copied_bytes` omits tensors of unknown size.
    """

    launches: int
    copies: int
    copied_bytes: int
    copies_of_unknown_size: int
    cuts: tuple[Cut, ...]


def transfers(facts: Graph, partitions: Sequence[int], devices: Sequence[int]) -> Transfers:
    """Return the transfers between the partitions of a subgraph; both sequences have an item for each operator."""
    producer = dict(zip(facts.definitions.values.tolist(), facts.definitions.operators.tolist(), strict=True))
    for operator in facts.folded:  # every partition has a copy of the results it reads
        for tensor in facts.results.of(operator):
            producer.pop(tensor, None)
    readers: dict[int, set[int]] = {}
    for reader, tensor in zip(*(each.tolist() for each in facts.uses), strict=True):
        maker = producer.get(tensor)
        if maker is not None and partitions[maker] != partitions[reader]:
            readers.setdefault(tensor, set()).add(reader)
    cuts = [
        Cut(
            tensor,
            text(facts.values.names[tensor]),
            partitions[producer[tensor]],
            tuple(sorted({partitions[reader] for reader in found})),
            len({devices[reader] for reader in found} - {devices[producer[tensor]]}),
            facts.values.size_bytes(tensor),
        )
        for tensor, found in sorted(readers.items())
    ]
    return Transfers(
        len(set(partitions)),
        sum(cut.copies for cut in cuts),
        sum(cut.copies * (cut.size_bytes or 0) for cut in cuts),
        sum(cut.copies for cut in cuts if cut.size_bytes is None),
        tuple(cuts),
    )


_EXACT = 1e-6
"""The relative accuracy of the integer program: a plan this close to the lower bound counts as optimal."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The costs of a subgraph's partitions: times if they are known, and memory if it was requested.

    `memory` has an item per device. `least_us` is a lower bound on the time of any choice of devices, if known.
    """

    transfers: Transfers
    estimate: Estimate | None = None
    memory: tuple[Footprint, ...] | None = None
    least_us: float | None = None

    @property
    def excess(self) -> float | None:
        """Return the greatest possible excess over the optimum, as a fraction of the lower bound; None if unknown."""
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
    """Return the costs of each subgraph; `tables` are the subgraphs' cost tables, if costs are known.

    `least_us` is a lower bound on the time of any choice of devices, by subgraph.
    """
    found = []
    for index, (graph, planned) in enumerate(zip(facts, partitioning.subgraphs, strict=True)):
        crossing = transfers(graph, planned.partition_of(), planned.numbers)
        used = None
        if memory:
            used = tuple(footprints(contents(graph), graph.dag, planned.partitions, len(partitioning.devices)))
        times = None if tables is None else estimated(graph, tables[index], planned)
        found.append(Evaluation(crossing, times, used, least_us[index] if least_us and times else None))
    return tuple(found)


def estimated(graph: Graph, table: CostTable, planned: SubgraphPartitioning) -> Estimate:
    """Return the times of a subgraph in which every operator has a device."""
    return estimate(table, planned.numbers, planned.partitions, lambda: contents(graph))
