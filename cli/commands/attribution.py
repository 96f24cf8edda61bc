"""The command attribute: the time that a runtime measured, by operator, source and module."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import complain, show, show_json, show_text
from .parameters import Format


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
        Format | None, typer.Option("--format", help="The output format; text by default.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    by: Annotated[
        list[By] | None,
        typer.Option("--by", metavar="|".join(By), help="The table to show, may be repeated; all by default."),
    ] = None,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Skip the first N executions.")] = 0,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", min=1, help="Cut module paths to their first N components.")
    ] = None,
) -> None:
    """Show where the time went, by operator and source.

    TRACE is onert's trace.chrome.json, a system trace with LiteRT's marks, or the report of benchmark_model. Exit
    status 1 when the origins no longer describe the model's operators.
    """
    if json and output_format not in (None, Format.JSON):
        raise ct.UsageError(f"--json and --format {output_format} exclude each other")
    if trace == model == "-":
        raise ct.UsageError("the trace and the model cannot both be standard input")
    tables = [table.value for table in By if by is None or table in by]
    times = ct.read_profile(trace, skip=skip)
    with reading(model) as opened:
        result = ct.attribute(opened, times, depth=depth)
    if json or output_format is Format.JSON:
        show_json(ct.render.attribution_json(result, tables))
    elif output_format is Format.CSV:
        show_text(ct.render.attribution_csv(result, tables))
    else:
        show(ct.render.attribution_text(result, tables))
    for note in result.notes:
        complain("note" if note.severity == "info" else note.severity, f"{note.location}: {note.message}")
    if any(note.severity == "warning" for note in result.notes):
        raise typer.Exit(1)
