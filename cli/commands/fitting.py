"""The fit command: show whether a model runs on a target, and if not, why."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

from typer import Exit

import circletools as ct

from ..batch.task import UNKNOWN
from ..console.captured import current, reading
from ..console.terminal import print_diagnostic, print_notes, show_as
from ..signature import REQUIRED, option
from .parameters import Baseline, Input, Timeout, With, listed

_TARGETS = f"Targets, separated by commas: capability files, or any of {', '.join(ct.affinity.shipped())}."


def fit(
    source: Input,
    on: tuple[str, ...] = option(_TARGETS, "TARGETS", default=REQUIRED),
    form: Literal["text", "json", "sarif", "github", "gitlab", "junit"] = option("Output format.", default="text"),
    baseline: Baseline = None,
    with_: With = (),
    full: bool = option("Show all reasons and operators."),
    strict: bool = option("Exit with status 1 if the answer is unknown."),
    seconds: Timeout = 600.0,
) -> None:
    """Show whether models run on targets, and if not, why.

    For each operator that a target refuses, shows the reason, the remedy and the operator's source; then lists the
    sources to change, worst first. Exits with status 1 if a target refuses an operator or the model, or 5 if the
    answer is unknown. With --baseline, only new refusals count; with --with, the status is also 1 if a program
    disagrees with the table, and 5 if it gives no verdict. See docs/fit.md; docs/gpu.md has replacements in PyTorch.
    """
    if source in ct.affinity.shipped() and not Path(source).exists():
        raise ct.UsageError(f"{source} is a target, not a model", hint="separate targets by commas, without spaces")
    settings: dict[str, Any] = {"baseline": baseline, "renamed": current() is None, "timeout_s": seconds}
    request = ct.FitRequest(on=listed(on), with_=listed(with_), **settings).read()
    with reading(source) as model:
        found = ct.fit(model, request)
    judged = partial(ct.render.fit_judgement, found, strict=strict)
    show_as(
        form,
        found,
        text=partial(ct.render.fit_text, full=full),
        json=ct.render.fit_json,
        sarif=partial(ct.render.fit_sarif, strict=strict),
        github=lambda _: ct.render.judgement_github(source, judged()),
        gitlab=lambda _: ct.render.judgement_gitlab(source, judged()),
        junit=lambda _: ct.render.junit_suite(source, judged()),
        file=source,
    )
    print_notes(found.notes)
    for asked in (one for target in found.targets for one in target.asked if one.verdict == "not_known"):
        print_diagnostic("error", f"{asked.program} gave no verdict: {asked.words}")
    if found.new_refusals or found.contradictions:
        raise Exit(1)
    if found.unknown_count:
        raise Exit(1 if strict else UNKNOWN)
