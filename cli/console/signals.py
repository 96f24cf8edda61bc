"""Signals that end the program: SIGINT, SIGTERM and SIGHUP first remove an unfinished output file."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(BaseException):
    """A signal that ends the program, raised as an exception so that running code can clean up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def listen() -> None:
    """Raise Stopped when one of these signals arrives; ignored signals (as under nohup) stay ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    for other in _ENDING:  # cleaning up is quick, and must not be interrupted
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number)


def end(number: int) -> NoReturn:
    """End by the signal itself, so that a shell sees 128 + `number` and ends its loop as well."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # a signal does not kill the first process of a container
