"""From agreement to confidence: more is never less, and every kind of evidence has its counts."""

from __future__ import annotations

import pytest

from circletools.origin.tracking.calibration import calibrated, related
from circletools.origin.tracking.score import Evidence


@pytest.mark.parametrize("evidence", list(Evidence))
def test_more_agreement_is_never_less_confidence(evidence: Evidence) -> None:
    steps = [calibrated(evidence, step / 200) for step in range(201)]
    assert steps == sorted(steps)
    assert steps[0] >= 0.0
    assert 0.95 < steps[-1] <= 1.0


def test_what_was_counted() -> None:
    assert calibrated(Evidence.POSITION, 0.5) == pytest.approx(0.997, abs=1e-3)  # chosen by its order
    assert calibrated(Evidence.FUSED, 0.8) == calibrated(Evidence.FUSED, 1.0) == 0.988
    assert calibrated(Evidence.FUSED, 0.2) == pytest.approx(0.95, abs=1e-3)  # many are gone, perhaps cut off
    assert calibrated(Evidence.NAME, 1.0) == calibrated(Evidence.CONSTANT, 1.0) == 1.0
    assert calibrated(Evidence.NAME, 0.9) == 0.995
    assert calibrated(Evidence.CONSTANT, 0.9) == 0.998
    assert calibrated(Evidence.VALUES, 0.8) == 1.0
    assert calibrated(Evidence.REGION, 0.2) == pytest.approx(0.826, abs=1e-3)
    assert calibrated(Evidence.CONTINUED, 0.7) == pytest.approx(0.92, abs=1e-3)
    assert calibrated(Evidence.TAG, 0.0) == 1.0


def test_less_agreement_than_was_ever_counted_is_as_sure_as_the_least() -> None:
    assert calibrated(Evidence.REGION, 0.0) == calibrated(Evidence.REGION, 0.166) == 0.787
    assert calibrated(Evidence.NAME, 0.5) == 0.995


def test_strangers_are_told_from_what_was_made_of_each_other() -> None:
    """What has another one's structure and other weights is neither for sure."""
    steps = [related(step / 200) for step in range(201)]
    assert steps == sorted(steps)
    assert [related(kin) for kin in (0.0, 0.25, 0.4, 1.0)] == [0.0, 0.02, 0.4, 1.0]
    assert related(0.125) == 0.01
    assert [related(kin) for kin in (0.45, 0.8, 0.95)] == [0.75, 0.95, 0.99]
