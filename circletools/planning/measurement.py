"""Measurements of the whole model on each device, and of its parts; and their document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from circletools.findings import Finding
from circletools.wording import SCHEMA_VERSION, Attributes, Tabular


@dataclass(frozen=True, slots=True)
class Device(Attributes):
    """A device, and the program and variant that run operators on it."""

    name: str
    program: str
    variant: str


@dataclass(frozen=True, slots=True)
class PartTime(Attributes):
    """A part on its device, and its time including inputs and outputs; None if it did not run."""

    device: str
    operators: tuple[int, ...]
    measured_us: float | None = None


@dataclass(frozen=True, slots=True)
class PlanTime(Attributes):
    """A plan, and its time: the 5th percentile of its rounds. `failure` is why it does not run."""

    name: str
    parts: tuple[PartTime, ...]
    measured_us: float | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Tabular):
    """Alternating measurements: the whole model on each device, then the parts of the split (`plans[-1]`).

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
        """Return a row for each part of each plan; times are in microseconds."""
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
