"""Configure how this process's allocator treats freed memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed() -> None:
    """Make glibc reuse freed memory, since new arrays would cause page faults; other C libraries are unaffected.

    Arrays above 8 MiB still get their own pages, and at most 64 MiB of freed memory are kept.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 8 << 20)
        mallopt(_TRIM_THRESHOLD, 64 << 20)
