"""The costs of a model as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from circletools.cost.cost import Cost
from circletools.render.table import table_text
from circletools.wording import counted


def cost_text(found: Cost) -> Iterator[str]:
    """Yield totals, then the requested table."""
    total = found.total
    unknown = f", plus {counted(total.unknown, 'operator')} with unknown MACs" if total.unknown else ""
    yield f"MACs           {total.macs:,}{unknown}"
    yield f"parameters     {total.parameters:,}"
    yield f"weights        {total.weight_bytes:,} bytes"
    for index, memory in enumerate(found.activations):
        of = f" (subgraph {index})" if len(found.activations) > 1 else ""
        yield f"activations    {memory.peak_bytes:,} bytes at operator {memory.peak_operator}{of}"
        if memory.planned_bytes is not None:
            yield f"arena          {memory.planned_bytes:,} bytes, planned greedily by size (TFLM: fit --on tflm){of}"
        if memory.variable_bytes:
            yield f"variables      {memory.variable_bytes:,} bytes{of}"
        if memory.unproduced_bytes:
            yield f"unproduced     {memory.unproduced_bytes:,} bytes, not in the arena (TFLM: fit --on tflm){of}"
    code = found.by == "operator"
    head = [found.by, *["code"] * code, "operators", "MACs", "share", "parameters", "bytes"]
    rows = [
        [
            row.name,
            *[row.code] * code,
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
