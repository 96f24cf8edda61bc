"""Map, copy and replace files (whole or not at all), whatever they contain."""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
