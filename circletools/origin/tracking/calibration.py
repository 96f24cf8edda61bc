"""From how far things agree to how often an origin is right, as counted on pairs of models whose truth is known.

`tools.tracking.calibrate` counts: on pairs that it makes from seeds, on pairs of Vela, TICO and the TensorFlow
converter, 57,977 origins in all. Between two points a straight line is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from circletools.origin.tracking.score import Evidence

_COUNTED: dict[Evidence, tuple[Sequence[float], Sequence[float]]] = {
    Evidence.TAG: ((0.0, 1.0), (1.0, 1.0)),
    Evidence.NAME: ((0.0, 0.878, 0.935, 0.97, 1.0), (0.5, 0.8957, 0.9796, 0.9966, 1.0)),
    Evidence.CONSTANT: ((0.0, 0.883, 0.998, 1.0), (0.5, 0.9873, 0.9999, 1.0)),
    Evidence.VALUES: ((0.0, 0.8, 0.958), (0.5, 0.97, 0.9971)),
    Evidence.POSITION: ((0.0, 0.427, 0.504, 0.712, 1.0), (0.0, 0.8783, 0.9838, 0.9857, 1.0)),
    Evidence.FUSED: ((0.0, 0.372, 0.751), (0.0, 0.617, 0.9623)),
    Evidence.REGION: (
        (0.0, 0.209, 0.445, 0.536, 0.609, 0.783, 0.9),
        (0.0, 0.6034, 0.8089, 0.9623, 0.9777, 0.993, 0.9985),
    ),
    Evidence.CONTINUED: ((0.0, 0.727, 0.966), (0.0, 0.9524, 0.9961)),
}
"""By evidence: agreement, ascending, and the share of origins with it that were right."""

_RELATED = ((0.0, 0.25, 0.4, 0.45, 0.8, 0.95, 1.0), (0.0, 0.02, 0.4, 0.75, 0.9, 0.97, 1.0))
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
