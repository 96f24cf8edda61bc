"""The commands that compare values and models: diff, compare and reduce."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Literal

from typer import Exit

import circletools as ct

from ..console.captured import reading
from ..console.terminal import print_message, print_notes, show, show_as, show_json
from ..signature import argument, option
from .parameters import Form, Input, OutputFile, TableForm, listed
from .rewriting import check_output, target


def diff(
    before: str = argument("A", "The model to compare with, or - for standard input."),
    after: str = argument("B", "The model to compare, or - for standard input."),
    only: tuple[str, ...] = option("Compare only these: structure,metadata,origins,affinity,file.", "SECTIONS"),
    ignore: tuple[str, ...] = option("Ignore a path and everything below it; may be repeated.", "PATHGLOB"),
    full: bool = option("Show every difference, with complete values."),
    attest: bool = option("Use digests to show which parts are identical; docs/attest.py checks the JSON."),
    form: Literal["text", "json", "markdown", "in-toto"] = option("Output format.", default="text"),
    on: tuple[str, ...] = option(
        "With --format markdown, show what these targets refuse, as fit --on does.", "TARGETS"
    ),
    html: str | None = option("Also write a page with both graphs side by side and changes in color.", "FILE"),
) -> None:
    """Show the differences between two models.

    Compares structure, metadata, origins, affinity and the files appended to the model. Operators, tensors and
    buffers are matched by content; their order in the file does not matter. Exits with status 1 if there is a
    difference; docs/diff.md gives the rules. --format markdown writes a comment for a pull request. --attest proves
    that two models are identical except for the parts it lists: tensors with their data, operators, subgraphs,
    signatures and metadata entries (docs/digest.md).
    """
    if before == after == "-":
        raise ct.UsageError("only one of the models can come from standard input")
    if attest and (only or ignore or full or html or form == "markdown"):
        hint = "leave out --attest: --ignore 'subgraphs[*].tensors[*].name' ignores names of tensors"
        message = "--attest cannot be combined with --only, --ignore, --full, --html or --format markdown"
        raise ct.UsageError(message, hint=hint)
    if on and form != "markdown":
        raise ct.UsageError("--on requires --format markdown")
    check_output(html, [before, after])
    if attest:
        _attest(before, after, form)
        return
    if form == "in-toto":
        raise ct.UsageError("--format in-toto requires --attest")
    sections = listed(only) if only else None
    with reading(before) as old, reading(after) as new:
        differences = ct.diff(old, new, sections, ignore=ignore)
        text = partial(ct.render.difference_text, full=full)
        page = html and ct.difference_html(differences, old, new)
        if form == "markdown":
            request = ct.FitRequest(on=listed(on)).read() if listed(on) else None
            sides = [
                ct.render.ModelVerdicts(ct.cost(one), ct.check(one), ct.fit(one, request) if request else None)
                for one in (old, new)
            ]
            show(ct.render.difference_markdown(differences, old, new, sides))
        else:
            show_as(form, differences, old, new, text=text, json=ct.render.difference_json)
        if html and page:
            page.save(html)
    print_notes(differences.notes)
    if differences.changes:
        raise Exit(1)


def _attest(before: str, after: str, form: str) -> None:
    with reading(before) as old, reading(after) as new:
        found = ct.attest(old, new)
        if form == "in-toto":
            show_json(ct.render.attestation_statement(found, old, new))
        else:
            show_as(form, found, text=ct.render.attestation_text, json=ct.render.attestation_json)


def compare(
    source: str = argument("A", "The correct model, or the only one (- for standard input)."),
    other: str | None = argument("B", "A model that should compute the same values.", default=None),
    on: tuple[str, ...] = option(
        "Programs to run, the reference first (docs/runtimes.md).",
        "PROGRAM,...",
        default=("litert:reference,litert:xnnpack",),
    ),
    inputs: tuple[str, ...] = option("An .npz file, or the bytes of a single input; one run per file.", "FILE"),
    seed: int = option("Seed for the random inputs.", "N", default=0, min=0),
    runs: int = option("Number of runs, each with different inputs.", "K", default=1, min=1),
    by: Literal["operator", "module"] = option("What each row of the table represents.", default="operator"),
    signature: str | None = option("The signature to run.", "KEY"),
    min_snr: float | None = option("Report SNRs below this as faults.", "DB"),
    max_abs: float | None = option("Report absolute errors above this as faults.", "X"),
    max_steps: float | None = option("Report errors of more than this many quantization steps as faults.", "N"),
    timeout: float = option("Time limit for each program run.", "SECONDS", default=600.0, min=0.1),
    html: str | None = option("Also write a page with a graph of the errors.", "FILE"),
    form: TableForm = "text",
) -> None:
    """Show which operators compute different values.

    Compares a model's values in two programs, or the values of two models. Runs each operator alone on the
    reference's values: the remaining difference is its own error. The difference when the whole model runs is its
    inherited error. Without thresholds, a fault is a difference that rounding cannot explain. Exits with status 1 if
    there is a fault or a model does not run. See docs/compare.md.
    """
    request = ct.CompareRequest(listed(on), inputs, seed, runs, signature, min_snr, max_abs, max_steps, timeout)
    with ExitStack() as stack:
        first = stack.enter_context(reading(source))
        second = None if other is None else stack.enter_context(reading(other))
        check_output(html, [source, other, *inputs])
        found = ct.compare(first, request, other=second)
        if html is not None:
            ct.numbers_html(second or first, found).save(html)
    text = partial(ct.render.numbers_text, by=by)
    show_as(form, found, text=text, json=ct.render.numbers_json, csv=ct.render.rows_csv)
    print_notes(found.notes)
    if found.has_faults or found.failed:
        raise Exit(1)


def reduce(
    source: Input,
    output: OutputFile = None,
    while_: str | None = option(
        "A command, with {} for the model; status 0 means that the model still fails.", "COMMAND"
    ),
    while_refused: str | None = option("A program that refuses the model, or crashes on it.", "PROGRAM"),
    while_differs: tuple[str, ...] = option("Programs that disagree, the correct one first.", "PROGRAM,..."),
    share_safe: bool = option("Replace weights with random values, and names with numbers."),
    timeout: float = option("Time limit per trial.", "SECONDS", default=60.0, min=0.1),
    log: str | None = option("Log results here, so that an interrupted run can be resumed.", "FILE"),
    form: Form = "text",
) -> None:
    """Reduce a model to a small part that still fails.

    Removes operators, outputs and constants as long as the failure stays the same. Exits with status 4 if the model
    does not always fail, or 1 if OUT no longer fails after --share-safe (it is still written). See docs/reduce.md.
    """
    to = target(source, output, in_place=False)
    check_output(to, [source])
    request = ct.ReduceRequest(while_, while_refused, listed(while_differs), share_safe, timeout, log)
    with reading(source) as model:
        found = ct.reduce(model, to, request)
    show_as(form, found, text=ct.render.reduction_text, json=ct.render.reduction_json, file=source)
    if found.still_fails is False:
        raise Exit(1)
    command = (while_ or "").replace("{}", to)
    command = f"circletool check {to} --with {while_refused}" if while_refused else command
    command = f"circletool compare {to} --on {','.join(while_differs)}" if while_differs else command
    print_message(f"to reproduce: {command}")
