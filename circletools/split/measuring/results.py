"""Measurements: the whole model on each device, and in parts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from circletools.findings import Finding
from circletools.split.measuring.bench import Failure, Floats, unhindered
from circletools.split.measuring.request import Device
from circletools.wording import SCHEMA_VERSION, Tabular


@dataclass(frozen=True, slots=True)
class PartTime:
    """A part on its device, and what it took, its inputs and outputs included; None where it did not run."""

    device: str
    operators: tuple[int, ...]
    measured_us: float | None = None


@dataclass(frozen=True, slots=True)
class PlanTime:
    """A plan, and what it took: the 5th percentile of its rounds. `failure` is why it does not run."""

    name: str
    parts: tuple[PartTime, ...]
    measured_us: float | None = None
    failure: str = ""

    def with_times(self, times_us: Floats | Failure) -> PlanTime:
        """Return it with what was measured, by round, step and what is done; or with why it does not run."""
        if isinstance(times_us, Failure):
            return replace(self, failure=times_us.words)
        parts = [replace(part, measured_us=taken) for part, taken in zip(self.parts, steps_us(times_us), strict=True)]
        return replace(self, parts=tuple(parts), measured_us=wall_us(times_us))


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Tabular):
    """Measurements taken in turns: the whole model on each device, then the parts of the split (`plans[-1]`).

    `notes` name the devices that do not run the whole model.
    """

    devices: tuple[Device, ...]
    plans: tuple[PlanTime, ...]
    notes: tuple[Finding, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document (docs/costs.md)."""
        devices = [{"name": one.name, "program": f"{one.program}:{one.variant}"} for one in self.devices]
        return {"schema_version": SCHEMA_VERSION, "devices": devices, "plans": [asdict(plan) for plan in self.plans]}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each part of each plan; times are microseconds."""
        return [
            {
                "plan": plan.name,
                "plan_us": plan.measured_us,
                "failure": plan.failure,
                "part": number,
                "device": part.device,
                "operators": len(part.operators),
                "part_us": part.measured_us,
            }
            for plan in self.plans
            for number, part in enumerate(plan.parts)
        ]


def wall_us(times_us: Floats) -> float:
    """Return how long a whole chain takes, of its times by round, step and what is done."""
    return float(unhindered(times_us.sum(axis=(1, 2))))


def steps_us(times_us: Floats) -> list[float]:
    """Return how long each step takes, so that together they take as long as the chain."""
    each = unhindered(times_us.sum(axis=2))
    found: list[float] = (each * (wall_us(times_us) / max(float(each.sum()), 1e-9))).tolist()
    return found
