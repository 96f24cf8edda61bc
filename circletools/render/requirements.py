"""The requirements and the costs of a model as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circletools.cost.cost import Cost
from circletools.render.fields import fields_json
from circletools.render.table import table_text
from circletools.requires.requirements import Requirements
from circletools.requires.table import runtime_table, title
from circletools.wording import SCHEMA_VERSION, counted


def requirements_json(found: Requirements) -> dict[str, Any]:
    """Return the JSON document."""
    return {"schema_version": SCHEMA_VERSION} | fields_json(found)


def requirements_text(found: Requirements) -> Iterator[str]:
    """Yield the answer, then requirements that older runtimes lack, then the runtimes, then min_runtime_version."""
    if found.first is None:
        yield "loads in no measured runtime"
    else:
        yield f"loads in {title(found.first)} and later" + (", or older" if found.is_oldest else "")
    rows = [
        [row.what, "none" if row.first is None else title(row.first), str(row.count), ", ".join(row.sources)]
        for row in found.rows
    ]
    if rows:
        yield from table_text([["needs", "first runtime", "count", "sources"], *rows], right=(2,))
    if len(found.verdicts) < len(runtime_table().runtimes):
        for one in found.verdicts:
            lacking = "loads it" if one.takes else f"does not load it: {', '.join(one.lacking)}"
            yield f"{title(one.runtime)} {lacking}"
    minimum = found.minimum
    declared = "none" if minimum.declared is None else minimum.declared
    needed = "no TensorFlow release is known" if minimum.needed is None else minimum.needed
    more = " or older" if minimum.is_bound else ""
    yield f"min_runtime_version: {declared} ({minimum.state}; needed: {needed}{more})"


def cost_json(found: Cost) -> dict[str, Any]:
    """Return the JSON document."""
    return {"schema_version": SCHEMA_VERSION} | fields_json(found)


def cost_text(found: Cost) -> Iterator[str]:
    """Yield totals, then the requested table."""
    total = found.total
    unknown = f", and {counted(total.unknown, 'operator')} with open shapes" if total.unknown else ""
    yield f"MACs           {total.macs:,}{unknown}"
    yield f"parameters     {total.parameters:,}"
    yield f"weights        {total.weight_bytes:,} bytes"
    for index, memory in enumerate(found.activations):
        of = f" (subgraph {index})" if len(found.activations) > 1 else ""
        yield f"activations    {memory.peak_bytes:,} bytes at operator {memory.peak_operator}{of}"
        if memory.planned_bytes is not None:
            yield f"arena          {memory.planned_bytes:,} bytes, planned greedily by size{of}"
        if memory.variable_bytes:
            yield f"variables      {memory.variable_bytes:,} bytes{of}"
    head = [
        found.by,
        *(["code"] if found.by == "operator" else []),
        "operators",
        "MACs",
        "share",
        "parameters",
        "bytes",
    ]
    rows = [
        [
            row.name,
            *([row.code] if found.by == "operator" else []),
            str(row.operators),
            f"{row.macs:,}" + (" + ?" if row.unknown else ""),
            f"{row.macs / total.macs:.1%}" if total.macs else "",
            f"{row.parameters:,}",
            f"{row.weight_bytes:,}",
        ]
        for row in found.rows
    ]
    if rows:
        yield from table_text([head, *rows], right=range(len(head) - 5, len(head)))
