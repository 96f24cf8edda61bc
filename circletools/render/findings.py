"""Findings as text and JSON, and the changes of a rewrite as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from circletools.edit.results import RewriteResult
from circletools.findings import Finding
from circletools.wording import SCHEMA_VERSION


def verdict(findings: Iterable[Finding], error: str | None = None) -> str:
    """Return `invalid` for an unreadable file, `findings` if there is an error or a warning, otherwise `ok`."""
    if error is not None:
        return "invalid"
    return "findings" if any(finding.severity != "info" for finding in findings) else "ok"


def error_json(exit_status: int, error: str) -> dict[str, Any]:
    """Return the JSON document for a file on which a command failed."""
    return {"schema_version": SCHEMA_VERSION, "exit_status": exit_status, "error": error or None}


def findings_text(name: str, findings: Sequence[Finding], error: str | None = None) -> Iterator[str]:
    """Yield the verdict on a file or a directory, and a line for each finding."""
    yield f"{name}: {verdict(findings, error)}"
    for finding in findings:
        yield f"  {finding.severity} {finding.code} {finding.location}: {finding.message}"


def rewrite_json(result: RewriteResult) -> dict[str, Any]:
    """Return the JSON document of `fix-outputs`."""
    return {"schema_version": SCHEMA_VERSION, "changes": list(result.changes)}
