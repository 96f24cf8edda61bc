"""Which findings count, and what they mean: `ct.checks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.check import newly_found
    from circletools.codes import Explanation, explain
    from circletools.judging import CheckRequest, Judgement, judge

__all__ = [
    "CheckRequest",
    "Explanation",
    "Judgement",
    "explain",
    "judge",
    "newly_found",
]

_PLACES = {
    "CheckRequest": "circletools.judging",
    "Explanation": "circletools.codes",
    "Judgement": "circletools.judging",
    "explain": "circletools.codes",
    "judge": "circletools.judging",
    "newly_found": "circletools.check",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
