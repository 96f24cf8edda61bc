"""The affinity in a model as text, JSON and CSV, and in the form of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from shlex import quote
from typing import Any

from circletools.affinity.exports.export import Export
from circletools.affinity.tables import NONE
from circletools.errors import UsageError
from circletools.planning.inspection import AffinityInspection
from circletools.render.costs import estimate_json, estimate_text
from circletools.render.table import csv_text, table_text
from circletools.wording import SCHEMA_VERSION, ranges

_OPERATOR = ("operator_index", "code", "output", "device", "partition")
_PARTITION = ("partition", "device", "operators")


def affinity_json(found: AffinityInspection) -> dict[str, Any]:
    """Return the JSON document of dump-affinity."""
    devices = found.affinity.devices
    return {
        "schema_version": SCHEMA_VERSION,
        "format": found.model_format,
        "freshness": "absent" if found.freshness is None else found.freshness.state,
        "devices": [devices[device] for device in sorted(devices)],
        "subgraphs": [_subgraph_json(found, index) for index in sorted(found.affinity.subgraphs)],
    }


def _subgraph_json(found: AffinityInspection, index: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "index": index,
        "operators": [dict(zip(_OPERATOR, row, strict=True)) for row in _operators(found, index)],
        "partitions": [dict(zip(_PARTITION, row, strict=True)) for row in _partitions(found, index)],
    }
    if index in found.estimates:
        entry["estimate"] = estimate_json(found.estimates[index])
    return entry


def affinity_csv(found: AffinityInspection, *, by_partition: bool) -> str:
    """Return one line for each operator, or for each partition."""
    rows: list[tuple[object, ...]] = []
    for index in sorted(found.affinity.subgraphs):
        if by_partition:
            rows += [(index, *row, ranges(operators)) for *row, operators in _partitions(found, index)]
        else:
            rows += [(index, *row) for row in _operators(found, index)]
    return csv_text(("subgraph", *(_PARTITION if by_partition else _OPERATOR)), rows)


def affinity_text(found: AffinityInspection, *, by_partition: bool) -> Iterator[str]:
    """Yield the lines of a table of operators, or of partitions; with estimated times where costs are known."""
    for index in sorted(found.affinity.subgraphs):
        if found.subgraph_count > 1:
            yield f"subgraph {index}"
        if by_partition:
            for partition, device, operators in _partitions(found, index):
                yield f"  {'-' if partition is None else partition}  {device or '(none)'}  {ranges(operators)}"
        else:
            yield from table_text(
                [
                    (str(operator), code, output, device or "(none)", "-" if partition is None else str(partition))
                    for operator, code, output, device, partition in _operators(found, index)
                ]
            )
        if index in found.estimates:
            yield f"  estimated time: {estimate_text(found.estimates[index])}"


def _operators(found: AffinityInspection, index: int) -> Iterator[tuple[int, str, str, str | None, int | None]]:
    subgraph, devices = found.affinity.subgraphs[index], found.affinity.devices
    ids = zip(subgraph.devices.tolist(), subgraph.partitions.tolist(), strict=True)
    rows = zip(found.code_names[index], found.outputs[index], ids, strict=True)
    for operator, (code, output, (device, partition)) in enumerate(rows):
        yield operator, code, output, devices.get(device), None if partition == NONE else partition


def _partitions(found: AffinityInspection, index: int) -> list[tuple[int | None, str | None, list[int]]]:
    """Return number, device and operators of each partition, in the order they run; operators in none come last."""
    subgraph = found.affinity.subgraphs[index]
    members: dict[tuple[int, int], list[int]] = {}
    for operator, key in enumerate(zip(subgraph.partitions.tolist(), subgraph.devices.tolist(), strict=True)):
        members.setdefault(key, []).append(operator)
    return [
        (None if partition == NONE else partition, found.affinity.devices.get(device), operators)
        for (partition, device), operators in sorted(members.items())
    ]


def export_text(exported: Export, *, as_json: bool = False) -> str:
    """Return what to write for a target; `as_json` gives the environment of onert as JSON.

    Raises UsageError for a target whose format is text of its own.
    """
    content = exported.content
    if isinstance(content, str):
        if as_json:
            raise UsageError(f"--json: there is no JSON for {exported.target}")
        return content
    if exported.target == "onert":
        if not as_json:
            return "".join(f"export {name}={quote(value)}\n" for name, value in content.items())
        content = {"environment": content}
    if exported.target == "onert-exec-time":
        # onert's reader wants no schema_version, and ends at the last brace.
        return json.dumps(content) + "\n"
    if exported.target != "model-explorer":
        content = {"schema_version": SCHEMA_VERSION, **content}
    return json.dumps(content, indent=2) + "\n"
