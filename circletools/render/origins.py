"""Origins for people and programs: text, JSON, CSV, and the selection of what to show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from circletools.errors import UsageError
from circletools.metadata.stamp import Freshness
from circletools.model import Model
from circletools.model.views import text
from circletools.origin.algebra import UNKNOWN, Origin
from circletools.origin.exchange import CSV_COLUMNS
from circletools.origin.read import Origins
from circletools.render.table import csv_text, table_text
from circletools.wording import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Selection:
    """Which operators and sources to show; None takes all.

    `operators` are ranges of indices, both ends included; `source` is a regular expression, searched in names.
    """

    operators: tuple[tuple[int, int], ...] | None = None
    source: re.Pattern[str] | None = None
    subgraph: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator as it is shown."""

    subgraph: int
    index: int
    code: str
    output: str
    origin: Origin


def operator_rows(model: Model, origins: Origins, selection: Selection) -> list[OperatorRow]:
    """Return the selected operators. Raises UsageError for a subgraph that does not exist."""
    count = len(model.subgraphs)
    if selection.subgraph is not None and selection.subgraph >= count:
        raise UsageError(f"subgraph {selection.subgraph} does not exist; there are {count}")
    shown = range(count) if selection.subgraph is None else [selection.subgraph]
    wanted = selected_sources(origins, selection)
    rows = []
    for subgraph in shown:
        codes = model.code_names(subgraph)
        for index, (code, outputs) in enumerate(zip(codes, model.output_names(subgraph), strict=True)):
            ranges = selection.operators
            if ranges is not None and not any(first <= index <= last for first, last in ranges):
                continue
            origin = origins.of(subgraph, index) if origins.operators else UNKNOWN
            if selection.source is None or origin & wanted:
                output = text(outputs[0]) if outputs else ""
                rows.append(OperatorRow(subgraph, index, code, output, origin))
    return rows


def selected_sources(origins: Origins, selection: Selection) -> frozenset[int]:
    """Return the ids of the sources whose names match."""
    pattern = selection.source
    return frozenset(source for source, name in origins.sources.items() if pattern is None or pattern.search(name))


def origins_json(model: Model, origins: Origins, freshness: Freshness | None, selection: Selection) -> dict[str, Any]:
    """Return the JSON document; `embed-origins --origins` accepts it."""
    rows = operator_rows(model, origins, selection)
    inverse = _inverse(origins, rows, selection)
    sources = {*inverse, *(source for row in rows for source in row.origin)}
    return {
        "schema_version": SCHEMA_VERSION,
        "format": model.format,
        "freshness": _freshness_json(freshness),
        "scope": origins.scope,
        "sources": [
            {
                "id": source,
                "name": origins.sources[source],
                "operators": [
                    {"subgraph": subgraph, "operator_index": index} for subgraph, index in inverse.get(source, [])
                ],
            }
            for source in sorted(sources)
        ],
        "operators": [operator_json(row) for row in rows],
    }


def operator_json(row: OperatorRow) -> dict[str, Any]:
    """Return an operator and its sources as JSON."""
    return {
        "subgraph": row.subgraph,
        "operator_index": row.index,
        "code": row.code,
        "output": row.output,
        "sources": sorted(row.origin),
    }


def _freshness_json(freshness: Freshness | None) -> dict[str, Any]:
    if freshness is None:
        return {"state": "absent"}
    document: dict[str, Any] = {"state": freshness.state}
    if freshness.state == "stale":
        document |= {
            "subgraph": freshness.subgraph,
            "operator_index": freshness.operator,
            "reason": freshness.reason,
        }
    return document


def origins_csv(model: Model, origins: Origins, selection: Selection) -> str:
    """Return one line for each pair of operator and source, and one for each that has no partner."""
    rows = operator_rows(model, origins, selection)
    lines: list[tuple[object, ...]] = []
    for row in rows:
        operator = (row.subgraph, row.index, row.code, row.output)
        lines += [(*operator, source, origins.sources[source]) for source in sorted(row.origin)]
        if not row.origin:
            lines.append((*operator, "", ""))
    shown = UNKNOWN.union(*(row.origin for row in rows))
    rest = sorted(_inverse(origins, rows, selection).keys() - shown)
    lines += [("", "", "", "", source, origins.sources[source]) for source in rest]
    return csv_text(CSV_COLUMNS, lines)


def origins_text(model: Model, origins: Origins, selection: Selection) -> Iterator[str]:
    """Yield the lines of both views: operators with their sources, sources with their operators."""
    rows = operator_rows(model, origins, selection)
    several = len(model.subgraphs) > 1
    yield "operator -> sources"
    yield from table_text([_cells(row, origins, several) for row in rows])
    yield ""
    yield "source -> operators"
    for source, operators in _inverse(origins, rows, selection).items():
        indices = " ".join(_index(subgraph, index, several) for subgraph, index in operators)
        yield f"  {source} {origins.sources[source]}  -> {indices or '(none)'}"


def _inverse(origins: Origins, rows: list[OperatorRow], selection: Selection) -> dict[int, list[tuple[int, int]]]:
    """Return all operators of each source that is shown, those that are not selected too.

    A source is shown when its name matches; where operators or a subgraph are selected, when they have it.
    """
    shown = selected_sources(origins, selection)
    if selection.operators is not None or selection.subgraph is not None:
        shown &= UNKNOWN.union(*(row.origin for row in rows))
    return {source: operators for source, operators in origins.by_source().items() if source in shown}


def _index(subgraph: int, operator: int, several: bool) -> str:
    return f"{subgraph}/{operator}" if several else str(operator)


def _cells(row: OperatorRow, origins: Origins, several: bool) -> tuple[str, str, str, str]:
    names = ", ".join(f"{source} {origins.sources[source]}" for source in sorted(row.origin))
    return _index(row.subgraph, row.index, several), row.code, row.output, f"<- {names or '(none)'}"
