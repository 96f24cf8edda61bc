"""Commands that look at models: inspect, verify, check."""

from __future__ import annotations

from collections.abc import Callable

import typer

import circletools as ct

from ..console.captured import record
from ..console.reading import reading
from ..console.terminal import complain, show, show_json
from .parameters import Input, Json


def inspect(source: Input, json: Json = False) -> None:
    """Show format, sizes, operators, signatures and metadata."""
    with reading(source) as model:
        found = ct.inspect(model)
    if json:
        show_json(ct.render.inspection_json(found))
    else:
        show(ct.render.inspection_text(found))


def verify(source: Input, json: Json = False) -> None:
    """Check the structure of models, and every index in them.

    Exit status 3 when the structure of a model is broken, 1 when an index or external data is out of range, or
    anything else is found.
    """
    raise typer.Exit(_judge(source, json, ct.verify))


def check(source: Input, json: Json = False) -> None:
    """Verify models, and check outputs, origins and devices.

    docs/findings.md has all codes. Exit status 3 when the structure of a model is broken, 1 when there is an error
    or a warning.
    """
    raise typer.Exit(_judge(source, json, ct.check))


def _judge(source: str, json: bool, find: Callable[[ct.Model], list[ct.Finding]]) -> int:
    """Show the findings of a model; return the exit status."""
    findings: list[ct.Finding] = []
    broken = None
    try:
        with reading(source) as model:
            findings = find(model)
    except ct.InvalidInputError as error:
        broken = str(error)
    record(len(findings), broken)
    if json:
        show_json(ct.render.check_json(source, findings, broken))
    else:
        show(ct.render.findings_text(source, findings, broken))
        if broken:
            complain("error", broken)
    return {"ok": 0, "findings": 1, "invalid": 3}[ct.render.verdict(findings, broken)]
