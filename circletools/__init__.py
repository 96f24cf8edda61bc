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

if TYPE_CHECKING:
    from circletools import affinity as affinity
    from circletools import origin as origins
    from circletools import render as render
    from circletools.check import check
    from circletools.edit.edit import ModelEdit, RewriteResult
    from circletools.edit.edit import ModelEdit as edit  # noqa: N813  (opening an edit reads as a verb)
    from circletools.model.model import Model
    from circletools.model.model import open_model as open  # noqa: A004  (`ct.open`, as in gzip and zipfile)
    from circletools.model.model import open_model as open_model
    from circletools.planning.export import export_costs
    from circletools.planning.inputs import read_costs, read_request
    from circletools.planning.inspection import AffinityInspection, inspect_affinity
    from circletools.planning.plan import Plan
    from circletools.planning.planner import plan
    from circletools.planning.request import CostRequest, PlanRequest

__all__ = [
    "AffinityInspection",
    "CircleToolsError",
    "CostRequest",
    "EditError",
    "Finding",
    "InvalidInputError",
    "Model",
    "ModelEdit",
    "ModelFormatError",
    "OutputError",
    "Plan",
    "PlanRequest",
    "RewriteResult",
    "Severity",
    "TableFormatError",
    "UsageError",
    "__version__",
    "affinity",
    "check",
    "edit",
    "export_costs",
    "inspect_affinity",
    "open",
    "open_model",
    "origins",
    "plan",
    "read_costs",
    "read_request",
    "render",
]

__version__ = "0.1.0"

_PLACES = {
    "AffinityInspection": "circletools.planning.inspection",
    "CostRequest": "circletools.planning.request",
    "Model": "circletools.model.model",
    "ModelEdit": "circletools.edit.edit",
    "Plan": "circletools.planning.plan",
    "PlanRequest": "circletools.planning.request",
    "RewriteResult": "circletools.edit.edit",
    "affinity": "circletools.affinity:",
    "check": "circletools.check",
    "edit": "circletools.edit.edit:ModelEdit",
    "export_costs": "circletools.planning.export",
    "inspect_affinity": "circletools.planning.inspection",
    "open": "circletools.model.model:open_model",
    "open_model": "circletools.model.model",
    "origins": "circletools.origin:",
    "plan": "circletools.planning.planner",
    "read_costs": "circletools.planning.inputs",
    "read_request": "circletools.planning.inputs",
    "render": "circletools.render:",
}
__getattr__, __dir__ = face(__name__, _PLACES)
