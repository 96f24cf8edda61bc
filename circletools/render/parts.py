"""Splits, their verification, and their measured times, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from circletools.parts.split import Split, parts_json
from circletools.parts.verify import SplitVerification
from circletools.planning.measuring import Measurement, PartTime, PlanTime
from circletools.render.findings import verdict
from circletools.render.table import table_text
from circletools.wording import SCHEMA_VERSION


def split_json(done: Split) -> dict[str, Any]:
    """Return the JSON document of `split`."""
    parts = parts_json(done.plan, done.connections)
    parts = [one | {"bytes": size} for one, size in zip(parts, done.sizes, strict=True)]
    return {
        "schema_version": SCHEMA_VERSION,
        "subgraph": done.plan.subgraph,
        "parts": parts,
        "notes": [note.message for note in done.notes],
    }


def split_verification_json(found: SplitVerification) -> dict[str, Any]:
    """Return the JSON document of `verify-split`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict(found.findings),
        "runtime": found.runtime,
        "findings": [asdict(finding) for finding in found.findings],
    }


_HEAD = ("plan", "device", "operators", "measured us")


def measurement_json(found: Measurement) -> dict[str, Any]:
    """Return the JSON document, which `report` can read."""
    return found.document


def measurement_file(found: Measurement) -> str:
    """Return the JSON document as text, for a file."""
    return json.dumps(found.document, indent=1) + "\n"


def measurement_text(found: Measurement) -> Iterator[str]:
    """Yield the program of each device, then a row for each plan and for each of its parts, if it has several."""
    for device in found.devices:
        yield f"{device.name}: {device.program}:{device.variant}"
    yield from table_text([_HEAD, *(row for plan in found.plans for row in _rows(plan))], right=(2, 3))


def _rows(plan: PlanTime) -> Iterator[tuple[str, ...]]:
    parts = plan.parts
    operators = str(sum(len(part.operators) for part in parts))
    device = parts[0].device if len(parts) == 1 else f"{len(parts)} parts"
    yield plan.name, device, operators, plan.failure or _microseconds(plan)
    if len(parts) > 1:
        for number, part in enumerate(parts):
            yield f"  part {number}", part.device, str(len(part.operators)), _microseconds(part)


def _microseconds(one: PlanTime | PartTime) -> str:
    return "-" if one.measured_us is None else f"{one.measured_us:.1f}"
