"""Tracked origins as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circletools.origin.describe import OperatorRow
from circletools.origin.tracking.tracker import Tracking
from circletools.render.origins import operator_label
from circletools.render.table import places_json, table_text
from circletools.wording import SCHEMA_VERSION


def tracking_json(tracking: Tracking) -> dict[str, Any]:
    """Return the JSON document; `embed-origins --origins` accepts it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "format": tracking.format,
        "sources": [{"id": source, "name": name} for source, name in sorted(tracking.origins.sources.items())],
        "operators": [
            {
                **row.to_row(),
                "grounds": [
                    {"source": source, "evidence": grounds.evidence.value, "confidence": round(grounds.confidence, 4)}
                    for source, grounds in tracking.grounds[row.subgraph].get(row.index, {}).items()
                ],
            }
            for row in tracking.rows
        ],
        "without_origin": places_json(tracking.without_origin),
    }


def tracking_text(tracking: Tracking) -> Iterator[str]:
    """Yield a table with a line for each operator and source."""
    several = len(tracking.grounds) > 1
    table = [line for row in tracking.rows for line in _lines(row, tracking, several)]
    header = ("operator", "code", "output", "source", "evidence", "confidence")
    yield from table_text([header, *table], indent="")


def _lines(row: OperatorRow, tracking: Tracking, several: bool) -> Iterator[tuple[str, ...]]:
    first = (operator_label(row.subgraph, row.index, several), row.code, row.output)
    grounds = tracking.grounds[row.subgraph].get(row.index, {})
    if not grounds:
        yield (*first, "(none)", "", "")
    for source, why in grounds.items():
        yield (*first, f"{source} {tracking.origins.sources[source]}", why.evidence.value, f"{why.confidence:.2f}")
        first = ("", "", "")
