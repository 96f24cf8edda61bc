"""The check command: find problems in models, and explain findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from typer import Exit

import circletools as ct

from ..console.captured import current, reading, record
from ..console.terminal import print_diagnostic, show_as, sum_up
from ..signature import option
from .parameters import Baseline, Input, Timeout, With, listed


def _explain(code: str, form: str) -> None:
    show_as(form, ct.checks.explain(code), text=ct.render.explanation_text, json=ct.render.explanation_json)


def _request(config: Path | None, **given: Any) -> Any:
    """Read the project's settings; the given options override them."""
    file = config or ct.checks.find_settings()
    settings = ct.checks.CheckRequest() if file is None else ct.checks.read_settings(file)
    given["renamed"] = current() is None
    return replace(settings, **{name: value for name, value in given.items() if value}).read()


def _show(form: str, source: str, judged: ct.checks.Judgement, broken: str | None, statistics: bool) -> None:
    show_as(
        form,
        source,
        judged,
        broken,
        file=source,
        text=ct.render.headline_text if statistics else ct.render.judgement_text,
        json=ct.render.judgement_json,
        sarif=ct.render.judgement_sarif,
        github=ct.render.judgement_github,
        gitlab=ct.render.judgement_gitlab,
        junit=ct.render.junit_suite,
    )


def check(
    source: Input,
    structure_only: bool = option("Check only that the file is well formed and every index is in range."),
    for_: tuple[str, ...] = option(
        "Rate findings by their effect on litert, onert, openvino or tflm.", "PROGRAM,..."
    ),
    with_: With = (),
    seconds: Timeout = 600.0,
    form: Literal["text", "json", "sarif", "github", "gitlab", "junit"] = option("Output format.", default="text"),
    select: tuple[str, ...] = option("Report only findings with these codes.", "CODE,..."),
    ignore: tuple[str, ...] = option("Do not report findings with these codes.", "CODE,..."),
    fail_on: Literal["warning", "error", "never"] | None = option(
        "Lowest severity for exit status 1; by default, the one in the settings, or warning."
    ),
    baseline: Baseline = None,
    config: Path | None = option(
        "Settings file; by default, the nearest circletools.toml or pyproject.toml.", "FILE"
    ),
    statistics: bool = option("Instead of findings, show how many have each code."),
    explain: str | None = option("Show what a finding means and what to do about it.", "CODE", shows=_explain),
) -> None:
    """Find problems in models.

    Checks the file's structure, every index, the graph, tensors, signatures and outputs, and whether origins and
    devices are valid and up to date. --with also loads the model in litert, litert-gpu, onert, openvino, vela or
    tflm. With --for, problems that keep a program from running the model are errors (`fit` shows what to change).
    Exits with status 3 if a model's structure is broken, or 1 if there is a new error or warning.
    """
    if statistics and form != "text":
        raise ct.UsageError("--statistics requires --format text", hint="count the findings in the document")
    if structure_only and with_:
        raise ct.UsageError("--structure-only and --with cannot be combined")
    request = _request(config, select=listed(select), ignore=listed(ignore), baseline=baseline, fail_on=fail_on)
    names, findings, broken = listed(with_), list[ct.Finding](), None
    try:
        with reading(source) as model:
            findings = ct.check(model, names, for_=listed(for_), structure_only=structure_only, timeout_s=seconds)
    except ct.InvalidInputError as error:
        broken = str(error)
    judged = ct.checks.judge(findings, source, request)
    _show(form, source, judged, broken, statistics)
    if broken and form == "text":
        print_diagnostic("error", broken)
    counts = ct.render.tally(judged) if form == "text" else None
    unmatched = request.request.per_file_ignores.keys() - request.request.patterns_of(source)
    if not record(broken, counts, unmatched) and counts is not None:
        sum_up([(counts, broken is not None)], statistics=statistics)
    raise Exit(3 if broken else int(judged.failing))
