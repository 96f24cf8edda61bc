"""From how far things agree to how often an origin is right, as counted on pairs of models whose truth is known.

The pairs came from programs with seeds (batch, resolution, removed outputs, cuts, fusing, folding, splitting,
identities, custom operators, quantizing), from Vela and from TICO. Between two points a straight line is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from circletools.origin.tracking.score import Evidence

_CERTAIN = ((0.0, 0.9, 1.0), (0.5, 0.99, 1.0))
_COUNTED: dict[Evidence, tuple[Sequence[float], Sequence[float]]] = {
    Evidence.TAG: ((0.0, 1.0), (1.0, 1.0)),
    Evidence.NAME: _CERTAIN,
    Evidence.CONSTANT: _CERTAIN,
    Evidence.VALUES: ((0.0, 0.8, 0.95, 1.0), (0.5, 0.97, 0.99, 1.0)),
    Evidence.POSITION: ((0.0, 0.34, 0.5, 0.65, 0.75, 1.0), (0.0, 0.6, 0.86, 0.95, 0.975, 1.0)),
    Evidence.FUSED: ((0.0, 0.5, 0.55, 0.65, 0.75, 1.0), (0.0, 0.5, 0.75, 0.96, 0.99, 1.0)),
    Evidence.REGION: ((0.0, 0.3, 0.55, 0.9, 1.0), (0.0, 0.93, 0.98, 0.995, 1.0)),
    Evidence.CONTINUED: ((0.0, 0.6, 0.9, 1.0), (0.0, 0.94, 0.985, 0.995)),
}
"""By evidence: agreement, ascending, and the share of origins with it that were right."""


def related(kinship: float) -> float:
    """Return how often one of two models was made from the other, by their kinship; both from 0 to 1."""
    return kinship


@lru_cache(1 << 12)
def calibrated(evidence: Evidence, agreement: float) -> float:
    """Return how often an origin with this evidence is right, both from 0 to 1; more agreement is never less."""
    return float(np.interp(agreement, *_COUNTED[evidence]))
