"""Comparisons of times, in NNAPI traces or of operators, as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, get_args

from circletools.profile import comparisons
from circletools.profile.compare import ComparedTime, Verdict
from circletools.render.table import number_columns, table_text
from circletools.trace.nnapi.marks import LAYER_NAMES, PHASE_NAMES
from circletools.wording import SCHEMA_VERSION, counted, microseconds, milliseconds

Comparison = comparisons.TraceComparison | comparisons.ProfileComparison

_UNKNOWN = 100  # ratios and bounds that exceed this factor are not shown
_TIME_HEAD = ("before", "after", "delta", "ratio", "low", "high", "visible", "verdict")


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the JSON document of `trace-compare`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "before": [asdict(recording) for recording in comparison.before],
        "after": [asdict(recording) for recording in comparison.after],
        "threshold_percent": comparison.threshold_percent,
        "regressed": comparison.regressed,
        "rows": comparison.to_rows(),
    }


def comparison_text(comparison: Comparison) -> Iterator[str]:
    """Yield the recordings, the number of rows with each verdict, and a table with the slowest operators first."""
    for side, recordings in (("before", comparison.before), ("after", comparison.after)):
        for words, count in Counter(map(_side, recordings)).items():
            yield f"{side}: {words}" + f" ({count} recordings)" * (count > 1)
    counts = Counter(row.time.verdict for row in comparison.rows)
    yield "rows: " + ", ".join(f"{count} {verdict}" for verdict in get_args(Verdict) if (count := counts[verdict]))
    found = sorted(row.time.visible for row in comparison.rows if row.time.visible is not None)
    half = found[(len(found) - 1) // 2] if found else 0.0
    if half >= _UNKNOWN:
        yield "in most rows, " * (found[0] < _UNKNOWN) + "no change is detectable: compare more recordings"
    elif found:
        most = f", of {_percent(found[-1])} in all" * (found[-1] < _UNKNOWN)
        yield f"changes of {_percent(half)} are detectable in half of the rows{most}"
    elif comparison.rows:
        yield "which changes are detectable is unknown: compare three or more recordings of each side"
    yield ""
    if isinstance(comparison, comparisons.TraceComparison):
        yield "time in ms; low and high are the 95% bounds of the ratio"
        rows = [("layer", "phase", "per", *_TIME_HEAD), *map(_bucket_cells, comparison.rows)]
    else:
        yield "self time per execution in us; low and high are the 95% bounds of the ratio"
        several = any(row.subgraph for row in comparison.rows)
        longest = sorted(comparison.rows[1:], key=lambda row: -max(row.time.before_ns, row.time.after_ns))
        shown = (
            (_place(row, several), row.name, *_time_cells(row.time, microseconds))
            for row in (*comparison.rows[:1], *longest)
        )
        rows = [("operator", "name", *_TIME_HEAD), *shown]
    yield from table_text(rows, right=number_columns(rows))


def _side(side: comparisons.ComparedTrace | comparisons.ComparedProfile) -> str:
    executions = counted(side.executions or 0, "execution")
    if isinstance(side, comparisons.ComparedTrace):
        return f"{side.name}, {counted(side.runs, 'run')}, {executions}"
    return f"{side.runtime}{f', {executions}' * bool(side.executions)}{', averages only' * side.averaged}"


def _bucket_cells(row: comparisons.ComparedBucket) -> tuple[str, ...]:
    place = LAYER_NAMES.get(row.layer, "-"), PHASE_NAMES.get(row.phase, row.phase)
    return (*place, row.unit, *_time_cells(row.time, milliseconds))


def _place(row: comparisons.ComparedOperator, several: bool) -> str:
    if row.operator_index is None and row.row is None:
        return ""
    place = f"row {row.row}" if row.operator_index is None else str(row.operator_index)
    return f"{row.subgraph}/" * several + place


def _time_cells(time: ComparedTime, written: Callable[[int], str]) -> tuple[str, ...]:
    ratios = (
        "-" if value is None or not 1 / _UNKNOWN < value < _UNKNOWN else f"{value:.3f}"
        for value in (time.ratio, time.low, time.high)
    )
    times = map(written, (time.before_ns, time.after_ns, time.delta_ns))
    return (*times, *ratios, "-" if time.visible is None else _percent(time.visible), time.verdict)


def _percent(ratio: float) -> str:
    return f"+{100 * (ratio - 1):.0f}%" if ratio < _UNKNOWN else "-"
