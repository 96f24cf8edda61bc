"""Findings as SARIF 2.1.0, which code hosts and editors show: https://docs.oasis-open.org/sarif/sarif/v2.1.0/."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from circletools.codes import Explanation, explain
from circletools.version import __version__

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document that holds runs, one for each model."""
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": list(runs)}


def sarif_run(codes: Iterable[str], results: Iterable[Mapping[str, Any]], error: str | None = None) -> dict[str, Any]:
    """Return the run of one model: `codes` are those of the results, `error` is why it could not be read."""
    driver = {
        "name": "circletools",
        "version": __version__,
        "rules": [_rule(explain(code)) for code in dict.fromkeys(codes)],
    }
    invocation: dict[str, Any] = {"executionSuccessful": error is None}
    if error is not None:
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": {"text": error}}]
    return {"tool": {"driver": driver}, "invocations": [invocation], "results": list(results)}


def _rule(rule: Explanation) -> dict[str, Any]:
    return {"id": rule.code, "shortDescription": {"text": rule.meaning}, "help": {"text": f"To do: {rule.remedy}"}}


def sarif_location(file: str, place: str) -> dict[str, Any]:
    """Return a place in a model, such as `subgraphs[0].operators[5]`."""
    return {
        "physicalLocation": {"artifactLocation": {"uri": quote(os.fsencode(file))}},
        "logicalLocations": [{"fullyQualifiedName": place}],
    }
