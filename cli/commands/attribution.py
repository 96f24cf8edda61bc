"""The command attribute: the time that a runtime measured, by operator, source and module."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_notes, show_as, show_text
from ..signature import argument, option
from .parameters import TableForm, first_executions

By = Literal["operator", "source", "module"]


def attribute(
    traces: Annotated[
        tuple[str, ...],
        argument("TRACE...", "Operator-level traces of one model; - is standard input."),
    ],
    model: Annotated[str, option("--model", "The model that was run.", "M", show_default=False)],
    form: TableForm = "text",
    by: Annotated[
        tuple[By, ...], option("--by", "Show this table; may be repeated. All, if the model has origins.")
    ] = (),
    skip: Annotated[
        str, option("--skip", "Skip the first N executions of each trace; auto finds the warm-up.", "N|auto")
    ] = "0",
    process: Annotated[
        int | None, option("--process", "The process to take of a system trace.", "PID", min=0)
    ] = None,
    thread: Annotated[int | None, option("--thread", "The thread to take of a system trace.", "TID", min=0)] = None,
    depth: Annotated[
        int | None, option("--depth", "Cut module paths to their first N components.", "N", min=1)
    ] = None,
) -> None:
    """Show where the time went, by operator and source.

    TRACE is onert's trace.chrome.json, a system trace with LiteRT's marks, the events of its profiler, the report of
    benchmark_model, OpenVINO's detailed counters, or ONNX Runtime's profile. Exit status 1 when the origins no longer
    describe the model's operators.
    """
    if [*traces, model].count("-") > 1:
        raise ct.UsageError("the trace and the model cannot both be standard input")
    if form == "csv" and len(by) > 1:
        raise ct.UsageError("a CSV has one table", hint="choose it by --by")
    first = first_executions(skip)
    times = [ct.read_profile(trace, skip=first, process=process, thread=thread) for trace in traces]
    with reading(model) as opened:
        result = ct.attribute(opened, times, depth=depth)
    if form == "csv":
        show_text(ct.render.attribution_csv(result, by[0] if by else "operator"))
    else:
        shown = by or (get_args(By) if form == "json" or not result.named else ("operator",))
        show_as(form, result, shown, text=ct.render.attribution_text, json=ct.render.attribution_json, file=model)
    print_notes(result.notes)
    if any(note.severity == "warning" for note in result.notes):
        raise Exit(1)
