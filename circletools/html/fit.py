"""The verdicts of targets for the page."""

from __future__ import annotations

from typing import Any

from circletools.fit.verdicts import Fit
from circletools.html.links import SourceLinks
from circletools.origin.source import SourceDetails
from circletools.render.fit import fit_json

MOST_FINDINGS = 500
"""The maximum numbers of refused operators and of sources to change on a page; counts include all."""


def fit_document(found: Fit, links: SourceLinks) -> list[dict[str, Any]]:
    """Return the page's document of each target; `at` has all operators that are refused or were not measured."""
    documents: list[dict[str, Any]] = fit_json(found)["targets"]
    for target, verdict in zip(documents, found.targets, strict=True):
        sides = {
            measured: [one[:2] for one in verdict.misfits if one.measured == measured] for measured in (True, False)
        }
        target |= {"refused_at": sides[True], "not_measured_at": sides[False]}
        target["findings"] = target["findings"][:MOST_FINDINGS]
        target["source_count"] = len(target["sources"])
        target["sources"] = target["sources"][:MOST_FINDINGS]
        for source in target["sources"]:
            source["operator_count"] = len(source["operators"])
            source["operators"] = source["operators"][:MOST_FINDINGS]
        details = [one for finding in target["findings"] for one in finding.get("origin_details", ())]
        for one in (*details, *target["sources"]):
            if url := links.of(SourceDetails(file=one.get("file", ""), line=one.get("line", 0))):
                one["url"] = url
    return documents
