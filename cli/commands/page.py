"""The report command: write everything known about a model as an HTML page."""

from __future__ import annotations

from typing import Annotated

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_message
from ..signature import option
from .parameters import Input, listed
from .rewriting import refuse_inputs


def report(
    source: Input,
    output: Annotated[
        str, option("--output -o", "The HTML file to write, or - for standard output.", "FILE", show_default=False)
    ],
    traces: Annotated[
        tuple[str, ...], option("--trace", "A trace that trace-stats or attribute reads; may be repeated.", "TRACE")
    ] = (),
    skip: Annotated[int, option("--skip", "Skip the first N executions in operator traces.", "N", min=0)] = 0,
    on: Annotated[str | None, option("--on", "Targets of the model, as for fit --on.", "TARGETS")] = None,
    source_url: Annotated[
        str,
        option("--source-url", "The URL of source lines, with {file} and {line}.", "URL", show_default=False),
    ] = "",
    source_root: Annotated[
        str, option("--source-root", "The folder to which {file} is relative.", "DIR", show_default=False)
    ] = "",
) -> None:
    """Write one HTML page about a model and its traces.

    The page shows the findings, graph, devices and origins, and where the time went. It is self-contained, so it can
    be opened from disk or sent to others. Exits with status 1 if `check` finds an error or a warning, `trace-stats`
    finds an error, or a target refuses an operator; the page is written anyway. See docs/report.md.
    """
    inputs = [source, *traces]
    if inputs.count("-") > 1:
        raise ct.UsageError("only one of the inputs can come from standard input")
    refuse_inputs(output, inputs)
    ct.files.check_target(output)
    with reading(source) as model:
        made = ct.report_html(model, traces, skip=skip, on=listed(on), source_url=source_url, source_root=source_root)
    made.save(output)
    if made.notes:
        print_message(f"{', '.join(note.message for note in made.notes)}: see the page")
        raise Exit(1)
