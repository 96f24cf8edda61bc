"""Tracking: origins through a tool that knew nothing of them, from the model before and after it."""

from circletools.origin.tracking.score import Evidence
from circletools.origin.tracking.track import Grounds, Tracking, track

__all__ = ["Evidence", "Grounds", "Tracking", "track"]
