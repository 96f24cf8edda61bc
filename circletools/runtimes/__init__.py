"""Runtimes and compilers that are installed, each asked in a process of its own.

What starts processes is imported when it is first asked for: most commands start none.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
