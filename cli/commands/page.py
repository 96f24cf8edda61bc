"""The command report: all that is known about a model as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from circletools.errors import UsageError

from .parameters import Input


def report(
    source: Input,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page to write; - is standard output.", show_default=False
        ),
    ],
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--trace", metavar="TRACE", help="A trace that trace-stats or attribute reads; may be repeated."
        ),
    ] = None,
    skip: Annotated[
        int, typer.Option("--skip", metavar="N", min=0, help="Leave out the first N executions of operators' traces.")
    ] = 0,
) -> None:
    """Write one HTML page about a model and its traces.

    It has the findings, graph, devices and origins, and where the time went. The page loads nothing and can be
    opened from a disk or sent on. Exit status 1 when `check` has an error or a warning, or `trace-stats` an
    error; the page is written all the same. docs/report.md describes it.
    """
    from circletools import __version__  # noqa: PLC0415
    from circletools.html.document import page_document  # noqa: PLC0415
    from circletools.html.html import page_html  # noqa: PLC0415
    from circletools.html.timing import read_trace  # noqa: PLC0415
    from circletools.storage.files import check_target, write  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import tell  # noqa: PLC0415
    from .rewriting import refuse_inputs  # noqa: PLC0415

    inputs = [source, *(traces or ())]
    if inputs.count("-") > 1:
        raise UsageError("only one of the inputs can be standard input")
    refuse_inputs(output, inputs)
    check_target(output)
    read = [read_trace(name, skip) for name in traces or ()]
    with reading(source) as model:
        document = page_document(model, _title(source), read, version=__version__)
    write(output, [page_html(document)])
    troubles = _troubles(document)
    if troubles:
        tell(f"{', '.join(troubles)}: see the page")
        raise typer.Exit(1)


def _title(source: str) -> str:
    return "standard input" if source == "-" else Path(source).name


def _troubles(document: dict[str, Any]) -> list[str]:
    """Count what `check` and `trace-stats` would end with exit status 1 for."""
    found = [finding["severity"] for finding in document["findings"]]
    traced = [diagnostic["severity"] for trace in document["traces"] for diagnostic in trace["diagnostics"]]
    counts = {
        "error in the model": found.count("error"),
        "warning about the model": found.count("warning"),
        "error in traces": traced.count("error"),
    }
    return [f"{count} {what.replace(' ', 's ', 1) if count > 1 else what}" for what, count in counts.items() if count]
