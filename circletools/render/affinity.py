"""Affinity and plans for people and programs: text, JSON, CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from circletools.affinity.assign.assign import Assignment
from circletools.affinity.partition.growth import Step
from circletools.affinity.partitioning import Plan
from circletools.affinity.store import Affinity
from circletools.affinity.tables import NONE
from circletools.affinity.transfers import Transfers, transfers
from circletools.metadata.stamp import Freshness
from circletools.model import Model
from circletools.model.views import text
from circletools.render.document import SCHEMA_VERSION
from circletools.render.table import csv_text, table_text
from circletools.wording import counted

CSV_COLUMNS = ("subgraph", "operator_index", "code", "output", "device", "partition")
_NOTHING: Mapping[int, Any] = MappingProxyType({})
_CSV_BY_PARTITION = ("subgraph", "partition", "device", "operators")


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as in 0-3,7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


# --- what stands in a model ---------------------------------------------------------------------------------


def affinity_json(
    model: Model,
    affinity: Affinity,
    freshness: Freshness | None,
    more: Mapping[int, Mapping[str, Any]] = _NOTHING,
) -> dict[str, Any]:
    """Return the JSON document of dump-affinity; `more` are further fields, by subgraph."""
    return {
        "schema_version": SCHEMA_VERSION,
        "format": model.format,
        "freshness": "absent" if freshness is None else freshness.state,
        "devices": [affinity.devices[device] for device in sorted(affinity.devices)],
        "subgraphs": [
            {
                "index": index,
                "operators": [
                    {"operator_index": operator, "code": code, "output": output, "device": device, "partition": part}
                    for operator, code, output, device, part in _operators(model, affinity, index)
                ],
                "partitions": [
                    {"partition": part, "device": device, "operators": operators}
                    for part, device, operators in _partitions(affinity, index)
                ],
                **more.get(index, {}),
            }
            for index in sorted(affinity.subgraphs)
        ],
    }


def affinity_csv(model: Model, affinity: Affinity, *, by_partition: bool) -> str:
    """Return one line for each operator, or for each partition."""
    if by_partition:
        return csv_text(
            _CSV_BY_PARTITION,
            (
                (index, part, device, ranges(rows))
                for index in sorted(affinity.subgraphs)
                for part, device, rows in _partitions(affinity, index)
            ),
        )
    rows = ((index, *row) for index in sorted(affinity.subgraphs) for row in _operators(model, affinity, index))
    return csv_text(CSV_COLUMNS, rows)


def affinity_text(
    model: Model, affinity: Affinity, *, by_partition: bool, more: Mapping[int, Iterable[str]] = _NOTHING
) -> Iterator[str]:
    """Yield the lines of a table of operators, or of partitions; `more` lines, by subgraph."""
    for index in sorted(affinity.subgraphs):
        if len(model.subgraphs) > 1:
            yield f"subgraph {index}"
        if by_partition:
            for part, device, operators in _partitions(affinity, index):
                yield f"  {'-' if part is None else part}  {device or '(none)'}  {ranges(operators)}"
        else:
            rows = [
                (str(operator), code, output, device or "(none)", "-" if part is None else str(part))
                for operator, code, output, device, part in _operators(model, affinity, index)
            ]
            yield from table_text(rows)
        yield from (f"  {line}" for line in more.get(index, ()))


def _operators(
    model: Model, affinity: Affinity, index: int
) -> Iterator[tuple[int, str, str, str | None, int | None]]:
    subgraph = affinity.subgraphs[index]
    names = [text(outputs[0]) if outputs else "" for outputs in model.output_names(index)]
    rows = zip(model.code_names(index), names, subgraph.devices.tolist(), subgraph.partitions.tolist(), strict=True)
    for operator, (code, output, device, part) in enumerate(rows):
        yield operator, code, output, affinity.devices.get(device), None if part == NONE else part


def _partitions(affinity: Affinity, index: int) -> list[tuple[int | None, str | None, list[int]]]:
    """Return number, device and operators of each partition, in the order they run; operators in none come last."""
    subgraph = affinity.subgraphs[index]
    members: dict[tuple[int, int], list[int]] = {}
    for operator, key in enumerate(zip(subgraph.partitions.tolist(), subgraph.devices.tolist(), strict=True)):
        members.setdefault(key, []).append(operator)
    return [
        (None if part == NONE else part, affinity.devices.get(device), operators)
        for (part, device), operators in sorted(members.items())
    ]


# --- a plan -------------------------------------------------------------------------------------------------


def plan_json(
    model: Model,
    plan: Plan,
    assignment: Assignment,
    steps: Sequence[tuple[int, Step]] | None,
    more: Mapping[int, Mapping[str, Any]] = _NOTHING,
) -> dict[str, Any]:
    """Return the JSON document of partition; with `steps`, also why each operator is where it is.

    `more` are further fields, by subgraph.
    """
    subgraphs = []
    for index, subgraph in enumerate(plan.subgraphs):
        entry: dict[str, Any] = {
            "index": index,
            "affinity": [plan.devices[number] for number in subgraph.numbers],
            "parts": [{"device": plan.devices[part.device], "ops": list(part.operators)} for part in subgraph.parts],
            "transfers": transfers_json(transfers_of(model, plan, index)),
            **more.get(index, {}),
        }
        if steps is not None:
            entry["reasons"] = [
                reason(plan, assignment, index, operator) for operator in range(len(subgraph.numbers))
            ]
            entry["steps"] = [
                {
                    "action": step.action,
                    "operator": step.operator,
                    "subgraph": step.subgraph,
                    "rejected": step.rejected,
                }
                for number, step in steps
                if number == index
            ]
        subgraphs.append(entry)
    return {"schema_version": SCHEMA_VERSION, "format": model.format, "devices": plan.devices, "subgraphs": subgraphs}


def plan_text(
    model: Model,
    plan: Plan,
    assignment: Assignment,
    steps: Sequence[tuple[int, Step]] | None,
    more: Mapping[int, Iterable[str]] = _NOTHING,
) -> Iterator[str]:
    """Yield the partitions of each subgraph in the order they run, and what they cost; `more` lines, by subgraph."""
    for index, subgraph in enumerate(plan.subgraphs):
        if not subgraph.numbers:
            continue
        if len(plan.subgraphs) > 1:
            yield f"subgraph {index}"
        if steps is not None:
            yield from _explained(model, plan, assignment, index, steps)
        yield from table_text(
            [
                (str(number), plan.devices[part.device], ranges(part.operators))
                for number, part in enumerate(subgraph.parts)
            ]
        )
        yield f"  {transfers_text(transfers_of(model, plan, index))}"
        yield from (f"  {line}" for line in more.get(index, ()))


def transfers_text(sums: Transfers) -> str:
    """Say what a partition costs in one line."""
    unsized = f" and {sums.unsized} of unknown size" if sums.unsized else ""
    return (
        f"{counted(sums.launches, 'launch', 'launches')}, {counted(len(sums.cuts), 'tensor')} cut, "
        f"{counted(sums.copies, 'copy', 'copies')} between devices ({sums.copied_bytes} bytes{unsized})"
    )


def reason(plan: Plan, assignment: Assignment, subgraph: int, operator: int) -> str:
    """Say why an operator is on its device."""
    said = assignment.why(subgraph, operator)
    if operator in plan.subgraphs[subgraph].demoted:
        return f"its partition was too small on {assignment.devices[assignment.numbers[subgraph][operator]]}: {said}"
    return said


def _explained(
    model: Model, plan: Plan, assignment: Assignment, index: int, steps: Sequence[tuple[int, Step]]
) -> Iterator[str]:
    names = zip(model.code_names(index), plan.subgraphs[index].numbers, strict=True)
    yield from table_text(
        [
            (str(operator), code, plan.devices[number], reason(plan, assignment, index, operator))
            for operator, (code, number) in enumerate(names)
        ]
    )
    for number, step in steps:
        if number == index:
            yield f"  {step.action} {step.operator}: subgraph {list(step.subgraph)} rejected {list(step.rejected)}"


def transfers_of(model: Model, plan: Plan, index: int) -> Transfers:
    """Return what crosses between the partitions of a subgraph of a plan."""
    subgraph = plan.subgraphs[index]
    partitions = [0] * len(subgraph.numbers)
    for number, part in enumerate(subgraph.parts):
        for operator in part.operators:
            partitions[operator] = number
    return transfers(model, index, partitions, subgraph.numbers)


def transfers_json(sums: Transfers) -> dict[str, Any]:
    """Return what a partition costs as JSON."""
    return {
        "launches": sums.launches,
        "copies": sums.copies,
        "copied_bytes": sums.copied_bytes,
        "copies_of_unknown_size": sums.unsized,
        "cuts": [
            {
                "tensor": cut.tensor,
                "name": cut.name,
                "producer": cut.producer,
                "consumers": cut.consumers,
                "copies": cut.devices,
                "size_bytes": cut.size_bytes,
            }
            for cut in sums.cuts
        ],
    }
