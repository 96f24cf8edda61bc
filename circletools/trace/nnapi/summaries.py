"""Summarize an analysis: runs by application phase, and execution times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.executions import ExecutionColumns
from circletools.trace.nnapi.statistics import Table
from circletools.trace.nnapi.timeline import APP_PHASES, OUTSIDE, Run, run_of
from circletools.trace.nnapi.wall_clock import Share
from circletools.trace.sources.names import Numbers

WHOLE = "all"
"""The application phase of a whole run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The number, sum, minimum, median, 90th percentile (nearest rank) and maximum of times."""

    count: int
    total_ns: int
    min_ns: int
    median_ns: int
    p90_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """Execution times (of all, of the first, and of the rest), and the largest number in flight at once.

    `rest_median_ns` is None for a single execution.
    """

    times: Summary
    first_ns: int
    rest_median_ns: int | None
    most_at_once: int


@dataclass(frozen=True, slots=True)
class RunPart:
    """One application phase of a run, or (WHOLE) all of it; `executions` is None if there were none.

    `table` holds thread time, `shares` the wall-clock time of executions.
    """

    app_phase: str
    table: Table
    executions: ExecutionSummary | None
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary of a run; `run` is None for the time outside any run. The first part covers the whole run.

    `shares` divides the run's elapsed wall-clock time.
    """

    run: Run | None
    parts: tuple[RunPart, ...]
    shares: tuple[Share, ...] = ()


def run_summaries(analysis: Analysis) -> Iterator[RunSummary]:
    """Yield all runs; the time outside any run, if any, comes first."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, segment in enumerate(analysis.executions.segments.tolist()):
        places[segment].append(place)
    if OUTSIDE in analysis.tables or OUTSIDE in places:
        yield RunSummary(None, tuple(_parts(analysis, [OUTSIDE], places)))
    for run in analysis.runs:
        segments = range(run.first_segment, run.first_segment + len(APP_PHASES))
        yield RunSummary(run, tuple(_parts(analysis, segments, places)), analysis.run_clock.shares([run.index]))


def _parts(analysis: Analysis, segments: Sequence[int], places: Mapping[int, list[int]]) -> Iterator[RunPart]:
    """Yield the whole run, then its phases if there are several; `places` holds execution indices by segment."""
    tables = {segment: analysis.tables[segment] for segment in segments if segment in analysis.tables}
    every = sorted(place for segment in segments for place in places.get(segment, ()))
    yield _part(analysis, WHOLE, analysis.tables.total(segments), every)
    for segment, table in tables.items() if len(tables) > 1 else ():
        yield _part(analysis, run_of(segment)[1], table, places.get(segment, []))


def _part(analysis: Analysis, phase: str, table: Table, places: list[int]) -> RunPart:
    executions = summarise_executions(analysis.executions.only(np.array(places, np.int64)))
    return RunPart(phase, table, executions, analysis.wall_clock.shares(places))


def driver_summaries(analysis: Analysis) -> list[tuple[str, Summary]]:
    """Return the times of executions in the driver, by kind of evidence in the trace."""
    spans = analysis.driver.of_driver().items()
    return [(way, found) for way, (starts, ends) in spans if (found := summarise((ends - starts).tolist()))]


def summarise(times: Iterable[int]) -> Summary | None:
    """Return the summary of times in nanoseconds, or None if there are no times."""
    ordered = sorted(times)
    if not ordered:
        return None
    count = len(ordered)
    median_ns, p90_ns = (ordered[(count - 1) // 2] + ordered[count // 2]) // 2, ordered[-(-9 * count // 10) - 1]
    return Summary(count, sum(ordered), ordered[0], median_ns, p90_ns, ordered[-1])


def summarise_executions(executions: ExecutionColumns) -> ExecutionSummary | None:
    """Return the summary of executions in the order of their starts, or None if there are none."""
    elapsed = (executions.ends - executions.starts).tolist()
    times, rest = summarise(elapsed), summarise(elapsed[1:])
    most = most_at_once(executions.starts, executions.ends)
    return ExecutionSummary(times, elapsed[0], rest.median_ns if rest else None, most) if times else None


def most_at_once(starts: Numbers, ends: Numbers) -> int:
    """Return the largest number of executions in flight at once."""
    starts = np.sort(starts)
    begun, ended = np.arange(1, len(starts) + 1), np.searchsorted(np.sort(ends), starts, "right")
    return int((begun - ended).max(initial=1))
