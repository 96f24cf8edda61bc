"""When a time has become slower, and between which bounds."""

from __future__ import annotations

import numpy as np
import pytest

from circletools.profile.compare import compared, ratio_bounds


@pytest.mark.parametrize(
    ("before", "after", "low", "regressed"),
    [
        (100.0, 150.0, None, False),  # no more than the limit
        (100.0, 151.0, None, True),
        (100.0, 151.0, 1.0, False),
        (100.0, 151.0, 1.01, True),
        (0.0, 500.0, None, False),  # new: half of all time before
        (0.4, 501.0, None, True),
        (0.0, 0.0, None, False),
    ],
)
def test_a_regression(before: float, after: float, low: float | None, regressed: bool) -> None:
    bounds = None if low is None else (low, 2.0)
    found = compared(before, after, bounds, limit=0.5, total_ns=1000)
    assert found.regressed is regressed
    assert (found.low, found.high) == (low, None if low is None else 2.0)
    assert (found.before_ns, found.after_ns, found.delta_ns) == (round(before), after, after - round(before))
    assert found.ratio == (after / before if before else None)


def test_bounds_are_the_same_each_time() -> None:
    before, after = np.array([100.0, 110, 90, 105, 95]), np.array([120.0, 130, 110, 180, 115])
    assert ratio_bounds(before, after) == pytest.approx((1.125, 1.5656565656565657), rel=1e-12)
    assert ratio_bounds(np.arange(1.0, 50_001), np.arange(2.0, 50_002)) == pytest.approx(
        (0.9932826884987368, 1.0067431915245333), rel=1e-12
    )


def test_what_nothing_bounds() -> None:
    assert ratio_bounds(np.zeros(5), np.ones(5)) is None
    seldom = np.array([1.0, 0, 0, 0, 0])
    bounds = ratio_bounds(seldom, seldom)
    assert bounds is not None
    assert (bounds[0], bounds[1]) == (0.0, None)
    assert ratio_bounds(np.ones(5), np.zeros(5)) == (0.0, 0.0)
