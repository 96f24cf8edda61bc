"""Plans, partitions and their costs, and the affinity in a model, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, groupby
from math import ceil
from shlex import quote
from typing import Any

from circletools.affinity.costs.table import Estimate
from circletools.affinity.exports.export import Export
from circletools.errors import UsageError
from circletools.planning.evaluate import Evaluation, Transfers
from circletools.planning.inspection import AffinityInspection
from circletools.planning.plan import Plan, Summary
from circletools.render.fit import refusals_alike, refused_text
from circletools.render.table import fields_json, places_json, places_text, table_text
from circletools.wording import SCHEMA_VERSION, counted, ranges


def evaluation_json(found: Evaluation, devices: Sequence[str], caps: Mapping[int, int]) -> dict[str, Any]:
    """Return the JSON fields that costs add to a subgraph; none without costs."""
    entry: dict[str, Any] = {}
    if found.estimate is not None:
        entry["estimate"] = estimate_json(found.estimate)
        if found.least_us is not None:
            entry |= {"least_us": found.least_us, "is_optimal": found.excess == 0}
    if found.memory is not None:
        entry["memory"] = [
            {"device": device, **asdict(used), "total_bytes": used.total_bytes, "cap_bytes": caps.get(number)}
            for number, (device, used) in enumerate(zip(devices, found.memory, strict=True))
        ]
    return entry


def evaluation_text(found: Evaluation, devices: Sequence[str], caps: Mapping[int, int]) -> Iterator[str]:
    """Yield the costs of a subgraph as lines of text."""
    if found.estimate is not None:
        proof = ""
        if found.excess is not None:
            excess = f", within {ceil(found.excess * 10_000) / 100:g}% of the minimum"
            proof = excess if found.excess else ", optimal for these times"
        yield f"estimated time: {estimate_text(found.estimate)}{proof}"
    for number, used in enumerate(found.memory or ()):
        of = f" of {caps[number]}" if number in caps else ""
        yield (
            f"memory of {devices[number]}: {used.total_bytes}{of} bytes "
            f"({used.constants_bytes} of constants, {used.activations_bytes} of tensors)"
        )


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON."""
    return {"total_us": estimate.total_us, **asdict(estimate)}


def estimate_text(estimate: Estimate) -> str:
    """Return the cost of an assignment as one line."""
    count = estimate.operators_without_time
    untimed = f"; {counted(count, 'operator')} without a time" if count else ""
    brought = f", constants {estimate.constants_us:.3f}" if estimate.constants_us else ""
    return (
        f"{estimate.total_us:.3f} us (operators {estimate.operators_us:.3f}, copies {estimate.copies_us:.3f}, "
        f"launches {estimate.launches_us:.3f}{brought}{untimed})"
    )


def transfers_text(sums: Transfers) -> str:
    """Return the transfers between partitions as one line."""
    count = sums.copies_of_unknown_size
    unknown = f", and {counted(count, 'copy', 'copies')} of unknown size" if count else ""
    return (
        f"{counted(sums.launches, 'launch', 'launches')}, {counted(len(sums.cuts), 'tensor')} cut, "
        f"{counted(sums.copies, 'copy', 'copies')} between devices ({sums.copied_bytes} bytes{unknown})"
    )


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return the JSON document of a plan: partitions and costs.

    If steps were requested, the document also has the reason for each operator's device.
    """
    rows: dict[int, list[dict[str, Any]]] = {}
    for one in plan.to_rows():
        rows.setdefault(one.pop("subgraph"), []).append(one)
    return {
        "schema_version": SCHEMA_VERSION,
        "format": plan.model_format,
        "devices": plan.devices,
        "summary": summary_json(plan.summary),
        "subgraphs": [_subgraph_json(plan, index, rows.get(index, [])) for index in range(len(plan.subgraphs))],
    }


def plan_text(plan: Plan) -> Iterator[str]:
    """Yield what each device runs and refuses, then the partitions of each subgraph in order, with their costs."""
    yield from summary_text(plan.summary)
    for index in range(len(plan.subgraphs)):
        lines = list(_subgraph_text(plan, index))
        if lines and len(plan.subgraphs) > 1:
            yield f"subgraph {index}"
        yield from lines


def summary_json(found: Summary) -> dict[str, Any]:
    """Return, as JSON, the operators that each device runs and refuses."""
    refusals = [asdict(one) | {"operators": places_json(one.operators)} for one in found.refusals]
    return {"devices": [asdict(one) for one in found.devices], "refusals": refusals}


def summary_text(found: Summary) -> Iterator[str]:
    """Yield a table of devices, then the refused operators by reason, then an empty line."""
    if not found.devices:
        return
    counted_macs = any(one.macs for one in found.devices)
    rows = [
        (
            one.device,
            f"{one.operator_count:,}",
            f"{one.share_percent:.0f}%",
            f"{one.computed_bytes:,}",
            f"{one.launch_count:,}",
            f"{one.macs_percent:.0f}%" if counted_macs else "-",
        )
        for one in found.devices
    ]
    yield from table_text(
        [("device", "operators", "share", "bytes computed", "launches", "MACs"), *rows], right=range(1, 6), indent=""
    )
    takes = {one.device: one.operator_count for one in found.devices}
    for device, groups in groupby(found.refusals, lambda one: one.device):
        refused = [(sorted(sum((one.operators for one in alike), ())), alike) for alike in refusals_alike(groups)]
        count = sum(len(places) for places, _ in refused)
        some = f"{device} refuses" if takes[device] else f"nothing runs on {device}: it refuses"
        if not takes[device] and count < sum(takes.values()):  # a limit or the times decide
            some = f"nothing was planned on {device} (`--by operator` gives reasons); it refuses"
        yield f"{some} {counted(count, 'operator')}:"
        by_remedy: dict[str, list[tuple[str, str]]] = {}
        for places, alike in sorted(refused, key=lambda each: (not each[1][0].measured, -len(each[0]), each[0])):
            reason, remedy = refused_text(len(places), alike)
            by_remedy.setdefault(remedy, []).append((reason, f"      {places_text(places)}"))
        for remedy, ((reason, first), *others) in by_remedy.items():
            yield from (reason, first) if others else (reason, remedy, first)
            yield from chain.from_iterable(others)
            yield from [remedy] if others else ()
    yield ""


def _subgraph_json(plan: Plan, index: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    subgraph = plan.subgraphs[index]
    entry: dict[str, Any] = {
        "index": index,
        "operators": rows,
        "partitions": [
            {"partition": number, "device": plan.devices[partition.device], "operators": list(partition.operators)}
            for number, partition in enumerate(subgraph.partitions)
        ],
        "transfers": fields_json(plan.evaluation[index].transfers),
        **evaluation_json(plan.evaluation[index], plan.devices, plan.caps),
    }
    if plan.steps is not None:
        steps = plan.steps[index]
        rows_of = {step: {"action": step.action, "operator_index": step.operator} for step in set(steps)}
        entry["steps"] = [rows_of[step] for step in steps]
    return entry


def _subgraph_text(plan: Plan, index: int) -> Iterator[str]:
    subgraph = plan.subgraphs[index]
    if not subgraph.numbers:
        return
    if plan.steps is not None:
        reasons = [
            (str(operator), code, plan.device_of(index, operator), plan.reason(index, operator))
            for operator, code in enumerate(plan.code_names[index])
        ]
        yield from table_text([("operator", "code", "device", "reason"), *reasons], right=(0,))
        yield from (f"  {step.action} {step.operator}" for step in plan.steps[index])
    rows = [
        (str(number), plan.devices[partition.device], ranges(partition.operators))
        for number, partition in enumerate(subgraph.partitions)
    ]
    yield from table_text([("partition", "device", "operators"), *rows], right=(0,))
    yield f"  {transfers_text(plan.evaluation[index].transfers)}"
    yield from (f"  {line}" for line in evaluation_text(plan.evaluation[index], plan.devices, plan.caps))


# --- the affinity in a model, as text and JSON and in the formats of other tools -------------------------------


_PARTITION = ("partition", "device", "operators")


def affinity_json(found: AffinityInspection) -> dict[str, Any]:
    """Return the JSON document of `partition` for an annotated model."""
    devices = found.affinity.devices
    return {
        "schema_version": SCHEMA_VERSION,
        "format": found.model_format,
        "freshness": "absent" if found.freshness is None else found.freshness.state,
        "devices": [devices[device] for device in sorted(devices)],
        "summary": summary_json(found.summary),
        "subgraphs": [_affinity_json(found, index) for index in sorted(found.affinity.subgraphs)],
    }


def _affinity_json(found: AffinityInspection, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "operators": list(found.operators(index)),
        "partitions": [dict(zip(_PARTITION, row, strict=True)) for row in found.partitions(index)],
        "transfers": fields_json(found.transfers[index]),
        **({"estimate": estimate_json(found.estimates[index])} if index in found.estimates else {}),
    }


def affinity_text(found: AffinityInspection, *, by_operator: bool = False) -> Iterator[str]:
    """Yield a table of devices, the partitions or operators, the transfers and, with costs, the estimated time."""
    yield from summary_text(found.summary)
    for index in sorted(found.affinity.subgraphs):
        if found.subgraph_count > 1:
            yield f"subgraph {index}"
        rows: list[Sequence[str]] = [_PARTITION]
        if by_operator:
            rows = [("operator", "code", "device", "partition", "output")]
            for one in found.operators(index):
                ends = _word(one["device"], "(none)"), _word(one["partition"], "-")
                rows.append((str(one["operator_index"]), one["code"], *ends, one["output"]))
        else:
            for partition, device, operators in found.partitions(index):
                rows.append((_word(partition, "-"), _word(device, "(none)"), ranges(operators)))
        yield from table_text(rows, right=(0,)) if rows[1:] else ()
        yield f"  {transfers_text(found.transfers[index])}"
        if index in found.estimates:
            yield f"  estimated time: {estimate_text(found.estimates[index])}"


def _word(value: object, without: str) -> str:
    return without if value is None else str(value)


def export_text(exported: Export, *, as_json: bool = False) -> str:
    """Return the contents of the file for a target; with `as_json`, onert's environment is JSON.

    Raises UsageError if `as_json` is given for a target that has no JSON.
    """
    content = exported.content
    if isinstance(content, str):
        if as_json:
            raise UsageError(f"the target {exported.target} has no JSON output")
        return content
    if exported.target == "onert":
        if not as_json:
            return "".join(f"export {name}={quote(value)}\n" for name, value in content.items())
        content = {"environment": content}
    if exported.target != "model-explorer":
        content = {"schema_version": SCHEMA_VERSION, **content}
    return json.dumps(content, indent=2) + "\n"
