"""Origins as text, JSON, CSV and a tree of modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from circletools.metadata.stamp import Freshness
from circletools.origin.describe import OriginTable
from circletools.origin.exchange import CSV_COLUMNS, DETAIL_FIELDS, source_json
from circletools.origin.modules import ROOT, module_tree
from circletools.origin.source import NOTHING, UNKNOWN, SourceDetails
from circletools.render.table import csv_lines, places_json, table_text
from circletools.wording import SCHEMA_VERSION, counted

_HEAD = ("operator", "code", "output", "sources")


def origins_json(table: OriginTable) -> dict[str, Any]:
    """Return the JSON document; `embed-origins --origins` accepts it."""
    sources = table.by_source.keys() | UNKNOWN.union(*(row.origin for row in table.rows))
    every = sorted({place for places in table.by_source.values() for place in places})
    shown = dict(zip(every, places_json(every), strict=True))  # shared: each source may have every operator
    return {
        "schema_version": SCHEMA_VERSION,
        "format": table.format,
        "freshness": _freshness_json(table.freshness),
        "scope": table.origins.scope,
        "sources": [
            source_json(table.origins, source)
            | {"operators": [shown[place] for place in table.by_source.get(source, [])]}
            for source in sorted(sources)
        ],
        "operators": [row.to_row() for row in table.rows],
    }


def _freshness_json(freshness: Freshness | None) -> dict[str, Any]:
    if freshness is None:
        return {"state": "absent"}
    place = {"subgraph": freshness.subgraph, "operator_index": freshness.operator, "reason": freshness.reason}
    return {"state": freshness.state} | (place if freshness.state == "stale" else {})


def origins_csv(table: OriginTable) -> str:
    """Return a line for each operator-source pair, and for each operator or source without a counterpart."""
    return "".join(origins_csv_lines(table))


def origins_csv_lines(table: OriginTable) -> Iterator[str]:
    """Yield the lines of `origins_csv`, each with its newline."""
    names, details = table.origins.sources, table.origins.details
    sources = ((one, name, *(value or "" for value in details.get(one, NOTHING))) for one, name in names.items())
    half = dict(zip(names, islice(csv_lines((), sources), 1, None), strict=True))  # for all operators
    operators = csv_lines(CSV_COLUMNS, ((row.subgraph, row.index, row.code, row.output) for row in table.rows))
    yield next(operators)
    for row, cells in zip(table.rows, operators, strict=True):
        operator = cells[:-1] + ","
        for source in sorted(row.origin):
            yield operator + half[source]
        if not row.origin:
            yield operator + "," * (len(DETAIL_FIELDS) + 1) + "\n"
    shown = UNKNOWN.union(*(row.origin for row in table.rows))
    yield from (",,,," + half[source] for source in sorted(table.by_source.keys() - shown))


def origins_text(table: OriginTable) -> Iterator[str]:
    """Yield the operators with their sources, then the sources with their operators; nothing without origins."""
    if table.freshness is None:
        return
    several = table.subgraph_count > 1
    yield "operator -> sources"
    yield from table_text(_Rows(table, several))
    yield ""
    yield "source -> operators"
    for source, operators in table.by_source.items():
        indices = " ".join(operator_label(subgraph, index, several) for subgraph, index in operators)
        yield f"  {source} {table.origins.sources[source]}  -> {indices or '(none)'}"


def with_line(name: str, details: SourceDetails) -> str:
    """Return the name of a source with its calling line, such as `layers.0.q::linear (net.py:42)`."""
    return f"{name} ({details.place})" if details.place else name


def operator_label(subgraph: int, operator: int, several: bool) -> str:
    """Return an operator's index (`-` if it is negative), preceded by its subgraph if there are several."""
    index = "-" if operator < 0 else str(operator)
    return f"{subgraph}/{index}" if several else index


class _Rows:
    """The rows of operators, created again by each loop, since every operator may repeat the names of all sources."""

    def __init__(self, table: OriginTable, several: bool) -> None:
        self._table, self._several = table, several

    def __iter__(self) -> Iterator[tuple[str, str, str, str]]:
        yield _HEAD
        sources = self._table.origins.sources
        for row in self._table.rows:
            names = ", ".join(f"{source} {sources[source]}" for source in sorted(row.origin))
            label = operator_label(row.subgraph, row.index, self._several)
            yield label, row.code, row.output, f"<- {names or '(none)'}"


def origins_tree(table: OriginTable, depth: int | None = None) -> Iterator[str]:
    """Yield the modules and their numbers of operators, down to the sources or to `depth` parts of a path.

    Yields nothing if there are no origins. Modules are shown with their class, sources with their line and operators.
    """
    shown = {source: table.origins.sources[source] for source in table.by_source}
    tree = module_tree(replace(table.origins, sources=shown), depth)
    sources: list[list[int]] = [[] for _ in tree.parents]
    operators: list[set[tuple[int, int]]] = [set() for _ in tree.parents]
    for source, places in table.by_source.items():
        for module in tree.of_source[source]:
            sources[module].append(source)
        for module in tree.around([source]):
            operators[module].update(places)
    levels: dict[int, int] = {ROOT: -1}
    rows = []
    for module, parent in enumerate(tree.parents):
        levels[module] = levels[parent] + 1
        classes = [table.origins.details_of(source).class_name for source in sources[module]] if depth is None else []
        label = "  " * levels[module] + tree.labels[module].lstrip("./:")
        rows.append((label, counted(len(operators[module]), "operator"), next(filter(None, classes), "")))
        rows += [_source(table, source, levels[module] + 1) for source in sources[module]] if depth is None else []
    yield from table_text([("module", "operators", "class or line"), *rows]) if rows else ()


def _source(table: OriginTable, source: int, level: int) -> tuple[str, str, str]:
    labels = (operator_label(*one, table.subgraph_count > 1) for one in table.by_source[source])
    called = table.origins.sources[source].rpartition("::")[2].rpartition("/")[2]
    return "  " * level + called, " ".join(labels) or "(none)", table.origins.details_of(source).place
