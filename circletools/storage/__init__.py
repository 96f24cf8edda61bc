"""Files: mapped, copied, and replaced whole or not at all. Knows no model."""

from circletools.lazy import face

__getattr__, __dir__, __all__ = face(__name__)
