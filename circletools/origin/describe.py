"""The origins in a model as a table: the sources of each operator, the operators of each source, and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from circletools.errors import UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.selectors import Ranges, parse_ranges
from circletools.metadata.stamp import Freshness
from circletools.model.model import Model
from circletools.origin.read import Origins, origins_freshness, origins_in, table_findings
from circletools.origin.source import UNKNOWN, Origin
from circletools.wording import Attributes, Tabular


@dataclass(frozen=True, slots=True)
class Selection(Attributes):
    """The operators and sources to show; None shows all.

    `operators` are ranges of indices, both ends included; `source` is a regular expression to search for in names.
    """

    operators: Ranges | None = None
    source: re.Pattern[str] | None = None
    subgraph: int | None = None

    @classmethod
    def parse(cls, operators: str | None = None, source: str | None = None, subgraph: int | None = None) -> Selection:
        """Parse a selection such as `0-10,15` and `attention.*`. Raises UsageError if it is invalid."""
        ranges = None if operators is None else parse_ranges(operators)
        return cls(ranges, None if source is None else _pattern(source), subgraph)


@dataclass(frozen=True, slots=True)
class OperatorRow(Attributes):
    """An operator, the name of its first output, and its sources."""

    subgraph: int
    index: int
    code: str
    output: str
    origin: Origin

    def to_row(self) -> dict[str, Any]:
        """Return the operator as plain values, with the ids of its sources."""
        return {
            "subgraph": self.subgraph,
            "operator_index": self.index,
            "code": self.code,
            "output": self.output,
            "sources": sorted(self.origin),
        }


@dataclass(frozen=True, slots=True, repr=False)
class OriginTable(Tabular):
    """The selected origins in a model.

    `freshness` is None if the model has no origins. `by_source` lists all operators of each shown source as
    (subgraph, operator index), including operators that are not selected. `notes` report gaps in the tables; a note
    of severity warning means that the tables do not describe the model's operators.
    """

    format: str
    subgraph_count: int
    origins: Origins
    freshness: Freshness | None
    rows: tuple[OperatorRow, ...]
    by_source: Mapping[int, list[tuple[int, int]]]
    notes: tuple[Finding, ...]

    @property
    def describes_the_model(self) -> bool:
        """Whether there are origins that are not stale."""
        return self.freshness is not None and self.freshness.state != "stale"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for each operator, with the names of its sources."""
        names = self.origins.sources
        return [row.to_row() | {"sources": [names[source] for source in sorted(row.origin)]} for row in self.rows]


def describe(model: Model, selection: Selection | None = None) -> OriginTable:
    """Return the origins in a model as a table.

    Raises UsageError for a subgraph that does not exist, and TableFormatError for tables that cannot be decoded.

    >>> with ct.open("out.circle") as model:
    ...     table = ct.origins.describe(model, ct.origins.Selection.parse(operators="0-10"))
    >>> [row.origin for row in table.rows]
    """
    graph, selection = model_graph(model), selection or Selection()
    origins = origins_in(graph)
    freshness = None if origins is None else origins_freshness(graph, origins)
    origins = origins or Origins({}, ())
    rows = operator_rows(graph, origins, selection)
    by_source = _by_source(origins, rows, selection)
    notes = _notes(graph, origins, freshness)
    return OriginTable(graph.source.format, len(graph), origins, freshness, tuple(rows), by_source, notes)


def operator_rows(model: ModelGraph, origins: Origins, selection: Selection) -> list[OperatorRow]:
    """Return the rows of the selected operators.

    Raises UsageError for a subgraph that does not exist, and ModelFormatError if the names, repeated for all
    operators, are far larger than the file.
    """
    count = len(model)
    if selection.subgraph is not None and selection.subgraph >= count:
        raise UsageError(f"subgraph {selection.subgraph} does not exist; the count is {count}")
    shown = range(count) if selection.subgraph is None else [selection.subgraph]
    wanted, ranges = _selected_sources(origins, selection), selection.operators
    rows = []
    for subgraph in shown:
        facts = model.graphs[subgraph].operators
        known = origins.operators[subgraph] if origins.operators else {}
        for index, (code, output) in enumerate(zip(facts.code_names, facts.first_result_names, strict=True)):
            inside = ranges is None or any(first <= index <= last for first, last in ranges)
            origin = known.get(index, UNKNOWN)
            if inside and (selection.source is None or origin & wanted):
                rows.append(OperatorRow(subgraph, index, code, output, origin))
    return rows


def _selected_sources(origins: Origins, selection: Selection) -> frozenset[int]:
    """Return the ids of the sources whose names match."""
    pattern = selection.source
    return frozenset(source for source, name in origins.sources.items() if pattern is None or pattern.search(name))


def _by_source(origins: Origins, rows: list[OperatorRow], selection: Selection) -> dict[int, list[tuple[int, int]]]:
    """Return all operators of each shown source.

    A source is shown if its name matches and, if operators or a subgraph are selected, one of those operators has it.
    """
    shown = _selected_sources(origins, selection)
    if selection.operators is not None or selection.subgraph is not None:
        shown &= UNKNOWN.union(*(row.origin for row in rows))
    return {source: operators for source, operators in origins.by_source().items() if source in shown}


def _notes(model: ModelGraph, origins: Origins, freshness: Freshness | None) -> tuple[Finding, ...]:
    if freshness is None:
        message = "the model has no origins; run `circletool embed-origins`"
        return (Finding("NO_ORIGINS", "warning", "", message),)
    notes = table_findings(model, origins, freshness)
    if freshness.state == "unstamped":
        message = "the origins have no stamp that would reveal stale ones; `embed-origins --replace` adds one"
        notes.insert(0, Finding("UNSTAMPED_ORIGIN", "info", "", message))
    if origins.scope == "shared" and freshness.state != "stale":
        message = "one op table applies to all subgraphs, as in the ONE compiler"
        notes.append(Finding("SHARED_OP_TABLE", "info", "", message))
    return tuple(notes)


def _pattern(words: str) -> re.Pattern[str]:
    try:
        return re.compile(words)
    except (re.error, RecursionError) as error:
        raise UsageError(f"{words!r} is not a valid regular expression: {error}") from error
