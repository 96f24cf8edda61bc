"""Measured plans on the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circletools as ct
from circletools.errors import InvalidInputError
from circletools.html.measured import MOST_PARTS, measured_document
from circletools.planning.measurement import PartTime, PlanTime
from tests.kit.page_support import Page, full

PART = {"device": "npu", "operators": [0, 10**6], "measured_us": 4.5}
PLANS = [{"name": "all </script>", "parts": [PART], "measured_us": 8}]


def test_the_page_has_what_was_measured(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text(json.dumps({"devices": [], "plans": PLANS}))
    with ct.open(full()) as model:
        (plan,) = Page(ct.report_html(model, measured=times).html).document["measured"]
        assert "measured" not in Page(ct.report_html(model).html).document
    assert plan == {
        **{"name": "all </script>", "measured_us": 8.0, "failure": ""},
        "part_count": 1,
        "parts": [{"device": "npu", "operators": [0], "measured_us": 4.5}],
    }


def test_a_document_without_plans_is_refused(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text('{"devices": []}')
    with ct.open(full()) as model, pytest.raises(InvalidInputError, match="nothing was measured") as error:
        ct.report_html(model, measured=times)
    assert error.value.names_file


def test_a_page_holds_so_many_parts_and_operators() -> None:
    part = PartTime("npu", tuple(range(MOST_PARTS + 1)))
    (plan,) = measured_document([PlanTime("p", (part,) * (MOST_PARTS + 1))], 10**6)
    assert (plan["part_count"], len(plan["parts"])) == (MOST_PARTS + 1, MOST_PARTS)
    assert len(plan["parts"][0]["operators"]) == MOST_PARTS == 500


def test_operators_that_the_model_does_not_have_are_left_out() -> None:
    (plan,) = measured_document([PlanTime("p", (PartTime("npu", (0, 2, 3, 4)),))], 3)
    assert plan["parts"][0]["operators"] == [0, 2]
