"""Compares a plan with the same plan after moving some operators to other devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.assign.rules import Rule
from circletools.affinity.partitioning import Partitioning, partitioned
from circletools.affinity.problem import Sizing
from circletools.errors import UsageError
from circletools.findings import Finding
from circletools.graph.selectors import Chooser
from circletools.planning.evaluate import Evaluation
from circletools.wording import Attributes, suggestion

EvaluatedPlan = tuple[Partitioning, Sequence[Evaluation]]


@dataclass(frozen=True, slots=True)
class Move(Attributes):
    """An operator, and its devices before and after."""

    operator: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class SubgraphWhatIf(Attributes):
    """The result of moving operators of a subgraph.

    `impossible` lists, by device, the moved operators that the device refuses, before or after; their missing times
    would make the move look like a gain.
    """

    moves: tuple[Move, ...]
    before: Evaluation
    after: Evaluation
    impossible: Mapping[str, tuple[int, ...]]

    @property
    def difference_us(self) -> float | None:
        """The increase in time; None without costs, or if it cannot run before or after."""
        if self.before.estimate is None or self.after.estimate is None or self.impossible:
            return None
        return self.after.estimate.total_us - self.before.estimate.total_us


@dataclass(frozen=True, slots=True)
class WhatIf(Attributes):
    """The comparison of every subgraph; `refused` are notes about moves to a device that refuses the operator."""

    subgraphs: tuple[SubgraphWhatIf, ...]
    refused: tuple[Finding, ...]


def moved(chooser: Chooser, partitioning: Partitioning, changes: Sequence[Rule], sizing: Sizing) -> Partitioning:
    """Return the partitions after moving operators; no other device is chosen again.

    The most specific of several changes applies. Raises UsageError for a change that selects nothing or names no
    device of the plan, EditError if the mode cannot partition the result.
    """
    devices = partitioning.devices
    for change in changes:
        if change.device not in devices:
            hint = suggestion(change.device, devices)
            raise UsageError(f"device {change.device!r} is not among the devices", location=change.place, hint=hint)
    subgraphs = []
    for index, rules in enumerate(by_precedence(chooser, changes)):
        planned = partitioning.subgraphs[index]
        pairs = zip(rules, planned.numbers, strict=True)
        numbers = [devices.index(rule.device) if rule else number for rule, number in pairs]
        if numbers != planned.numbers:
            planned = partitioned(sizing.units_of(chooser.model.graphs[index]), numbers, sizing.mode)
        subgraphs.append(planned)
    return Partitioning(devices, tuple(subgraphs))


def compare(assignment: Assignment, before: EvaluatedPlan, after: EvaluatedPlan) -> WhatIf:
    """Return the differences between the partitions before and after the move."""
    subgraphs, refused = [], []
    sides = zip(before[0].subgraphs, after[0].subgraphs, before[1], after[1], strict=True)
    for index, (one, other, costs, later) in enumerate(sides):
        pairs = list(enumerate(zip(one.numbers, other.numbers, strict=True)))
        moves = [(operator, old, new) for operator, (old, new) in pairs if old != new]
        impossible: dict[str, list[int]] = {}
        for is_target in (True, False):
            for operator, old, new in moves:
                number = new if is_target else old
                refusal = assignment.refusal(number, index, operator)
                if refusal is not None:
                    impossible.setdefault(assignment.devices[number], []).append(operator)
                if refusal is not None and is_target:
                    place = f"subgraphs[{index}].operators[{operator}]"
                    message = f"the device does not support it: {refusal}"
                    refused.append(Finding("REFUSED_OPERATOR", "warning", place, message))
        names = assignment.devices
        moved = tuple(Move(operator, names[old], names[new]) for operator, old, new in moves)
        unable = {device: tuple(operators) for device, operators in impossible.items()}
        subgraphs.append(SubgraphWhatIf(moved, costs, later, unable))
    return WhatIf(tuple(subgraphs), tuple(refused))
