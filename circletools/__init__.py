"""Read, annotate and repair TFLite and Circle models without a compiler.

    import circletools as ct

    with ct.open("in.circle") as model:
        for operator in model.subgraphs[0].operators:
            print(operator.index, operator.code.name)

The names in `__all__`, and those in `__all__` of the modules among them, are what programs can rely on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.errors import (
    CircleToolsError,
    EditError,
    InvalidInputError,
    ModelFormatError,
    OutputError,
    TableFormatError,
    UsageError,
)
from circletools.findings import Finding, Findings, Severity
from circletools.lazy import face
from circletools.version import __version__

if TYPE_CHECKING:
    from circletools import affinity as affinity
    from circletools import origin as origins
    from circletools import outputs as outputs
    from circletools import render as render
    from circletools import storage as files
    from circletools.check import check, newly_found
    from circletools.codes import Explanation as Explanation
    from circletools.codes import explain as explain
    from circletools.diff.attestation import attest
    from circletools.diff.difference import compare_models as diff
    from circletools.edit.compact import compact
    from circletools.edit.edit import ModelEdit
    from circletools.edit.results import RewriteResult
    from circletools.editing import edit, strip_metadata
    from circletools.fit.fit import fit as fit
    from circletools.fit.request import FitRequest as FitRequest
    from circletools.fit.verdicts import Fit as Fit
    from circletools.html.report import report_html as report_html
    from circletools.inspection import inspect_model as inspect
    from circletools.judging import CheckRequest as CheckRequest
    from circletools.judging import Judgement as Judgement
    from circletools.judging import judge as judge
    from circletools.model.digests import content_digests as digests
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model
    from circletools.model.rows import Subgraph
    from circletools.model.verify import check_model as verify
    from circletools.model.views import Operator as Operator
    from circletools.model.views import Tensor as Tensor
    from circletools.origin import exporters
    from circletools.origin.tracking.tracker import track as track_origins
    from circletools.planning.export import export_costs
    from circletools.planning.inputs import read_request
    from circletools.planning.inspection import inspect_affinity
    from circletools.planning.measured import MeasuredPlan as MeasuredPlan
    from circletools.planning.measured import plan_by_measuring as plan_by_measuring
    from circletools.planning.plan import Plan
    from circletools.planning.planner import plan
    from circletools.planning.request import CostRequest, PlanRequest
    from circletools.profile.attribution import Attribution as Attribution
    from circletools.profile.attribution import attribute as attribute
    from circletools.profile.compare_profiles import ProfileComparison as ProfileComparison
    from circletools.profile.compare_profiles import compare_profiles as compare_profiles
    from circletools.profile.compare_traces import TraceComparison as TraceComparison
    from circletools.profile.compare_traces import compare_traces as compare_traces
    from circletools.split.measuring.measure import measure as measure
    from circletools.split.measuring.request import MeasureRequest as MeasureRequest
    from circletools.split.measuring.results import Measurement as Measurement
    from circletools.split.verification import verify_split as verify_split
    from circletools.split.write import split as split
    from circletools.surgery.ends import SignatureRequest as SignatureRequest
    from circletools.surgery.ends import expose as expose
    from circletools.surgery.ends import reorder as reorder
    from circletools.surgery.ends import sign as sign
    from circletools.surgery.extract import ExtractRequest as ExtractRequest
    from circletools.surgery.extract import extract as extract
    from circletools.surgery.prune import prune as prune
    from circletools.surgery.rename import RenameRequest as RenameRequest
    from circletools.surgery.rename import rename as rename
    from circletools.trace.nnapi.analysis import Analysis as Analysis
    from circletools.trace.nnapi.analysis import read_trace as read_trace
    from circletools.trace.nnapi.export import export_trace as export_trace
    from circletools.trace.operators.profile import OperatorTrace as OperatorTrace
    from circletools.trace.operators.read import read_profile as read_profile

__all__ = [
    "Analysis",
    "Attribution",
    "CheckRequest",
    "CircleToolsError",
    "CostRequest",
    "EditError",
    "Explanation",
    "ExtractRequest",
    "Finding",
    "Findings",
    "Fit",
    "FitRequest",
    "InvalidInputError",
    "Judgement",
    "MeasureRequest",
    "MeasuredPlan",
    "Measurement",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "Operator",
    "OperatorTrace",
    "OutputError",
    "Plan",
    "PlanRequest",
    "ProfileComparison",
    "RenameRequest",
    "RewriteResult",
    "Severity",
    "SignatureRequest",
    "Subgraph",
    "TableFormatError",
    "Tensor",
    "TraceComparison",
    "UsageError",
    "__version__",
    "affinity",
    "attest",
    "attribute",
    "check",
    "compact",
    "compare_profiles",
    "compare_traces",
    "diff",
    "digests",
    "edit",
    "explain",
    "export_costs",
    "export_trace",
    "exporters",
    "expose",
    "extract",
    "files",
    "fit",
    "inspect",
    "inspect_affinity",
    "judge",
    "measure",
    "newly_found",
    "open",
    "open_model",
    "origins",
    "outputs",
    "plan",
    "plan_by_measuring",
    "prune",
    "read_profile",
    "read_request",
    "read_trace",
    "rename",
    "render",
    "reorder",
    "report_html",
    "sign",
    "split",
    "strip_metadata",
    "track_origins",
    "verify",
    "verify_split",
]

_PLACES = {
    "Analysis": "circletools.trace.nnapi.analysis",
    "Attribution": "circletools.profile.attribution",
    "CheckRequest": "circletools.judging",
    "CostRequest": "circletools.planning.request",
    "Explanation": "circletools.codes",
    "ExtractRequest": "circletools.surgery.extract",
    "Fit": "circletools.fit.verdicts",
    "FitRequest": "circletools.fit.request",
    "Judgement": "circletools.judging",
    "MeasureRequest": "circletools.split.measuring.request",
    "MeasuredPlan": "circletools.planning.measured",
    "Measurement": "circletools.split.measuring.results",
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "Operator": "circletools.model.views",
    "OperatorTrace": "circletools.trace.operators.profile",
    "Plan": "circletools.planning.plan",
    "PlanRequest": "circletools.planning.request",
    "ProfileComparison": "circletools.profile.compare_profiles",
    "RewriteResult": "circletools.edit.results",
    "Subgraph": "circletools.model.rows",
    "Tensor": "circletools.model.views",
    "TraceComparison": "circletools.profile.compare_traces",
    "affinity": "circletools.affinity:",
    "attest": "circletools.diff.attestation",
    "attribute": "circletools.profile.attribution",
    "check": "circletools.check",
    "newly_found": "circletools.check",
    "compact": "circletools.edit.compact",
    "compare_profiles": "circletools.profile.compare_profiles",
    "compare_traces": "circletools.profile.compare_traces",
    "diff": "circletools.diff.difference:compare_models",
    "digests": "circletools.model.digests:content_digests",
    "edit": "circletools.editing",
    "explain": "circletools.codes",
    "export_costs": "circletools.planning.export",
    "export_trace": "circletools.trace.nnapi.export",
    "extract": "circletools.surgery.extract",
    "files": "circletools.storage:",
    "fit": "circletools.fit.fit",
    "inspect": "circletools.inspection:inspect_model",
    "inspect_affinity": "circletools.planning.inspection",
    "judge": "circletools.judging",
    "measure": "circletools.split.measuring.measure",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "exporters": "circletools.origin.exporters:",
    "origins": "circletools.origin:",
    "outputs": "circletools.outputs:",
    "plan": "circletools.planning.planner",
    "plan_by_measuring": "circletools.planning.measured",
    "prune": "circletools.surgery.prune",
    "read_profile": "circletools.trace.operators.read",
    "read_request": "circletools.planning.inputs",
    "read_trace": "circletools.trace.nnapi.analysis",
    "render": "circletools.render:",
    "report_html": "circletools.html.report",
    "split": "circletools.split.write",
    "strip_metadata": "circletools.editing",
    "track_origins": "circletools.origin.tracking.tracker:track",
    "verify": "circletools.model.verify:check_model",
    "verify_split": "circletools.split.verification",
    "RenameRequest": "circletools.surgery.rename",
    "SignatureRequest": "circletools.surgery.ends",
    "expose": "circletools.surgery.ends",
    "reorder": "circletools.surgery.ends",
    "sign": "circletools.surgery.ends",
    "rename": "circletools.surgery.rename",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
