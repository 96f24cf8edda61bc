"""The measured times of plans, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from circletools.planning.measurement import PlanTime

MOST_PARTS = 500
"""Limits of the parts of a plan, and of the operators of a part, that a page lists."""


def measured_document(plans: Sequence[PlanTime], operator_count: int) -> list[dict[str, Any]]:
    """Return the page's document of each plan; operators that the model does not have are left out."""
    return [
        {
            **asdict(plan),
            "part_count": len(plan.parts),
            "parts": [
                {
                    **asdict(part),
                    "operators": [one for one in part.operators if one < operator_count][:MOST_PARTS],
                }
                for part in plan.parts[:MOST_PARTS]
            ],
        }
        for plan in plans
    ]
