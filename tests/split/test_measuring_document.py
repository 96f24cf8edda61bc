"""The document that `measure` writes, read for the report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from circletools.errors import InvalidInputError
from circletools.split.measuring.document import read_measured
from circletools.split.measuring.results import PartTime, PlanTime

PART: dict[str, Any] = {"device": "npu", "operators": [0, 2], "measured_us": 4.5}
PLAN: dict[str, Any] = {"name": "split", "parts": [PART], "measured_us": None, "failure": "no"}


def read(*plans: Any, **more: Any) -> tuple[PlanTime, ...]:
    document = {"schema_version": 1, "devices": [], "plans": list(plans)} | more
    return read_measured(json.dumps(document), "times.json")


def test_plans_and_parts_are_read() -> None:
    found = read(PLAN, {"name": "other", "measured_us": 2, "parts": [{"device": "a", "operators": []}]})
    assert found == (
        PlanTime("split", (PartTime("npu", (0, 2), 4.5),), None, "no"),
        PlanTime("other", (PartTime("a", ()),), 2.0),
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"failure": 3}, "`failure` must be a string"),
        ({"measured_us": -1}, "`measured_us` must be a number from 0 to 1e+15"),
        ({"name": ""}, "`name` must be a string that is not empty"),
        ({"predicted_us": 1}, "`predicted_us` is not known; there are failure, measured_us"),
        ({"parts": {}}, "`parts` must be a list"),
        ({"parts": [PART | {"operators": [-1]}]}, "`operators` must be a list of indices"),
        ({"parts": [PART | {"operators": [True]}]}, "`operators` must be a list of indices"),
        ({"parts": [PART | {"operators": 3}]}, "`operators` must be a list of indices"),
        ({"parts": [PART | {"device": 3}]}, "`device` must be a string"),
    ],
)
def test_what_is_refused(plan: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        read(PLAN | plan)
    assert error.value.message.startswith(said)
    assert (error.value.location or "").startswith("times.json")


def test_a_document_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be an object with `plans`"):
        read_measured("[]", "times.json")
    with pytest.raises(InvalidInputError, match="`rules` is not known"):
        read(rules=[])
    with pytest.raises(InvalidInputError, match="nothing was measured: `plans` is missing"):
        read()
