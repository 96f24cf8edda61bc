"""From a request to a plan: devices, partitions, and what they cost.

`ct.plan` makes a plan; `ct.planning` has what stands around it: costs from files, traces and measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.planning.export import export_costs
    from circletools.planning.inputs import CostInputs, PlanInputs, read_request
    from circletools.planning.inspection import AffinityInspection, inspect_affinity
    from circletools.planning.measured import MeasuredPlan, plan_by_measuring
    from circletools.planning.request import CostRequest
    from circletools.split.measuring.measure import measure
    from circletools.split.measuring.request import MeasureRequest
    from circletools.split.measuring.results import Measurement

__all__ = [
    "AffinityInspection",
    "CostInputs",
    "CostRequest",
    "MeasureRequest",
    "MeasuredPlan",
    "Measurement",
    "PlanInputs",
    "export_costs",
    "inspect_affinity",
    "measure",
    "plan_by_measuring",
    "read_request",
]

_PLACES = {
    "AffinityInspection": "circletools.planning.inspection",
    "CostInputs": "circletools.planning.inputs",
    "CostRequest": "circletools.planning.request",
    "MeasureRequest": "circletools.split.measuring.request",
    "MeasuredPlan": "circletools.planning.measured",
    "Measurement": "circletools.split.measuring.results",
    "PlanInputs": "circletools.planning.inputs",
    "export_costs": "circletools.planning.export",
    "inspect_affinity": "circletools.planning.inspection",
    "measure": "circletools.split.measuring.measure",
    "plan_by_measuring": "circletools.planning.measured",
    "read_request": "circletools.planning.inputs",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
