"""What functions return and take, for annotations: `ct.types`."""

from circletools.lazy import face

__getattr__, __dir__, __all__ = face(__name__)
