"""A plan beside the same plan with some operators elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.assign.precedence import by_precedence
from circletools.affinity.assign.rules import Rule
from circletools.affinity.partition.partition import Mode, partition
from circletools.affinity.plan import Plan, SubgraphPlan
from circletools.affinity.transfers import Transfers
from circletools.errors import UsageError
from circletools.model import Model
from circletools.model.graph import operator_graph
from circletools.model.selectors import Chooser
from circletools.planning.evaluate import SubgraphCosts, estimate_json, estimate_text
from circletools.render.affinity import transfers_json, transfers_of, transfers_text
from circletools.wording import SCHEMA_VERSION, ranges, suggestion


@dataclass(frozen=True, slots=True)
class Side:
    """A plan, and what it costs where costs are known."""

    plan: Plan
    costs: Sequence[SubgraphCosts] | None


def moved(chooser: Chooser, plan: Plan, changes: Sequence[Rule], mode: Mode) -> Plan:
    """Return a plan with operators on other devices, partitioned anew; nothing else is chosen anew.

    Of several changes the more particular counts. Raises UsageError for one that chooses nothing or names no device
    of the plan, EditError where the mode cannot partition it.
    """
    for change in changes:
        if change.device not in plan.devices:
            hint = suggestion(change.device, plan.devices)
            raise UsageError(f"device {change.device!r} is not among the devices", location=change.place, hint=hint)
    subgraphs = []
    for index, rules in enumerate(by_precedence(chooser, changes)):
        planned = plan.subgraphs[index]
        numbers = [
            plan.devices.index(rule.device) if rule else number
            for rule, number in zip(rules, planned.numbers, strict=True)
        ]
        if numbers != planned.numbers:
            planned = SubgraphPlan(numbers, partition(operator_graph(chooser.model, index), numbers, mode))
        subgraphs.append(planned)
    return Plan(plan.devices, tuple(subgraphs))


def against(assignment: Assignment, before: Plan, after: Plan) -> list[tuple[int, int, str]]:
    """Return the moved operators (subgraph, index) that their new device does not take, and why."""
    return [
        (subgraph, operator, refusal)
        for subgraph in range(len(before.subgraphs))
        for operator, _, _ in _moved(before, after, subgraph)
        if (refusal := assignment.refusal(after.subgraphs[subgraph].numbers[operator], subgraph, operator))
    ]


def what_if_json(model: Model, assignment: Assignment, before: Side, after: Side) -> dict[str, Any]:
    """Return the JSON document of partition --what-if."""
    return {
        "schema_version": SCHEMA_VERSION,
        "format": model.format,
        "devices": before.plan.devices,
        "subgraphs": [
            {
                "index": index,
                "moved": [
                    {"operator_index": operator, "from": source, "to": target}
                    for operator, source, target in _moved(before.plan, after.plan, index)
                ],
                "before": _side_json(model, before, index),
                "after": _side_json(model, after, index),
                "difference_us": _difference_us(assignment, before, after, index),
            }
            for index in range(len(before.plan.subgraphs))
        ],
    }


def what_if_text(model: Model, assignment: Assignment, before: Side, after: Side) -> Iterator[str]:
    """Yield the subgraphs where something moved, before and after."""
    for index in range(len(before.plan.subgraphs)):
        rows = _moved(before.plan, after.plan, index)
        if not rows:
            continue
        if len(before.plan.subgraphs) > 1:
            yield f"subgraph {index}"
        for pair in sorted({(source, target) for _, source, target in rows}):
            these = ranges(operator for operator, *devices in rows if tuple(devices) == pair)
            yield f"  {these}: {pair[0]} -> {pair[1]}"
        for name, side in (("before", before), ("after", after)):
            yield f"  {name}: {transfers_text(_transfers(model, side, index))}"
            if side.costs is not None:
                yield f"  {name}: {estimate_text(side.costs[index].estimate)}"
        if before.costs is not None and after.costs is not None:
            difference = _difference_us(assignment, before, after, index)
            if difference is None:
                yield f"  difference: none, since {'; '.join(_impossible(assignment, before, after, index))}"
            else:
                yield f"  difference: {difference:+.3f} us"
                yield from _parallel(before.costs[index], after.costs[index])
    if before.plan == after.plan:
        yield "  nothing moves: all of them are there already"


def _difference_us(assignment: Assignment, before: Side, after: Side, subgraph: int) -> float | None:
    """Return how much longer it takes after; None without costs, or where it cannot be run, before or after."""
    if before.costs is None or after.costs is None or any(_impossible(assignment, before, after, subgraph)):
        return None
    return after.costs[subgraph].estimate.total_us - before.costs[subgraph].estimate.total_us


def _impossible(assignment: Assignment, before: Side, after: Side, subgraph: int) -> Iterator[str]:
    """Yield the moved operators that a device does not take, by device: they would count nothing there."""
    refused: dict[str, list[int]] = {}
    for plan, other in ((after.plan, before.plan), (before.plan, after.plan)):
        for index, operator, _ in against(assignment, other, plan):
            if index == subgraph:
                device = plan.devices[plan.subgraphs[index].numbers[operator]]
                refused.setdefault(device, []).append(operator)
    for device, operators in refused.items():
        yield f"{device} cannot run {ranges(operators)}"


def _parallel(before: SubgraphCosts, after: SubgraphCosts) -> Iterator[str]:
    if before.parallel is not None and after.parallel is not None:
        yield f"  devices at the same time: {before.parallel.makespan_us:.3f} -> {after.parallel.makespan_us:.3f} us"


def _moved(before: Plan, after: Plan, subgraph: int) -> list[tuple[int, str, str]]:
    """Return the operators that moved, and their devices before and after."""
    pairs = zip(before.subgraphs[subgraph].numbers, after.subgraphs[subgraph].numbers, strict=True)
    return [
        (operator, before.devices[old], after.devices[new]) for operator, (old, new) in enumerate(pairs) if old != new
    ]


def _transfers(model: Model, side: Side, index: int) -> Transfers:
    return transfers_of(model, side.plan, index)


def _side_json(model: Model, side: Side, index: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"transfers": transfers_json(_transfers(model, side, index))}
    if side.costs is not None:
        entry["estimate"] = estimate_json(side.costs[index].estimate)
        together = side.costs[index].parallel
        if together is not None:
            entry["makespan_us"] = together.makespan_us
    return entry
