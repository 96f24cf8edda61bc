"""The types of parameters and results, for use in annotations: `ct.types`."""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
