"""Measurements of the whole model on each device, and of its parts; and their document, which `report` reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from circletools.affinity.assign.documents import number_of, objects_of, read_document, text_of
from circletools.errors import InvalidInputError
from circletools.findings import Finding
from circletools.storage.strict_json import Object
from circletools.wording import SCHEMA_VERSION, Tabular

_SEE = "see docs/costs.md"


@dataclass(frozen=True, slots=True)
class Device:
    """A device, and the program and variant that run operators on it."""

    name: str
    program: str
    variant: str


@dataclass(frozen=True, slots=True)
class PartTime:
    """A part on its device, and its time including inputs and outputs; None if it did not run."""

    device: str
    operators: tuple[int, ...]
    measured_us: float | None = None


@dataclass(frozen=True, slots=True)
class PlanTime:
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


def read_measured(words: str, name: str) -> tuple[PlanTime, ...]:
    """Return the plans in a document of `measure`; errors call it `name`.

    Raises InvalidInputError if it is not such a document, or nothing was measured.
    """
    document, place = read_document(words, name, {"devices", "plans"}, "`plans`", _SEE)
    if not document.get("plans"):
        raise InvalidInputError("nothing was measured: `plans` is missing", location=place, hint=_SEE)
    keys = {"name", "parts", "measured_us", "failure"}
    return tuple(_plan(entry, at) for entry, at in objects_of(document, "plans", name, keys, _SEE))


def _plan(entry: Object, place: str) -> PlanTime:
    keys = {"device", "operators", "measured_us"}
    parts = tuple(_part(part, at) for part, at in objects_of(entry, "parts", place, keys, _SEE))
    failure = entry.get("failure", "")
    if not isinstance(failure, str):
        raise InvalidInputError("`failure` must be a string", location=place, hint=_SEE)
    return PlanTime(text_of(entry, "name", place, _SEE), parts, _number(entry, place), failure)


def _part(entry: Object, place: str) -> PartTime:
    operators = entry.get("operators")
    if not isinstance(operators, list) or any(type(one) is not int or one < 0 for one in operators):
        raise InvalidInputError("`operators` must be a list of indices", location=place, hint=_SEE)
    return PartTime(text_of(entry, "device", place, _SEE), tuple(operators), _number(entry, place))


def _number(entry: Object, place: str) -> float | None:
    key = "measured_us"
    return None if entry.get(key) is None else number_of(entry, key, place, _SEE)
