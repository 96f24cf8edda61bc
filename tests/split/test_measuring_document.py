"""What documents of costs say of measurements, read for the report."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from circletools.errors import InvalidInputError
from circletools.split.measuring.document import read_measured
from circletools.split.measuring.results import PartTime, PlanTime

PART: dict[str, Any] = {"device": "npu", "operators": [0, 2], "predicted_us": 3, "measured_us": 4.5}
PLAN: dict[str, Any] = {
    **{"name": "plan 1", "parts": [PART], "predicted_us": 9, "measured_us": None, "ratio": None},
    **{"failure": "no", "is_chosen": True},
}


def read(*plans: Any, **more: Any) -> tuple[PlanTime, ...]:
    document = {"schema_version": 1, "devices": [], "measured": {"devices": [], "plans": list(plans)}} | more
    return read_measured(json.dumps(document), "costs.json")


def test_plans_and_parts_are_read() -> None:
    assert read(PLAN, {"name": "other", "predicted_us": 1.5, "measured_us": 2}) == (
        PlanTime("plan 1", (PartTime("npu", (0, 2), 3.0, 4.5),), 9.0, None, "no", True),
        PlanTime("other", (), 1.5, 2.0),
    )


@pytest.mark.parametrize("chosen", [False, None, 1, "yes"])
def test_only_what_is_true_is_chosen(chosen: Any) -> None:
    assert read(PLAN | {"is_chosen": chosen})[0].is_chosen is False


def test_a_part_may_lack_its_times() -> None:
    (plan,) = read(PLAN | {"parts": [{"device": "a", "operators": []}]})
    assert plan.parts == (PartTime("a", (), math.inf, None),)


@pytest.mark.parametrize("missing", [None, [], 3])
def test_costs_that_were_not_measured_are_refused(missing: Any) -> None:
    with pytest.raises(InvalidInputError, match="nothing was measured: `measured` is missing") as error:
        read(measured=missing)
    assert (error.value.location, error.value.hint) == ("costs.json:1", "see docs/costs.md")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"failure": 3}, "`failure` must be a string"),
        ({"predicted_us": "9"}, "`predicted_us` must be a number from 0 to 1e+15"),
        ({"measured_us": -1}, "`measured_us` must be a number from 0 to 1e+15"),
        ({"name": ""}, "`name` must be a string that is not empty"),
        ({"other": 1}, "`other` is not known; there are failure, is_chosen, measured_us"),
        ({"parts": {}}, "`parts` must be a list"),
        ({"parts": [PART | {"operators": [-1]}]}, "`operators` must be a list of indices"),
        ({"parts": [PART | {"operators": [True]}]}, "`operators` must be a list of indices"),
        ({"parts": [PART | {"operators": 3}]}, "`operators` must be a list of indices"),
        ({"parts": [PART | {"device": 3}]}, "`device` must be a string"),
        ({"parts": [PART | {"more": 3}]}, "`more` is not known; there are device, measured_us, operators"),
    ],
)
def test_what_is_refused(plan: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        read(PLAN | plan)
    assert error.value.message.startswith(said)
    assert (error.value.location or "").startswith("costs.json")


def test_a_document_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be an object with `measured`"):
        read_measured("[]", "costs.json")
    with pytest.raises(InvalidInputError, match="`rules` is not known"):
        read(rules=[])
