"""Runtimes and compilers that are installed, each asked in a process of its own.

What starts processes is imported when it is first asked for: most commands start none.
"""

from circletools.lazy import face

__getattr__, __dir__, __all__ = face(__name__)
