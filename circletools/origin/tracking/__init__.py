"""Tracking: origins through a tool that knew nothing of them, from the model before and after it."""

from circletools.origin.tracking.score import Evidence
from circletools.origin.tracking.tracker import Grounds, Tracking, carried_along, track

__all__ = ["Evidence", "Grounds", "Tracking", "carried_along", "track"]
