"""Compares NNAPI traces layer by layer and phase by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from circletools.profile.compare import (
    NO_TIME,
    ComparedTime,
    Comparison,
    Row,
    Samples,
    compare_times,
    location,
    sides_of,
    tick_of,
)
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.marks import SUBPHASES
from circletools.trace.nnapi.timeline import APP_PHASES, run_of
from circletools.wording import Attributes, Tabular

_EXECUTION = ("PE", *SUBPHASES)
_ELAPSED = ("", "elapsed")
_WARM_UP, _BENCHMARK = APP_PHASES[1:]
Unit = Literal["execution", "run"]
_Key = tuple[Unit, str, str]
"""Unit, layer and phase."""


@dataclass(frozen=True, slots=True)
class ComparedTrace(Attributes):
    """A recording in a comparison; `executions` counts the compared executions."""

    name: str
    runs: int
    executions: int


@dataclass(frozen=True, slots=True)
class ComparedBucket(Attributes):
    """The time of a layer and phase, per execution or per run; without a layer, the elapsed time."""

    layer: str
    phase: str
    unit: Unit
    time: ComparedTime


@dataclass(frozen=True, slots=True, repr=False)
class TraceComparison(Comparison[ComparedTrace, ComparedBucket], Tabular):
    """Recordings of two sides, and the times of each layer and phase."""


def compare_traces(
    before: Analysis | Sequence[Analysis],
    after: Analysis | Sequence[Analysis],
    threshold_percent: float = 10.0,
    *,
    history: Sequence[Analysis] = (),
    paired: bool = False,
) -> TraceComparison:
    """Compare two sides; a side is one or several recordings, preferably three or more for better intervals.

    `history` holds further recordings of the earlier model, which show how much they vary. With `paired`, the
    recordings of both sides were made alternately, and each is compared with its partner.

    If all recordings have executions, the phases of execution are compared per execution, in wall-clock time, the
    others per run, in self time of threads. Warm-up is excluded. `low` and `high` bound the ratio with a confidence
    of 95 %. A row is slower only if that is significant: see `compare_times`.
    """
    sides = sides_of(Analysis, before, after, history, paired=paired)
    executed = all(len(analysis.executions) for side in sides for analysis in side)
    times = [[_times(analysis, executed) for analysis in side] for side in sides]
    keys = sorted({key for side in times[:2] for some in side for key in some})
    pairs = {key: [[some.get(key, NO_TIME) for some in side] for side in times] for key in keys}
    totals = Counter[str]()
    for (unit, layer, _), (recordings, *_) in pairs.items():
        if layer:
            totals[unit] += round(float(np.mean([location(one) for one in recordings])))
    tick_ns = tick_of(one.astype(np.int64) for side in times for some in side for one in some.values())
    rows = [Row(first, second, totals[unit], known, paired) for (unit, *_), (first, second, known) in pairs.items()]
    compared = compare_times(rows, limit=threshold_percent / 100, tick_ns=tick_ns)
    found = (
        ComparedBucket(layer, phase, unit, time) for (unit, layer, phase), time in zip(pairs, compared, strict=True)
    )
    first, second = (
        tuple(ComparedTrace(one.name, len(one.runs), len(_measured(one))) for one in side) for side in sides[:2]
    )
    return TraceComparison(first, second, threshold_percent, tuple(found))


def _measured(analysis: Analysis) -> list[int]:
    """Return the places of the executions to compare: those of the benchmark, else all except the warm-up."""
    phases = [run_of(segment)[1] for segment in analysis.executions.segments.tolist()]
    for wanted in ({_BENCHMARK}, set(APP_PHASES) - {_WARM_UP}):
        chosen = [place for place, phase in enumerate(phases) if phase in wanted]
        if chosen:
            return chosen
    return list(range(len(phases)))


def _times(analysis: Analysis, executed: bool) -> dict[_Key, Samples]:
    """Return the times of each layer and phase: one for each execution, or the mean over the runs."""
    found: dict[_Key, Samples] = {}
    chosen = _measured(analysis)
    count = len(chosen)
    if executed:
        elapsed = analysis.executions.ends - analysis.executions.starts
        found[("execution", *_ELAPSED)] = elapsed[chosen].astype(np.float64)
        for (layer, phase, _), own in analysis.wall_clock.each():
            if own[chosen].any():
                times = found.get(("execution", layer, phase), np.zeros(count))
                found["execution", layer, phase] = times + own[chosen]
    measured = (segment for segment in analysis.tables if run_of(segment)[1] != _WARM_UP)
    for (layer, phase), time in analysis.tables.total(measured).self_ns.items():
        if executed and phase == "PBM":  # it grows with the number of executions
            found["execution", layer, phase] = np.full(count, time / count)
        elif not (executed and phase in _EXECUTION):
            found["run", layer, phase] = np.array([time / max(1, len(analysis.runs))])
    return found
