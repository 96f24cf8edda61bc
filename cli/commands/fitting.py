"""The command fit: does a model run on a target, and what stops it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import circletools as ct

from ..console.captured import record
from ..console.reading import reading
from ..console.terminal import show_as, tell_notes
from ..signature import option
from .parameters import Input, Json, With, listed

_TARGETS = f"The targets, as in xnnpack,npu.json: capability files, or {', '.join(ct.affinity.shipped())}."


def fit(
    source: Input,
    on: Annotated[str, option("--on", _TARGETS, "TARGETS")],
    json: Json = False,
    sarif: Annotated[bool, option("--sarif", "Write SARIF, for code hosts and editors.")] = False,
    baseline: Annotated[
        Path | None, option("--baseline", "The JSON of an earlier run; what it has is not new.", "FILE")
    ] = None,
    with_: With = None,
    seconds: Annotated[float, option("--timeout", "Time limit for each of --with.", "SECONDS", min=0.1)] = 600.0,
) -> None:
    """Tell if models run on targets, and what stops them.

    For each operator that a target does not take: why, what to change, and which source it comes from; then the
    sources to change, the worst first. Exit status 1 when a model is not resident on a target, with --baseline when
    an operator is refused that was not before, with --with also when a program says otherwise than the table.
    docs/fit.md tells more.
    """
    if json and sarif:
        raise ct.UsageError("--json and --sarif exclude each other")
    request = ct.FitRequest(on=listed(on), baseline=baseline, with_=listed(with_), timeout_s=seconds).read()
    with reading(source) as model:
        found = ct.fit(model, request)
    record(sum(len(target.misfits) for target in found.targets))
    form = "json" if json else "sarif" if sarif else "text"
    show_as(form, found, text=ct.render.fit_text, json=ct.render.fit_json, sarif=ct.render.fit_sarif)
    tell_notes(found.notes)
    if found.new_refusals or found.contradictions:
        raise typer.Exit(1)
