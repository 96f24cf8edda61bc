"""The plan for a model: devices, partitions, costs, and the reasons for the choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.partitioning import Partitioning, SubgraphPartitioning, to_affinity
from circletools.affinity.read import Affinity
from circletools.affinity.solvers.growth import Step
from circletools.findings import Finding
from circletools.planning.evaluate import Evaluation
from circletools.planning.summary import Summary
from circletools.planning.what_if import WhatIf
from circletools.wording import Tabular


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Tabular):
    """The device of every operator, the resulting partitions, and their evaluation, all by subgraph.

    `code_names` are the operator codes. `caps` are bytes by device number. `steps` are the steps of growing
    partitions, with the subgraph; None unless requested. `what_if` is present if requested. `notes` are remarks on
    the plan: operators on devices that refuse them, gaps in traces, defaults in use.
    """

    model_format: Literal["circle", "tflite"]
    code_names: Sequence[Sequence[str]]
    assignment: Assignment
    partitioning: Partitioning
    evaluation: tuple[Evaluation, ...]
    caps: Mapping[int, int] = field(default_factory=dict)
    steps: tuple[tuple[int, Step], ...] | None = None
    what_if: WhatIf | None = None
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
        """Return why an operator is on its device."""
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
