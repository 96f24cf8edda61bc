"""The affinity in a model: each operator's device and partition, costs, and whether the affinity is current."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from circletools.affinity.costs.table import Estimate
from circletools.affinity.costs.times import Costs, cost_tables
from circletools.affinity.partitioning import Partitioning, from_affinity
from circletools.affinity.tables import NONE, Affinity, SubgraphAffinity, check_freshness, read_affinity
from circletools.errors import EditError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph
from circletools.graph.selectors import Chooser
from circletools.metadata.stamp import Freshness
from circletools.model.model import Model
from circletools.planning.evaluate import Transfers, estimated, transfers
from circletools.planning.inputs import CostInputs, costs_of, read_request
from circletools.planning.plan import Summary, summarize
from circletools.planning.reproject import source_names
from circletools.planning.request import CostRequest
from circletools.wording import Tabular


@dataclass(frozen=True, slots=True, repr=False)
class AffinityInspection(Tabular):
    """The affinity of a model, by subgraph.

    `freshness` is None if the model has no affinity; if the affinity is stale, no subgraph is shown. `outputs` holds
    the name of each operator's first output. `transfers` holds costs that need no times; there, each operator without
    a partition is a partition with a negative number. `estimates` are present if costs were given.
    """

    model_format: Literal["circle", "tflite"]
    subgraph_count: int
    affinity: Affinity
    freshness: Freshness | None
    code_names: Mapping[int, Sequence[str]]
    outputs: Mapping[int, Sequence[str]]
    transfers: Mapping[int, Transfers]
    estimates: Mapping[int, Estimate]
    summary: Summary
    notes: tuple[Finding, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether the model has an affinity that still describes its operators."""
        return self.freshness is not None and self.freshness.state != "stale"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the device and the partition of each operator, or None for operators in no partition."""
        return [
            {"subgraph": index} | row for index in sorted(self.affinity.subgraphs) for row in self.operators(index)
        ]

    def operators(self, subgraph: int) -> Iterator[dict[str, Any]]:
        """Yield the rows of a subgraph, without its index."""
        placement, devices = self.affinity.subgraphs[subgraph], self.affinity.devices
        ids = zip(placement.devices.tolist(), placement.partitions.tolist(), strict=True)
        rows = zip(self.code_names[subgraph], self.outputs[subgraph], ids, strict=True)
        for operator, (code, output, (device, partition)) in enumerate(rows):
            yield {
                "operator_index": operator,
                "code": code,
                "output": output,
                "device": devices.get(device),
                "partition": None if partition == NONE else partition,
            }

    def partitions(self, subgraph: int) -> list[tuple[int | None, str | None, list[int]]]:
        """Return the number, device and operators of each partition in execution order, then the other operators."""
        placement = self.affinity.subgraphs[subgraph]
        members: dict[tuple[int, int], list[int]] = {}
        for operator, key in enumerate(zip(placement.partitions.tolist(), placement.devices.tolist(), strict=True)):
            members.setdefault(key, []).append(operator)
        return [
            (None if partition == NONE else partition, self.affinity.devices.get(device), operators)
            for (partition, device), operators in sorted(members.items())
        ]


def inspect_affinity(model: Model, costs: CostRequest | CostInputs | None = None) -> AffinityInspection:
    """Return the affinity in a model; with costs, include the estimated times.

    Raises TableFormatError for a malformed table, EditError if operators to time have no device, and the errors that
    reading costs may raise.
    """
    if isinstance(costs, CostRequest):
        costs = read_request(costs) if costs.has_costs else None
    graph = model_graph(model)
    affinity = read_affinity(graph)
    freshness = None if affinity is None else check_freshness(graph, affinity)
    found, notes = affinity or Affinity({}, {}), list[Finding]()
    name = graph.name
    if freshness is None:
        notes.append(Finding("NO_AFFINITY", "warning", name, "the model has no affinity (annotate-affinity adds it)"))
    elif freshness.state == "stale":
        found = Affinity(found.devices, {})
        message = f"the affinity is stale from {freshness.place} on: {freshness.reason}"
        notes.append(Finding("STALE_AFFINITY", "warning", name, message))
    partitioning = from_affinity(found, len(graph))
    estimates: Mapping[int, Estimate] = {}
    if costs is not None:
        chooser = Chooser(graph, source_names(graph) if costs.by_origin else ())
        known, gaps = costs_of(graph, costs, list(found.devices.values()))
        estimates = _estimates(chooser, partitioning, known)
        notes = [*gaps, *notes]
    return AffinityInspection(
        graph.source.format,
        len(graph),
        found,
        freshness,
        {index: graph.graphs[index].operators.code_names for index in found.subgraphs},
        {index: graph.graphs[index].operators.first_result_names for index in found.subgraphs},
        {index: _transfers(graph.graphs[index], placement) for index, placement in found.subgraphs.items()},
        estimates,
        summarize(graph.graphs, partitioning) if found.subgraphs else Summary(),
        tuple(notes),
    )


def _transfers(graph: Graph, placement: SubgraphAffinity) -> Transfers:
    numbers = enumerate(placement.partitions.tolist())
    partitions = [-1 - operator if number == NONE else number for operator, number in numbers]
    return transfers(graph, partitions, placement.devices.tolist())


def _estimates(chooser: Chooser, partitioning: Partitioning, costs: Costs) -> dict[int, Estimate]:
    """Return the times of the subgraphs with an affinity, by index. Raises EditError if a device is missing."""
    given = {index: one for index, one in enumerate(partitioning.subgraphs) if one.numbers}
    for index, planned in given.items():
        if -1 in planned.numbers:
            place = f"subgraphs[{index}].operators[{planned.numbers.index(-1)}]"
            raise EditError("an operator without a device has no time", location=place, hint="run annotate-affinity")
    tables = cost_tables(chooser, partitioning.devices, costs) if partitioning.devices else []
    return {index: estimated(chooser.model.graphs[index], tables[index], planned) for index, planned in given.items()}
