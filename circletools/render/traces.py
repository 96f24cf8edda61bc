"""What a trace says, as a JSON document; every other form is made from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.executions import Execution, Spans
from circletools.trace.nnapi.functions import Function
from circletools.trace.nnapi.statistics import Table
from circletools.trace.nnapi.timeline import APP_PHASES, Run, run_of
from circletools.wording import SCHEMA_VERSION

WHOLE = "all"
"""The tables of a whole run, beside those of its application phases."""

Document = dict[str, Any]
By = Literal["bucket", "function"]


def trace_json(
    analysis: Analysis, by: By | None = None, *, per_execution: bool = False, stream: bool = False
) -> Document:
    """Return the JSON document of `trace-stats`; `by` leaves out the functions, or all but them.

    With `stream` the runs are made as they are read, which can be done once: a long trace has thousands.
    """
    whole = Table()
    for table in analysis.tables.values():
        whole.add(table)
    document: Document = {
        "schema_version": SCHEMA_VERSION,
        "trace": {
            "name": analysis.name,
            "encoding": analysis.encoding,
            "events": analysis.events,
            "covered_ns": whole.covered_ns,
        },
    }
    if by != "function":
        runs = _runs_json(analysis)
        document["runs"] = runs if stream else list(runs)
        document["driver_executions"] = [
            {"by": way, **summary(end - start for start, end in zip(spans.starts, spans.ends, strict=True))}
            for way, spans in _driver_spans(analysis)
        ]
        if per_execution:
            document["executions"] = _executions_json(analysis)
    if by != "bucket":
        document["functions"] = [_function_json(function) for function in analysis.functions]
    document["diagnostics"] = [
        {
            "code": diagnostic.code,
            "severity": diagnostic.severity,
            "location": diagnostic.location,
            "message": diagnostic.message,
            "count": diagnostic.count,
            "hint": diagnostic.hint,
        }
        for diagnostic in analysis.diagnostics
    ]
    return document


def _function_json(function: Function) -> Document:
    return {
        "layer": function.layer,
        "phase": function.phase,
        "name": function.name,
        "calls": function.calls,
        "self_ns": function.own_ns,
        "inclusive_ns": function.inclusive_ns,
    }


def _driver_spans(analysis: Analysis) -> list[tuple[str, Spans]]:
    driver = analysis.driver
    ways = (("server calls", driver.calls), ("marks", driver.marks), ("requests and callbacks", driver.callbacks))
    return [(way, spans) for way, spans in ways if spans.starts]


def _runs_json(analysis: Analysis) -> Iterator[Document]:
    """Yield all runs; time outside any run, if there is some, comes first with the index -1."""
    by_run: dict[int, dict[str, Table]] = defaultdict(dict)
    for segment, table in sorted(analysis.tables.items()):
        index, phase = run_of(segment)
        by_run[index][phase] = table
    executions: dict[int, dict[str, list[Execution]]] = defaultdict(lambda: defaultdict(list))
    for execution in analysis.executions:
        index, phase = run_of(execution.segment)
        executions[index][phase].append(execution)
    outside = [None] if -1 in by_run or -1 in executions else []
    return (_run_json(run, by_run, executions) for run in [*outside, *analysis.runs])


def _run_json(
    run: Run | None, by_run: dict[int, dict[str, Table]], executions: dict[int, dict[str, list[Execution]]]
) -> Document:
    index = -1 if run is None else run.index
    parts = by_run.get(index, {})
    whole = Table()
    for table in parts.values():
        whole.add(table)
    ran = executions.get(index, {})
    all_of_them = sorted(chain.from_iterable(ran.values()), key=lambda execution: execution.number)
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
                "executions": _some_executions_json(all_of_them if phase == WHOLE else ran.get(phase, [])),
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
