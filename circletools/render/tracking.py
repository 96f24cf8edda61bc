"""What tracking found, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circletools.model import Model
from circletools.origin.tracking import Tracking
from circletools.render.origins import OperatorRow, Selection, operator_json, operator_rows
from circletools.render.table import table_text
from circletools.wording import SCHEMA_VERSION


def without_origin(after: Model, tracking: Tracking) -> list[tuple[int, int]]:
    """Return subgraph and index of the operators of which nothing is known."""
    counts = (len(subgraph.operators) for subgraph in after.subgraphs)
    return [
        (subgraph, operator)
        for subgraph, count in enumerate(counts)
        for operator in range(count)
        if operator not in tracking.grounds[subgraph]
    ]


def tracking_json(after: Model, tracking: Tracking) -> dict[str, Any]:
    """Return the JSON document; `embed-origins --origins` accepts it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "format": after.format,
        "sources": [{"id": source, "name": name} for source, name in sorted(tracking.origins.sources.items())],
        "operators": [
            {
                **operator_json(row),
                "grounds": [
                    {"source": source, "evidence": grounds.evidence.value, "confidence": round(grounds.confidence, 4)}
                    for source, grounds in tracking.grounds[row.subgraph].get(row.index, {}).items()
                ],
            }
            for row in operator_rows(after, tracking.origins, Selection())
        ],
        "without_origin": [
            {"subgraph": subgraph, "operator_index": operator}
            for subgraph, operator in without_origin(after, tracking)
        ],
    }


def tracking_text(after: Model, tracking: Tracking) -> Iterator[str]:
    """Yield a table: a line for each operator and source."""
    several = len(after.subgraphs) > 1
    table = [
        line for row in operator_rows(after, tracking.origins, Selection()) for line in _lines(row, tracking, several)
    ]
    header = ("operator", "", "output", "source", "evidence", "confidence")
    yield from table_text([header, *table], indent="")


def _lines(row: OperatorRow, tracking: Tracking, several: bool) -> Iterator[tuple[str, ...]]:
    first = (f"{row.subgraph}/{row.index}" if several else str(row.index), row.code, row.output)
    grounds = tracking.grounds[row.subgraph].get(row.index, {})
    if not grounds:
        yield (*first, "(none)", "", "")
    for source, why in grounds.items():
        yield (*first, f"{source} {tracking.origins.sources[source]}", why.evidence.value, f"{why.confidence:.2f}")
        first = ("", "", "")
