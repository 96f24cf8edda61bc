"""Two NNAPI traces side by side: layer by layer and phase by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from circletools.profile.compare import FEWEST, Bounds, ComparedTime, Samples, compared, ratio_bounds
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.marks import SUBPHASES
from circletools.trace.nnapi.summaries import whole_table

__all__ = ["TraceComparison", "compare_traces"]

Bucket = tuple[str, str]
"""Layer and phase."""

_EXECUTION = ("PE", *SUBPHASES)
_ELAPSED = ("", "elapsed")


@dataclass(frozen=True, slots=True)
class ComparedTrace:
    """One of the two traces of a comparison."""

    name: str
    runs: int
    executions: int


@dataclass(frozen=True, slots=True)
class ComparedBucket:
    """The self time of a layer and phase, per execution or per run; without a layer, the elapsed time."""

    layer: str
    phase: str
    unit: Literal["execution", "run"]
    time: ComparedTime


@dataclass(frozen=True, slots=True)
class TraceComparison:
    """Two traces, and each layer and phase of them."""

    before: ComparedTrace
    after: ComparedTrace
    threshold_percent: float
    rows: tuple[ComparedBucket, ...]

    @property
    def regressed(self) -> bool:
        """Whether something is slower."""
        return any(row.time.regressed for row in self.rows)


class _Means(NamedTuple):
    bucket: Bucket
    unit: Literal["execution", "run"]
    before: float
    after: float
    bounds: Bounds | None = None


def compare_traces(before: Analysis, after: Analysis, threshold_percent: float = 10.0) -> TraceComparison:
    """Compare two analyses.

    Times are self times: of the phases of execution per execution where both traces have some, else per run. With
    five executions or more in both, `low` and `high` bound the ratio: the middle 95 % of what resampling the
    executions gives (bootstrap; the same draws each time). A row has regressed when it is slower by more than the
    threshold, and the interval, if there is one, lies above 1. What is new has regressed when it takes more than the
    threshold of all time before.
    """
    both = bool(before.executions and after.executions)
    rows = [*(_execution_rows(before, after) if both else ()), *_run_rows(before, after, executed=both)]
    totals = Counter[str]()
    for row in rows:
        if row.bucket[0]:
            totals[row.unit] += round(row.before)
    limit = threshold_percent / 100
    found = []
    for row in rows:
        time = compared(row.before, row.after, row.bounds, limit=limit, total_ns=totals[row.unit])
        layer, phase = row.bucket
        found.append(ComparedBucket(layer, phase, row.unit, time))
    return TraceComparison(_described(before), _described(after), threshold_percent, tuple(found))


def _described(analysis: Analysis) -> ComparedTrace:
    return ComparedTrace(analysis.name, len(analysis.runs), len(analysis.executions))


def _run_rows(before: Analysis, after: Analysis, *, executed: bool) -> Iterator[_Means]:
    first, second = (
        {bucket: time / max(1, len(one.runs)) for bucket, time in whole_table(one.tables.values()).self_ns.items()}
        for one in (before, after)
    )
    for bucket in sorted(first.keys() | second.keys()):
        if not (executed and bucket[1] in _EXECUTION):
            yield _Means(bucket, "run", first.get(bucket, 0), second.get(bucket, 0))


def _execution_rows(before: Analysis, after: Analysis) -> Iterator[_Means]:
    samples = [_samples(before), _samples(after)]
    counts = [len(one[_ELAPSED]) for one in samples]
    for bucket in sorted(samples[0].keys() | samples[1].keys()):
        first, second = (one.get(bucket, np.zeros(count)) for one, count in zip(samples, counts, strict=True))
        bounds = ratio_bounds(first, second) if min(counts) >= FEWEST else None
        yield _Means(bucket, "execution", float(first.mean()), float(second.mean()), bounds)


def _samples(analysis: Analysis) -> dict[Bucket, Samples]:
    """Return, for each bucket of execution and for the elapsed time, the value of every execution."""
    found = {_ELAPSED: np.array([one.elapsed_ns for one in analysis.executions], np.float64)}
    for (layer, phase, _), own in analysis.wall_clock.each():
        if own.any():
            found[layer, phase] = found.get((layer, phase), 0) + own.astype(np.float64)
    return found
