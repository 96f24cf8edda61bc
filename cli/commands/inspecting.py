"""Commands that look at models: inspect, verify, check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from circletools.errors import InvalidInputError

from .parameters import Input, Json

if TYPE_CHECKING:
    from circletools.findings import Finding
    from circletools.model import Model


def inspect(source: Input, json: Json = False) -> None:
    """Show format, sizes, operators, signatures and metadata."""
    from circletools.inspection import inspect_model, inspection_text  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import show, show_json  # noqa: PLC0415

    with reading(source) as model:
        document = inspect_model(model)
    if json:
        show_json(document)
    else:
        show(inspection_text(document))


def verify(source: Input, json: Json = False) -> None:
    """Check the structure of models, and every index in them.

    Exit status 3 when the structure of a model is broken, 1 when an index or external data is out of range, or
    anything else is found.
    """
    from circletools.model.verify import check_model  # noqa: PLC0415

    raise typer.Exit(_judge(source, json, check_model))


def check(source: Input, json: Json = False) -> None:
    """Verify models, and check outputs, origins and devices.

    docs/findings.md has all codes. Exit status 3 when the structure of a model is broken, 1 when there is an error
    or a warning.
    """
    from circletools.check import check as check_all  # noqa: PLC0415

    raise typer.Exit(_judge(source, json, check_all))


def _judge(source: str, json: bool, find: Callable[[Model], list[Finding]]) -> int:
    """Show the findings of a model; return the exit status."""
    from circletools.wording import SCHEMA_VERSION  # noqa: PLC0415

    from ..console.captured import record  # noqa: PLC0415
    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import complain, show, show_json  # noqa: PLC0415

    findings: list[Finding] = []
    broken = None
    try:
        with reading(source) as model:
            findings = find(model)
    except InvalidInputError as error:
        broken = str(error)
    record(len(findings), broken)
    telling = any(finding.severity != "info" for finding in findings)
    verdict = "invalid" if broken else "findings" if telling else "ok"
    if json:
        result = {
            "file": source,
            "verdict": verdict,
            "error": broken,
            "findings": [asdict(item) for item in findings],
        }
        show_json({"schema_version": SCHEMA_VERSION, "models": [result]})
    else:
        show([f"{source}: {verdict}"])
        show(f"  {item.severity} {item.code} {item.location}: {item.message}" for item in findings)
        if broken:
            complain("error", broken)
    return {"ok": 0, "findings": 1, "invalid": 3}[verdict]
