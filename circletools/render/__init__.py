"""Results as text, JSON and CSV: functions that format a value and compute nothing."""

from circletools.lazy import face

__getattr__, __dir__, __all__ = face(__name__)
