"""An analysis summed up: its runs by application phase, and how long executions took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import le, sub

from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.executions import Execution
from circletools.trace.nnapi.statistics import Table
from circletools.trace.nnapi.timeline import APP_PHASES, Run, run_of
from circletools.trace.nnapi.wall_clock import Share

WHOLE = "all"
"""The application phase of a whole run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Number, sum, least, median, 90th percentile (by nearest rank) and greatest of times."""

    count: int
    total_ns: int
    min_ns: int
    median_ns: int
    p90_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """Executions: their times, that of the first against the rest, and how many were in flight at once, at most.

    `rest_median_ns` is None for a single execution.
    """

    times: Summary
    first_ns: int
    rest_median_ns: int | None
    most_at_once: int


@dataclass(frozen=True, slots=True)
class RunPart:
    """One application phase of a run, or (WHOLE) all of it; `executions` is None where there were none.

    `table` is time of threads, `shares` that of the executions by the clock.
    """

    app_phase: str
    table: Table
    executions: ExecutionSummary | None
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run, None for the time outside any; the first of its parts is the whole of it.

    `shares` are those of its elapsed time, by the clock.
    """

    run: Run | None
    parts: tuple[RunPart, ...]
    shares: tuple[Share, ...] = ()


def whole_table(tables: Iterable[Table]) -> Table:
    """Return the sum of tables."""
    whole = Table()
    for table in tables:
        whole.add(table)
    return whole


def run_summaries(analysis: Analysis) -> Iterator[RunSummary]:
    """Yield all runs; the time outside any run, if there is some, comes first."""
    tables: dict[int, dict[str, Table]] = defaultdict(dict)
    for segment, table in sorted(analysis.tables.items()):
        index, phase = run_of(segment)
        tables[index][phase] = table
    places: dict[int, list[int]] = defaultdict(list)
    for place, execution in enumerate(analysis.executions):
        places[execution.segment].append(place)
    executions: dict[int, dict[str, list[int]]] = defaultdict(dict)
    for segment, found in places.items():
        index, phase = run_of(segment)
        executions[index][phase] = found
    outside = [None] if -1 in tables or -1 in executions else []
    for run in [*outside, *analysis.runs]:
        index = -1 if run is None else run.index
        parts = tuple(_parts(analysis, tables.get(index, {}), executions.get(index, {})))
        yield RunSummary(run, parts, () if run is None else analysis.run_clock.shares([index]))


def _parts(analysis: Analysis, tables: dict[str, Table], places: dict[str, list[int]]) -> Iterator[RunPart]:
    """Yield the whole, and then its phases where there are several; executions are given by their places."""
    several = sum(phase in tables for phase in APP_PHASES) > 1
    ordered = sorted(chain.from_iterable(places.values()))
    yield _part(analysis, WHOLE, whole_table(tables.values()), ordered)
    for phase, table in tables.items() if several else ():
        yield _part(analysis, phase, table, places.get(phase, []))


def _part(analysis: Analysis, phase: str, table: Table, places: list[int]) -> RunPart:
    executions = summarise_executions([analysis.executions[place] for place in places])
    return RunPart(phase, table, executions, analysis.wall_clock.shares(places))


def driver_summaries(analysis: Analysis) -> list[tuple[str, Summary]]:
    """Return the times of executions in the driver, by each kind of evidence in the trace."""
    driver = analysis.driver
    ways = (("server calls", driver.calls), ("marks", driver.marks), ("requests and callbacks", driver.callbacks))
    found = ((way, summarise(map(sub, spans.ends, spans.starts))) for way, spans in ways)
    return [(way, summary) for way, summary in found if summary is not None]


def summarise(times: Iterable[int]) -> Summary | None:
    """Return the summary of times in nanoseconds; None where there are none."""
    ordered = sorted(times)
    return _summary(ordered) if ordered else None


def _summary(ordered: Sequence[int]) -> Summary:
    count = len(ordered)
    return Summary(
        count=count,
        total_ns=sum(ordered),
        min_ns=ordered[0],
        median_ns=_median(ordered),
        p90_ns=ordered[-(-9 * count // 10) - 1],
        max_ns=ordered[-1],
    )


def _median(ordered: Sequence[int]) -> int:
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) // 2


def summarise_executions(executions: Sequence[Execution]) -> ExecutionSummary | None:
    """Return the summary of executions, in the order of their begins; None where there are none."""
    if not executions:
        return None
    elapsed = [one.end_ns - one.start_ns for one in executions]
    ordered, first = sorted(elapsed), elapsed[0]
    times = _summary(ordered)
    ordered.remove(first)
    return ExecutionSummary(times, first, _median(ordered) if ordered else None, most_at_once(executions))


def most_at_once(executions: Sequence[Execution]) -> int:
    """Return how many executions were in flight together, at most."""
    starts, ends = sorted([one.start_ns for one in executions]), sorted([one.end_ns for one in executions])
    if all(map(le, ends, starts[1:])):  # one behind the other
        return 1
    most, ended = 1, 0
    for begun, start in enumerate(starts, 1):
        while ended < begun and ends[ended] <= start:
            ended += 1
        most = max(most, begun - ended)
    return most
