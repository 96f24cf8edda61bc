"""What functions return and take, for annotations: `ct.types`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.diff.attestation import Attestation
    from circletools.diff.difference import ModelDifference
    from circletools.edit.results import RewriteResult
    from circletools.findings import Findings, Severity
    from circletools.fit.verdicts import Fit
    from circletools.html.report import Report
    from circletools.inspection import Inspection
    from circletools.model.digests import ContentDigests
    from circletools.model.rows import Subgraph
    from circletools.model.views import Operator, Tensor
    from circletools.origin.tracking.tracker import Tracking
    from circletools.planning.plan import Plan
    from circletools.profile.attribution import Attribution
    from circletools.profile.compare_profiles import ProfileComparison
    from circletools.profile.compare_traces import TraceComparison
    from circletools.split.verification import SplitVerification
    from circletools.split.write import Split
    from circletools.trace.nnapi.analysis import Analysis
    from circletools.trace.nnapi.export import ExportedTrace
    from circletools.trace.operators.profile import OperatorTrace

__all__ = [
    "Analysis",
    "Attestation",
    "Attribution",
    "ContentDigests",
    "ExportedTrace",
    "Findings",
    "Fit",
    "Inspection",
    "ModelDifference",
    "Operator",
    "OperatorTrace",
    "Plan",
    "ProfileComparison",
    "Report",
    "RewriteResult",
    "Severity",
    "Split",
    "SplitVerification",
    "Subgraph",
    "Tensor",
    "TraceComparison",
    "Tracking",
]

_PLACES = {
    "Analysis": "circletools.trace.nnapi.analysis",
    "Attestation": "circletools.diff.attestation",
    "Attribution": "circletools.profile.attribution",
    "ContentDigests": "circletools.model.digests",
    "ExportedTrace": "circletools.trace.nnapi.export",
    "Findings": "circletools.findings",
    "Fit": "circletools.fit.verdicts",
    "Inspection": "circletools.inspection",
    "ModelDifference": "circletools.diff.difference",
    "Operator": "circletools.model.views",
    "OperatorTrace": "circletools.trace.operators.profile",
    "Plan": "circletools.planning.plan",
    "ProfileComparison": "circletools.profile.compare_profiles",
    "Report": "circletools.html.report",
    "RewriteResult": "circletools.edit.results",
    "Severity": "circletools.findings",
    "Split": "circletools.split.write",
    "SplitVerification": "circletools.split.verification",
    "Subgraph": "circletools.model.rows",
    "Tensor": "circletools.model.views",
    "TraceComparison": "circletools.profile.compare_traces",
    "Tracking": "circletools.origin.tracking.tracker",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
