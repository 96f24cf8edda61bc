"""The command attribute: the time that a runtime measured, by operator, source and module."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as, tell_notes
from .parameters import FORMAT, Format, JsonFormat, form_of


class By(StrEnum):
    """A table to show; typer takes no list of literals."""

    OPERATOR = "operator"
    SOURCE = "source"
    MODULE = "module"


def attribute(
    trace: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="The operator-level trace; - is standard input."),
    ],
    model: Annotated[str, typer.Option("--model", metavar="M", help="The model that was run.")],
    output_format: Annotated[Format | None, FORMAT] = None,
    json: JsonFormat = False,
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
    form = form_of(output_format, json)
    if trace == model == "-":
        raise ct.UsageError("the trace and the model cannot both be standard input")
    times = ct.read_profile(trace, skip=skip)
    with reading(model) as opened:
        result = ct.attribute(opened, times, depth=depth)
    text, as_json, csv = ct.render.attribution_text, ct.render.attribution_json, ct.render.attribution_csv
    show_as(form, result, by or tuple(By), text=text, json=as_json, csv=csv)
    tell_notes(result.notes)
    if any(note.severity == "warning" for note in result.notes):
        raise typer.Exit(1)
