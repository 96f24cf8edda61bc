"""The commands that show times: trace-stats, trace-compare, trace-export, attribute and profile."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console.captured import reading
from ..console.terminal import print_diagnostic, print_message, print_notes, show_as, show_json
from ..signature import BETWEEN, REQUIRED, argument, option
from .parameters import TableForm, first_executions, listed, refuse_mixing
from .rewriting import check_output

_MOST_SHOWN = 20
_TABLES = ("type", "operator", "source", "module")

Trace = Annotated[str, argument("TRACE", "The trace to read, or - for standard input.")]
Strict = Annotated[bool, option("Exit with status 3 if a diagnostic is an error.")]
Tables = Annotated[
    tuple[Literal["type", "operator", "source", "module"], ...],
    option("Show only this table; may be repeated. By default all; in text without origins, type and operator."),
]
Top = Annotated[int, option("Number of rows in each table, slowest first; 0 for all.", "N", min=0)]
Depth = Annotated[int | None, option("Truncate module paths to their first N components.", "N", min=1)]


def trace_stats(
    source: Trace,
    form: TableForm = "text",
    per_execution: bool = option("List every execution."),
    by: Literal["bucket", "function"] | None = option("Show only layers and phases, or only functions."),
    strict: Strict = False,
) -> None:
    """Show where the time went in an NNAPI trace.

    Shows times by layer and phase, run, execution and function. Reads systrace HTML, ftrace text, atrace -z and
    Perfetto traces, gzipped or not. Exits with status 1, or 3 with --strict, if a diagnostic is an error.
    """
    analysis = ct.read_trace(source, strict=strict)
    if by is None and form == "csv":
        by = "bucket"
    document = ct.render.trace_json(analysis, by, per_execution=per_execution, stream=True)
    if form == "json":
        show_json(document, source)
    else:
        csv = partial(ct.render.trace_csv, per_execution=per_execution)
        show_as(form, document, by, text=ct.render.trace_text, csv=csv)
    if _show_diagnostics(analysis):
        raise Exit(1)


def _show_diagnostics(*analyses: ct.types.Analysis) -> bool:
    """Show the diagnostics; return whether one is an error."""
    diagnostics = [one for analysis in analyses for one in analysis.diagnostics]
    for one in diagnostics[:_MOST_SHOWN]:
        times = f" ({one.count} times)" if one.count > 1 else ""
        kind = "note" if one.severity == "info" else one.severity
        print_diagnostic(kind, f"{one.location}: {one.code}: {one.message}{times}; {one.hint}")
    if len(diagnostics) > _MOST_SHOWN:
        print_message(f"and {len(diagnostics) - _MOST_SHOWN} more; --format json shows all")
    return any(one.severity == "error" for one in diagnostics)


def trace_compare(
    traces: tuple[str, ...] = argument(
        "A... B...", "Traces of both sides; if a side has several, put -- between the sides."
    ),
    threshold: float = option("Report changes of more than this percentage.", "PCT", default=10.0, min=0),
    form: TableForm = "text",
    strict: Strict = False,
    operators: bool = option("Compare the operators in operator traces."),
    history: tuple[str, ...] = option("An earlier recording, or a directory of them; may be repeated.", "PATH"),
    paired: bool = option("Compare in pairs, for two sides recorded alternately."),
) -> None:
    """Show statistically significant changes between traces.

    Compares layers and phases, or operators. Give several recordings of each side (A1 A2 A3 -- B1 B2 B3): one of each
    reveals only large differences, unless --history shows how much recordings vary. If only B is given, it is
    compared with --history. Exits with status 1 if something is significantly slower, by more than the threshold,
    or if most operators have no counterpart.
    """
    earlier = [path for one in history for path in _recordings(one)]
    if history and len(traces) == 1:
        if not earlier:
            raise ct.UsageError("there is no earlier recording", hint="give two traces, or record the earlier model")
        traces, earlier = (*earlier, BETWEEN, *traces), []
    before, after = _sides(traces)
    if traces.count("-") > 1:
        raise ct.UsageError("only one of the traces can come from standard input")
    analyses: list[ct.types.Analysis] = []
    comparison: ct.types.TraceComparison | ct.types.ProfileComparison
    if operators:
        old, new = ([ct.read_profile(source) for source in side] for side in (before, after))
        known = [ct.read_profile(source) for source in earlier]
        comparison = ct.compare_profiles(old, new, threshold, history=known, paired=paired)
    else:
        first, second, known_ = ([_unlisted(one, strict) for one in side] for side in (before, after, earlier))
        comparison = ct.compare_traces(first, second, threshold, history=known_, paired=paired)
        analyses = first + second
    text, as_json = ct.render.comparison_text, ct.render.comparison_json
    show_as(form, comparison, text=text, json=as_json, csv=ct.render.rows_csv)
    count = comparison.unpaired if isinstance(comparison, ct.types.ProfileComparison) else 0
    other = 2 * count > len(comparison.rows) - 1
    if other:
        print_diagnostic("warning", f"operators on one side only: {count}; do the models or runtimes differ?")
    if _show_diagnostics(*analyses) or _regressed(comparison) or other:
        raise Exit(1)


def _regressed(comparison: ct.types.TraceComparison | ct.types.ProfileComparison) -> bool:
    """Return whether something is slower; warn if every row that takes time is undecided."""
    timed = (row.time for row in comparison.rows if row.time.before_ns or row.time.after_ns)
    if all(time.verdict == "cannot tell" for time in timed):
        print_diagnostic("warning", "nothing was measured precisely enough to judge it: compare more recordings")
    return comparison.regressed


def _unlisted(source: str, strict: bool) -> ct.types.Analysis:
    """Read a trace to compare; its functions, of which there may be very many, are not compared."""
    found = ct.read_trace(source, strict=strict)
    found.functions.clear()
    return found


def _recordings(path: str) -> list[str]:
    """Return the regular files of a directory, except those whose names begin with a dot; or the given file."""
    if not Path(path).is_dir():
        return [path]
    files = (one for one in Path(path).iterdir() if one.is_file() or not one.exists())  # opening a pipe would block
    found = sorted(str(one) for one in files if not one.name.startswith("."))
    if not found:
        print_diagnostic("warning", f"{path} has no recordings")
    return found


def _sides(traces: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the traces of the two sides. Raises UsageError if the two sides are not separated."""
    if BETWEEN in traces:
        at = traces.index(BETWEEN)
        before, after = traces[:at], traces[at + 1 :]
    else:
        before, after = traces[:1], traces[1:]
    if not before or not after or BETWEEN in after or (len(after) > 1 and BETWEEN not in traces):
        raise ct.UsageError("give two traces, or several for each side, separated by --: A1 A2 -- B1 B2")
    return before, after


def trace_export(
    source: Trace,
    output: str = argument("OUT", "The file to write, or - for standard output."),
    to: Literal["chrome", "perfetto"] = option("The format to write.", show_default=False),
    strict: Strict = False,
) -> None:
    """Write the marks of a trace as nested slices.

    The slices show layer and phase in chrome://tracing or ui.perfetto.dev; executions get a separate track. All trace
    commands can also read the result.
    """
    check_output(output, [source])
    exported = ct.export_trace(source, to, strict=strict)
    ct.files.write(output, exported.pieces)
    if _show_diagnostics(exported.analysis):
        raise Exit(1)


def attribute(
    traces: tuple[str, ...] = argument("TRACE...", "Operator traces of one model, or - for standard input."),
    model: str | None = option("The model; without it, each row of a trace counts as an operator.", "M"),
    form: Literal["text", "json", "csv", "collapsed", "speedscope"] = option("Output format.", default="text"),
    by: Tables = (),
    top: Top = 10,
    skip: str = option("Skip the first N executions of each trace; auto detects the warm-up.", "N|auto", default="0"),
    process: int | None = option("The process to read in a system trace.", "PID", min=0),
    thread: int | None = option("The thread to read in a system trace.", "TID", min=0),
    depth: Depth = None,
) -> None:
    """Show where the time went, by operator and source.

    TRACE is onert's trace.chrome.json, a system trace with LiteRT's marks, the events of LiteRT's profiler, a report
    of benchmark_model, a log of TFLite Micro's profiler, or OpenVINO's detailed counters. Exits with status 1 if the
    origins no longer describe the model's operators.
    """
    if [*traces, model].count("-") > 1:
        raise ct.UsageError("the trace and the model cannot both come from standard input")
    if form == "csv" and len(by) > 1:
        raise ct.UsageError("CSV holds only one table", hint="choose one with --by")
    first = first_executions(skip)
    times = [ct.read_profile(trace, skip=first, process=process, thread=thread, ticks=True) for trace in traces]
    with reading(model) if model else nullcontext() as opened:
        result = ct.attribute(opened, times, depth=depth)
    tables = _shown(form, by, result.named)
    show_as(
        form,
        result,
        file=model or traces[0],
        text=lambda one: ct.render.attribution_text(one, tables, top),
        json=lambda one: ct.render.attribution_json(one, tables),
        csv=lambda one: ct.render.attribution_csv(one, by[0] if by else "operator"),
        collapsed=ct.render.collapsed_text,
        speedscope=ct.render.speedscope_text,
    )
    _print_notes(result.notes)


def _print_notes(notes: Collection[ct.Finding]) -> None:
    """Show the notes; exit with status 1 if origins are stale."""
    print_notes(notes)
    if any(note.code == "STALE_ORIGIN" for note in notes):
        raise Exit(1)


def _shown(form: str, by: tuple[str, ...], named: bool) -> tuple[str, ...]:
    """Return the tables to show. Without origins, the text omits sources, which would repeat the operators."""
    return by or (_TABLES[:2] if named and form != "json" else _TABLES)


def profile(
    model: str = argument("MODEL", "The model to run, or - for standard input."),
    on: tuple[str, ...] = option(
        "The runtimes, such as litert:xnnpack,onert,openvino.", "PROGRAM,...", default=REQUIRED, show_default=False
    ),
    runs: int = option("Number of executions to record.", "N", default=50, min=1),
    inputs: str | None = option("An .npz file with the inputs in order; by default, random inputs.", "F"),
    against: str | None = option("Compare with this model, alternating between the two on one runtime.", "OLD"),
    recordings: int = option("Number of recordings of each model with --against.", "N", default=6, min=2),
    output: str | None = option(
        "Write the runtime's trace to this file, in its own format.", "TRACE", names="--output -o"
    ),
    form: Literal["text", "json", "collapsed", "speedscope"] = option("Output format.", default="text"),
    by: Tables = (),
    top: Top = 10,
    depth: Depth = None,
    seed: int = option("Seed for the random inputs.", "N", default=0, min=0),
    timeout: float = option("Time limit for each runtime.", "SECONDS", default=600.0, min=0.1),
) -> None:
    """Run a model, and show where the time goes.

    Runs the model with the runtime's own profiler, on one thread of a separate process, and shows the trace as
    `attribute` does. With --against, alternates between two models and compares their operators. Exits with status 1
    if origins are stale or an operator became slower, or 3 if a runtime does not run the model.
    """
    programs, record = listed(on), partial(ct.profile, runs=runs, inputs=inputs, seed=seed, timeout_s=timeout)
    if form == "speedscope" and len(programs) > 1:
        raise ct.UsageError("--format speedscope takes only one runtime")
    if against is not None:
        if len(programs) != 1 or output is not None or by or form in ("collapsed", "speedscope"):
            raise ct.UsageError("--against takes one runtime, and cannot be combined with -o, --by or stack formats")
        _against(against, model, recordings, partial(record, on=programs[0]), form)
    if output is not None:
        if len(programs) > 1:
            raise ct.UsageError("-o writes the trace of only one runtime", hint="run the command once for each")
        ct.files.check_target(output)
        refuse_mixing("the tables", output, "name a file for the trace")
    with reading(model) as opened:
        found = [record(opened, program, depth=depth) for program in programs]
    if output is not None:
        ct.files.write(output, [found[0].data])
    tables = _shown(form, by, all(one.attribution.named for one in found))
    show_as(
        form,
        found,
        file=model,
        text=lambda each: ct.render.profile_text(each, tables, top),
        json=lambda each: ct.render.profile_json(each, tables),
        collapsed=lambda each: chain.from_iterable(ct.render.collapsed_text(one.attribution) for one in each),
        speedscope=lambda each: ct.render.speedscope_text(each[0].attribution),
    )
    _print_notes(dict.fromkeys(note for one in found for note in one.attribution.notes))


def _against(old: str, new: str, recordings: int, record: Callable[[ct.Model], ct.types.Profile], form: str) -> None:
    """Record two models alternately and show which operators became slower; exit with status 1 if one did."""
    with reading(old) as before, reading(new) as after:
        traces = [record(one).trace for _ in range(recordings) for one in (before, after)]
    comparison = ct.compare_profiles(traces[::2], traces[1::2], paired=True)
    show_as(form, comparison, text=ct.render.comparison_text, json=ct.render.comparison_json)
    raise Exit(int(_regressed(comparison)))
