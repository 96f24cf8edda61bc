"""All findings about a model in one list."""

from __future__ import annotations

from circletools.affinity.findings import affinity_findings
from circletools.findings import Finding
from circletools.model.model import Model
from circletools.model.verify import check_model
from circletools.origin.findings import origin_findings
from circletools.outputs.analysis import output_findings


def check(model: Model) -> list[Finding]:
    """Return what `verify` finds, and on a model without errors also the outputs, the origins and the affinity.

    Raises ModelFormatError when the structure is broken.
    """
    findings = check_model(model)
    if any(finding.severity == "error" for finding in findings):
        return findings
    return [*findings, *output_findings(model), *origin_findings(model), *affinity_findings(model)]
