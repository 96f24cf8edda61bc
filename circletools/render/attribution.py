"""Time by origin for people and programs: text, JSON, CSV."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from circletools.origin.exchange import DETAIL_FIELDS, detail_values, details_json
from circletools.profile.attribution import Attribution, GroupTime, OperatorTime
from circletools.profile.joining import Time
from circletools.render.origins import with_line
from circletools.render.table import csv_text, table_text
from circletools.wording import SCHEMA_VERSION, counted, microseconds

EVERY = ("operator", "source", "module")
"""The tables."""

_TIMES = ("runs", "total_ns", "mean_ns", "median_ns", "share_percent")
CSV_COLUMNS = ("kind", "subgraph", "operator_index", "name", "output", "backends", *_TIMES, "sources", *DETAIL_FIELDS)
_ADDED_TITLES = {
    "inserted": "inserted by the runtime",
    "delegate": "run by delegates",
    "inside": "parts of the above, not added to the sum",
}
_NO_ORIGIN = "(no origin)"
_NO_DETAILS = [""] * len(DETAIL_FIELDS)


def attribution_json(attribution: Attribution, by: Container[str] = EVERY) -> dict[str, Any]:
    """Return the JSON document."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "runtime": attribution.runtime,
        "executions": attribution.executions,
        "averaged": attribution.averaged,
        "incomplete_events": attribution.incomplete,
        "unchecked_operators": attribution.unchecked,
        "ignored_marks": list(attribution.ignored),
        "sources_from": "output_names" if attribution.named else "tables",
        "total_ns": attribution.total_ns,
    }
    if "operator" in by:
        document["operators"] = [_operator_json(row, attribution) for row in attribution.operators]
    if "source" in by:
        document["sources"] = [
            {"id": row.source, "name": row.name} | details_json(row.details) | _group_json(row, attribution)
            for row in attribution.sources
        ]
    if "module" in by:
        document["modules"] = [{"name": row.name} | _group_json(row, attribution) for row in attribution.modules]
    document["added"] = [
        {
            "kind": row.kind,
            "subgraph": row.subgraph,
            "operator_index": row.index,
            "name": row.name,
            "backends": list(row.backends),
        }
        | _time_json(row.time, attribution)
        for row in attribution.added
    ]
    return document


def _operator_json(row: OperatorTime, attribution: Attribution) -> dict[str, Any]:
    return {
        "subgraph": row.subgraph,
        "operator_index": row.index,
        "code": row.code,
        "output": row.output,
        "backends": list(row.backends),
        "sources": list(row.sources),
    } | _time_json(row.time, attribution)


def _group_json(row: GroupTime, attribution: Attribution) -> dict[str, Any]:
    places = [{"subgraph": subgraph, "operator_index": index} for subgraph, index in row.share.operators]
    return {"operators": places, "shared": row.share.shared} | _time_json(row.share.time, attribution)


def _time_json(time: Time | None, attribution: Attribution) -> dict[str, Any]:
    """Return the fields of a time."""
    return dict(zip(_TIMES, _times(time, attribution), strict=True))


def _times(time: Time | None, attribution: Attribution) -> Sequence[float | None]:
    """Return the values of a time: nulls where there is none."""
    if time is None:
        return [None] * len(_TIMES)
    mean_ns = time.total_ns / attribution.executions
    return time.runs, time.total_ns, mean_ns, time.median_ns, share(time, attribution)


def share(time: Time, attribution: Attribution) -> float:
    """Return the percentage of all measured time."""
    return 100 * time.total_ns / attribution.total_ns if attribution.total_ns else 0.0


def attribution_csv(attribution: Attribution, by: Container[str] = EVERY) -> str:
    """Return one line for each row of each table, told apart by `kind`."""
    return csv_text(CSV_COLUMNS, _csv_rows(attribution, by))


def _csv_rows(attribution: Attribution, by: Container[str]) -> Iterator[tuple[object, ...]]:
    for row in attribution.operators if "operator" in by else ():
        place = ("operator", row.subgraph, row.index, row.code, row.output, " ".join(row.backends))
        yield *place, *_times(row.time, attribution), " ".join(map(str, row.sources)), *_NO_DETAILS
    for kind, groups in (("source", attribution.sources), ("module", attribution.modules)):
        for group in groups if kind in by else ():
            source = "" if group.source is None else group.source
            details = (value or "" for value in detail_values(group.details))
            yield kind, "", "", group.name or "", "", "", *_times(group.share.time, attribution), source, *details
    for added in attribution.added:
        place = (added.kind, added.subgraph, added.index, added.name, "", " ".join(added.backends))
        yield *place, *_times(added.time, attribution), "", *_NO_DETAILS


def attribution_text(attribution: Attribution, by: Container[str] = EVERY) -> Iterator[str]:
    """Yield the tables for people, the greatest medians first; times are microseconds."""
    executions = counted(attribution.executions, "execution")
    averages = ", averages only" if attribution.averaged else ""
    yield f"{attribution.runtime}: {executions}{averages}, {microseconds(attribution.total_ns)} us in all"
    if "operator" in by:
        yield from _operators_text(attribution)
    if "source" in by:
        yield from _groups_text("sources", attribution, attribution.sources)
    if "module" in by:
        yield from _groups_text("modules", attribution, attribution.modules)
    for kind, title in _ADDED_TITLES.items():
        added = [row for row in attribution.added if row.kind == kind]
        if added:
            lines = [(row.time, (str(row.index), " ".join(row.backends)), row.name) for row in added]
            yield from _table(title, ("index", "backend"), lines, attribution)
    absent = [row for row in attribution.operators if row.time is None]
    if absent:
        place = _places(attribution)
        yield ""
        yield "operators without a time: " + ", ".join(f"{place(row)} {row.code}" for row in absent)


def _operators_text(attribution: Attribution) -> Iterator[str]:
    names = {row.source: with_line(f"{row.source} {row.name}", row.details) for row in attribution.sources}
    place = _places(attribution)
    lines = [
        (
            row.time,
            (place(row), row.code, " ".join(row.backends)),
            "<- " + (", ".join(names[source] for source in row.sources) or _NO_ORIGIN),
        )
        for row in attribution.operators
        if row.time is not None
    ]
    yield from _table("operators", ("index", "code", "backend"), lines, attribution)


def _groups_text(title: str, attribution: Attribution, rows: Iterable[GroupTime]) -> Iterator[str]:
    lines = []
    for row in rows:
        if not row.share.time.runs:
            continue  # none of its operators has a time
        name = _NO_ORIGIN if row.name is None else row.name
        label = name if row.source is None else with_line(f"{row.source} {name}", row.details)
        shared = "yes" if row.share.shared else ""
        lines.append((row.share.time, (str(len(row.share.operators)), shared), label))
    yield from _table(title, ("operators", "shared"), lines, attribution)


def _table(
    title: str, columns: tuple[str, ...], rows: Sequence[tuple[Time, tuple[str, ...], str]], attribution: Attribution
) -> Iterator[str]:
    """Yield a table: the numbers of the times, the columns, and a label that may be of any length."""
    yield ""
    yield title
    header = ("total_us", "mean_us", "median_us", "share", *columns)
    ordered = sorted(rows, key=lambda row: (-_usual(row[0]), -row[0].total_ns))
    cells = [(*header, ""), *((*_numbers(time, attribution), *values, label) for time, values, label in ordered)]
    yield from table_text(cells, right=range(4))


def _usual(time: Time) -> int:
    """Return what a rare long run does not change; of averages, all there is."""
    return time.total_ns if time.median_ns is None else time.median_ns


def _numbers(time: Time, attribution: Attribution) -> tuple[str, str, str, str]:
    return (
        microseconds(time.total_ns),
        microseconds(time.total_ns // attribution.executions),
        "-" if time.median_ns is None else microseconds(time.median_ns),
        f"{share(time, attribution):.1f}%",
    )


def _places(attribution: Attribution) -> Callable[[OperatorTime], str]:
    """Return what names an operator: its index, and in front its subgraph where there are several."""
    several = any(row.subgraph for row in attribution.operators)
    return lambda row: f"{row.subgraph}/{row.index}" if several else str(row.index)
