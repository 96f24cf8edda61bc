"""Measured plans as text and JSON: what was predicted beside what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from circletools.planning.measured import MeasuredPlan
from circletools.render.plans import plan_json, plan_text
from circletools.render.table import table_text
from circletools.split.measuring.results import Measurement, PlanTime

_HEAD = ("plan", "parts", "predicted us", "measured us", "predicted/measured")


def measurement_json(found: Measurement) -> dict[str, Any]:
    """Return the costs with what was measured, as `--costs` and `report` read them."""
    return found.costs


def costs_text(found: Measurement) -> str:
    """Return the same as text, for a file."""
    return json.dumps(found.costs, indent=1) + "\n"


def measurement_text(found: Measurement) -> Iterator[str]:
    """Yield what was fitted of each device, then the plans that were tried and those measured side by side."""
    for device, one in zip(found.known.devices, found.known.factors, strict=True):
        yield (
            f"{device.name} ({device.program}:{device.variant}): launch {one.launch_us:.1f} us, "
            f"fusion leaves {one.fusion:.0%} of the operators' time"
        )
    if found.tried:
        yield "one after the other:"
        yield from _table(found.tried)
        yield "side by side, predicted by the corrected costs:"
    yield from _table(found.plans)


def _table(plans: Sequence[PlanTime]) -> Iterator[str]:
    yield from table_text([_HEAD, *map(_row, plans)], right=(1, 2, 3))


def _row(plan: PlanTime) -> tuple[str, ...]:
    measured = "-" if plan.measured_us is None else f"{plan.measured_us:.1f}"
    ratio = plan.failure if plan.ratio is None else f"{plan.ratio:.2f}"
    return (
        plan.name,
        str(len(plan.parts)),
        f"{plan.predicted_us:.1f}" if isfinite(plan.predicted_us) else "-",
        measured,
        ratio + ", chosen" * plan.is_chosen,
    )


def measured_plan_json(found: MeasuredPlan) -> dict[str, Any]:
    """Return the JSON document of the plan, with the costs and what was measured as `costs`."""
    return plan_json(found.plan) | {"costs": measurement_json(found.measurement)}


def measured_plan_text(found: MeasuredPlan) -> Iterator[str]:
    """Yield the plan, then what was measured."""
    yield from plan_text(found.plan)
    yield from measurement_text(found.measurement)
