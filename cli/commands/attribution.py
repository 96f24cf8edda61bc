"""The command attribute: the time that a runtime measured, by operator, source and module."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .parameters import Format

if TYPE_CHECKING:
    from circletools.profile.attribution import Attribution


class By(StrEnum):
    """A table to show."""

    OPERATOR = "operator"
    SOURCE = "source"
    MODULE = "module"


def attribute(
    trace: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="The operator-level trace; - is standard input.", show_default=False),
    ],
    model: Annotated[str, typer.Option("--model", metavar="M", help="The model that was run.", show_default=False)],
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; `text` unless given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    by: Annotated[
        list[By] | None,
        typer.Option("--by", metavar="|".join(By), help="The table to show, may be given again; all unless given."),
    ] = None,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Leave out the first N executions.")] = 0,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", min=1, help="Cut module paths to their first N parts.")
    ] = None,
) -> None:
    """Show where the time went, by operator and source.

    TRACE is onert's trace.chrome.json, a system trace with LiteRT's marks, or the report of benchmark_model. Exit
    status 1 when the origins no longer describe the model's operators.
    """
    from circletools.origin.read import check_freshness, read_origins  # noqa: PLC0415
    from circletools.profile.attribution import attribute as join  # noqa: PLC0415
    from circletools.render.attribution import EVERY, attribution_csv, attribution_json, attribution_text  # noqa: PLC0415
    from circletools.trace.operators.read import read_operator_trace, without_first  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import complain, show, show_json, show_text  # noqa: PLC0415

    if json and output_format not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    if trace == model == "-":
        raise UsageError("the trace and the model cannot both be standard input")
    tables = [table for table in EVERY if by is None or table in by]
    times = without_first(read_operator_trace(trace), skip)
    with reading(model) as opened:
        origins = read_origins(opened)
        freshness = None if origins is None else check_freshness(opened, origins)
        result = join(opened, times, origins, depth)
    if json or output_format is Format.JSON:
        show_json(attribution_json(result, tables))
    elif output_format is Format.CSV:
        show_text(attribution_csv(result, tables))
    else:
        show(attribution_text(result, tables))
    for note in _notes(result, trace, model):
        complain("note", note)
    if freshness is not None and freshness.state == "stale":
        complain("warning", f"{model}: the origins are stale: {freshness.reason}")
        raise typer.Exit(1)


def _notes(result: Attribution, trace: str, model: str) -> Iterator[str]:
    """Yield what a reader of the tables should know beyond what they say."""
    if result.named:
        yield f"{model}: the model has no origins, so every operator is its own source (embed-origins adds them)"
    if result.incomplete:
        yield f"{trace}: begins or ends without the other, left out: {result.incomplete}"
    if result.unchecked:
        yield f"{trace}: operators whose names could not be compared with the model's codes: {result.unchecked}"
    if result.ignored:
        yield f"{trace}: marks that are no operators of the model, left out: {', '.join(result.ignored)}"
