"""From how far things agree to how often an origin is right, as counted on pairs of models whose truth is known.

`tools.tracking.calibrate` counts: on pairs that it makes from seeds, on pairs of TICO and of TensorFlow's converter,
474,810 origins in all. Between two points a straight line is drawn, and a level one beyond the first and the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from circletools.origin.tracking.score import Evidence

_COUNTED: dict[Evidence, tuple[Sequence[float], Sequence[float]]] = {
    Evidence.TAG: ((0.0, 1.0), (1.0, 1.0)),
    Evidence.NAME: ((0.919, 0.965, 0.975, 1.0), (0.995, 0.998, 0.998, 1.0)),
    Evidence.CONSTANT: ((0.945, 0.999), (0.998, 1.0)),
    Evidence.VALUES: ((0.966,), (1.0,)),
    Evidence.POSITION: ((0.403, 0.493, 0.7, 1.0), (0.993, 0.997, 0.999, 1.0)),
    Evidence.FUSED: ((0.056, 0.375, 0.764), (0.947, 0.953, 0.988)),
    Evidence.REGION: ((0.166, 0.3, 0.774), (0.787, 0.939, 0.991)),
    Evidence.CONTINUED: ((0.559, 0.96), (0.88, 0.995)),
}
"""By evidence: agreement, ascending, and the share of origins with it that were right."""

_RELATED = ((0.0, 0.25, 0.4, 0.45, 0.8, 0.95, 1.0), (0.0, 0.02, 0.4, 0.75, 0.95, 0.99, 1.0))
"""Kinship, and the share of pairs of models with it of which one was made from the other, of as many that were not.

Up to 0.4 is that of networks of one structure with other weights: whether one was trained from the other is unknown.
"""


def related(kinship: float) -> float:
    """Return how often one of two models was made from the other, by their kinship; both from 0 to 1."""
    return float(np.interp(kinship, *_RELATED))


@lru_cache(1 << 12)
def calibrated(evidence: Evidence, agreement: float) -> float:
    """Return how often an origin with this evidence is right, both from 0 to 1; more agreement is never less."""
    return float(np.interp(agreement, *_COUNTED[evidence]))
