"""The profile and attribute commands: times that a runtime measured, by operator, source and module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Literal, get_args

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_notes, show, show_as, show_text
from ..signature import argument, option
from .parameters import FORMAT, first_executions, listed, refuse_mixing

By = Literal["type", "operator", "source", "module"]
Tables = Annotated[
    tuple[By, ...],
    option("--by", "Show only this table; may be repeated. Default: all (text without origins: type and operator)."),
]
TimeForm = Annotated[Literal["text", "json", "csv", "collapsed", "speedscope"], FORMAT]
ProfileForm = Annotated[Literal["text", "json", "collapsed", "speedscope"], FORMAT]
Top = Annotated[int, option("--top", "Number of rows in each table, slowest first; 0 for all.", "N", min=0)]
Depth = Annotated[int | None, option("--depth", "Truncate module paths to their first N components.", "N", min=1)]


def attribute(
    traces: Annotated[
        tuple[str, ...], argument("TRACE...", "Operator traces of one model, or - for standard input.")
    ],
    model: Annotated[str | None, option("--model", "The model; without it, rows are operators.", "M")] = None,
    form: TimeForm = "text",
    by: Tables = (),
    top: Top = 10,
    skip: Annotated[
        str, option("--skip", "Skip the first N executions of each trace; auto detects the warm-up.", "N|auto")
    ] = "0",
    process: Annotated[
        int | None, option("--process", "The process to read in a system trace.", "PID", min=0)
    ] = None,
    thread: Annotated[int | None, option("--thread", "The thread to read in a system trace.", "TID", min=0)] = None,
    depth: Depth = None,
) -> None:
    """Show where the time went, by operator and source.

    TRACE is onert's trace.chrome.json, a system trace with LiteRT's marks, the events of LiteRT's profiler, a report
    of benchmark_model, or OpenVINO's detailed counters. Exits with status 1 if the origins no longer describe the
    model's operators.
    """
    if [*traces, model].count("-") > 1:
        raise ct.UsageError("the trace and the model cannot both come from standard input")
    if form == "csv" and len(by) > 1:
        raise ct.UsageError("CSV holds only one table", hint="choose one with --by")
    first = first_executions(skip)
    times = [ct.read_profile(trace, skip=first, process=process, thread=thread) for trace in traces]
    with reading(model) if model else nullcontext() as opened:
        result = ct.attribute(opened, times, depth=depth)
    if form in _STACKS:
        show(_STACKS[form](result))
    elif form == "csv":
        show_text(ct.render.attribution_csv(result, by[0] if by else "operator"))
    else:
        text = partial(ct.render.attribution_text, top=top)
        file, tables = model or traces[0], _shown(form, by, result.named)
        show_as(form, result, tables, text=text, json=ct.render.attribution_json, file=file)
    print_notes(result.notes)
    if any(note.code == "STALE_ORIGIN" for note in result.notes):
        raise Exit(1)


_STACKS = {"collapsed": ct.render.collapsed_text, "speedscope": ct.render.speedscope_text}


def _shown(form: str, by: tuple[By, ...], named: bool) -> tuple[str, ...]:
    """Return the tables to show. Without origins, the text omits sources, which would repeat the operators."""
    return by or (("type", "operator") if named and form != "json" else get_args(By))


def profile(
    model: Annotated[str, argument("MODEL", "The model to run, or - for standard input.")],
    on: Annotated[
        str, option("--on", "The runtimes, such as litert:xnnpack,onert,openvino.", "PROGRAM,...", show_default=False)
    ],
    runs: Annotated[int, option("--runs", "Number of executions to record.", "N", min=1)] = 50,
    inputs: Annotated[
        str | None, option("--inputs", "An .npz file with the inputs in order; by default, random inputs.", "F")
    ] = None,
    against: Annotated[
        str | None, option("--against", "Compare with this model, alternating between both on one runtime.", "OLD")
    ] = None,
    recordings: Annotated[
        int, option("--recordings", "Number of recordings of each model with --against.", "N", min=2)
    ] = 6,
    output: Annotated[
        str | None, option("--output -o", "Write the runtime's trace to this file, in its own format.", "TRACE")
    ] = None,
    form: ProfileForm = "text",
    by: Tables = (),
    top: Top = 10,
    depth: Depth = None,
    seed: Annotated[int, option("--seed", "Seed for the random inputs.", "N", min=0)] = 0,
    timeout: Annotated[float, option("--timeout", "Time limit for each runtime.", "SECONDS", min=0.1)] = 600.0,
) -> None:
    """Run a model, and show where the time goes.

    Runs the model with the runtime's own profiler, on one thread of a separate process, and shows the trace as
    `attribute` does. With --against, alternates between two models and compares their operators. Exits with status 1
    if origins are stale or an operator became slower, 3 if a runtime does not run the model.
    """
    programs = listed(on)
    if form == "speedscope" and len(programs) > 1:
        raise ct.UsageError("--format speedscope takes only one runtime")
    if against is not None:
        if len(programs) != 1 or output is not None or by or form in _STACKS:
            raise ct.UsageError("--against takes one runtime, and no -o, --by or stack format")
        record = partial(ct.profile, on=on, runs=runs, inputs=inputs, seed=seed, timeout_s=timeout)
        _against(against, model, recordings, record, form)
    if output is not None:
        if len(programs) > 1:
            raise ct.UsageError("-o writes the trace of only one runtime", hint="run the command once for each")
        ct.files.check_target(output)
        refuse_mixing("the tables", output, "name a file for the trace")
    with reading(model) as opened:
        found = [
            ct.profile(opened, program, runs=runs, inputs=inputs, seed=seed, timeout_s=timeout, depth=depth)
            for program in programs
        ]
    if output is not None:
        ct.files.write(output, [found[0].data])
    if form in _STACKS:
        show(line for one in found for line in _STACKS[form](one.attribution))
        return
    named = all(one.attribution.named for one in found)
    text = partial(ct.render.profile_text, top=top)
    show_as(form, found, _shown(form, by, named), text=text, json=ct.render.profile_json, file=model)
    print_notes(notes := dict.fromkeys(note for one in found for note in one.attribution.notes))
    if any(note.code == "STALE_ORIGIN" for note in notes):
        raise Exit(1)


def _against(old: str, new: str, recordings: int, record: Callable[[ct.Model], ct.types.Profile], form: str) -> None:
    """Record two models alternately and show which operators became slower; exit with status 1 if one did."""
    with reading(old) as before, reading(new) as after:
        traces = [record(one).trace for _ in range(recordings) for one in (before, after)]
    comparison = ct.compare_profiles(traces[::2], traces[1::2], paired=True)
    show_as(form, comparison, text=ct.render.comparison_text, json=ct.render.comparison_json)
    raise Exit(int(comparison.regressed))
