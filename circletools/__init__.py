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
from circletools.findings import Finding, Severity
from circletools.lazy import face
from circletools.version import __version__

if TYPE_CHECKING:
    from circletools import origin as origins
    from circletools import render as render
    from circletools import storage as files
    from circletools.check import check
    from circletools.edit.edit import ModelEdit
    from circletools.edit.edit import ModelEdit as edit  # noqa: N813  (opening an edit reads as a verb)
    from circletools.html.report import Report as Report
    from circletools.html.report import report_html as report_html
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model
    from circletools.profile.attribution import Attribution as Attribution
    from circletools.profile.attribution import attribute as attribute
    from circletools.profile.compare_profiles import ProfileComparison as ProfileComparison
    from circletools.profile.compare_profiles import compare_profiles as compare_profiles
    from circletools.profile.compare_traces import TraceComparison as TraceComparison
    from circletools.profile.compare_traces import compare_traces as compare_traces
    from circletools.trace.nnapi.analysis import Analysis as Analysis
    from circletools.trace.nnapi.analysis import read_trace as read_trace
    from circletools.trace.nnapi.export import ExportedTrace as ExportedTrace
    from circletools.trace.nnapi.export import export_trace as export_trace
    from circletools.trace.operators.profile import OperatorTrace as OperatorTrace
    from circletools.trace.operators.read import read_profile as read_profile

__all__ = [
    "Analysis",
    "Attribution",
    "CircleToolsError",
    "EditError",
    "ExportedTrace",
    "Finding",
    "InvalidInputError",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "OperatorTrace",
    "OutputError",
    "ProfileComparison",
    "Report",
    "Severity",
    "TableFormatError",
    "TraceComparison",
    "UsageError",
    "__version__",
    "attribute",
    "check",
    "compare_profiles",
    "compare_traces",
    "edit",
    "export_trace",
    "files",
    "open",
    "open_model",
    "origins",
    "read_profile",
    "read_trace",
    "render",
    "report_html",
]

_PLACES = {
    "Analysis": "circletools.trace.nnapi.analysis",
    "Attribution": "circletools.profile.attribution",
    "ExportedTrace": "circletools.trace.nnapi.export",
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "OperatorTrace": "circletools.trace.operators.profile",
    "ProfileComparison": "circletools.profile.compare_profiles",
    "Report": "circletools.html.report",
    "TraceComparison": "circletools.profile.compare_traces",
    "attribute": "circletools.profile.attribution",
    "check": "circletools.check",
    "compare_profiles": "circletools.profile.compare_profiles",
    "compare_traces": "circletools.profile.compare_traces",
    "edit": "circletools.edit.edit:ModelEdit",
    "export_trace": "circletools.trace.nnapi.export",
    "files": "circletools.storage:",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "origins": "circletools.origin:",
    "read_profile": "circletools.trace.operators.read",
    "read_trace": "circletools.trace.nnapi.analysis",
    "render": "circletools.render:",
    "report_html": "circletools.html.report",
}
__getattr__, __dir__ = face(__name__, _PLACES)
