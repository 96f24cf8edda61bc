"""Settings of the process's allocator for freed memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed() -> None:
    """Have glibc reuse freed memory for the next array, which else faults in new pages; others stay unchanged.

    An array of more than 8 MiB still gets pages of its own, and no more than 64 MiB are kept.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 8 << 20)
        mallopt(_TRIM_THRESHOLD, 64 << 20)
