"""What a trace says, as a JSON document; every other form is made from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from circletools.report import SCHEMA_VERSION
from circletools.trace.analysis import Analysis
from circletools.trace.executions import Execution, Spans
from circletools.trace.statistics import Table
from circletools.trace.timeline import APP_PHASES, Run, run_of

WHOLE = "all"
"""The tables of a whole run, beside those of its application phases."""

Document = dict[str, Any]


def trace_json(analysis: Analysis, *, per_execution: bool = False) -> Document:
    """Return the JSON document of `trace-stats`."""
    whole = Table()
    for table in analysis.tables.values():
        whole.add(table)
    return {
        "schema_version": SCHEMA_VERSION,
        "trace": {
            "name": analysis.name,
            "encoding": analysis.encoding,
            "events": analysis.events,
            "covered_ns": whole.covered_ns,
        },
        "runs": _runs_json(analysis),
        "driver_executions": [
            {"by": by, **summary(spans.ends[at] - spans.starts[at] for at in range(len(spans.starts)))}
            for by, spans in _driver_spans(analysis)
        ],
        "functions": [
            {
                "layer": function.layer,
                "phase": function.phase,
                "name": function.name,
                "calls": function.calls,
                "self_ns": function.own_ns,
                "inclusive_ns": function.inclusive_ns,
            }
            for function in analysis.functions
        ],
        "diagnostics": [
            {
                "code": diagnostic.code,
                "severity": diagnostic.severity,
                "location": diagnostic.location,
                "message": diagnostic.message,
                "count": diagnostic.count,
                "hint": diagnostic.hint,
            }
            for diagnostic in analysis.diagnostics
        ],
    } | ({"executions": _executions_json(analysis)} if per_execution else {})


def _driver_spans(analysis: Analysis) -> list[tuple[str, Spans]]:
    driver = analysis.driver
    ways = (("server calls", driver.calls), ("marks", driver.marks), ("requests and callbacks", driver.callbacks))
    return [(by, spans) for by, spans in ways if spans.starts]


def _runs_json(analysis: Analysis) -> list[Document]:
    """Return all runs; time outside any run, if there is some, comes first with the index -1."""
    by_run: dict[int, dict[str, Table]] = defaultdict(dict)
    for segment, table in sorted(analysis.tables.items()):
        index, phase = run_of(segment)
        by_run[index][phase] = table
    executions: dict[int, list[Execution]] = defaultdict(list)
    for execution in analysis.executions:
        executions[run_of(execution.segment)[0]].append(execution)
    outside = [None] if -1 in by_run or -1 in executions else []
    return [_run_json(run, by_run, executions) for run in [*outside, *analysis.runs]]


def _run_json(
    run: Run | None, by_run: dict[int, dict[str, Table]], executions: dict[int, list[Execution]]
) -> Document:
    index = -1 if run is None else run.index
    parts = by_run.get(index, {})
    whole = Table()
    for table in parts.values():
        whole.add(table)
    mine = executions.get(index, [])
    by_phase = {phase: [one for one in mine if run_of(one.segment)[1] == phase] for phase in APP_PHASES}
    several = len([1 for phase in APP_PHASES if phase in parts]) > 1
    shown = {WHOLE: whole} | (parts if several else {})
    return {
        "index": index,
        "process": -1 if run is None else run.process,
        "name": "" if run is None else run.name,
        "start_ns": -1 if run is None else run.start_ns,
        "partial": run is not None and run.partial,
        "parts": [
            {
                "app_phase": phase,
                "covered_ns": table.covered_ns,
                "buckets": _buckets_json(table),
                "executions": _some_executions_json(mine if phase == WHOLE else by_phase[phase]),
            }
            for phase, table in shown.items()
        ],
    }


def _buckets_json(table: Table) -> list[Document]:
    return [
        {
            "layer": layer,
            "phase": phase,
            "self_ns": table.own.get((layer, phase), 0),
            "inclusive_ns": inclusive,
            "driver_busy_ns": table.waiting.get((layer, phase), 0),
        }
        for (layer, phase), inclusive in sorted(table.inclusive.items())
    ]


def summary(values: Iterable[int]) -> Document:
    """Return number, sum, least, median, 90th percentile (by nearest rank) and greatest of times."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return {"count": 0}
    return {
        "count": count,
        "total_ns": sum(ordered),
        "min_ns": ordered[0],
        "median_ns": (ordered[(count - 1) // 2] + ordered[count // 2]) // 2,
        "p90_ns": ordered[-(-9 * count // 10) - 1],
        "max_ns": ordered[-1],
    }


def _some_executions_json(executions: list[Execution]) -> Document:
    """Return the summary of executions: the first against the rest, and how far they overlap."""
    document = summary(one.elapsed_ns for one in executions)
    if len(executions) > 1:
        rest = summary(one.elapsed_ns for one in executions[1:])
        document |= {"first_ns": executions[0].elapsed_ns, "rest_median_ns": rest["median_ns"]}
    if executions:
        document["most_at_once"] = most_at_once(executions)
    return document


def most_at_once(executions: list[Execution]) -> int:
    """Return how many executions were in flight together, at most."""
    steps = sorted([(one.start_ns, 1) for one in executions] + [(one.end_ns, -1) for one in executions])
    flying = most = 0
    for _, step in steps:
        flying += step
        most = max(most, flying)
    return max(most, 1)


def _executions_json(analysis: Analysis) -> list[Document]:
    found = []
    for execution in analysis.executions:
        run, phase = run_of(execution.segment)
        table = analysis.execution_tables.get(execution.number, Table())
        found.append(
            {
                "run": run,
                "app_phase": phase,
                "process": execution.process,
                "kind": execution.kind,
                "start_ns": execution.start_ns,
                "elapsed_ns": execution.elapsed_ns,
                "buckets": _buckets_json(table),
            }
        )
    return found
