"""Commands for traces: trace-stats, trace-compare, trace-export."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from circletools.errors import InvalidInputError, UsageError

from .parameters import Json

if TYPE_CHECKING:
    from circletools.trace.nnapi.analysis import Analysis
    from circletools.trace.nnapi.diagnostics import Diagnostic

_TRACE = typer.Argument(metavar="TRACE", help="The trace to read; - is standard input.", show_default=False)
_MOST_SHOWN = 20


class Format(StrEnum):
    """How to write a result."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"


class By(StrEnum):
    """What to break time down by."""

    BUCKET = "bucket"
    FUNCTION = "function"


class Target(StrEnum):
    """What a trace can be exported to."""

    CHROME = "chrome"
    PERFETTO = "perfetto"


Strict = Annotated[bool, typer.Option("--strict", help="Refuse a trace with diagnostics that are errors.")]


def trace_stats(
    source: Annotated[str, _TRACE],
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; `text` unless given.")
    ] = None,
    json: Json = False,
    per_execution: Annotated[bool, typer.Option("--per-execution", help="List every execution.")] = False,
    by: Annotated[By | None, typer.Option("--by", help="Only layers and phases, or only functions.")] = None,
    strict: Strict = False,
) -> None:
    """Show where the time of an NNAPI trace went.

    By layer and phase, run, execution and function. Reads systrace HTML, ftrace text, atrace -z and Perfetto,
    each also in gzip. Exit status 1 when a diagnostic is an error, 3 with --strict.
    """
    from circletools.render.trace_tables import trace_csv, trace_markdown, trace_text  # noqa: PLC0415
    from circletools.render.traces import trace_json  # noqa: PLC0415

    from ..console.terminal import show, show_json, show_text  # noqa: PLC0415

    if json and output_format not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    analysis = _analysed(source, per_execution=per_execution, strict=strict)
    chosen: Literal["bucket", "function"] | None = "function" if by is By.FUNCTION else "bucket"
    if by is None and output_format is not Format.CSV:
        chosen = None
    as_json = json or output_format is Format.JSON
    document = trace_json(analysis, chosen, per_execution=per_execution, stream=not as_json)
    if as_json:
        show_json(document)
    elif output_format is Format.CSV:
        show_text(trace_csv(document, chosen or "bucket", per_execution=per_execution))
    elif output_format is Format.MARKDOWN:
        show(trace_markdown(document, chosen))
    else:
        show(trace_text(document, chosen))
    if _complain(analysis.diagnostics):
        raise typer.Exit(1)


def _analysed(source: str, *, per_execution: bool = False, strict: bool = False) -> Analysis:
    from circletools.trace.nnapi.analysis import analyse  # noqa: PLC0415
    from circletools.trace.sources import open_trace  # noqa: PLC0415

    return _checked(analyse(open_trace(source), per_execution=per_execution), strict)


def _checked(analysis: Analysis, strict: bool) -> Analysis:
    """Return the analysis. Raises InvalidInputError for the first diagnostic that is an error, if strict."""
    for one in analysis.diagnostics if strict else ():
        if one.severity == "error":
            raise InvalidInputError(f"{one.code}: {one.message}", location=one.location, hint=one.hint)
    return analysis


def _complain(diagnostics: list[Diagnostic]) -> bool:
    """Tell the diagnostics; return whether one is an error."""
    from ..console.terminal import complain, tell  # noqa: PLC0415

    for one in diagnostics[:_MOST_SHOWN]:
        times = f" ({one.count} times)" if one.count > 1 else ""
        kind = "note" if one.severity == "info" else one.severity
        complain(kind, f"{one.location}: {one.code}: {one.message}{times}; {one.hint}")
    if len(diagnostics) > _MOST_SHOWN:
        tell(f"and {len(diagnostics) - _MOST_SHOWN} more; --format json has them all")
    return any(one.severity == "error" for one in diagnostics)


def trace_compare(
    before: Annotated[str, typer.Argument(metavar="A", help="The trace to compare with.", show_default=False)],
    after: Annotated[str, typer.Argument(metavar="B", help="The trace to compare.", show_default=False)],
    threshold: Annotated[
        float, typer.Option("--threshold", metavar="PCT", min=0, help="How much slower is too slow, in percent.")
    ] = 10.0,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; `text` unless given.")
    ] = None,
    json: Json = False,
    strict: Strict = False,
    operators: Annotated[
        bool, typer.Option("--operators", help="Compare operators, in traces that `attribute` reads.")
    ] = False,
) -> None:
    """Show what became faster or slower between two traces.

    Compares layers and phases, or operators. Exit status 1 when something is slower by more than the threshold,
    and surely so where there are executions enough to tell.
    """
    from circletools.profile.operator_comparison import compare_operators, operators_csv, operators_text  # noqa: PLC0415
    from circletools.profile.trace_comparison import compare_traces, comparison_csv, comparison_text  # noqa: PLC0415
    from circletools.trace.operators.read import read_operator_trace  # noqa: PLC0415

    from ..console.terminal import show, show_json, show_text  # noqa: PLC0415

    if json and output_format not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    if before == after == "-":
        raise UsageError("only one of the traces can be standard input")
    if output_format is Format.MARKDOWN:
        raise UsageError("trace-compare writes text, json and csv")
    diagnostics: list[Diagnostic] = []
    if operators:
        times = [read_operator_trace(source) for source in (before, after)]
        document = compare_operators(times[0], times[1], threshold)
    else:
        first, second = (_analysed(source, per_execution=True, strict=strict) for source in (before, after))
        document = compare_traces(first, second, threshold)
        diagnostics = first.diagnostics + second.diagnostics
    if json or output_format is Format.JSON:
        show_json(document)
    elif output_format is Format.CSV:
        show_text((operators_csv if operators else comparison_csv)(document))
    else:
        show((operators_text if operators else comparison_text)(document))
    failed = _complain(diagnostics)
    if failed or document["regressed"]:
        raise typer.Exit(1)


def trace_export(
    source: Annotated[str, _TRACE],
    output: Annotated[
        str, typer.Argument(metavar="OUT", help="The file to write; - is standard output.", show_default=False)
    ],
    to: Annotated[Target, typer.Option("--to", help="What to write.", show_default=False)],
    strict: Strict = False,
) -> None:
    """Write the marks of a trace as nested slices.

    For chrome://tracing or ui.perfetto.dev, with layer and phase. Executions become a row of their own. The
    commands here read the result as they read the trace.
    """
    from circletools.storage import files  # noqa: PLC0415
    from circletools.trace.nnapi.analysis import analyse  # noqa: PLC0415
    from circletools.trace.nnapi.export import chrome_parts, perfetto_parts  # noqa: PLC0415
    from circletools.trace.sources import open_trace  # noqa: PLC0415

    from .rewriting import refuse_inputs  # noqa: PLC0415

    refuse_inputs(output, [source])
    trace = open_trace(source)
    analysis = _checked(analyse(trace), strict)
    parts = chrome_parts if to is Target.CHROME else perfetto_parts
    files.write(output, list(parts(trace, analysis)))
    if _complain(analysis.diagnostics):
        raise typer.Exit(1)
