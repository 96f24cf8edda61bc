"""Times by operator and origin, as text, JSON and CSV."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from circletools.origin.exchange import DETAIL_FIELDS, details_json
from circletools.profile.attribution import Attribution
from circletools.profile.joining import Place, Time
from circletools.profile.shares import GroupTime, OperatorTime
from circletools.render.executions import (
    Rank,
    of_first,
    program_runs_text,
    ranks,
    time_text,
    whole_cells,
    whole_json,
    without_model,
)
from circletools.render.origins import operator_label, with_line
from circletools.render.table import filled, places_json, places_text, shorter, table_csv, table_text
from circletools.trace.operators.names import KERNEL_NUMBERS
from circletools.wording import SCHEMA_VERSION, counted, microseconds

EVERY = ("type", "operator", "source", "module")
"""All tables, in order."""

TOP = 10
"""The default number of rows of each table in the text."""

_SPREAD = ("min_ns", "p90_ns", "p99_ns", "spread_ns", "median_low_ns", "median_high_ns")
_TIMES = ("runs", "total_ns", "mean_ns", "median_ns", "share_percent", "median_share_percent", *_SPREAD)
_ADDED_TITLES = {
    "inserted": "inserted by the runtime",
    "delegate": "run by delegates",
    "unattributed": "not attributed to an operator",
    "inside": "parts of the above, not included in the sum",
}
_NO_ORIGIN = "(no origin)"
_INDICES = 16  # the maximum number of characters for a group's operators in a table; JSON lists them all
_FEW, _MANY = 8, 24  # rows of the table of runs in a log: with and without further tables
_AVERAGES = ("rank", "mean_us", "share", "calls", "each_us")
_NUMBERS = ("rank", "median_us", "low_us", "high_us", "p90_us", "share", "total_us")


def attribution_json(attribution: Attribution, by: Container[str] = EVERY) -> dict[str, Any]:
    """Return the JSON document."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "runtime": attribution.runtime,
        "executions": attribution.whole.known(attribution.executions, attribution.averaged),
        "averaged": attribution.averaged,
        "incomplete_events": attribution.incomplete,
        "unchecked_operators": attribution.unchecked,
        "ignored_marks": list(attribution.ignored),
        "sources_from": "output_names" if attribution.named else "tables",
        "total_ns": attribution.total_ns,
        "unit": attribution.unit,
        "whole": whole_json(attribution),
    }
    if "type" in by:
        document["types"] = [
            {"name": row.name, "macs": _macs(row.operators, attribution)} | _group_json(row, attribution)
            for row in attribution.types
        ]
    if "operator" in by:
        document["operators"] = [
            _operator_json(row, attribution) | {"rank": rank and rank.place, "shared_rank": rank and rank.shared}
            for row, rank in zip(attribution.operators, _ranks(attribution), strict=True)
        ]
    if "source" in by:
        document["sources"] = [
            {"id": row.source, "name": row.name} | details_json(row.details) | _group_json(row, attribution)
            for row in attribution.sources
        ]
    if "module" in by:
        document["modules"] = [
            {"name": row.name, "parent": row.parent} | _group_json(row, attribution) for row in attribution.modules
        ]
    return document | _apart_json(attribution)


def _apart_json(attribution: Attribution) -> dict[str, Any]:
    """Return the time outside single operators: in added rows, groups, and ambiguous rows."""
    return {
        "added": [
            {"kind": row.kind, "subgraph": row.subgraph, "operator_index": row.index, "name": row.name}
            | {"backends": list(row.backends)}
            | _time_json(row.time, attribution)
            for row in attribution.added
        ],
        "groups": [
            {"name": row.name, "operators": [place | {"estimated_ns": time} for place, time in estimates]}
            | _time_json(row.time, attribution)
            for row in attribution.groups
            for estimates in [zip(places_json(row.operators), row.estimates_ns, strict=True)]
        ],
        "ambiguous": [
            {"names": list(row.names), "operators": places_json(row.operators), "total_ns": row.total_ns}
            for row in attribution.ambiguous
        ],
    }


def _ranks(attribution: Attribution) -> list[Rank | None]:
    """Return the rank of each operator by time, or None for operators without a time."""
    rows = [(row.time, row.operand_bytes) for row in attribution.operators if row.time is not None]
    found = iter(ranks([time for time, _ in rows], attribution.tick_ns, [size for _, size in rows]))
    return [None if row.time is None else next(found) for row in attribution.operators]


def _operator_json(row: OperatorTime, attribution: Attribution) -> dict[str, Any]:
    return {
        "subgraph": row.subgraph,
        "operator_index": row.index if row.index >= 0 else None,
        **{"code": row.code, "output": row.output, "backends": [*row.backends], "sources": [*row.sources]},
        **{"operand_bytes": row.operand_bytes, "macs": row.macs},
        **_time_json(row.time, attribution),
        "delegated_ns": row.time and row.time.delegated_ns,
        "ambiguous_ns": row.time and row.time.ambiguous_ns,
    }


def _group_json(row: GroupTime, attribution: Attribution) -> dict[str, Any]:
    operators = places_json(row.operators)
    return {"operators": operators, "shared": row.shared} | _time_json(row.time, attribution)


def _time_json(time: Time | None, attribution: Attribution) -> dict[str, Any]:
    """Return the fields of a time, which are null if there is no time."""
    if time is None:
        return dict.fromkeys(_TIMES)
    mean_ns = time.total_ns / attribution.executions
    spread = [None] * len(_SPREAD) if time.spread is None else [getattr(time.spread, name) for name in _SPREAD]
    shares = attribution.share_percent(time), None if time.median_ns is None else _share(time, attribution)
    values = (time.runs, time.total_ns, mean_ns, time.median_ns, *shares, *spread)
    return dict(zip(_TIMES, values, strict=True))


def _share(time: Time, attribution: Attribution) -> float:
    """Return the percentage of the sum of medians, which rare long runs do not change; of the total for averages."""
    if time.median_ns is None:
        return attribution.share_percent(time)
    return 100 * time.median_ns / attribution.medians_ns if attribution.medians_ns else 0.0


def attribution_csv(attribution: Attribution, by: str = "operator") -> str:
    """Return one table as CSV; the columns are the fields that its rows have in JSON."""
    rows = attribution_json(attribution, (by,))[f"{by}s"]
    if by == "source":
        rows = [dict.fromkeys(("id", "name", *DETAIL_FIELDS)) | row for row in rows]
    if attribution.unit == "ticks":
        rows = [{name.replace("_ns", "_ticks"): value for name, value in row.items()} for row in rows]
    return table_csv(rows)


def _macs(places: Iterable[Place], attribution: Attribution, runs: int | None = None) -> int | None:
    """Return the multiply-accumulates of operators in an execution, or None if they are unknown.

    The number of runs of an operator is measured; operators without a time, in groups, ran `runs` times each.
    """
    rows = {(row.subgraph, row.index): row for row in attribution.operators}
    if not rows:
        return None
    found = 0
    for row in map(rows.__getitem__, places):
        if row.macs is None:
            return None
        found += row.macs * (row.time.runs if row.time else runs or 0) // attribution.executions
    return found


def _rate(count: int | None, time: Time, attribution: Attribution) -> str:
    """Return GFLOP/s, counting two operations for each multiply-accumulate."""
    each_ns = time.median_ns or time.total_ns / attribution.executions
    return f"{2 * count / each_ns:.2f}" if count and each_ns and attribution.unit == "ns" else "-"


def attribution_text(attribution: Attribution, by: Container[str] = EVERY, top: int = TOP) -> Iterator[str]:
    """Yield the tables as text: the `top` rows of each (0: all) with the longest times, in microseconds or ticks."""
    several, executions = attribution.executions > 1, counted(attribution.executions, "execution")
    if attribution.averaged:
        runs = attribution.whole.runs if attribution.whole.runs != attribution.executions else None
        known = attribution.whole.known(attribution.executions, True)
        executions = f"averages of {counted(runs, 'run') if runs else executions}" if known else "averages"
        executions = f"rows of the first of {runs:,} runs" if runs and of_first(attribution) else executions
        executions = attribution.whole.failure or executions
    else:
        unit = "us" if attribution.unit == "ns" else "ticks"
        each = f", median {time_text(attribution.medians_ns, attribution)} {unit}" if several else ""
        executions += f", {time_text(attribution.total_ns, attribution)} {unit} in all{each}"
    yield f"{attribution.whole.program or attribution.runtime}: {executions}; {_coverage(attribution)}"
    yield from table_text(list(whole_cells(attribution)))
    rows = min(top, _FEW) if attribution.operators else top if attribution.whole.types else top and max(top, _MANY)
    yield from program_runs_text(attribution, rows)
    if "type" in by:
        yield from _types_text(attribution, top)
    if "operator" in by:
        yield from _operators_text(attribution, top)
    for name, groups in (("source", attribution.sources), ("module", attribution.modules)):
        if name in by:
            yield from _groups_text(name, attribution, groups, top)
    for kind, title in _ADDED_TITLES.items():
        added = (row for row in attribution.added if row.kind == kind)
        lines = [(row.time, (str(row.index), " ".join(row.backends)), row.name) for row in added]
        yield from _table(title, ("index", "backend", "name"), lines, attribution, top=top)
    if absent := _absent(attribution):
        several = _has_subgraphs(attribution)
        more = f" and {len(absent) - top} more" if 0 < top < len(absent) else ""
        shown = ", ".join(
            f"{operator_label(row.subgraph, row.index, several)} {row.code}" for row in absent[: top or None]
        )
        yield ""
        yield f"operators without a time (others may include their work): {shown}{more}"


def _absent(attribution: Attribution) -> list[OperatorTime]:
    """Return the operators that have no time of their own or in a group."""
    grouped = {place for group in attribution.groups for place in group.operators}
    return [row for row in attribution.operators if row.time is None and (row.subgraph, row.index) not in grouped]


def _coverage(attribution: Attribution) -> str:
    """Return how many operators have a time, and the share of time in delegates, which only some runtimes have."""
    if types := attribution.whole.types:
        of = f"{counted(known, 'operator')} of " if (known := sum(count for _, count in types)) else ""
        return f"only by type: {of}{counted(len(types), 'type')}"
    if not attribution.operators:
        return "no operator times"
    own = sum(row.time is not None for row in attribution.operators)
    calls = sum(row.time.runs for row in attribution.operators if row.time) // attribution.executions
    timed = f"{own} of {counted(len(attribution.operators), 'operator')} timed"
    if without_model(attribution):
        timed = f"{counted(own, 'row')}{f', {calls:,} calls a run' if calls != own else ''}"
    if grouped := len(attribution.operators) - own - len(_absent(attribution)):
        timed += f", {grouped} more in {counted(len(attribution.groups), 'group')}"
    if attribution.runtime not in ("litert", "benchmark_model"):
        return timed
    longest = max((row.time.total_ns for row in attribution.operators if row.time), default=0)
    if own and longest < attribution.tick_ns * attribution.executions and not attribution.groups:
        return f"{timed}, each shorter than the clock's tick: use a larger input"
    parts = [(time, time.delegated_ns / max(time.total_ns, 1)) for row in attribution.operators if (time := row.time)]
    parts += [(row.time, 1.0) for row in attribution.groups]
    parts += [(row.time, float(row.kind == "delegate")) for row in attribution.added if row.kind != "inside"]
    usual = [_share(time, attribution) for time, _ in parts]
    within = sum(share * part for share, (_, part) in zip(usual, parts, strict=True)) / (sum(usual) or 1)
    return f"{timed}, {100 * within:.3g}% of their time in delegates"


def _types_text(attribution: Attribution, top: int) -> Iterator[str]:
    bare, counts = without_model(attribution), dict(attribution.whole.types)
    lines = [
        (time, (str(counts.get(name, len(places)) or "-"), rate)[: 1 if bare else 2], name)
        for name, places, time in _kinds(attribution)
        for rate in (_rate(_macs(places, attribution, attribution.executions), time, attribution),)
    ]
    columns = ("rows", "type") if bare else ("operators", "GFLOP/s", "type")
    yield from _table("types of operators", columns, lines, attribution, top=top)


def _kinds(attribution: Attribution) -> Iterator[tuple[str, Sequence[Place], Time]]:
    """Yield codes with their operators and time, and delegates whose time cannot be divided among codes.

    If only averages are known, all rows of such a delegate are added up.
    """
    timed = [(row, row.time, (row.subgraph, row.index)) for row in attribution.operators if row.time]
    groups = [(f"in {group.name}", group.operators, group.time) for group in attribution.groups]
    if not attribution.averaged or attribution.whole.types:
        places = {place for *_, place in timed}
        for kind in attribution.types:
            if kind.time.runs:
                yield kind.name or "", sorted(places.intersection(kind.operators)), kind.time
        yield from groups
        return
    opaque = {group.name for group in attribution.groups}
    found: dict[str, tuple[set[Place], list[Time]]] = {}
    for row, time, place in timed:
        inside = sorted(opaque.intersection(row.backends))
        groups.append((f"in {inside[0]}" if inside else KERNEL_NUMBERS.sub("", row.code), (place,), time))
    for name, operators, time in groups:
        every, times = found.setdefault(name, (set(), []))
        every.update(operators)
        times.append(time)
    for name, (every, times) in sorted(found.items()):
        yield name, sorted(every), Time(sum(time.runs for time in times), sum(time.total_ns for time in times), None)


def _operators_text(attribution: Attribution, top: int) -> Iterator[str]:
    names = {row.source: with_line(f"{row.source} {row.name}", row.details) for row in attribution.sources}
    several, bare = _has_subgraphs(attribution), without_model(attribution)
    measured = [(row, row.time) for row in attribution.operators if row.time is not None]
    lines: list[tuple[Time, tuple[str, ...], str]] = []
    for row, time in measured:
        label = ", ".join(names[source] for source in row.sources) or _NO_ORIGIN
        if attribution.named:  # a report gives the names of all outputs
            label, *others = re.split(", |\t", row.output) if bare else [row.output]
            label += f" and {len(others)} more" * bool(others)
        rate = _rate(row.macs and row.macs * time.runs // attribution.executions, time, attribution)
        of_row = operator_label(row.subgraph, row.index, several), row.code, " ".join(row.backends), rate
        lines.append((time, of_row[: 3 if bare else 4], label))
    work = [row.operand_bytes for row, _ in measured]
    for group in attribution.groups:
        indices = shorter(places_text(group.operators, several), _INDICES)
        many = indices, counted(len(group.operators), "operator"), group.name
        rate = _rate(_macs(group.operators, attribution, group.time.runs), group.time, attribution)
        lines.append((group.time, (*many, rate), ""))
        work.append(0)
    rate_ = () if bare else ("GFLOP/s",)
    columns = ("index", "code", "backend", *rate_, "output" if attribution.named else "sources")
    yield from _table("operators", columns, lines, attribution, work, top=top)
    known = {(row.subgraph, row.index): row for row in attribution.operators}
    if attribution.groups:
        yield ""
        yield "operators in groups: the time of a group, divided in proportion to MACs (or bytes, without MACs)"
        pairs = (zip(group.estimates_ns, group.operators, strict=True) for group in attribution.groups)
        rows, count = sorted(chain(*pairs), key=lambda row: -row[0])[: top or None], attribution.executions
        cells = [(microseconds(time // count), operator_label(*one, several), known[one].code) for time, one in rows]
        yield from table_text([("estimated_us", "index", "code"), *cells], right=(0,))
    if attribution.ambiguous:
        cells = [
            (microseconds(row.total_ns), places_text(row.operators, several), ", ".join(row.names))
            for row in sorted(attribution.ambiguous, key=lambda row: -row.total_ns)[: top or None]
        ]
        yield ""
        yield "rows that may belong to several operators; their time is shared evenly above"
        yield from table_text([("total_us", "index", "names"), *cells], right=(0,))


def _groups_text(kind: str, attribution: Attribution, rows: Iterable[GroupTime], top: int) -> Iterator[str]:
    lines = []
    for row in rows:
        if not row.time.runs:
            continue  # none of the group's operators has a time
        name = _NO_ORIGIN if row.name is None else row.name
        label = name if row.source is None else with_line(f"{row.source} {name}", row.details)
        lines.append((row.time, (str(len(row.operators)), "yes" * row.shared), label))
    title = f"{kind}s" + " (those of one operator share its time evenly)" * any(row.shared for row in rows)
    yield from _table(title, ("operators", "shared", kind), lines, attribution, top=top)


def _table(
    title: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[Time, tuple[str, ...], str]],
    attribution: Attribution,
    work: Sequence[int] | None = None,
    *,
    top: int,
) -> Iterator[str]:
    """Yield a table with times, then the other columns, then a label of any length; nothing without rows."""
    if not rows:
        return
    yield ""
    several = any(row.time.runs > attribution.executions for row in attribution.operators if row.time)
    averages = ("rank", "first_us", *_AVERAGES[2:]) if of_first(attribution) else _AVERAGES
    header: tuple[str, ...] = averages[: None if several else 3] if attribution.averaged else _NUMBERS
    found = ranks([row[0] for row in rows], attribution.tick_ns, work)
    counts = Counter(rank.shared for rank in found)
    ordered = sorted(zip(found, rows, strict=True), key=lambda pair: pair[0])
    if 0 < top < len(rows):
        title += f", the first {top} of {len(rows)}"
        shown = sum(_share(row[0], attribution) for _, row in ordered[:top])
        # The times of nested modules overlap, so their sum is meaningless.
        title += f", {shown:.0f}% of the time" if work and attribution.total_ns else ""
    yield title
    cells = [
        (f"{shared}{'=' * (counts[shared] > 1)}", *_numbers(time, attribution)[: len(header) - 1], *values, label)
        for (_, shared), (time, values, label) in ordered[: top or None]
    ]
    header = header if attribution.unit == "ns" else tuple(name.replace("_us", "_ticks") for name in header)
    table = filled([(*header, *columns), *cells])
    yield from table_text(table, right=range(sum(name in header for name in table[0])))


def _numbers(time: Time, attribution: Attribution) -> tuple[str, ...]:
    total, spread = time_text(time.total_ns, attribution), time.spread
    if attribution.averaged:
        mean = time_text(time.total_ns // attribution.executions, attribution)
        each = time_text(time.total_ns // max(1, time.runs), attribution)
        return mean, f"{_share(time, attribution):.1f}%", str(time.runs // attribution.executions), each
    if time.median_ns is None or spread is None:
        return *("-" for _ in _NUMBERS[2:]), total
    times = (time.median_ns, spread.median_low_ns, spread.median_high_ns, spread.p90_ns)
    return *(time_text(one, attribution) for one in times), f"{_share(time, attribution):.1f}%", total


def _has_subgraphs(attribution: Attribution) -> bool:
    """Return whether the labels of operators begin with the subgraph."""
    return any(row.subgraph for row in attribution.operators)
