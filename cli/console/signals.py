"""Handle signals that end the program: on SIGINT, SIGTERM and SIGHUP, remove an unfinished output file first."""

from __future__ import annotations

import os
import signal
import sys
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
