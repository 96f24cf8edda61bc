"""Comparisons of times as text and JSON: of NNAPI traces, and of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from circletools.profile.compare import ComparedTime
from circletools.profile.compare_profiles import ComparedOperator, ComparedProfile, ProfileComparison
from circletools.profile.compare_traces import ComparedBucket, ComparedTrace, TraceComparison
from circletools.render.table import number_columns, table_text
from circletools.trace.nnapi.marks import LAYER_NAMES, PHASE_NAMES
from circletools.wording import SCHEMA_VERSION, counted, microseconds, milliseconds

Comparison = TraceComparison | ProfileComparison

_TIME_HEAD = ("before", "after", "delta", "ratio", "low", "high", "verdict")


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
    """Yield the lines of the text form: the recordings of the two sides, and a table."""
    for side, recordings in (("before", comparison.before), ("after", comparison.after)):
        for recording in recordings:
            yield f"{side}: {_side(recording)}"
    yield ""
    if isinstance(comparison, TraceComparison):
        yield "time in ms; low and high bound the ratio (95 %)"
        rows = [("layer", "phase", "per", *_TIME_HEAD), *map(_bucket_cells, comparison.rows)]
    else:
        yield "self time per execution in us; low and high bound the ratio (95 %)"
        several = any(row.subgraph for row in comparison.rows)
        rows = [("operator", "name", *_TIME_HEAD), *(_operator_cells(row, several) for row in comparison.rows)]
    yield from table_text(rows, right=number_columns(rows))


def _side(side: ComparedTrace | ComparedProfile) -> str:
    executions = counted(side.executions, "execution")
    if isinstance(side, ComparedTrace):
        return f"{side.name}, {counted(side.runs, 'run')}, {executions}"
    return f"{side.runtime}, {executions}{', averages only' if side.averaged else ''}"


def _bucket_cells(row: ComparedBucket) -> tuple[str, ...]:
    place = LAYER_NAMES.get(row.layer, "-"), PHASE_NAMES.get(row.phase, row.phase)
    return (*place, row.unit, *_time_cells(row.time, milliseconds))


def _operator_cells(row: ComparedOperator, several: bool) -> tuple[str, ...]:
    place = "" if row.subgraph is None else f"{row.subgraph}/" * several + str(row.operator_index)
    return (place, row.name, *_time_cells(row.time, microseconds))


def _time_cells(time: ComparedTime, written: Callable[[int], str]) -> tuple[str, ...]:
    ratios = ("-" if value is None else f"{value:.3f}" for value in (time.ratio, time.low, time.high))
    times = map(written, (time.before_ns, time.after_ns, time.delta_ns))
    return (*times, *ratios, time.verdict)
