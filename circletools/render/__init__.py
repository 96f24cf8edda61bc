"""Results as text, JSON and CSV: functions that only format values."""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, checks_first=False)  # some functions are called for each line
