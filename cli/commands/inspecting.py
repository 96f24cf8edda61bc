"""The commands that show what a model contains and needs: inspect, requires, cost and report."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from typer import Exit

import circletools as ct

from ..console.captured import reading
from ..console.terminal import print_diagnostic, print_message, show_as
from ..signature import option
from .parameters import Form, InPlace, Input, TableForm, listed, refuse_mixing
from .rewriting import check_output, rewrite


def inspect(
    source: Input,
    digest: bool = option("Show digests of the model and its parts, independent of file layout."),
    operators: bool = option("Show a table of the operators."),
    tensors: bool = option("Show a table of the tensors."),
    cost: bool = option("Also show MACs, parameters and memory (docs/requires.md)."),
    subgraph: int | None = option("Show only this subgraph's tables.", "N", min=0),
    form: Form = "text",
) -> None:
    """Show a model's operators, signatures and metadata.

    With --operators or --tensors, shows a table of all operators or tensors instead; the JSON can contain both.

    With --digest, shows digests instead; models with the same content have equal digests, whatever the layout of
    their files (docs/digest.md).
    """
    if digest and (operators or tensors or cost):
        raise ct.UsageError("--digest cannot be combined with --operators, --tensors or --cost")
    if subgraph is not None and not (operators or tensors):
        raise ct.UsageError("--subgraph requires --operators or --tensors")
    with reading(source) as model:
        if digest:
            show_as(form, ct.digests(model), text=ct.render.digests_text, json=ct.render.digests_json, file=source)
            return
        found = ct.inspect(model, operators=operators, tensors=tensors, subgraph=subgraph)
        costs = ct.cost(model) if cost else None
    show_as(
        form,
        found,
        text=lambda one: (*ct.render.inspection_text(one), *(ct.render.cost_text(costs) if costs else ())),
        json=lambda one: ct.render.inspection_json(one) | ({"cost": ct.render.cost_json(costs)} if costs else {}),
        file=source,
    )


def requires(
    source: Input,
    runtime: tuple[str, ...] = option(
        "Releases to check, e.g. litert-1.4 (for TFLM, use fit --on tflm).", "RELEASE,..."
    ),
    lower: bool = option("Write a copy with the lowest possible operator versions."),
    write: bool = option("Write a copy with the correct min_runtime_version."),
    output: str | None = option("The file to write with --lower or --write.", "OUT", names="--output -o"),
    in_place: InPlace = False,
    resolver: Path | None = option("Write C++ code that registers the operators with TFLM.", "FILE"),
    also: tuple[str, ...] = option("With --resolver, also register the operators of these models.", "MODEL,..."),
    form: TableForm = "text",
) -> None:
    """Show which TFLite and LiteRT releases can load a model.

    Shows what older releases lack, as measured with all releases on PyPI since tflite-runtime 2.8. Exits
    with status 1 if a release in --runtime does not load the model. See docs/requires.md.
    """
    asked = {"--runtime": runtime or None, "--lower or --write": lower or write or None, "--resolver": resolver}
    if len(chosen := [name for name, value in asked.items() if value is not None]) > 1:
        raise ct.UsageError(f"{chosen[0]} cannot be combined with {chosen[1]}", hint="run the command twice")
    if also and resolver is None:
        raise ct.UsageError("--also requires --resolver", hint="use both")
    if lower or write:
        if form != "text":
            refuse_mixing(f"--{form}", output, "name a file")
        rewrite(source, output, in_place, lambda edit: ct.rewrite_requirements(edit, lower=lower, write=write))
        if form == "text":
            return
        source = output or source
    elif output is not None or in_place:
        raise ct.UsageError("nothing to write", hint="use --lower, --write or both")
    if resolver is not None:
        with ExitStack() as stack:
            named = [(name, stack.enter_context(reading(name))) for name in (source, *listed(also))]
            text = ct.resolver_code(model for _, model in named)
            fits = [(name, ct.fit(model, ct.FitRequest(on=("tflm",))).targets[0]) for name, model in named]
        ct.files.write(resolver, [text.encode("utf-8", "surrogateescape")])
        for name, one in fits:
            if one.verdict == "not_resident":
                print_diagnostic("warning", f"{name}: TFLM does not run this model; `fit --on tflm` shows why")
        return
    with reading(source) as model:
        found = ct.requires(model, listed(runtime))
    writers = {"text": ct.render.requirements_text, "json": ct.render.requirements_json, "csv": ct.render.rows_csv}
    show_as(form, found, file=source, **writers)
    if runtime and not all(one.takes for one in found.verdicts):
        raise Exit(1)


def cost(
    source: Input,
    by: Literal["code", "operator", "source", "module"] = option(
        "What each row of the table represents.", default="code"
    ),
    form: TableForm = "text",
) -> None:
    """Show the MACs, parameters and memory of a model.

    MACs are multiply-accumulates, counted from the shapes in the file; a dynamic dimension counts as 1. See
    docs/requires.md.
    """
    with reading(source) as model:
        found = ct.cost(model, by=by)
    show_as(form, found, text=ct.render.cost_text, json=ct.render.cost_json, csv=ct.render.rows_csv, file=source)


def report(
    source: Input,
    output: str = option(
        "The HTML file to write, or - for standard output.", "FILE", names="--output -o", show_default=False
    ),
    traces: tuple[str, ...] = option(
        "A trace that trace-stats or attribute reads; may be repeated.", "TRACE", names="--trace"
    ),
    skip: int = option("Skip the first N executions in operator traces.", "N", default=0, min=0),
    on: tuple[str, ...] = option("Also show the verdicts of these targets, as in fit --on.", "TARGETS"),
    source_url: str = option(
        "The URL of source lines, with {file} and {line}.", "URL", default="", show_default=False
    ),
    source_root: str = option("The folder to which {file} is relative.", "DIR", default="", show_default=False),
) -> None:
    """Write one HTML page about a model and its traces.

    The page shows the findings, graph, devices and origins, and where the time went. It is self-contained, so it can
    be opened from disk or sent to others. Exits with status 1 if `check` finds an error or a warning, `trace-stats`
    finds an error, or a target refuses an operator; the page is written anyway. See docs/report.md.
    """
    inputs = [source, *traces]
    if inputs.count("-") > 1:
        raise ct.UsageError("only one of the inputs can come from standard input")
    check_output(output, inputs)
    with reading(source) as model:
        made = ct.report_html(model, traces, skip=skip, on=listed(on), source_url=source_url, source_root=source_root)
    made.save(output)
    if made.notes:
        print_message(f"{', '.join(note.message for note in made.notes)}: see the page")
        raise Exit(1)
