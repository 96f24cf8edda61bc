"""The verdicts of targets for the page."""

from __future__ import annotations

from typing import Any

from circletools.fit.verdicts import Fit
from circletools.render.fit import fit_json

MOST_FINDINGS = 500
"""Limits of the refused operators and of the sources to change that a page lists; counts are of all."""


def fit_document(found: Fit) -> list[dict[str, Any]]:
    """Return the page's document of each target."""
    return [
        target
        | {
            "findings": target["findings"][:MOST_FINDINGS],
            "source_count": len(target["sources"]),
            "sources": [
                source
                | {"operator_count": len(source["operators"]), "operators": source["operators"][:MOST_FINDINGS]}
                for source in target["sources"][:MOST_FINDINGS]
            ],
        }
        for target in fit_json(found)["targets"]
    ]
