"""The requires and cost commands: which runtimes load a model, and its MACs, parameters and memory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_diagnostic, show_as
from ..signature import option
from .parameters import InPlace, Input, TableForm, listed
from .rewriting import rewrite


def requires(
    source: Input,
    runtime: Annotated[
        str | None, option("--runtime", "Releases to check, e.g. litert-1.4 (TFLM: fit --on tflm).", "RELEASE,...")
    ] = None,
    lower: Annotated[bool, option("--lower", "Write a copy with the lowest operator versions.")] = False,
    write: Annotated[bool, option("--write", "Write a copy with the correct min_runtime_version.")] = False,
    output: Annotated[str | None, option("--output -o", "The file to write with --lower or --write.", "OUT")] = None,
    in_place: InPlace = False,
    resolver: Annotated[
        Path | None, option("--resolver", "Write C++ code that registers the operators with TFLM.", "FILE")
    ] = None,
    also: Annotated[
        str | None, option("--also", "With --resolver, also register the operators of these models.", "MODEL,...")
    ] = None,
    form: TableForm = "text",
) -> None:
    """Show which TFLite and LiteRT releases can load a model.

    Shows what older releases lack, as measured with all releases on PyPI since tflite-runtime 2.8. Exits
    with status 1 if a release in --runtime does not load the model. See docs/requires.md.
    """
    asked = {"--runtime": runtime, "--lower or --write": lower or write or None, "--resolver": resolver}
    if len(chosen := [name for name, value in asked.items() if value is not None]) > 1:
        raise ct.UsageError(f"{chosen[0]} excludes {chosen[1]}", hint="run the command twice")
    if also is not None and resolver is None:
        raise ct.UsageError("--also requires --resolver", hint="use both")
    if lower or write:
        rewrite(source, output, in_place, lambda edit: ct.rewrite_requirements(edit, lower=lower, write=write))
        return
    if output is not None or in_place:
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
    if runtime is not None and not all(one.takes for one in found.verdicts):
        raise Exit(1)


def cost(
    source: Input,
    by: Annotated[
        Literal["code", "operator", "source", "module"], option("--by", "What each row of the table represents.")
    ] = "code",
    form: TableForm = "text",
) -> None:
    """Show the MACs, parameters and memory of a model.

    MACs are multiply-accumulates, counted from the shapes in the file; a dynamic dimension counts as 1. See
    docs/requires.md.
    """
    with reading(source) as model:
        found = ct.cost(model, by=by)
    show_as(form, found, text=ct.render.cost_text, json=ct.render.cost_json, csv=ct.render.rows_csv, file=source)
