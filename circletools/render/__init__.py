"""Results as text, JSON and CSV: functions that format a value and compute nothing."""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, checks_first=False)  # some functions are called for each line
