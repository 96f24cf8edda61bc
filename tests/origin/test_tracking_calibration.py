"""From agreement to confidence: more is never less, and every kind of evidence has its counts."""

from __future__ import annotations

import pytest

from circletools.origin.tracking.calibration import calibrated
from circletools.origin.tracking.score import Evidence


@pytest.mark.parametrize("evidence", list(Evidence))
def test_more_agreement_is_never_less_confidence(evidence: Evidence) -> None:
    steps = [calibrated(evidence, step / 200) for step in range(201)]
    assert steps == sorted(steps)
    assert steps[0] >= 0.0
    assert 0.99 < steps[-1] <= 1.0


def test_what_was_counted() -> None:
    assert calibrated(Evidence.POSITION, 0.5) == 0.86  # chosen by its order
    assert calibrated(Evidence.FUSED, 0.8) > 0.99
    assert calibrated(Evidence.FUSED, 0.4) == pytest.approx(0.4)  # many are gone, perhaps cut off
    assert calibrated(Evidence.REGION, 0.0) == calibrated(Evidence.POSITION, 0.0) == 0.0
    assert calibrated(Evidence.TAG, 0.0) == 1.0
