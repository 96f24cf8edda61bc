"""Commands that judge models: verify, check; and explain, which tells what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

import circletools as ct

from ..console.captured import record
from ..console.reading import reading
from ..console.summing import sum_up
from ..console.terminal import complain, show, show_as
from ..signature import argument, option
from .parameters import Input, Json, With, form_of, listed

_FORMATS = Literal["text", "json", "sarif", "github", "junit"]


def verify(source: Input, json: Json = False) -> None:
    """Check the structure of models, and every index in them.

    Exit status 3 when the structure of a model is broken, 1 when an index or external data is out of range, or
    anything else is found.
    """
    findings, broken = _found(source, ct.verify)
    text, as_json = ct.render.findings_text, ct.render.check_json
    record(len(findings), broken)
    show_as("json" if json else "text", source, findings, broken, text=text, json=as_json)
    if broken and not json:
        complain("error", broken)
    raise typer.Exit({"ok": 0, "findings": 1, "invalid": 3}[ct.render.verdict(findings, broken)])


def check(
    source: Input,
    with_: With = None,
    seconds: Annotated[float, option("--timeout", "Time limit for each of --with.", "SECONDS", min=0.1)] = 600.0,
    json: Annotated[bool, option("--json", "The same as --output-format json.")] = False,
    output_format: Annotated[
        _FORMATS | None, option("--output-format", "The output format; text by default.")
    ] = None,
    select: Annotated[str | None, option("--select", "Only these findings.", "CODE,...")] = None,
    ignore: Annotated[str | None, option("--ignore", "Not these findings.", "CODE,...")] = None,
    fail_on: Annotated[
        Literal["warning", "error", "never"], option("--fail-on", "The least severity for exit status 1.")
    ] = "warning",
    baseline: Annotated[
        Path | None, option("--baseline", "The JSON of an earlier run; what it has is not new.", "FILE")
    ] = None,
    statistics: Annotated[bool, option("--statistics", "Count the findings of each code.")] = False,
) -> None:
    """Verify models, and check outputs, origins and devices.

    `explain CODE` tells what a finding means. Exit status 3 when the structure of a model is broken, 1 when there is
    a new error or warning. --with asks litert, litert-gpu, onert, openvino, vela or tflm whether they load the model.
    """
    form = form_of(output_format, json, "--output-format")
    if statistics and form != "text":
        raise ct.UsageError("--statistics is for text", hint="count the findings of the document")
    codes = listed(select), listed(ignore)
    request = ct.checks.CheckRequest(select=codes[0], ignore=codes[1], baseline=baseline, fail_on=fail_on).read()
    names = listed(with_)
    findings, broken = _found(source, lambda model: ct.check(model, names, timeout_s=seconds))
    judged = ct.checks.judge(findings, source, request)
    show_as(
        form,
        source,
        judged,
        broken,
        text=ct.render.headline_text if statistics else ct.render.judgement_text,
        json=ct.render.judgement_json,
        sarif=ct.render.judgement_sarif,
        github=ct.render.judgement_github,
        junit=ct.render.junit_suite,
    )
    if broken and form == "text":
        complain("error", broken)
    counts = ct.render.tally(judged) if form == "text" else None
    if not record(len(judged.new), broken, counts) and counts is not None:
        sum_up([(counts, broken is not None)], statistics=statistics)
    raise typer.Exit(3 if broken else int(judged.failing))


def _found(source: str, find: Callable[[ct.Model], list[ct.Finding]]) -> tuple[list[ct.Finding], str | None]:
    """Return the findings of a model, and why it cannot be read."""
    try:
        with reading(source) as model:
            return find(model), None
    except ct.InvalidInputError as error:
        return [], str(error)


def explain(code: Annotated[str, argument("CODE", "A code, such as DUPLICATE_OUTPUT.")]) -> None:
    """Tell what a finding means, and what to do about it."""
    show(ct.render.explanation_text(ct.checks.explain(code)))
