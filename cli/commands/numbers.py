"""Commands that find wrong values: compare and reduce."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_message, print_notes, show_as
from ..signature import argument, option
from .parameters import Form, Input, OutputFile, TableForm, listed
from .rewriting import refuse_inputs, target


def compare(
    source: Annotated[str, argument("A", "The correct model, or the only one (- for standard input).")],
    other: Annotated[str | None, argument("B", "A model that should compute the same values.")] = None,
    on: Annotated[
        str, option("--on", "Programs to run, the reference first (docs/runtimes.md).", "PROGRAM,...")
    ] = "litert:reference,litert:xnnpack",
    inputs: Annotated[
        tuple[str, ...], option("--inputs", "An .npz file, or the bytes of a single input; one run per file.", "FILE")
    ] = (),
    seed: Annotated[int, option("--seed", "Seed for the random inputs.", "N", min=0)] = 0,
    runs: Annotated[int, option("--runs", "Number of runs, each with different inputs.", "K", min=1)] = 1,
    by: Annotated[
        Literal["operator", "module"], option("--by", "What each row of the table represents.")
    ] = "operator",
    signature: Annotated[str | None, option("--signature", "The signature to run.", "KEY")] = None,
    min_snr: Annotated[float | None, option("--min-snr", "Report SNRs below this as faults.", "DB")] = None,
    max_abs: Annotated[float | None, option("--max-abs", "Report absolute errors above this as faults.", "X")] = None,
    max_steps: Annotated[
        float | None, option("--max-steps", "Report errors of more than this many quantization steps as faults.", "N")
    ] = None,
    timeout: Annotated[float, option("--timeout", "Time limit for each program run.", "SECONDS", min=0.1)] = 600.0,
    html: Annotated[str | None, option("--html", "Also write a page with a graph of the errors.", "FILE")] = None,
    form: TableForm = "text",
) -> None:
    """Show which operators compute different values.

    Compares the values of a model in two programs, or of two models. Runs each operator alone on the reference's
    values: the remaining difference is its own error. The difference when the whole model runs is its inherited
    error. Without thresholds, a fault is a difference that rounding cannot explain. Exits with status 1 if there is a
    fault or a model does not run. See docs/compare.md.
    """
    request = ct.CompareRequest(listed(on), inputs, seed, runs, signature, min_snr, max_abs, max_steps, timeout)
    with ExitStack() as stack:
        first = stack.enter_context(reading(source))
        second = None if other is None else stack.enter_context(reading(other))
        if html is not None:
            refuse_inputs(html, [source, other, *inputs])
            ct.files.check_target(html)
        found = ct.compare(first, request, other=second)
        if html is not None:
            ct.files.write(html, [ct.numbers_html(second or first, found)])
    text = partial(ct.render.numbers_text, by=by)
    show_as(form, found, text=text, json=ct.render.numbers_json, csv=ct.render.rows_csv)
    print_notes(found.notes)
    if found.has_faults or found.failed:
        raise Exit(1)


def reduce(
    source: Input,
    output: OutputFile = None,
    while_: Annotated[
        str | None,
        option("--while", "A command, with {} for the model; status 0 means that the model still fails.", "COMMAND"),
    ] = None,
    while_refused: Annotated[
        str | None, option("--while-refused", "A program that refuses the model, or crashes on it.", "PROGRAM")
    ] = None,
    while_differs: Annotated[
        str | None, option("--while-differs", "Programs that disagree, the correct one first.", "PROGRAM,...")
    ] = None,
    share_safe: Annotated[
        bool, option("--share-safe", "Replace weights with random values, and names with numbers.")
    ] = False,
    timeout: Annotated[float, option("--timeout", "Time limit per trial.", "SECONDS", min=0.1)] = 60.0,
    log: Annotated[str | None, option("--log", "Log results here, to resume an interrupted run.", "FILE")] = None,
    form: Form = "text",
) -> None:
    """Reduce a model to a small part that still fails.

    Removes operators, outputs and constants as long as the failure stays the same. Exits with status 4 if the model
    does not always fail; 1, with OUT written, if it no longer fails after --share-safe. See docs/reduce.md.
    """
    to = target(source, output, in_place=False)
    refuse_inputs(to, [source])
    ct.files.check_target(to)
    request = ct.ReduceRequest(while_, while_refused, listed(while_differs), share_safe, timeout, log)
    with reading(source) as model:
        found = ct.reduce(model, to, request)
    show_as(form, found, text=ct.render.reduction_text, json=ct.render.reduction_json, file=source)
    if found.still_fails is False:
        raise Exit(1)
    command = (while_ or "").replace("{}", to)
    command = f"circletool check {to} --with {while_refused}" if while_refused else command
    print_message(f"to reproduce: {f'circletool compare {to} --on {while_differs}' if while_differs else command}")
