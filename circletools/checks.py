"""Which findings count, and what they mean: `ct.checks`."""

from circletools.lazy import face

__getattr__, __dir__, __all__ = face(__name__)
