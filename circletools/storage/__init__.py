"""Files: mapped, copied, and replaced whole or not at all. Knows no model."""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
