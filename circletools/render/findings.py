"""Findings as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from circletools.findings import Finding
from circletools.wording import SCHEMA_VERSION


def verdict(findings: Iterable[Finding], error: str | None = None) -> str:
    """Return `invalid` for a file that cannot be read, `findings` where one is an error or a warning, else `ok`."""
    if error is not None:
        return "invalid"
    return "findings" if any(finding.severity != "info" for finding in findings) else "ok"


def check_json(file: str, findings: Sequence[Finding], error: str | None = None) -> dict[str, Any]:
    """Return the JSON document of `verify` and `check`; `error` says why the file cannot be read."""
    about = {"file": file, "verdict": verdict(findings, error), "error": error}
    return {"schema_version": SCHEMA_VERSION, "models": [about | {"findings": list(map(asdict, findings))}]}


def findings_text(name: str, findings: Sequence[Finding], error: str | None = None) -> Iterator[str]:
    """Yield the verdict about a file or a directory, and a line for each finding."""
    yield f"{name}: {verdict(findings, error)}"
    for finding in findings:
        yield f"  {finding.severity} {finding.code} {finding.location}: {finding.message}"
