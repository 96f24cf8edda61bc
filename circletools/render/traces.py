"""The results of an NNAPI trace as a JSON document, from which the text and CSV are made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import lru_cache
from itertools import islice
from textwrap import wrap
from typing import Literal

import numpy as np

from circletools.render import trace_runs
from circletools.render.table import filled, number_columns, table_csv, table_text
from circletools.render.trace_runs import WHOLE, Document
from circletools.trace.nnapi.analysis import Analysis
from circletools.trace.nnapi.marks import LAYER_NAMES, LAYERS, PHASE_NAMES, SUBPHASES
from circletools.trace.nnapi.timeline import OUTSIDE, run_of
from circletools.wording import SCHEMA_VERSION, counted, milliseconds

By = Literal["bucket", "function"]


def trace_json(
    analysis: Analysis, by: By | None = None, *, per_execution: bool = False, stream: bool = False
) -> Document:
    """Return the JSON document of `trace-stats`; `by` limits it to the functions, or to everything else.

    With `stream`, long lists (models, runs, executions, functions) are single-use iterators.
    """
    found: Callable[[Iterator[Document]], Iterable[Document]] = iter if stream else list
    document: Document = {
        "schema_version": SCHEMA_VERSION,
        "trace": {
            **{name: getattr(analysis, name) for name in ("name", "encoding", "events")},
            "elapsed_ns": analysis.last_ns - analysis.first_ns,
            "drivers": [{"process": process, "name": name} for process, name in analysis.drivers.items()],
            "clients": [{"process": process, "name": name} for process, name in sorted(analysis.clients.items())],
            "covered_ns": analysis.tables.covered_ns,
        },
    }
    if by != "function":
        cut = sum(run.partial for run in analysis.runs)
        whole = [run.index for run in analysis.runs if not run.partial or cut == len(analysis.runs)]
        counts = {"count": len(whole), "cut_short": cut, "processes": sorted({one.process for one in analysis.runs})}
        document["all_runs"] = counts | trace_runs.clock_json(analysis.run_clock.shares(whole))
        document["models"] = found(_models_json(analysis))
        document["all_executions"] = {
            "by": sorted({one.kind for one in analysis.executions}),
            **trace_runs.executions_json(analysis.executions, alike=len({one.name for one in analysis.runs}) < 2),
            "wall_clock": trace_runs.shares_json(analysis.wall_clock.shares()),
            "groups": list(trace_runs.groups_json(analysis)),
        }
        document["runs"] = found(trace_runs.runs_json(analysis))
        document["driver_executions"] = [
            {"by": way, **times}
            for way, (starts, ends) in analysis.driver.of_driver().items()
            if (times := trace_runs.summary((ends - starts).tolist()))
        ]
        if per_execution:
            document["executions"] = found(
                dict(zip(("run", "app_phase"), run_of(one.segment), strict=True))
                | {name: getattr(one, name) for name in ("process", "kind", "start_ns", "elapsed_ns")}
                | {"wall_clock": trace_runs.shares_json(analysis.wall_clock.shares([place]))}
                for place, one in enumerate(analysis.executions)
            )
        if analysis.machine:
            document["machine"] = [asdict(one) for one in analysis.machine]
    if by != "bucket":
        document["functions"] = found(map(asdict, analysis.functions))
    document["diagnostics"] = [asdict(diagnostic) for diagnostic in analysis.diagnostics]
    return document


def _models_json(analysis: Analysis) -> Iterator[Document]:
    """Yield the times of runs and of their executions, by name of run; runs cut short are listed separately."""
    groups: dict[tuple[str, bool], tuple[list[int], list[int]]] = {}
    of_run = [groups.setdefault((run.name, run.partial), ([], [])) for run in analysis.runs]
    for run, (chosen, _) in zip(analysis.runs, of_run, strict=True):
        chosen.append(run.index)
    for place, segment in enumerate(analysis.executions.segments.tolist()):
        if segment != OUTSIDE:
            of_run[run_of(segment)[0]][1].append(place)
    elapsed = np.sum([own for _, own in analysis.run_clock.each()], axis=0)
    for (name, partial), (chosen, places) in groups.items():
        some = analysis.executions.only(np.array(places, np.int64))
        times, executions = elapsed[chosen].tolist(), trace_runs.executions_json(some)
        runs = trace_runs.summary(times) | {"first_ns": times[0]}
        yield {"name": name, "partial": partial, "runs": runs, "executions": executions}


TOP_FUNCTIONS = 8
_INCOMPLETE = {"T003", "T004", "T010", "T011"}
TOP_RUNS = 10
_OPEN = ", counting open scopes up to the end of the trace"

_COLUMNS = ("PI", "PP", "PC", "PIO", "PTR", "PCO", "PR", "PE", "PT", "PWU", "PBM", "PO")
_EXECUTING = LAYERS[1:]
"""All layers except the application, which does not run during an execution."""

_FUNCTION_COLUMNS = ("layer", "phase", "name", "calls", "self_ns", "inclusive_ns")
_BUCKET_COLUMNS = ("run", "name", "process", "app_phase", "layer", "phase", "self_ns", "inclusive_ns")
_EXECUTION_COLUMNS = (
    *("execution", "run", "app_phase", "process", "kind", "start_ns", "elapsed_ns"),
    *("layer", "phase", "driver_process", "self_ns", "inclusive_ns"),
)
_FUNCTION_HEAD = ["layer", "phase", "calls", "self", "inclusive", "name"]
_EXECUTION_HEAD = ["", "n", "total", "min", "median", "p90", "max", "first", "later median", "at once"]
_MODEL_HEAD = ["runs", "first", "median", "max", "executed", "min", "median", "max", "name"]
_RUN_HEAD = ["run", "process", "elapsed", "initialization", "compilation"]
_RUN_HEAD += ["executions", *_EXECUTION_HEAD[7:9], "name"]
_Row = list[str]


@lru_cache(1 << 16)  # most times occur more than once, in runs and in phases
def _time(time_ns: int) -> str:
    return milliseconds(time_ns) if time_ns else "-"


_Block = tuple[str, list[_Row]]
"""A title, and a table whose first row is the header."""


def _blocks(document: Document, by: By | None) -> Iterator[_Block]:
    if by == "bucket" and "runs" in document:
        for run in document["runs"]:
            yield from _run_blocks(run)
        if rows := _driver_rows(document):
            yield "executions in the driver, in ms", [_EXECUTION_HEAD, *rows]
    elif "runs" in document:
        yield from _summary_blocks(document)
    if document.get("machine"):
        rows = [[one["name"], f"{one['value']:.1f}", one["unit"]] for one in document["machine"]]
        yield "mean CPU frequency, and energy of power rails, during executions", [["", "", ""], *rows]
    yield from _execution_block(document)
    functions = iter(document.get("functions", ()))
    shown = list(functions if by == "function" else islice(functions, TOP_FUNCTIONS))
    if shown:
        left = sum(1 for _ in functions)
        title = f"functions, the {len(shown)} with the most self time of {len(shown) + left}" if left else "functions"
        title += ", in ms" + ", with waits for other processes" * bool(document["trace"]["drivers"])
        title += _OPEN * any(one["code"] == "T011" for one in document["diagnostics"])
        rows = [_FUNCTION_HEAD]
        for one in shown:
            numbers = [str(one["calls"]), milliseconds(one["self_ns"]), milliseconds(one["inclusive_ns"])]
            rows.append([LAYER_NAMES[one["layer"]], PHASE_NAMES.get(one["phase"], "-"), *numbers, one["name"]])
        yield title, rows


def _summary_blocks(document: Document) -> Iterator[_Block]:
    """Yield tables of the runs, and of the layers and phases of all runs and all executions."""
    runs, cut = document["all_runs"], document["all_runs"]["cut_short"]
    models = iter(document["models"])
    first = list(islice(models, TOP_RUNS))
    others = [one["runs"]["count"] for one in models]
    count = sum(one["runs"]["count"] for one in first) + sum(others)
    if count > TOP_RUNS:
        some = f", the first {TOP_RUNS} of {TOP_RUNS + len(others)} names" * bool(others)
        rows = [_MODEL_HEAD]
        for model in first:
            own, executions = _execution_cells(model["runs"]), _execution_cells(model["executions"])
            numbers = [own[at] for at in (0, 6, 3, 5)] + [executions[at] for at in (0, 2, 3, 5)]
            rows.append([*numbers, model["name"] + ", cut" * model["partial"]])
        some = f", process {runs['processes'][0]}" * (len(runs["processes"]) == 1) + some
        yield f"runs by name{some}, in ms", rows
    elif count:
        yield "runs, in ms", filled([_RUN_HEAD, *(_run_cells(run) for run in document["runs"] if run["index"] >= 0)])
    else:
        for run in document["runs"]:
            yield "thread time in ms", _bucket_rows(run["parts"][0])
    executions = document["all_executions"]
    groups = [{"group": "all"} | executions, *executions["groups"]] if executions["count"] else []
    if rows := [[one["group"], *_execution_cells(one)] for one in groups] + _driver_rows(document):
        yield "executions, in ms", [_EXECUTION_HEAD, *rows]
    if executions["count"]:
        marks = {"application": " ([NN_LA_PE] marks)", "HAL call": " (HAL calls until the callback)"}
        title = f"executions{marks.get(executions['by'][0], '')}, by wall-clock time, in ms"
        yield title, _share_rows(executions, executions["total_ns"])
    if count:
        some = f"complete runs ({runs['count']})" if 0 < cut < count else "all runs" + ", cut short" * bool(cut)
        yield f"{some}, by wall-clock time, in ms", _share_rows(runs, runs["elapsed_ns"])


def _run_cells(run: Document) -> _Row:
    count, *_, first, rest, _ = _execution_cells(run["parts"][0]["executions"])
    name = run["name"] + ", cut short" * run["partial"]
    once = (sum(row["self_ns"] for row in run["wall_clock"] if row["phase"] == phase) for phase in ("PI", "PC"))
    times = [milliseconds(run["elapsed_ns"]), *map(_time, once)]
    return [str(run["index"]), str(run["process"]), *times, count, first, rest, name]


def _run_blocks(run: Document) -> Iterator[_Block]:
    name = f"run {run['index']} {run['name']}".rstrip() if run["index"] >= 0 else "outside any run"
    name += f" (process {run['process']})" + ", cut short" * run["partial"] if run["index"] >= 0 else ""
    if run["wall_clock"]:
        yield f"{name}, by wall-clock time, in ms", _share_rows(run, run["elapsed_ns"])
    for part in run["parts"]:
        title = name if part["app_phase"] == WHOLE else f"run {run['index']}, {_phase_title(part['app_phase'])}"
        if part["wall_clock"]:
            rows = _share_rows(part["executions"] | part, part["executions"]["total_ns"])
            yield f"{title}: executions, by wall-clock time, in ms", rows
        yield f"{title}: thread time in ms", _bucket_rows(part)
    some = (part for part in run["parts"] if part["executions"]["count"])
    if rows := [[_phase_title(part["app_phase"]), *_execution_cells(part["executions"])] for part in some]:
        yield "executions, in ms", [_EXECUTION_HEAD, *rows]


def _phase_title(phase: str) -> str:
    return {"overall": "outside warm-up and benchmark", WHOLE: "all"}.get(phase, phase)


def _execution_cells(summary: Document) -> _Row:
    if summary["count"] == 1:
        summary = {"first_ns": summary["total_ns"]} | summary
    keys = ("total_ns", "min_ns", "median_ns", "p90_ns", "max_ns", "first_ns", "rest_median_ns")
    times = (milliseconds(summary[key]) if key in summary else "-" for key in keys)
    return [str(summary["count"]), *times, str(summary.get("most_at_once", "-"))]


def _share_rows(whole: Document, elapsed: int) -> list[_Row]:
    """Return a row for each layer and phase (and driver, if there are several), with means of several runs."""
    shares, count = whole["wall_clock"], whole.get("count", 1)
    drivers = {one["driver_process"] for one in shares if one["layer"] == "LD"}
    rows = [["layer", "phase", "self", "inclusive", "share %", *["self, mean"] * (count > 1)]]
    for one in sorted(shares, key=lambda one: (*LAYERS, "").index(one["layer"])):
        process, self_ns = one["driver_process"], one["self_ns"]
        layer = LAYER_NAMES.get(one["layer"], "several in flight, indistinguishable")
        layer += "" if len(drivers) < 2 or process is None else f" {process}"
        times = _time(self_ns), _time(one["inclusive_ns"]), _percent(self_ns, elapsed), _time(round(self_ns / count))
        rows.append([layer, PHASE_NAMES.get(one["phase"], ""), *times])
    rows.append(["Sum", "", milliseconds(elapsed), "", _percent(elapsed, elapsed), milliseconds(elapsed // count)])
    return [row[: len(rows[0])] for row in rows]


def _percent(part_ns: int, whole_ns: int) -> str:
    return f"{100 * part_ns / whole_ns:.1f}" if whole_ns else "-"


def _bucket_rows(part: Document) -> list[_Row]:
    """Return two rows for each layer: self time and inclusive time."""
    layers: dict[str, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for one in part["buckets"]:
        layers[one["layer"]][one["phase"]] = one["self_ns"], one["inclusive_ns"]
    there = set().union(*layers.values())
    columns = [phase for phase in _COLUMNS if phase in there]
    rows = [["layer", "", *(PHASE_NAMES[phase] for phase in columns), "Sum"]]
    own = []
    for layer in filter(layers.__contains__, LAYERS):
        self_ns, inclusive_ns = zip(*(layers[layer].get(phase, (0, 0)) for phase in columns), strict=True)
        own.append(self_ns)
        rows.append([LAYER_NAMES[layer], "self", *map(_time, (*self_ns, sum(self_ns)))])
        rows.append(["", "inclusive", *map(_time, inclusive_ns), ""])
    totals = [sum(column) for column in zip(*own, strict=True)]
    return [*rows, ["Sum", "self", *map(_time, totals), milliseconds(part["covered_ns"])]]


def _driver_rows(document: Document) -> list[_Row]:
    return [
        [f"driver, {one['by']}".replace("requests and", "until"), *_execution_cells(one)]
        for one in document["driver_executions"]
    ]


def _execution_block(document: Document) -> Iterator[_Block]:
    executions = list(document.get("executions", ()))
    if not executions:
        return
    start = min(one["start_ns"] for one in executions)
    head = ["run", "app phase", "process", "kind", "start", "elapsed", *(LAYER_NAMES[layer] for layer in _EXECUTING)]
    rows = [head]
    for one in executions:
        own = Counter[str]()
        for share in one["wall_clock"]:
            own[share["layer"]] += share["self_ns"]
        cells = [_time(own[layer]) for layer in _EXECUTING]
        times = [milliseconds(one["start_ns"] - start), milliseconds(one["elapsed_ns"])]
        rows.append([str(one["run"]), one["app_phase"], str(one["process"]), one["kind"], *times, *cells])
    yield "each execution and its time in each layer, in ms", rows


def trace_text(document: Document, by: By | None = None) -> Iterator[str]:
    """Yield the lines of text."""
    trace = document["trace"]
    signs = sorted(_INCOMPLETE & {one["code"] for one in document["diagnostics"]})
    facts = [trace["encoding"], f"{counted(trace['events'], 'event')} in {milliseconds(trace['elapsed_ns'])} ms"]
    facts += [] if {"T003", "T004"} & {*signs} else ["no known losses"]
    facts += [f"incomplete ({', '.join(signs)})"] if signs else []
    yield f"{trace['name']}: {', '.join(facts)}"
    for role, title in (("clients", "application"), ("drivers", "driver")):
        if processes := ", ".join(f"{one['process']} {one['name']}".rstrip() for one in trace[role]):
            yield f"{title} processes: {processes}"
    if "all_runs" in document:
        shares = (document["all_runs"]["wall_clock"], document["all_executions"]["wall_clock"])
        found, phases = ({row[name] for some in shares for row in some} for name in ("layer", "phase"))
        absent = [LAYER_NAMES[layer] for layer in LAYERS if layer not in found] + ["driver processes"] * (
            not trace["drivers"]
        )
        absent += ["compilation"] * ("PC" not in phases) + ["phases of executions"] * phases.isdisjoint(SUBPHASES)
        absent += ["operators inside the driver" if "LD" in found else "operators", "memory"]
        marks = ["inferences ([NN_LA_PE] marks may include compilation)"]
        absent += marks * (document["all_executions"]["by"] == ["application"])
        absent += ["device"] + ["clock frequencies and energy"] * ("machine" not in document)
        yield from wrap(f"not in the trace: {', '.join(absent)}", 98, subsequent_indent="  ")
    for title, rows in _blocks(document, by):
        yield ""
        yield title
        if {"T003", "T010"} & {*signs} and not title.startswith("runs, in ms"):  # the first may be missing
            rows[0] = ["first seen" if name == "first" else name for name in rows[0]]
        yield from table_text(rows, right=number_columns(rows))


def trace_csv(document: Document, by: By = "bucket", *, per_execution: bool = False) -> str:
    """Return one table as CSV: buckets of runs, buckets of executions, or functions."""
    if by == "function":
        return table_csv(document["functions"], _FUNCTION_COLUMNS)
    if per_execution:
        each = enumerate(document["executions"])
        pairs = ((number, one, bucket) for number, one in each for bucket in one["wall_clock"] or [{}])
        return table_csv(({"execution": number} | one | bucket for number, one, bucket in pairs), _EXECUTION_COLUMNS)
    parts = ((run, part) for run in document["runs"] for part in run["parts"])
    rows = ({"run": run["index"]} | run | part | bucket for run, part in parts for bucket in part["buckets"])
    return table_csv(rows, _BUCKET_COLUMNS)
