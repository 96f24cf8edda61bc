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
from circletools.findings import Finding
from circletools.lazy import face
from circletools.version import __version__

if TYPE_CHECKING:
    from circletools import affinity as affinity
    from circletools import checks as checks
    from circletools import origin as origins
    from circletools import outputs as outputs
    from circletools import planning as planning
    from circletools import render as render
    from circletools import storage as files
    from circletools import surgery as surgery
    from circletools import types as types
    from circletools.check import check
    from circletools.diff.attestation import attest
    from circletools.diff.difference import compare_models as diff
    from circletools.edit.compact import compact
    from circletools.edit.edit import ModelEdit
    from circletools.editing import edit, strip_metadata
    from circletools.fit.fit import fit as fit
    from circletools.fit.request import FitRequest as FitRequest
    from circletools.html.report import report_html as report_html
    from circletools.inspection import inspect_model as inspect
    from circletools.model.digests import content_digests as digests
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model
    from circletools.model.verify import check_model as verify
    from circletools.origin import exporters
    from circletools.origin.tracking.tracker import track as track_origins
    from circletools.planning.planner import plan
    from circletools.planning.request import PlanRequest
    from circletools.profile.attribution import attribute as attribute
    from circletools.profile.compare_profiles import compare_profiles as compare_profiles
    from circletools.profile.compare_traces import compare_traces as compare_traces
    from circletools.split.verification import verify_split as verify_split
    from circletools.split.write import split as split
    from circletools.trace.nnapi.analysis import read_trace as read_trace
    from circletools.trace.nnapi.export import export_trace as export_trace
    from circletools.trace.operators.read import read_profile as read_profile

__all__ = [
    "CircleToolsError",
    "EditError",
    "Finding",
    "FitRequest",
    "InvalidInputError",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "OutputError",
    "PlanRequest",
    "TableFormatError",
    "UsageError",
    "__version__",
    "affinity",
    "attest",
    "attribute",
    "check",
    "checks",
    "compact",
    "compare_profiles",
    "compare_traces",
    "diff",
    "digests",
    "edit",
    "export_trace",
    "exporters",
    "files",
    "fit",
    "inspect",
    "open",
    "open_model",
    "origins",
    "outputs",
    "plan",
    "planning",
    "read_profile",
    "read_trace",
    "render",
    "report_html",
    "split",
    "strip_metadata",
    "surgery",
    "track_origins",
    "types",
    "verify",
    "verify_split",
]

_PLACES = {
    "FitRequest": "circletools.fit.request",
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "PlanRequest": "circletools.planning.request",
    "affinity": "circletools.affinity:",
    "attest": "circletools.diff.attestation",
    "attribute": "circletools.profile.attribution",
    "check": "circletools.check",
    "checks": "circletools.checks:",
    "compact": "circletools.edit.compact",
    "compare_profiles": "circletools.profile.compare_profiles",
    "compare_traces": "circletools.profile.compare_traces",
    "diff": "circletools.diff.difference:compare_models",
    "digests": "circletools.model.digests:content_digests",
    "edit": "circletools.editing",
    "export_trace": "circletools.trace.nnapi.export",
    "exporters": "circletools.origin.exporters:",
    "files": "circletools.storage:",
    "fit": "circletools.fit.fit",
    "inspect": "circletools.inspection:inspect_model",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "origins": "circletools.origin:",
    "outputs": "circletools.outputs:",
    "plan": "circletools.planning.planner",
    "planning": "circletools.planning:",
    "read_profile": "circletools.trace.operators.read",
    "read_trace": "circletools.trace.nnapi.analysis",
    "render": "circletools.render:",
    "report_html": "circletools.html.report",
    "split": "circletools.split.write",
    "strip_metadata": "circletools.editing",
    "surgery": "circletools.surgery:",
    "track_origins": "circletools.origin.tracking.tracker:track",
    "types": "circletools.types:",
    "verify": "circletools.model.verify:check_model",
    "verify_split": "circletools.split.verification",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
