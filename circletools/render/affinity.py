"""The affinity in a model as text, JSON and CSV, and in the form of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
        "operators": list(found.operators(index)),
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
            rows += [(index, *row.values()) for row in found.operators(index)]
    return csv_text(("subgraph", *(_PARTITION if by_partition else _OPERATOR)), rows)


def affinity_text(found: AffinityInspection, *, by_partition: bool) -> Iterator[str]:
    """Yield the lines of a table of operators, or of partitions; with estimated times where costs are known."""
    for index in sorted(found.affinity.subgraphs):
        if found.subgraph_count > 1:
            yield f"subgraph {index}"
        yield from table_text(_cells(found, index, by_partition=by_partition), right=(0,))
        if index in found.estimates:
            yield f"  estimated time: {estimate_text(found.estimates[index])}"


def _cells(found: AffinityInspection, index: int, *, by_partition: bool) -> list[Sequence[str]]:
    """Return the head and the rows of a table; nothing where there are no rows."""
    if by_partition:
        rows = [
            (_word(partition, "-"), _word(device, "(none)"), ranges(operators))
            for partition, device, operators in _partitions(found, index)
        ]
        return [_PARTITION, *rows] if rows else []
    cells = [
        (
            str(row["operator_index"]),
            row["code"],
            row["output"],
            _word(row["device"], "(none)"),
            _word(row["partition"], "-"),
        )
        for row in found.operators(index)
    ]
    return [("operator", *_OPERATOR[1:]), *cells] if cells else []


def _word(value: object, without: str) -> str:
    return without if value is None else str(value)


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
