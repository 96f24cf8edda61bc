"""Commands for traces: trace-stats, trace-compare and trace-export."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console.terminal import print_diagnostic, print_message, show_as, show_json
from ..signature import BETWEEN, argument, option
from .parameters import TableForm
from .rewriting import refuse_inputs

_TRACE = argument("TRACE", "The trace to read, or - for standard input.")
_MOST_SHOWN = 20


By = Literal["bucket", "function"]
Strict = Annotated[bool, option("--strict", "Exit with status 3 if a diagnostic is an error.")]


def trace_stats(
    source: Annotated[str, _TRACE],
    form: TableForm = "text",
    per_execution: Annotated[bool, option("--per-execution", "List every execution.")] = False,
    by: Annotated[By | None, option("--by", "Show only layers and phases, or only functions.")] = None,
    strict: Strict = False,
) -> None:
    """Show where the time went in an NNAPI trace.

    Shows times by layer and phase, run, execution and function. Reads systrace HTML, ftrace text, atrace -z and
    Perfetto traces, gzipped or not. Exits with status 1 if a diagnostic is an error, 3 with --strict.
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
    traces: Annotated[
        tuple[str, ...], argument("A... B...", "Traces of both sides; if one has several, put -- between the sides.")
    ],
    threshold: Annotated[
        float, option("--threshold", "Report changes of more than this percentage.", "PCT", min=0)
    ] = 10.0,
    form: TableForm = "text",
    strict: Strict = False,
    operators: Annotated[bool, option("--operators", "Compare the operators in operator traces.")] = False,
    history: Annotated[
        tuple[str, ...], option("--history", "An earlier recording, or a directory of them; may be repeated.", "PATH")
    ] = (),
    paired: Annotated[bool, option("--paired", "Compare in pairs; for two sides recorded alternately.")] = False,
) -> None:
    """Show statistically significant changes between traces.

    Compares layers and phases, or operators. Give several recordings of each side (A1 A2 A3 -- B1 B2 B3): one of each
    reveals only large differences, unless --history shows how much recordings vary. If only B is given, it is
    compared with --history. Exits with status 1 if something is significantly slower by more than the threshold, or
    if most operators have no counterpart.
    """
    earlier = [path for one in history for path in _recordings(one)]
    if history and len(traces) == 1:
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
        first, second = ([ct.read_trace(source, strict=strict) for source in side] for side in (before, after))
        known_ = [ct.read_trace(source, strict=strict) for source in earlier]
        comparison = ct.compare_traces(first, second, threshold, history=known_, paired=paired)
        analyses = first + second
    text, as_json = ct.render.comparison_text, ct.render.comparison_json
    show_as(form, comparison, text=text, json=as_json, csv=ct.render.rows_csv)
    count = comparison.unpaired if isinstance(comparison, ct.types.ProfileComparison) else 0
    other = 2 * count > len(comparison.rows) - 1
    if other:
        print_diagnostic("warning", f"operators on one side only: {count}; do the models or runtimes differ?")
    if _show_diagnostics(*analyses) or comparison.regressed or other:
        raise Exit(1)


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
    """Return the traces before and after. Raises UsageError if the two sides are not separated."""
    if BETWEEN in traces:
        at = traces.index(BETWEEN)
        before, after = traces[:at], traces[at + 1 :]
    else:
        before, after = traces[:1], traces[1:]
    if not before or not after or BETWEEN in after or (len(after) > 1 and BETWEEN not in traces):
        raise ct.UsageError("give two traces, or several for each side, separated by --: A1 A2 -- B1 B2")
    return before, after


def trace_export(
    source: Annotated[str, _TRACE],
    output: Annotated[str, argument("OUT", "The file to write, or - for standard output.")],
    to: Annotated[Literal["chrome", "perfetto"], option("--to", "The format to write.", show_default=False)],
    strict: Strict = False,
) -> None:
    """Write the marks of a trace as nested slices.

    The slices show layer and phase in chrome://tracing or ui.perfetto.dev; executions get a separate track. All trace
    commands can also read the result.
    """
    refuse_inputs(output, [source])
    exported = ct.export_trace(source, to, strict=strict)
    ct.files.write(output, exported.pieces)
    if _show_diagnostics(exported.analysis):
        raise Exit(1)
