"""The affinity in a model, as text and JSON and in the formats of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from circletools.affinity.exports.export import Export
from circletools.errors import UsageError
from circletools.planning.inspection import AffinityInspection
from circletools.render.plans import estimate_json, estimate_text, summary_json, summary_text, transfers_text
from circletools.render.table import fields_json, table_text
from circletools.wording import SCHEMA_VERSION, ranges

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
