"""The changes of a rewrite as JSON."""

from __future__ import annotations

from typing import Any

from circletools.edit.results import RewriteResult
from circletools.wording import SCHEMA_VERSION


def rewrite_json(result: RewriteResult) -> dict[str, Any]:
    """Return the JSON document of `fix-outputs`."""
    return {"schema_version": SCHEMA_VERSION, "changes": list(result.changes)}
