"""Installed runtimes and compilers, each of which runs in a separate process.

The code that starts processes is imported on first use, since most commands start none.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
