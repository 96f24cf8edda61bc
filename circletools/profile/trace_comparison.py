"""Two traces side by side: layer by layer and phase by phase."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from circletools.render.table import csv_text, number_columns, table_text
from circletools.render.traces import Document
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.marks import LAYER_NAMES, PHASE_NAMES, SUBPHASES
from circletools.trace.nnapi.statistics import Table
from circletools.wording import SCHEMA_VERSION, counted, milliseconds

FEWEST = 5
"""With fewer executions there is no interval."""

_RESAMPLES, _MOST_DRAWS = 1000, 20_000_000
_EXECUTION = ("PE", *SUBPHASES)
_ELAPSED = ("", "elapsed")
_Samples = dict[tuple[str, str], npt.NDArray[np.float64]]


def compare_traces(before: Analysis, after: Analysis, threshold_percent: float) -> Document:
    """Return the JSON document of `trace-compare`.

    Times are self times: of the phases of execution per execution where both traces have some, else per run. With
    five executions or more in both, `low` and `high` bound the ratio: the middle 95 % of what resampling the
    executions gives (bootstrap; the same draws each time); `high` alone is absent when nothing bounds it. A row has
    regressed when it is slower by more than the threshold, and the interval, if there is one, lies above 1. What is
    new has regressed when it takes more than the threshold of all time before.
    """
    rows = _execution_rows(before, after) + _run_rows(before, after, bool(before.executions and after.executions))
    limit = threshold_percent / 100
    totals: dict[str, float] = {}
    for row in rows:
        if row["layer"]:
            totals[row["unit"]] = totals.get(row["unit"], 0) + row["before_ns"]
    for row in rows:
        row["regressed"] = has_regressed(row, limit, totals.get(row["unit"], 0))
    return comparison_json(_said(before), _said(after), threshold_percent, rows)


def comparison_json(before: Document, after: Document, threshold_percent: float, rows: list[Document]) -> Document:
    """Return the document around the rows, which know whether they have regressed."""
    return {
        "schema_version": SCHEMA_VERSION,
        "before": before,
        "after": after,
        "threshold_percent": threshold_percent,
        "regressed": any(row["regressed"] for row in rows),
        "rows": rows,
    }


def _said(analysis: Analysis) -> Document:
    return {"name": analysis.name, "runs": len(analysis.runs), "executions": len(analysis.executions)}


def has_regressed(row: Document, limit: float, total: float) -> bool:
    """Say whether a row is slower by more than `limit`, surely so if it has bounds; `total` is all time before."""
    if not row["before_ns"]:
        return bool(row["after_ns"] > limit * total)
    return bool(row["ratio"] > 1 + limit and (row["low"] is None or row["low"] > 1))


def _row(
    bucket: tuple[str, str], unit: str, before: float, after: float, bounds: tuple[float, float | None] | None = None
) -> Document:
    return {
        "layer": bucket[0],
        "phase": bucket[1],
        "unit": unit,
        "before_ns": round(before),
        "after_ns": round(after),
        "delta_ns": round(after) - round(before),
        "ratio": after / before if before else None,
        "low": bounds[0] if bounds else None,
        "high": bounds[1] if bounds else None,
    }


def _run_rows(before: Analysis, after: Analysis, executed: bool) -> list[Document]:
    means = []
    for analysis in (before, after):
        whole = Table()
        for table in analysis.tables.values():
            whole.add(table)
        means.append({bucket: value / max(1, len(analysis.runs)) for bucket, value in whole.own.items()})
    buckets = sorted(means[0].keys() | means[1].keys())
    shown = [bucket for bucket in buckets if not (executed and bucket[1] in _EXECUTION)]
    return [_row(bucket, "run", means[0].get(bucket, 0), means[1].get(bucket, 0)) for bucket in shown]


def _execution_rows(before: Analysis, after: Analysis) -> list[Document]:
    if not before.executions or not after.executions:
        return []
    samples = [_samples(before), _samples(after)]
    counts = [len(one[_ELAPSED]) for one in samples]
    rows = []
    for bucket in sorted(samples[0].keys() | samples[1].keys()):
        first, second = (one.get(bucket, np.zeros(count)) for one, count in zip(samples, counts, strict=True))
        bounds = ratio_bounds(first, second) if min(counts) >= FEWEST else None
        rows.append(_row(bucket, "execution", float(first.mean()), float(second.mean()), bounds))
    return rows


def _samples(analysis: Analysis) -> _Samples:
    """Return, for each bucket of execution and for the elapsed time, the value of every execution."""
    found: _Samples = {_ELAPSED: np.array([one.elapsed_ns for one in analysis.executions], np.float64)}
    for at, one in enumerate(analysis.executions):
        table = analysis.execution_tables.get(one.number)
        for bucket, value in table.own.items() if table else ():
            if bucket[1] in _EXECUTION:
                found.setdefault(bucket, np.zeros(len(analysis.executions)))[at] = value
    return found


def ratio_bounds(
    before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
) -> tuple[float, float | None] | None:
    """Return the middle 95 % of the ratios of resampled means; None when there is no time before.

    The upper bound is None where nothing bounds it: too many draws have no time before. Two draws of no time are
    equal.
    """
    if not before.any():
        return None
    draw = np.random.default_rng(0)
    means: list[Any] = []
    for values in (before, after):
        count = max(100, min(_RESAMPLES, _MOST_DRAWS // len(values)))
        means.append([values[draw.integers(0, len(values), len(values))].mean() for _ in range(count)])
    length = min(map(len, means))
    first, second = np.array(means[0][:length]), np.array(means[1][:length])
    ratios = np.where(second > 0, np.inf, 1.0)
    np.divide(second, first, out=ratios, where=first > 0)
    ratios.sort()  # percentiles between finite and infinite ones have no value
    low, high = float(ratios[length // 40]), float(ratios[-1 - length // 40])
    return low, high if np.isfinite(high) else None


def _cells(row: Document) -> list[str]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    return [
        LAYER_NAMES.get(row["layer"], "-"),
        PHASE_NAMES.get(row["phase"], row["phase"]),
        row["unit"],
        *(milliseconds(row[key]) for key in ("before_ns", "after_ns", "delta_ns")),
        *(number(row[key]) for key in ("ratio", "low", "high")),
        "slower" if row["regressed"] else "",
    ]


_HEAD = ["layer", "phase", "per", "before", "after", "delta", "ratio", "low", "high", ""]


def comparison_text(document: Document) -> Iterator[str]:
    """Yield the lines of the text form."""
    for which in ("before", "after"):
        one = document[which]
        yield f"{which}: {one['name']}, {counted(one['runs'], 'run')}, {counted(one['executions'], 'execution')}"
    yield ""
    yield "self time in ms; low and high bound the ratio (95 %)"
    rows = [_HEAD, *map(_cells, document["rows"])]
    yield from table_text(rows, right=number_columns(rows))


def comparison_csv(document: Document) -> str:
    """Return the rows as CSV."""
    head = ["layer", "phase", "unit", "before_ns", "after_ns", "delta_ns", "ratio", "low", "high", "regressed"]
    return csv_text(head, ([row[key] for key in head] for row in document["rows"]))
