"""The results of an NNAPI trace as a JSON document, from which the text and CSV are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from circletools.trace.nnapi import summaries
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.executions import Execution
from circletools.trace.nnapi.timeline import APP_PHASES, Run, run_of
from circletools.trace.nnapi.wall_clock import OWN_PROCESS, Share
from circletools.wording import SCHEMA_VERSION

Document = dict[str, Any]
By = Literal["bucket", "function"]


def trace_json(
    analysis: Analysis, by: By | None = None, *, per_execution: bool = False, stream: bool = False
) -> Document:
    """Return the JSON document of `trace-stats`; `by` limits it to the functions, or to everything else.

    With `stream`, runs and executions are single-use iterators, since a long trace has thousands of them.
    """
    document: Document = {
        "schema_version": SCHEMA_VERSION,
        "trace": {
            **{name: getattr(analysis, name) for name in ("name", "encoding", "events")},
            "elapsed_ns": analysis.last_ns - analysis.first_ns,
            "drivers": [{"process": process, "name": name} for process, name in analysis.drivers.items()],
            "covered_ns": analysis.tables.covered_ns,
        },
    }
    if by != "function":
        cut = sum(run.partial for run in analysis.runs)
        whole = [run.index for run in analysis.runs if not run.partial or cut == len(analysis.runs)]
        document["all_runs"] = {"count": len(whole), "cut_short": cut} | _clock_json(analysis.run_clock.shares(whole))
        document["models"] = _models_json(analysis)
        found, alike = (
            summaries.summarise_executions(analysis.executions),
            len({run.name for run in analysis.runs}) < 2,
        )
        document["all_executions"] = {
            "by": sorted({one.kind for one in analysis.executions}),
            **_summary_json(found, alike),
            "wall_clock": _shares_json(analysis.wall_clock.shares()),
        }
        runs = map(_run_json, summaries.run_summaries(analysis))
        document["runs"] = runs if stream else list(runs)
        pairs = summaries.driver_summaries(analysis)
        document["driver_executions"] = [{"by": way, **asdict(summary)} for way, summary in pairs]
        if per_execution:
            each = enumerate(analysis.executions)
            executions = (_execution_json(one, analysis.wall_clock.shares([place])) for place, one in each)
            document["executions"] = executions if stream else list(executions)
        if analysis.machine:
            document["machine"] = [asdict(one) for one in analysis.machine]
    if by != "bucket":
        document["functions"] = [asdict(function) for function in analysis.functions]
    document["diagnostics"] = [asdict(diagnostic) for diagnostic in analysis.diagnostics]
    return document


def _models_json(analysis: Analysis) -> list[Document]:
    """Return the times of runs and of their executions, by name of run; runs cut short are listed separately."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for run in analysis.runs:
        groups.setdefault((run.name, run.partial), []).append(run.index)
    elapsed = np.sum([own for _, own in analysis.run_clock.each()], axis=0)
    number = np.zeros(len(analysis.runs) + 1, np.int64)  # each run's group, from 1; 0 outside runs
    for at, chosen in enumerate(groups.values(), 1):
        number[chosen] = at
    of = number[(analysis.executions.segments - 1) // len(APP_PHASES)]
    order = np.argsort(of, kind="stable")
    places = np.split(order, np.searchsorted(of[order], range(1, len(groups) + 1)))[1:]
    return [
        {"name": name, "partial": partial, "runs": asdict(times)}
        | {"executions": _summary_json(summaries.summarise_executions(analysis.executions.only(some)))}
        for ((name, partial), chosen), some in zip(groups.items(), places, strict=True)
        for times in (summaries.summarise(elapsed[chosen].tolist()),)
        if times
    ]


def _run_json(summary: summaries.RunSummary) -> Document:
    run = summary.run or Run(-1, -1, "", -1, -1)
    return {
        **{name: getattr(run, name) for name in ("index", "process", "name", "start_ns", "partial")},
        **_clock_json(summary.shares),
        "parts": [
            {"app_phase": part.app_phase, "covered_ns": part.table.covered_ns, "buckets": part.table.to_rows()}
            | {"executions": _summary_json(part.executions), "wall_clock": _shares_json(part.shares)}
            for part in summary.parts
        ],
    }


def _summary_json(summary: summaries.ExecutionSummary | None, alike: bool = True) -> Document:
    """Return the times of executions; if several are `alike`, add the first time and the median of the others."""
    if summary is None:
        return {"count": 0}
    document: Document = {name: getattr(summary.times, name) for name in summary.times.__slots__}
    if alike and summary.rest_median_ns is not None:
        document |= {"first_ns": summary.first_ns, "rest_median_ns": summary.rest_median_ns}
    return document | {"most_at_once": summary.most_at_once}


def _clock_json(shares: Sequence[Share]) -> Document:
    return {"elapsed_ns": sum(share.self_ns for share in shares), "wall_clock": _shares_json(shares)}


def _shares_json(shares: Iterable[Share]) -> list[Document]:
    return [
        {
            "layer": layer,
            "phase": phase,
            "driver_process": None if process == OWN_PROCESS else process,
            "self_ns": self_ns,
            "inclusive_ns": inclusive_ns,
        }
        for layer, phase, process, self_ns, inclusive_ns in sorted(shares)
    ]


def _execution_json(execution: Execution, shares: Iterable[Share]) -> Document:
    own = {name: getattr(execution, name) for name in ("process", "kind", "start_ns", "elapsed_ns")}
    place = dict(zip(("run", "app_phase"), run_of(execution.segment), strict=True))
    return place | own | {"wall_clock": _shares_json(shares)}
