"""What measuring tells: plans with their predicted and their measured time, and costs that follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from circletools.findings import Finding
from circletools.split.measuring.bench import Failure, Floats, unhindered
from circletools.split.measuring.known import Known
from circletools.wording import Tabular

_SURE = 3.0  # standard errors: the plan is the best of several, which makes chance look like a gain
_WORTH = 0.05  # the least share of the time that several parts have to save: between two runs it differs by as much


@dataclass(frozen=True, slots=True)
class PartTime:
    """A part on its device: what was predicted for it with its launch, and what it took with all that it moved.

    Infinite is what was predicted where no time is known for an operator.
    """

    device: str
    operators: tuple[int, ...]
    predicted_us: float
    measured_us: float | None = None


@dataclass(frozen=True, slots=True)
class PlanTime:
    """A plan, what was predicted before it ran, and what it took: the 5th percentile of its turns.

    `failure` says why it does not run.
    """

    name: str
    parts: tuple[PartTime, ...]
    predicted_us: float
    measured_us: float | None = None
    failure: str = ""
    is_chosen: bool = False

    @property
    def ratio(self) -> float | None:
        """Return the predicted time by the measured, None where that is not known."""
        return self.predicted_us / self.measured_us if self.measured_us else None

    def with_times(self, times_us: Floats | Failure) -> PlanTime:
        """Return it with what was measured, by round, step and what is done; or with why it does not run."""
        if isinstance(times_us, Failure):
            return replace(self, failure=times_us.words)
        parts = [replace(part, measured_us=taken) for part, taken in zip(self.parts, steps_us(times_us), strict=True)]
        return replace(self, parts=tuple(parts), measured_us=wall_us(times_us))


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Tabular):
    """What is known of devices after measuring, and the plans that were measured side by side.

    `tried` are plans that were measured before, one after the other, each with what was predicted of it then.
    """

    known: Known
    plans: tuple[PlanTime, ...]
    notes: tuple[Finding, ...] = ()
    tried: tuple[PlanTime, ...] = ()

    @property
    def costs(self) -> dict[str, Any]:
        """The document of costs (docs/costs.md), with what was measured."""
        plans, tried = ([_document(one) for one in row] for row in (self.plans, self.tried))
        factors = [
            {"device": device.name, "program": f"{device.program}:{device.variant}", **asdict(one)}
            for device, one in zip(self.known.devices, self.known.factors, strict=True)
        ]
        return self.known.costs() | {"measured": {"devices": factors, "plans": plans, "tried": tried}}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each plan, those that were tried before behind the others; times are microseconds."""
        return [
            {
                "plan": plan.name,
                "chosen": plan.is_chosen,
                "tried_before": tried,
                "parts": len(plan.parts),
                "predicted_us": plan.predicted_us if isfinite(plan.predicted_us) else None,
                "measured_us": plan.measured_us,
                "ratio": plan.ratio,
                "failure": plan.failure,
            }
            for tried, plans in ((False, self.plans), (True, self.tried))
            for plan in plans
        ]


def _document(plan: PlanTime) -> dict[str, Any]:
    """Return a plan for JSON, which has no number for what no time is known of."""
    row = asdict(plan) | {"ratio": plan.ratio}
    for one in (row, *row["parts"]):
        one["predicted_us"] = one["predicted_us"] if isfinite(one["predicted_us"]) else None
    return row


def wall_us(times_us: Floats) -> float:
    """Return how long a whole chain takes, of its times by round, step and what is done."""
    return float(unhindered(times_us.sum(axis=(1, 2))))


def steps_us(times_us: Floats) -> list[float]:
    """Return how long each step takes, so that together they take as long as the chain."""
    each = unhindered(times_us.sum(axis=2))
    found: list[float] = (each * (wall_us(times_us) / max(float(each.sum()), 1e-9))).tolist()
    return found


def is_faster(one_us: Floats | Failure, other_us: Floats | Failure) -> bool:
    """Say whether one of two chains that took turns is surely faster than the other, and worth it."""
    if isinstance(one_us, Failure) or isinstance(other_us, Failure):
        return not isinstance(one_us, Failure)
    ours, theirs = one_us.sum(axis=(1, 2)), other_us.sum(axis=(1, 2))
    gains = theirs - ours
    gain = float(np.median(gains))
    spread = 1.4826 * float(np.median(np.abs(gains - gain)))
    error = 1.2533 * spread / len(gains) ** 0.5
    return bool(gain > max(_SURE * error, _WORTH * float(np.median(theirs))))


def fastest(times_us: Sequence[Floats | Failure], places: Iterable[int]) -> int | None:
    """Return which of some places has what takes least, None where nothing of them runs."""
    walls = {place: wall_us(one) for place in places if not isinstance(one := times_us[place], Failure)}
    return min(walls, key=lambda place: walls[place], default=None)
