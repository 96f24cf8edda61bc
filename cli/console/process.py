"""Settings of this process: signals that end it, and what its allocator does with freed memory."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(BaseException):
    """The exception for a signal that ends the program, raised so that running code can clean up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def listen() -> None:
    """Raise Stopped when one of these signals arrives; ignored signals (as under nohup) stay ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    for other in _ENDING:  # the cleanup is quick and must not be interrupted
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number)


def end(number: int) -> NoReturn:
    """End this process with the signal itself, so that a shell sees 128 + `number` and leaves its loop too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # signals do not kill the first process of a container


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


def keep_freed() -> None:
    """Make glibc reuse freed memory, since new arrays would cause page faults; other C libraries are unaffected.

    Arrays above 8 MiB still get their own pages, and at most 64 MiB of freed memory are kept.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 8 << 20)
        mallopt(_TRIM_THRESHOLD, 64 << 20)
