"""The plan for a model: devices, partitions, costs, and the reasons for each choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from circletools.affinity.assign import Assignment, Refusals
from circletools.affinity.capability.table import Capability, Refusal
from circletools.affinity.partitioning import Partitioning, SubgraphPartitioning, to_affinity
from circletools.affinity.solvers.seed import Step
from circletools.affinity.tables import Affinity
from circletools.cost.macs import macs
from circletools.findings import Finding
from circletools.fit.fit import computed_bytes
from circletools.fit.programs import judge_of
from circletools.fit.remedies import remedy_of, size_remedies
from circletools.fit.verdicts import RefusedOperators
from circletools.graph.graph import Graph
from circletools.planning.evaluate import Evaluation
from circletools.wording import Tabular

# --- summary of a plan: the operators of each device, and why the preferred devices do not run the rest -----


_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """The work of a device: the number and percentage of its operators, the bytes of their outputs, and its launches.

    `macs` counts the multiply-accumulates known from shapes; `macs_percent` is their percentage of the total.
    """

    device: str
    operator_count: int
    share_percent: float
    computed_bytes: int
    launch_count: int
    macs: int
    macs_percent: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The devices in order, and the operators that devices with a capability table refuse, most frequent first."""

    devices: tuple[DeviceShare, ...] = ()
    refusals: tuple[RefusedOperators, ...] = ()


def summarize(
    graphs: Sequence[Graph],
    partitioning: Partitioning,
    refused: Refusals | None = None,
    tables: Mapping[str, Capability] = MappingProxyType({}),
) -> Summary:
    """Return the work of each device; operators without a device (-1) are not counted.

    `refused` holds the refusals of devices, by subgraph and operator; `tables` holds the capability tables.
    """
    devices = partitioning.devices
    operators, launches, made, count, products = (np.zeros(len(devices)) for _ in range(5))
    for graph, planned in zip(graphs, partitioning.subgraphs, strict=True):
        known = np.array(planned.numbers, np.int64)
        runs, ran = known >= 0, np.array([one.device for one in planned.partitions], np.int64)
        count += len(known)
        operators += np.bincount(known[runs], minlength=len(devices))
        launches += np.bincount(ran[ran >= 0], minlength=len(devices))
        if len(known):
            made += np.bincount(known[runs], computed_bytes(graph)[runs], len(devices))
            products += np.bincount(known[runs], np.maximum(macs(graph), 0)[runs], len(devices))
    shares = 100 * operators / np.maximum(count, 1)
    of_macs = 100 * products / max(products.sum(), 1)
    columns = operators.astype(int), shares, made.astype(int), launches.astype(int), products.astype(int), of_macs
    rows = zip(devices, *(column.tolist() for column in columns), strict=True)
    groups = [
        one
        for device, found in (refused or {}).items()
        for one in _groups(
            graphs, partitioning, device, found, judge_of(tables[device].device) if device in tables else ""
        )
    ]
    return Summary(tuple(DeviceShare(*row) for row in rows), tuple(groups))


def _groups(
    graphs: Sequence[Graph],
    partitioning: Partitioning,
    device: str,
    refused: Sequence[Sequence[Refusal | None]],
    program: str,
) -> list[RefusedOperators]:
    places, number = dict[tuple[str, Refusal, str], list[_Place]](), partitioning.devices.index(device)
    for index, planned in enumerate(partitioning.subgraphs):
        codes = graphs[index].operators.code_names
        here = {at: one for at, one in enumerate(refused[index]) if one and planned.numbers[at] != number}
        of_sizes = size_remedies(graphs[index], here)
        for at, refusal in here.items():
            remedy = remedy_of(refusal, codes[at], of_sizes.get(at, ""), program)
            places.setdefault((codes[at], refusal, remedy), []).append((index, at))
    found = [
        RefusedOperators(device, code, refusal.reason, remedy, refusal.measured, tuple(operators))
        for (code, refusal, remedy), operators in places.items()
    ]
    return sorted(found, key=lambda one: (not one.measured, -len(one.operators), one.operators[0]))


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Tabular):
    """The device of every operator, the resulting partitions, and their evaluation, all by subgraph.

    `code_names` are the operator codes. `caps` maps device numbers to their memory in bytes. `steps` holds the steps
    by which the partitions of each subgraph grew; it is None unless requested. `notes` are remarks on the plan:
    operators on devices that refuse them, gaps in traces, and defaults in use.
    """

    model_format: Literal["circle", "tflite"]
    code_names: Sequence[Sequence[str]]
    assignment: Assignment
    partitioning: Partitioning
    evaluation: tuple[Evaluation, ...]
    caps: Mapping[int, int] = field(default_factory=dict)
    steps: tuple[tuple[Step, ...], ...] | None = None
    summary: Summary = field(default_factory=Summary)
    notes: tuple[Finding, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices, by number."""
        return self.partitioning.devices

    @property
    def subgraphs(self) -> tuple[SubgraphPartitioning, ...]:
        """The device number of each operator and the partitions, by subgraph."""
        return self.partitioning.subgraphs

    def device_of(self, subgraph: int, operator: int) -> str:
        """Return the device of an operator."""
        return self.devices[self.subgraphs[subgraph].numbers[operator]]

    def reason(self, subgraph: int, operator: int) -> str:
        """Return the reason why an operator is on its device."""
        reason = self.assignment.why(subgraph, operator)
        moved = self.subgraphs[subgraph].moved.get(operator)
        return f"{moved}; before: {reason}" if moved else reason

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the device of each operator, its partition, and the reason."""
        return [
            {
                "subgraph": index,
                "operator_index": operator,
                "code": code,
                "device": self.device_of(index, operator),
                "partition": partition,
                "reason": self.reason(index, operator),
            }
            for index, (codes, planned) in enumerate(zip(self.code_names, self.subgraphs, strict=True))
            for operator, (code, partition) in enumerate(zip(codes, planned.partition_of(), strict=True))
        ]

    def to_affinity(self) -> Affinity:
        """Return the affinity that `annotate` writes into the model."""
        return to_affinity(self.partitioning)
